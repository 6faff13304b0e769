"""The exact step of a party whose penalty has kinks or walls: weights at rest are exactly at rest.

    y = argmin over y of   gradient^T (y - x) + (y - x)^T H (y - x) / 2 + penalty(y)

H = D^T W D, less what the others' past moves can do, plus a small proximal term.  Where the penalty is a sum over
single weights, a primal-dual active set method guesses which weights rest, solves for the others and corrects the
guess until it repeats: the solution is then exact.  Wide tables are solved on a working set of columns, which grows
from round to round by those that violate the conditions of optimality most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import scipy.linalg

from plait._replace import replace
from plait._types import Array
from plait.methods.subspace.sparse_step import solved, sparse_minimum
from plait.problem.features import Features
from plait.problem.penalties import Penalty
from plait.problem.prox_newton import CompositeProblem, Quadratic

Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

_LIFT = 1e-7  # of each column's curvature: a proximal term, far above what rounding leaves of the subtraction in H
_ABOVE = 2.0  # times what rounding leaves below zero: the least curvature that is no rounding
_GUESSES = 8  # corrections of the guess; it settles in 3 to 8 or circles
_SWEEPS = 3  # of coordinate descent before steps to kinks: most signs are right then
_STEPS_A_WEIGHT = 20  # steps to a kink per weight; a few are usual
_NOTHING = 1e-12  # of the largest slope: what a weight at rest may want without being let go
_WIDE = 200  # columns from which on a working set is cheaper than the whole Gram matrix
_ENTERING = 60  # columns that may enter the working set in a step; as many as are in it, if these are more
_LEAST_RIDGE, _RIDGE = 1e-25, 1e-10  # of the largest that a ball can ask for; how well it is found, relative
_TOLERANCE, _BURSTS = 1e-10, 60  # of the general iteration: relative residual, bursts of proximal steps


@dataclass(frozen=True)
class Separable:
    """A penalty that is a sum over single weights:  l1 |x_j| + ridge x_j^2 / 2,  low_j <= x_j <= high_j."""

    l1: float
    ridge: float
    low: Array
    high: Array
    bounded: bool
    """Whether any weight has a wall."""

    @staticmethod
    def of(penalty: Penalty, width: int) -> "Separable":
        """The numbers of a separable, convex penalty."""
        bounded = penalty.feasible is not None
        low, high = penalty.bounds(width) if bounded else _nowhere(width)
        return Separable(penalty.l1, penalty.ridge, low, high, bounded)

    def only(self, on: Indices) -> "Separable":
        """Of some of the weights."""
        return Separable(self.l1, self.ridge, self.low[on], self.high[on], self.bounded)

    def shrunk(self, t: Array, units: Array) -> Array:
        """The proximal map with step 1 / units, of all but the ridge."""
        shrunk = np.sign(t) * np.maximum(np.abs(t) - self.l1 / units, 0.0)
        return np.clip(shrunk, self.low, self.high) if self.bounded else shrunk

    def at_rest(self, x: Array) -> Mask:
        """Which weights lie on a kink or at a wall."""
        if not self.bounded:
            return x == 0 if self.l1 > 0 else np.zeros(x.size, dtype=bool)
        walls: Mask = (x <= self.low) | (x >= self.high)
        return walls | (x == 0) if self.l1 > 0 else walls


@lru_cache(maxsize=256)  # widths: those of a few runs
def _nowhere(width: int) -> tuple[Array, Array]:
    """Walls that no weight comes near."""
    return np.broadcast_to(-np.inf, (width,)), np.broadcast_to(np.inf, (width,))


@dataclass(frozen=True)
class Curved:
    """H = D^T W D - cross inverse cross^T + lift;  w (N,), cross (d, k), inverse (k, k)."""

    features: Features
    w: Array
    cross: Array
    inverse: Array

    @cached_property
    def squares(self) -> Array:
        """The diagonal of D^T W D, (d,)."""
        return self.features.weighted_column_squares(self.w)

    @property
    def diagonal(self) -> Array:
        lift = _lift(self.squares)
        return np.maximum(self.squares - np.einsum("dk,kl,dl->d", self.cross, self.inverse, self.cross) + lift, lift)

    def apply(self, v: Array) -> Array:
        """H v."""
        pulled = self.features.adjoint(self.w * self.features.forward(v))
        return pulled - self.cross @ (self.inverse @ (self.cross.T @ v)) + _lift(self.squares) * v

    def whole(self) -> Array:
        """H as a matrix (d, d)."""
        return self._less(self.features.weighted_gram(self.w), self.cross)

    def block(self, on: Indices) -> Array:
        """Its part at a few columns."""
        return self._less(self.features.gram_of(on, self.w), self.cross[on])

    def _less(self, gram: Array, cross: Array) -> Array:
        """A Gram matrix of columns, less what the others' moves can do, and lifted."""
        lift = _lift(gram.diagonal())
        if cross.shape[1]:
            gram = gram - cross @ self.inverse @ cross.T
        gram.flat[:: len(gram) + 1] += lift
        return _positive(gram)


