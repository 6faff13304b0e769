"""A party's penalty along the span of its directions: what it tells the coordinator, and never a weight.

    u(c) = x + B^T c,   B (k+1, d): past directions as they were sent, then the newest, d = y - x

The party states a parabola in c.  For a smooth penalty it lies above the penalty and touches it at x.  Where the
penalty has kinks or walls, a primal-dual method runs along the span: of its own for kinks of single weights (kinks.py),
an interior point method for walls, groups and balls (linear_cones.py, cones.py).  The party rounds every kink and wall
off a little and states the parabola that Newton's method needs.  The coordinator adds the parabolas of all parties to
the loss's and proposes a step c.  The party answers with its true penalty there and with the next parabola, in which
kinks are rounded off less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.methods.subspace.cones import Norms, RoundBend, RoundWall
from plait.methods.subspace.idle_moves import Settled
from plait.methods.subspace.kinks import Kinks
from plait.methods.subspace.linear_cones import Bend, KinkCones, Walls
from plait.methods.subspace.messages import Answer, Model
from plait.methods.subspace.span_basis import Basis
from plait.problem.penalties import Penalty

Cone = KinkCones | Walls | Norms | RoundWall
_ROUNDED = 0.1  # of a weight's reach: how much kinks are rounded off at first
_LESS = 0.03  # of how much they are, at the next question, if the last step could be taken whole
_LEAST_ROUNDED = 1e-9  # of a weight's reach: sharper kinks would only spoil the arithmetic
_WIDE = 200  # weights from which on those that do not move along the span are looked for and left out
_CLOSEST = 1e-5  # of a weight, or of a radius: closer to its kink rounding would show
_NEAR = 0.99  # of the way to the surface of a cone: a point goes no further in one step
_APART = 3.0  # times the part of a step that every kink and wall can take: further none goes, where they stay together
_BLOCKED, _FURTHER, _WIDER = 0.1, 3.0, 100.0
"""Where less than this part of a step can be taken, and it leads so many times further than kinks are rounded off, they
are rounded off more, by at most so many times: the span leads further than the newest direction alone."""
_LEAST_PRESS = 1e-100  # a slope whose square is a number
_LEAST_PART = 1e-6  # of a step: less counts as this much
_INSIDE = 1 - 1e-3  # of the steepest slope: the first multiplier of a weight at rest
_BEYOND = 1e-8  # of its reach: a weight may end so little beyond a wall, until the model is closed
_CANCELLED = 1e-14  # of the sum of its parts: what rounding leaves of a weight that is zero


@dataclass(frozen=True)
class Rounding:
    """How far the method has come in a round: the kinks of single weights, and cones aimed at their next target."""

    cones: tuple[Cone, ...]
    kinks: Kinks | None = None
    """Where the penalty has only kinks of single weights, and these need no care: then there are no cones."""
    wider: float = 1.0
    """By how many times kinks are rounded off more than the reach of the newest direction asks for."""
    part: float = 1.0
    """How much of its last step the interior point method could take, on average over cones."""
    together: bool = False
    """Whether cones go almost equally far."""
    left: float = np.inf
    """By how much the penalty may still fall along the span, with the loss's slopes where they are; roughly."""
    settled: Settled | None = None
    """The parabola that was stated, where weights may move idly."""
    landings: tuple[tuple[Array, Array], ...] = ()
    """Steps (k+1,) that were asked about since, and where they led, (d,); only where idle moves may have led there."""

    def landing(self, c: Array) -> Array | None:
        """The weights (d,) that a step c (k+1,) was answered for, if it was asked about."""
        return next((u for asked, u in self.landings if np.array_equal(asked, c)), None)

    def weights(self, basis: Basis, c: Array) -> Array:
        """All weights after a step c (k+1,): those that were answered for, if it was asked about."""
        u = self.landing(c)
        return basis.point(c) if u is None else basis.whole(u)

    def landed(self, c: Array, u: Array) -> "Rounding":
        """With another step that was asked about."""
        others = tuple(landing for landing in self.landings if not np.array_equal(landing[0], c))
        return replace(self, landings=(*others, (c, u)))

    @property
    def bends(self) -> Sequence[Bend]:
        """The slopes after a step, whose sum they are."""
        return [cone.bend for cone in self.cones] if self.kinks is None else [self.kinks]

    def answered(self, u: Array) -> "Rounding":
        """After a step to u: the kinks there, or Newton's points, kept inside; and a lower target.

        Each cone goes as far as it can on its own: that needs the fewest questions.  Where it has failed, they stay
        together, so that what Newton's method still lacks shrinks.  With a ball all go equally far.
        """
        if self.kinks is not None:
            kinks, left = self.kinks.answered(u)
            return Rounding((), kinks, left=left)
        changes: list[Any] = [cone.change(u) for cone in self.cones]
        rooms = [cone.room(change) for cone, change in zip(self.cones, changes, strict=True)]
        parts = [np.minimum(1.0, _NEAR * room) for room in rooms]
        ball = any(isinstance(cone, RoundWall) for cone in self.cones)
        if ball or self.together:
            most = (1.0 if ball else _APART) * min(float(part.min()) for part in parts)
            parts = [np.minimum(part, most) for part in parts]
        cones = [cone.stepped(change, part) for cone, change, part in zip(self.cones, changes, parts, strict=True)]
        count = sum(part.size for part in parts)
        taken = sum(float(np.add.reduce(part)) for part in parts) / count
        gap = sum(float(np.add.reduce(cone.gaps / cone.unit)) for cone in cones) / count
        target = max(max(_LESS, (1 - taken) ** 2) * gap, _LEAST_ROUNDED)
        left = sum(float(np.add.reduce(cone.gaps)) for cone in cones) / max(taken, _LEAST_PART)
        aimed = tuple(cone.aimed(target) for cone in cones)
        return Rounding(aimed, None, self.wider, taken, self.together, left)


