"""A party's penalty along the span of its directions: what it tells the coordinator, and never a weight.

    u(c) = x + B^T c,   B (k+1, d): past directions as they were sent, then the newest, d = y - x

The party states a parabola in c.  A smooth penalty is one.  One with kinks or walls is a sum of kinks,

    sum_i  a_i |u_i - t_i| = max over |s_i| <= a_i of  s_i (u_i - t_i),

and a primal-dual interior point method runs along the span: the party keeps s, rounds every kink off a little, and
states the parabola that Newton's method needs; the coordinator adds those of all parties to the loss's and proposes a
step c; the party answers with its true penalty there and with the next parabola, in which kinks are rounded off less.
A wall is a kink as steep as the party is pressed against anything, several times over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.methods.subspace.messages import Answer, Model
from plait.problem.penalties import Penalty

_ROUNDED, _LESS = 0.05, 0.02  # of a weight's reach: how much kinks are rounded off at first; of that, once more
_LEAST_REACH = 1e-12  # of the largest weight, in units of its column: smaller moves are rounding
_LEAST_ROUNDED = 1e-9  # of a weight's reach: sharper kinks would only spoil the arithmetic
_STEEPER = 10.0  # times what weights are pressed with: the slope that stands for a wall
_NEAR = 0.99  # of the way to the steepest slope: a multiplier goes no further in one step
_SHUT = 1e-14  # of the square of the steepest slope: what rounding may leave between it and a multiplier
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
class Kinks:
    """Kinks at `place` (d,), one per weight or per group of weights, of some strength (d,), 0 where there is none."""

    place: Array
    strength: Array
    member: npt.NDArray[np.intp] | None = None
    """The group of each weight (d,); None where every weight is its own."""

    @cached_property
    def everywhere(self) -> bool:
        """Whether every weight has a kink."""
        return bool((self.strength > 0).all())

    def squares(self, s: Array) -> Array:
        """|s|^2 of each weight's group, (d,)."""
        if self.member is None:
            return s * s
        return np.asarray(np.bincount(self.member, weights=s * s)[self.member])

    def widths(self, reach: Array) -> Array:
        """How far each weight, or each weight's group, reaches, (d,)."""
        if self.member is None:
            return reach
        return np.sqrt(self.squares(reach) / np.bincount(self.member)[self.member])

    def rounded(self, u: Array, level: Array) -> Array:
        """The slope (d,) at u of the kinks, each rounded off by `level` (d,): |s| < strength."""
        away, n = u - self.place, np.sqrt(self.squares(u - self.place))
        a = self.strength
        level = a * level
        size = np.where(n > 0, (np.sqrt(level**2 + (a * n) ** 2) - level) / np.where(n > 0, n, 1.0), 0.0)
        return np.asarray(np.where(n > 0, away / np.where(n > 0, n, 1.0), 0.0) * size)


@dataclass(frozen=True)
class Rounding:
    """How far the interior point method has come in a round: each kind of kinks, their multipliers (d,), the level."""

    kinks: tuple[Kinks, ...]
    slopes: tuple[Array, ...]
    tilt: Array
    """The slope (d,) that walls add on both sides."""
    level: float
    ball: "BallRounding | None" = None

    def bends(self, basis: Basis) -> "list[Bend]":
        """What each kind of kinks looks like to Newton's method."""
        pairs = zip(self.kinks, self.slopes, strict=True)
        return [Bend.of(k, s, self.level * k.widths(basis.reach)) for k, s in pairs]

    def answered(self, basis: Basis, u: Array) -> "Rounding":
        """After a step to u: Newton's multipliers, kept inside, and a lower level."""
        slopes = tuple(_towards(bend.kinks, bend.s, bend.slope(u)) for bend in self.bends(basis))
        ball = None if self.ball is None else self.ball.answered(u, self.level)
        return replace(self, slopes=slopes, level=max(_LESS * self.level, _LEAST_ROUNDED), ball=ball)


