"""A party's penalty along the span of its directions: what it tells the coordinator, and never a weight.

    u(c) = x + B^T c,   B (k+1, d): past directions as they were sent, then the newest, d = y - x

The party states a parabola in c.  A smooth penalty is one.  Where it has kinks or walls, a primal-dual interior point
method runs along the span (cones.py): the party rounds every kink and wall off a little and states the parabola that
Newton's method needs; the coordinator adds those of all parties to the loss's and proposes a step c; the party answers
with its true penalty there and with the next parabola, in which kinks are rounded off less.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.methods.subspace.cones import Cone, Norms, RoundWall, Walls
from plait.methods.subspace.messages import Answer, Model
from plait.problem.penalties import Penalty

_ROUNDED = 0.3  # of a weight's reach: how much kinks are rounded off at first
_LESS = 0.1  # of how much they are, at the next question, if the last step could be taken whole
_LEAST_ROUNDED = 1e-9  # of a weight's reach: sharper kinks would only spoil the arithmetic
_LEAST_REACH = 1e-12  # of the largest weight, in units of its column: smaller moves are rounding
_CLOSEST = 1e-5  # of a weight, or of a radius: closer to its kink rounding would show
_NEAR = 0.99  # of the way to the surface of a cone: a point goes no further in one step
_BLOCKED, _FURTHER, _WIDER = 0.1, 3.0, 100.0
"""Where less than this part of a step can be taken, and it leads so many times further than kinks are rounded off, they
are rounded off more, by at most so many times: the span leads further than the newest direction alone."""
_INSIDE = 1 - 1e-3  # of the steepest slope: the first multiplier of a weight at rest
_BEYOND = 1e-8  # of its reach: a weight may end so little beyond a wall, until the model is closed
_CANCELLED = 1e-14  # of the sum of its parts: what rounding leaves of a weight that is zero


@dataclass(frozen=True)
class Basis:
    """x (d,), y (d,), and the directions (k+1, d), the newest last: y - x."""

    x: Array
    y: Array
    rows: Array
    sizes: Array
    """The norms of the columns (d,), 1 for those that are zero."""

    def point(self, c: Array) -> Array:
        """x + B^T c, and y itself where the step leads there."""
        if c[-1] == 1 and not c[:-1].any():
            return self.y
        return np.asarray(self.x + c @ self.rows)

    @cached_property
    def reach(self) -> Array:
        """How far each weight must move (d,) to change the scores as much as the newest direction's largest part."""
        moved, there = (float((np.abs(v) * self.sizes).max(initial=0.0)) for v in (self.rows[-1], self.y))
        return max(moved, _LEAST_REACH * there, 1e-100) / self.sizes


@dataclass(frozen=True)
class Rounding:
    """How far the interior point method has come in a round: the cones, and the target of the next step."""

    cones: tuple[Cone, ...]
    target: float
    wider: float = 1.0
    """By how many times kinks are rounded off more than the reach of the newest direction asks for."""
    part: float = 1.0
    """How much of its last step the method could take."""

    def answered(self, u: Array) -> "Rounding":
        """After a step to u: Newton's points, kept inside, and a lower target."""
        moves = [cone.newton(u, self.target) for cone in self.cones]
        part = min(1.0, _NEAR * min(move.room for move in moves))
        cones = tuple(move.taken(part) for move in moves)
        left = float(np.mean(np.concatenate([cone.gap for cone in cones])))
        sigma = max(_LESS, (1 - part) ** 2)
        return replace(self, cones=cones, target=max(sigma * left, _LEAST_ROUNDED), part=part)


def started(penalty: Penalty, basis: Basis, pull: Array, wider: float = 1.0) -> Rounding:
    """At y.  pull is D^T g (d,): how hard weights are pressed."""
    y, d, reach = basis.y, basis.y.size, wider * basis.reach
    cones: list[Cone] = []
    force = pull + penalty.ridge * y
    left = -force
    for a, member in _norms(penalty, d):
        norms = _norms_at(a, member, y, left, reach)
        cones.append(norms)
        left = left - norms.s
    steep = float((np.abs(force) / basis.sizes).max(initial=0.0)) * basis.sizes + penalty.l1
    for wall, side in zip(penalty.bounds(d), (1.0, -1.0), strict=True):
        if np.isfinite(wall).any():
            cones.append(_walls_at(wall, side, y, left, np.maximum(steep, 1e-100), reach))
    if np.isfinite(penalty.norm_bound):
        reached = float(np.linalg.norm(reach)) / np.sqrt(d)
        cones.append(_round_wall_at(penalty.norm_bound, y, max(float(np.linalg.norm(force)), 1e-100), reached))
    return Rounding(tuple(cones), _ROUNDED, wider)


def _norms(penalty: Penalty, d: int) -> Iterator[tuple[Array, npt.NDArray[np.intp] | None]]:
    """The strengths of the norms of single weights and of groups, and who is in which group."""
    if penalty.l1 > 0:
        yield np.full(d, penalty.l1), None
    groups = penalty.grouped
    if groups is not None:
        yield groups.weight, groups.member