def _lift(squares: Array) -> Array:
    """The proximal term of columns with this curvature."""
    return _LIFT * np.where(squares > 0, squares, 1.0)


def _positive(q: Array) -> Array:
    """Q (d, d) itself; where rounding left it indefinite, with eigenvalues above the size of that rounding."""
    if not scipy.linalg.lapack.dpotrf(q, lower=1)[1]:
        return q
    size = np.sqrt(np.abs(np.diag(q)))
    scale = np.where(size > 0, size, 1.0)[:, None] * np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(q / scale)
    lifted = np.maximum(values, _ABOVE * max(-float(values[0]), np.finfo(np.float64).eps))
    return np.asarray((vectors * lifted) @ vectors.T * scale)


def kinked_step(penalty: Penalty, x: Array, gradient: Array, h: Curved) -> Array:
    """y (d,), for a convex penalty."""
    if penalty.grouped is not None:
        q = h.whole()
        return _general(penalty, q, q @ x - gradient, x)
    rule = Separable.of(penalty, x.size)
    if x.size <= _WIDE:
        q = h.whole()
        linear = q @ x - gradient
        return _within(penalty.norm_bound, rule, linear, lambda rule, near: _exact(rule, q, linear, near), x)
    if np.isinf(penalty.norm_bound):
        return _on_working_set(rule, x, gradient, h)
    return _within(
        penalty.norm_bound, rule, h.apply(x) - gradient, lambda rule, _: _on_working_set(rule, x, gradient, h), x
    )


def _within(
    radius: float, rule: Separable, linear: Array, solve: Callable[[Separable, Array], Array], start: Array
) -> Array:
    """The solution in a ball: that with as much more ridge as makes its norm the radius."""
    y = solve(rule, start)
    if float(np.linalg.norm(y)) <= radius:
        return y
    from scipy.optimize import brentq  # loaded when needed: few runs do, and it loads slowly

    def at(power: float) -> Array:
        nonlocal y
        y = solve(replace(rule, ridge=rule.ridge + float(np.exp(power))), y)
        return y

    def lacks(power: float) -> float:
        return 1 - float(np.linalg.norm(at(power))) / radius

    most = np.log(max(float(np.linalg.norm(linear)) / radius, 1e-300))  # with more ridge no solution is as large
    least = most + np.log(_LEAST_RIDGE)
    if lacks(least) < 0 < lacks(most):
        at(brentq(lacks, least, most, xtol=_RIDGE))
    return y * min(1.0, radius / max(float(np.linalg.norm(y)), 1e-300))


def _on_working_set(rule: Separable, x: Array, gradient: Array, h: Curved) -> Array:
    """The solution over the weights that are not at rest and the worst violators among the others.

    What is still missing enters in the next round: by then others have moved, and several sets in a step would only
    solve more exactly what is outdated.
    """
    units = h.diagonal + rule.ridge
    slope = gradient + rule.ridge * x
    violation = np.abs(rule.shrunk(x - slope / units, units) - x) * units
    moved = ~rule.at_rest(x)
    on = _largest(violation, moved, max(_ENTERING, int(np.count_nonzero(moved))))
    q = h.block(on)
    y = x.copy()
    y[on] = _exact(rule.only(on), q, q @ x[on] - gradient[on], x[on])
    return y


def _largest(violation: Array, kept: Mask, room: int) -> Indices:
    """The columns that are kept and the worst violators, at most `room` of them."""
    worst = np.argsort(-violation)[:room]
    return np.union1d(np.flatnonzero(kept), worst[violation[worst] > 0])


def _exact(rule: Separable, q: Array, linear: Array, start: Array) -> Array:
    """argmin of  y^T Q y / 2 - linear^T y + penalty(y),  Q (d, d) positive definite."""
    if rule.ridge:
        q = q.copy()
        q.flat[:: len(q) + 1] += rule.ridge
    if rule.l1 > 0 and not rule.bounded:
        return sparse_minimum(rule.l1, q, linear, start)
    y = settle(rule, q, linear, start)
    return descend(rule, q, linear, swept(rule, q, linear, start)) if y is None else y