@dataclass(frozen=True)
class BallRounding:
    """The wall |u| = radius as a kink of the norm: its strength, its multiplier, and how far the norm reaches."""

    radius: float
    strength: float
    slope: float
    reach: float

    @staticmethod
    def at(radius: float, y: Array, force: Array, reach: float) -> "BallRounding":
        strength = _STEEPER * float(np.linalg.norm(force)) / 2
        size = float(np.linalg.norm(y))
        kink = Kinks(np.zeros(1), np.full(1, strength))
        slope = float(kink.rounded(np.full(1, size - radius), np.full(1, _ROUNDED * reach))[0])
        if size >= radius * (1 - 1e-9):
            pressed = -float(force @ y) / max(size, 1e-300) - strength
            slope = float(np.clip(pressed, -_INSIDE * strength, _INSIDE * strength))
        return BallRounding(radius, strength, slope, reach)

    @property
    def _kink(self) -> Kinks:
        return Kinks(np.zeros(1), np.full(1, self.strength))

    def newton(self, u: Array, level: float) -> tuple[float, float]:
        """The slope that Newton's method takes at u along the norm, and the curvature along it."""
        s, away = np.full(1, self.slope), np.full(1, float(np.linalg.norm(u)) - self.radius)
        bend = Bend.of(self._kink, s, np.full(1, level * self.reach))
        return float(bend.slope(away)[0]), float(bend.turned(np.ones(1))[0])

    def answered(self, u: Array, level: float) -> "BallRounding":
        """With the multiplier after a step to u, kept inside."""
        to = np.full(1, self.newton(u, level)[0])
        return replace(self, slope=float(_towards(self._kink, np.full(1, self.slope), to)[0]))


def _towards(kinks: Kinks, s: Array, to: Array) -> Array:
    """From s to `to`, or as far as stays below the kinks' slopes."""
    a = kinks.strength
    n = np.sqrt(kinks.squares(to))
    limit = a - (1 - _NEAR) * (a - np.sqrt(kinks.squares(s)))
    return np.where(n > limit, to * (limit / np.where(n > 0, n, 1.0)), to)


@dataclass(frozen=True)
class Bend:
    """Rounded kinks at multipliers s (d,), |s| < strength.

    factor   (d,): (a^2 - |s|^2) / (2 mu), mu = strength * level; 0 where there is no kink
    inner    (d,): 2 / (a^2 + |s|^2)
    across   (d,): the curvature, where every weight is its own
    """

    kinks: Kinks
    s: Array
    factor: Array
    inner: Array
    across: Array

    @staticmethod
    def of(kinks: Kinks, s: Array, level: Array) -> "Bend":
        """level (d,): by how much each kink is rounded off."""
        a, n = kinks.strength, kinks.squares(s)
        squares = a * a
        room = np.maximum(squares - n, _SHUT * squares)
        if kinks.everywhere:
            factor, inner = room / (2 * a * level), 2 / (squares + n)
        else:
            there = a > 0
            factor = np.where(there, room / np.where(there, 2 * a * level, 1.0), 0.0)
            inner = np.where(there, 2 / np.where(there, squares + n, 1.0), 0.0)
        return Bend(kinks, s, factor, inner, factor * (1 - inner * s * s))

    def slope(self, u: Array) -> Array:
        """The multipliers (d,) that Newton's method takes at u."""
        f, away = self.factor, u - self.kinks.place
        if self.kinks.everywhere:
            return self.s + self.turned(away - self.s / f)
        return self.s + self.turned(np.where(f > 0, away - self.s / np.where(f > 0, f, 1.0), 0.0))

    def turned(self, v: Array) -> Array:
        """The curvature times v (d,)."""
        member = self.kinks.member
        if member is None:
            return self.across * v
        along = np.bincount(member, weights=self.s * v)[member]
        return np.asarray(self.factor * (v - self.inner * along * self.s))

    def gram(self, rows: Array) -> Array:
        """The same along the rows (k+1, d) on both sides."""
        member = self.kinks.member
        if member is None:
            return np.asarray((rows * self.across) @ rows.T)
        radial = np.zeros((len(rows), int(member.max()) + 1))
        np.add.at(radial.T, member, (rows * (self.s * np.sqrt(self.factor * self.inner))).T)
        return np.asarray((rows * self.factor) @ rows.T - radial @ radial.T)