def started(penalty: Penalty, basis: Basis, pull: Array, together: bool, wider: float = 1.0) -> Rounding:
    """The kinks or cones at y, before the first question.

    pull is D^T g (d,): how hard the loss presses each weight.
    """
    y, d, reach = basis.y, basis.y.size, wider * basis.reach
    if not together and penalty.feasible is None and penalty.grouped is None:
        return Rounding((), Kinks.started(penalty.l1, y, np.maximum(reach, _CLOSEST * np.abs(y))))
    cones: list[Cone] = []
    force = pull + penalty.ridge * y
    left = -force
    if penalty.l1 > 0:
        kinks, held = _kinks_at(penalty.l1, y, left, reach)
        cones.append(kinks)
        left = left - held
    if penalty.grouped is not None:
        norms = _norms_at(penalty.grouped.weight, penalty.grouped.member, y, left, reach)
        cones.append(norms)
        left = left - norms.s
    if penalty.feasible is not None:
        steep = float((np.abs(force) / basis.sizes).max(initial=0.0)) * basis.sizes + penalty.l1
        for wall, side in zip(penalty.bounds(d), (1.0, -1.0), strict=True):
            if np.isfinite(wall).any():
                cones.append(_walls_at(wall, side, y, left, np.maximum(steep, _LEAST_PRESS), reach))
    if np.isfinite(penalty.norm_bound):
        reached = float(np.linalg.norm(reach)) / np.sqrt(d)
        cones.append(_round_wall_at(penalty.norm_bound, y, max(float(np.linalg.norm(force)), _LEAST_PRESS), reached))
    return Rounding(tuple(cones), None, wider, together=together)


def _kinks_at(l1: float, y: Array, left: Array, reach: Array) -> tuple[KinkCones, Array]:
    """Kinks of single weights at y, and their slopes (d,): of those at rest, what is left (d,) to hold."""
    n = np.abs(y)
    near = np.maximum(reach, _CLOSEST * n)
    unit = l1 * near
    mu = 2 * _ROUNDED * unit
    s = np.where(n > 0, np.sign(y) * _rounded_slope(l1, n, mu), _held(left, np.abs(left), l1))
    return KinkCones.at(l1, unit, s, mu, _ROUNDED), s


def _norms_at(a: Array, member: npt.NDArray[np.intp], y: Array, left: Array, reach: Array) -> Norms:
    """Norms of groups at y: on one side their slope, rounded off; of those at rest, what is left (d,) to hold."""
    frame = Norms(a, a, member, y, a, y, _ROUNDED)
    n = np.sqrt(frame.sums(y * y))
    near = np.maximum(np.sqrt(frame.sums(reach**2) / frame.sums(np.ones_like(y))), _CLOSEST * n)
    mu = 2 * _ROUNDED * a * near
    along = frame.each(_rounded_slope(a, n, mu) / np.where(n > 0, n, 1.0))
    held = _held(left, frame.each(np.sqrt(frame.sums(left * left))), frame.each(a))
    return Norms.at(a, a * near, member, np.where(frame.each(n) > 0, y * along, held), mu, _ROUNDED)


def _rounded_slope(a: float | Array, n: Array, mu: Array) -> Array:
    """The size of the slope of norms n > 0, rounded off by mu."""
    return np.asarray((np.sqrt(mu**2 + (2 * a * n) ** 2) - mu) / (2 * np.where(n > 0, n, 1.0)))


def _held(left: Array, size: Array, a: float | Array) -> Array:
    """What kinks of strength a can hold of a slope that is left (d,), of this size."""
    return np.asarray(left * np.minimum(1.0, _INSIDE * a / np.where(size > 0, size, 1.0)))


def _walls_at(wall: Array, side: float, y: Array, left: Array, steep: Array, reach: Array) -> Walls:
    """Walls at y (d,): at some distance, and of those that a weight rests at, what is left (d,) to hold."""
    on = np.flatnonzero(np.isfinite(wall))
    near = np.maximum(reach[on], _CLOSEST * np.abs(wall[on]))
    far = np.maximum(side * (y - wall)[on], _ROUNDED * near)
    unit = steep[on] * near
    pressed = np.maximum(-side * left[on], 0.0) * (far <= _ROUNDED * near)
    points = np.array([far, np.maximum(_ROUNDED * unit / far, pressed)])
    return Walls(y.size, on, wall[on], side, points, unit, _ROUNDED)