def _norms_at(a: Array, member: npt.NDArray[np.intp] | None, y: Array, left: Array, reach: Array) -> Norms:
    """Norms at y: on one side their slope, rounded off; of those at rest, what is left (d,) to hold."""
    frame = Norms(a, a, member, y, a, y)
    n = np.sqrt(frame.sums(y * y))
    near = np.maximum(np.sqrt(frame.sums(reach**2) / frame.sums(np.ones_like(y))), _CLOSEST * n)
    mu = 2 * _ROUNDED * a * near
    safe = np.where(n > 0, n, 1.0)
    size = (np.sqrt(mu**2 + (2 * a * n) ** 2) - mu) / (2 * safe)
    held = np.sqrt(frame.sums(left * left))
    hold = np.minimum(1.0, _INSIDE * a / np.where(held > 0, held, 1.0))
    s = np.where(frame.each(n) > 0, y * frame.each(size / safe), left * frame.each(hold))
    return Norms.at(a, a * near, member, s, mu)


def _walls_at(wall: Array, side: float, y: Array, left: Array, steep: Array, reach: Array) -> Walls:
    """Walls at y (d,): at some distance, and of those that a weight rests at, what is left (d,) to hold."""
    on = np.flatnonzero(np.isfinite(wall))
    near = np.maximum(reach[on], _CLOSEST * np.abs(wall[on]))
    far = np.maximum(side * (y - wall)[on], _ROUNDED * near)
    unit = steep[on] * near
    pressed = np.maximum(-side * left[on], 0.0) * (far <= _ROUNDED * near)
    return Walls(y.size, on, wall[on], side, unit, far, np.maximum(_ROUNDED * unit / far, pressed))


def _round_wall_at(radius: float, y: Array, press: float, reach: float) -> RoundWall:
    """A ball at y (d,), from a point that lies inside by the reach."""
    near = min(max(_ROUNDED * reach, _CLOSEST * radius), radius / 2)
    size = max(float(np.linalg.norm(y)), 1e-300)
    return RoundWall.at(radius, press * near / _ROUNDED, y * min(1.0, (radius - near) / size), press * near)


def modelled(penalty: Penalty, basis: Basis, u: Array, rounding: Rounding) -> Model:
    """The parabola in c for Newton's method, and the penalty at u (d,)."""
    rows, ridge, away = basis.rows, penalty.ridge, basis.x - u
    slope, turned, k = ridge * u, ridge * away, ridge * (rows @ rows.T)
    for cone in rounding.cones:
        p = cone.parabola(rounding.target)
        slope = slope + p.h + p.bent(u)
        turned = turned + p.bent(away)
        k = k + p.gram(rows)
    value = penalty.value(u) + float(slope @ away) + float(turned @ away) / 2
    return Model(value, rows @ (slope + turned), k)


def described(penalty: Penalty, basis: Basis, pull: Array) -> tuple[Model, Rounding | None]:
    """The parabola at y, and what is behind it; None where the penalty is smooth."""
    if penalty.smooth:
        x, rows = basis.x, basis.rows
        h = penalty.majoriser(x, np.zeros_like(x)).curvature
        return Model(penalty.value(x), rows @ penalty.gradient(x), (rows * h) @ rows.T), None
    rounding = started(penalty, basis, pull)
    return modelled(penalty, basis, basis.y, rounding), rounding


@dataclass(frozen=True)
class Landing:
    """Where a step ends: how much of it is taken, the factor that leads back into a ball, and the point (d,)."""

    fraction: float
    scale: float
    point: Array


def landed(penalty: Penalty, basis: Basis, c: Array) -> Landing:
    """As much of the step c as stays within bounds, up to rounding."""
    u = basis.point(c)
    low, high = penalty.bounds(u.size)
    slack = _BEYOND * basis.reach + _CANCELLED * (np.abs(c) @ np.abs(basis.rows) + np.abs(basis.x))
    nearest = np.clip(u, low, high)
    far = np.abs(u - nearest) > slack
    fraction = 1.0
    if far.any():
        move = u - basis.x
        fraction = float(np.clip(np.min((nearest - basis.x)[far] / move[far]), 0.0, 1.0))
        u = basis.x + fraction * move
    scale = min(1.0, penalty.norm_bound / max(float(np.linalg.norm(u)), 1e-300))
    return Landing(fraction, scale, scale * u)


def answer(penalty: Penalty, basis: Basis, c: Array, pull: Array, rounding: Rounding) -> tuple[Answer, Rounding]:
    """The penalty after the step c, or after as much of it as stays within bounds, and the parabola seen from there."""
    end, u = landed(penalty, basis, c), basis.point(c)
    wider, rounding = rounding.wider, rounding.answered(u)
    far = float((np.abs(u - basis.y) / basis.reach).max(initial=0.0))
    if rounding.part < _BLOCKED and far > _FURTHER * wider:
        rounding = started(penalty, basis, pull, min(far, _WIDER * wider))
    return Answer(end.fraction, end.scale, penalty.value(end.point), modelled(penalty, basis, u, rounding)), rounding


__all__ = ["Basis", "Rounding", "answer", "described", "landed"]