def started(penalty: Penalty, basis: Basis, pull: Array) -> Rounding:
    """At y.  pull is D^T g (d,): how hard weights are pressed."""
    y, d = basis.y, basis.y.size
    kinks: list[Kinks] = []
    if penalty.l1 > 0:
        kinks.append(Kinks(np.zeros(d), np.full(d, penalty.l1)))
    groups = penalty.grouped
    if groups is not None:
        kinks.append(Kinks(np.zeros(d), groups.weight[groups.member], groups.member))
    force = pull + penalty.ridge * y
    steep = _STEEPER * float((np.abs(force) / basis.sizes).max(initial=0.0)) * basis.sizes + penalty.l1
    tilt = np.zeros(d)
    for wall, side in zip(penalty.bounds(d), (-1.0, 1.0), strict=True):
        there = np.isfinite(wall)
        if there.any():
            kinks.append(Kinks(np.where(there, wall, 0.0), np.where(there, steep / 2, 0.0)))
            tilt = tilt + side * kinks[-1].strength
    ball = None
    if np.isfinite(penalty.norm_bound):
        ball = BallRounding.at(penalty.norm_bound, y, force, float(np.linalg.norm(basis.reach)) / np.sqrt(d))
    return Rounding(tuple(kinks), _multipliers(kinks, basis, -force - tilt), tilt, _ROUNDED, ball)


def _multipliers(kinks: Sequence[Kinks], basis: Basis, left: Array) -> tuple[Array, ...]:
    """Of each kind of kinks at y: on one side its slope, rounded off; of those at rest, what is left to hold (d,)."""
    resting = [k.squares(basis.y - k.place) == 0 for k in kinks]
    slopes = [k.rounded(basis.y, _ROUNDED * k.widths(basis.reach)) for k in kinks]
    left = left - sum(slopes, start=np.zeros_like(left))
    for i, (k, rest) in enumerate(zip(kinks, resting, strict=True)):
        pressed = np.where(rest, left, 0.0)
        n = np.sqrt(k.squares(pressed))
        held = pressed * np.minimum(1.0, _INSIDE * k.strength / np.where(n > 0, n, 1.0))
        slopes[i] = np.where(rest, held, slopes[i])
        left = left - np.where(rest, held, 0.0)
    return tuple(slopes)


def modelled(penalty: Penalty, basis: Basis, u: Array, pull: Array, rounding: Rounding) -> Model:
    """The parabola in c for Newton's method at u (d,)."""
    rows, ridge = basis.rows, penalty.ridge
    slope = ridge * u + rounding.tilt
    k = ridge * (rows @ rows.T) if ridge > 0 else np.zeros((len(rows),) * 2)
    away = basis.x - u
    turned = ridge * away
    for bend in rounding.bends(basis):
        slope = slope + bend.slope(u)
        turned = turned + bend.turned(away)
        k = k + bend.gram(rows)
    if rounding.ball is not None:
        size = max(float(np.linalg.norm(u)), _LEAST_REACH * rounding.ball.radius)
        push, steep = rounding.ball.newton(u, rounding.level)
        push = max(push + rounding.ball.strength, 0.0)
        unit, flat = u / size, push / size
        along = rows @ unit
        slope = slope + push * unit
        turned = turned + flat * away + (steep - flat) * float(unit @ away) * unit
        k = k + flat * (rows @ rows.T) + (steep - flat) * np.outer(along, along)
    value = penalty.value(u) + float(slope @ away) + float(turned @ away) / 2
    return Model(value, rows @ (slope + turned), k)


def described(penalty: Penalty, basis: Basis, pull: Array) -> tuple[Model, Rounding | None]:
    """The parabola at y, and what is behind it; None where the penalty is smooth."""
    if penalty.smooth:
        x, rows = basis.x, basis.rows
        h = penalty.majoriser(x, np.zeros_like(x)).curvature
        return Model(penalty.value(x), rows @ penalty.gradient(x), (rows * h) @ rows.T), None
    rounding = started(penalty, basis, pull)
    return modelled(penalty, basis, basis.y, pull, rounding), rounding


@dataclass(frozen=True)
class Landing:
    """Where a step ends: how much of it is taken, the factor that leads back into a ball, and the point (d,)."""

    fraction: float
    scale: float
    point: Array


def landed(penalty: Penalty, basis: Basis, c: Array) -> Landing:
    """As much of the step c as stays within bounds, up to rounding."""
    u = basis.point(c)
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


def answer(penalty: Penalty, basis: Basis, c: Array, pull: Array, rounding: Rounding) -> tuple[Answer, Rounding]:
    """The penalty after the step c, or after as much of it as stays within bounds, and the parabola seen from there."""
    end, u = landed(penalty, basis, c), basis.point(c)
    rounding = rounding.answered(basis, u)
    return Answer(
        end.fraction, end.scale, penalty.value(end.point), modelled(penalty, basis, u, pull, rounding)
    ), rounding


__all__ = ["Basis", "Kinks", "Rounding", "answer", "described", "landed"]