def _round_wall_at(radius: float, y: Array, press: float, reach: float) -> RoundWall:
    """A ball at y (d,), from a point that lies inside by the reach."""
    near = min(max(_ROUNDED * reach, _CLOSEST * radius), radius / 2)
    size = max(float(np.linalg.norm(y)), 1e-300)
    return RoundWall.at(radius, press * near / _ROUNDED, y * min(1.0, (radius - near) / size), press * near, _ROUNDED)


def modelled(penalty: Penalty, basis: Basis, u: Array, value: float, rounding: Rounding) -> tuple[Model, Rounding]:
    """The parabola in c for Newton's method, and what is kept of it; value: the penalty at u (d,)."""
    bends = rounding.bends
    h, weight = bends[0].h, bends[0].weight + penalty.ridge
    for bend in bends[1:]:
        h, weight = h + bend.h, weight + bend.weight
    settled = None if basis.idle is None else Settled.of(basis.idle, h, weight, u)
    if settled is not None:
        return settled.model(value, u), replace(rounding, settled=settled)
    x, rows, away, both = basis.x, basis.rows, basis.x - u, basis.x + u
    k, slope, turned = (rows * weight) @ rows.T, h + weight * x, weight * both
    for bend in bends:
        if isinstance(bend, RoundBend):
            k, slope, turned = k + bend.gram(rows), slope + bend.turned(x), turned + bend.turned(both)
    return Model(value + float(away @ (h + turned / 2)), rows @ slope, k), rounding


def described(penalty: Penalty, basis: Basis, pull: Array, together: bool = False) -> tuple[Model, Rounding | None]:
    """The parabola at y, and what is behind it; None where the penalty is smooth."""
    if penalty.smooth:
        x, rows = basis.x, basis.rows
        if penalty.quadratic:
            return Model(penalty.value(x), penalty.ridge * (rows @ x), penalty.ridge * (rows @ rows.T)), None
        h = penalty.majoriser(x, np.zeros_like(x)).curvature
        return Model(penalty.value(x), rows @ penalty.gradient(x), (rows * h) @ rows.T), None
    part, pull, rest = _in_motion(penalty, basis, pull)
    return modelled(penalty, part, part.y, rest + penalty.value(part.y), started(penalty, part, pull, together))


def narrows(penalty: Penalty, width: int) -> bool:
    """Whether weights that no step moves are left out.

    Of a wide table most weights rest at zero for good.  Kinks that no step comes near are neither computed with nor
    counted.
    """
    return width >= _WIDE and penalty.separable and penalty.feasible is None


def _in_motion(penalty: Penalty, basis: Basis, pull: Array) -> tuple[Basis, Array, float]:
    """The weights that take part, what presses these, and the penalty of the others."""
    if basis.acting is basis:
        return basis, pull, 0.0
    return basis.acting, pull[basis.moving], penalty.value(basis.x[~basis.moving])


@dataclass(frozen=True)
class Landing:
    """Where a step ends: how much of it is taken, the factor that leads back into a ball, and the point (d,)."""

    fraction: float
    scale: float
    point: Array


def landed(penalty: Penalty, basis: Basis, c: Array, u: Array) -> Landing:
    """As much of the step c, which leads to u (d,), as stays within bounds, up to rounding; u itself without bounds."""
    if penalty.feasible is None:
        return Landing(1.0, 1.0, u)
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


def answer(penalty: Penalty, whole: Basis, c: Array, pull: Array, rounding: Rounding) -> tuple[Answer, Rounding]:
    """The penalty after the step c, or after as much of it as stays within bounds, and the parabola seen from there."""
    basis, pull, rest = _in_motion(penalty, whole, pull)
    idle = None if rounding.settled is None or basis.leads_to_y(c) else rounding.settled.weights(c)
    u = basis.point(c) if idle is None else idle
    end = landed(penalty, basis, c, u)
    there, known = end.point, rounding
    if idle is not None:
        there = _least(penalty, basis, end.fraction * c, there, rounding)
        known = rounding.landed(end.fraction * c, there)
    wider, rounding = rounding.wider, rounding.answered(u)
    left = rounding.left
    if rounding.part < _BLOCKED:
        far = float((np.abs(u - basis.y) / basis.reach).max(initial=0.0))
        if far > _FURTHER * wider:
            rounding = started(penalty, basis, pull, rounding.together, min(far, _WIDER * wider))
    model, rounding = modelled(penalty, basis, u, rest + penalty.value(u), rounding)
    reply = Answer(end.fraction, end.scale, rest + penalty.value(there), left, model)
    return reply, replace(rounding, landings=known.landings)


def _least(penalty: Penalty, basis: Basis, c: Array, u: Array, rounding: Rounding) -> Array:
    """Of the weights u (d,) and others that a step c leads to, those with the least penalty: the answer must hold."""
    before = rounding.landing(c)
    known = [u] if before is None else [before, u]
    return min(known if c.any() else [basis.x, *known], key=penalty.value)


__all__ = ["Basis", "Rounding", "answer", "described", "landed", "narrows"]