def settle(rule: Separable, q: Array, linear: Array, start: Array) -> Array | None:
    """The minimiser by guesses of what rests where; None where the guesses do not settle.  Q includes the ridge."""
    units = q.diagonal()
    y, last = start, b""
    for _ in range(_GUESSES):
        target = rule.shrunk(y - (q @ y - linear) / units, units)
        rest = rule.at_rest(target)
        sign = np.sign(target) if rule.l1 > 0 else np.zeros_like(target)
        guess = sign.tobytes() + (np.where(rest, target, np.inf).tobytes() if rule.bounded else b"")
        if guess == last:
            return y
        last = guess
        y = np.where(rest, target, 0.0) if rule.bounded else np.zeros_like(target)
        free = np.flatnonzero(~rest)
        if free.size:
            rhs = linear[free] - rule.l1 * sign[free]
            y[free] = solved(q[free[:, None], free], rhs - q[free] @ y if rule.bounded else rhs)
    return None


def swept(rule: Separable, q: Array, linear: Array, start: Array) -> Array:
    """A few sweeps of coordinate descent: a good first guess of the signs."""
    y = np.clip(start, rule.low, rule.high)
    slope = q @ y - linear
    units = np.diag(q)
    for _ in range(_SWEEPS):
        for j in range(y.size):
            t = y[j] - slope[j] / units[j]
            size = abs(t) - rule.l1 / units[j]
            to = min(max(np.copysign(size, t) if size > 0 else 0.0, rule.low[j]), rule.high[j])
            if to != y[j]:
                slope += q[j] * (to - y[j])
                y[j] = to
    return y


def descend(rule: Separable, q: Array, linear: Array, start: Array) -> Array:
    """The minimiser by steps to the next kink or wall: the objective falls with every step, so that it ends."""
    y = start.copy()
    free = ~rule.at_rest(y)
    sign = np.sign(y)
    careful = False
    for _ in range(_STEPS_A_WEIGHT * y.size + 10):
        slope = q @ y - linear
        on = np.flatnonzero(free)
        if on.size:
            move = -solved(q[np.ix_(on, on)], slope[on] + rule.l1 * sign[on])
            length, first = _to_next_kink(rule.only(on), y[on], sign[on], move)
            y[on] += length * move
            if first.size:
                hit = on[first]
                y[hit] = _resting_place(rule.only(hit), y[hit], move[first])
                free[hit] = False
                careful |= length == 0
                continue
            slope = q @ y - linear
        entering, pull = _entering(rule, y, slope, free)
        worst = float(entering.max(initial=0.0))
        if worst <= _NOTHING * max(rule.l1, float(np.abs(linear).max(initial=0.0))):
            break
        new = entering >= (worst if careful else worst / 2)
        free |= new
        sign = np.where(new, pull, sign)
        careful = False
    return y


def _to_next_kink(rule: Separable, y: Array, sign: Array, move: Array) -> tuple[float, Indices]:
    """How far to go along `move`, at most 1, and who comes to rest there."""
    with np.errstate(divide="ignore", invalid="ignore"):
        wall = np.where(move > 0, (rule.high - y) / move, np.where(move < 0, (rule.low - y) / move, np.inf))
        kink = np.where(move * sign < 0, -y / move, np.inf) if rule.l1 > 0 else np.full(y.size, np.inf)
    room = np.fmax(np.fmin(wall, kink), 0.0)
    length = min(float(room.min(initial=np.inf)), 1.0)
    return length, np.flatnonzero(room <= length) if length < 1 else np.empty(0, dtype=np.intp)


def _resting_place(rule: Separable, y: Array, move: Array) -> Array:
    """The kink at zero, or the wall that `move` leads to, whichever is nearer."""
    wall = np.where(move > 0, rule.high, rule.low)
    if rule.l1 == 0:
        return wall
    return np.where(np.abs(y) <= np.abs(wall - y), 0.0, wall)


def _entering(rule: Separable, y: Array, slope: Array, free: Mask) -> tuple[Array, Array]:
    """By how much each weight at rest wants to leave (d,), and to which side."""
    pull = -np.sign(slope)
    extra = np.where((y == 0) | (np.sign(y) == pull), rule.l1, -rule.l1) if rule.l1 > 0 else 0.0
    blocked = free | ((y >= rule.high) & (pull > 0)) | ((y <= rule.low) & (pull < 0))
    sign = np.where(y == 0, pull, np.sign(y))
    # A weight at a wall with l1 may leave inward even where the slope alone would not push it.
    inward = (y != 0) & rule.at_rest(y)
    drive = np.where(inward, np.abs(slope + rule.l1 * sign), np.abs(slope) - extra)
    away = -np.sign(slope + rule.l1 * sign)
    stuck = inward & (((y >= rule.high) & (away >= 0)) | ((y <= rule.low) & (away <= 0)))
    blocked = np.where(inward, free | stuck, blocked)
    return np.where(blocked, 0.0, np.maximum(drive, 0.0)), sign


def _general(penalty: Penalty, q: Array, linear: Array, start: Array) -> Array:
    return CompositeProblem(penalty, Quadratic.of(q)).solve(linear, 1.0, start, _TOLERANCE, _BURSTS)
