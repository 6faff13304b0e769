"""Minimise  scale * penalty(x) + x^T Q x / 2 - q^T x,  Q positive semidefinite, possibly singular.

Accelerated proximal gradient in a diagonal metric, interleaved with semismooth Newton steps on the fixed point
x = prox(x - t (Q x - q)) where the part of Q that they need is at hand as a matrix.  A Newton step is taken only if it
lowers the objective, so the iteration is a descent method whatever the penalty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from plait._types import Array
from plait.problem.penalties import Penalty

Indices: TypeAlias = npt.NDArray[np.intp]

_FIRST_BURST = 8  # proximal gradient steps between two Newton steps: often enough to find which weights are not 0
_LONGEST_BURST = 200  # of them at most, after doubling where it was not enough


@dataclass(frozen=True)
class Quadratic:
    """Q as a product, its diagonal (d,), and a way to form Q[on, on] where at most `block_limit` indices are on."""

    apply: Callable[[Array], Array]
    diagonal: Array
    block: Callable[[Indices], Array]
    block_limit: int

    @classmethod
    def of(cls, matrix: Array) -> "Quadratic":
        """Q given as a matrix (d, d)."""
        return cls(lambda x: matrix @ x, np.diag(matrix).copy(), lambda on: matrix[np.ix_(on, on)], len(matrix))

    def steps(self, separable: bool) -> Array:
        """Step sizes t with  T^(1/2) Q T^(1/2) <= I:  one per weight, all equal unless the penalty is separable."""
        largest = float(self.diagonal.max(initial=0.0))
        if largest < 1e-150:  # a matrix of zeros, or as good as that: its square is not a double
            return np.ones_like(self.diagonal)
        # A column of zeros gets a long step, and not an infinite one.
        t = 1 / np.maximum(self.diagonal, 1e-12 * largest) if separable else np.ones_like(self.diagonal)
        return t / self._norm(np.sqrt(t))

    def _norm(self, root: Array) -> float:
        """The largest eigenvalue of root Q root, from above, by power iteration."""
        v = np.random.default_rng(0).standard_normal(root.size)
        value = 0.0
        for _ in range(30):
            v = v / np.linalg.norm(v)
            v = root * self.apply(root * v)
            previous, value = value, float(np.linalg.norm(v))
            if value == 0 or abs(value - previous) < 1e-2 * value:  # a hundredth is known well enough
                break
        return 1.1 * value  # from above: power iteration ends below


@dataclass
class _Point:
    """x, Q x and the objective there."""

    x: Array
    qx: Array
    value: float


class CompositeProblem:
    """One Q, many right-hand sides: what does not change between rounds is computed once."""

    def __init__(self, penalty: Penalty, quadratic: Quadratic) -> None:
        self.penalty = penalty
        self.quadratic = quadratic
        self.t = quadratic.steps(penalty.separable)
        self.units = np.sqrt(self.t)

    def solve(self, linear: Array, scale: float, start: Array, tolerance: float, bursts: int = 100) -> Array:
        """The minimiser, to a fixed-point residual of `tolerance` relative to `linear`, each column in its own unit."""
        run = _Run(self, linear, scale)
        here = run.at(self._prox(start, np.zeros_like(self.t), scale))
        goal = tolerance * run.size
        burst = _FIRST_BURST
        for _ in range(bursts):
            w = here.x - self.t * (here.qx - linear)
            target = self._prox(w, self.t, scale)
            residual = float(np.max(np.abs(here.x - target) / self.units, initial=0.0))
            if residual <= goal:
                break
            better = run.newton(here, w, target, residual)
            if better is None:
                better = run.accelerated(here, burst)
                burst = min(2 * burst, _LONGEST_BURST)
            here = better
        return here.x

    def proximal_step(self, x: Array, linear: Array, scale: float) -> Array:
        """prox(x - t (Q x - linear))."""
        return self._prox(x - self.t * (self.quadratic.apply(x) - linear), self.t, scale)

    def _prox(self, v: Array, t: Array, scale: float) -> Array:
        """prox of scale * penalty in the metric 1/t; t is one number unless the penalty is separable."""
        return self.penalty.prox(v, scale * (t if self.penalty.separable else float(t[0])))


@dataclass
class _Run:
    problem: CompositeProblem
    linear: Array
    scale: float
    caution: float = 1.0
    """By how much more than usual Newton steps are damped: they failed on a singular Q."""

    @cached_property
    def size(self) -> float:
        return max(float((np.abs(self.linear) * self.problem.units).max(initial=0.0)), 1e-300)

    def at(self, x: Array) -> _Point:
        qx = self.problem.quadratic.apply(x)
        return _Point(x, qx, self.scale * self.problem.penalty.value(x) + float(x @ (qx / 2 - self.linear)))

    def proximal_step(self, x: Array, qx: Array) -> Array:
        t = self.problem.t
        return self.problem._prox(x - t * (qx - self.linear), t, self.scale)

    def newton(self, here: _Point, w: Array, target: Array, residual: float) -> _Point | None:
        """A semismooth Newton step followed by a proximal one, if that lowers the objective; else None."""
        move = self._newton_direction(w, target - here.x, residual)
        if move is None or not np.isfinite(move).all():
            return None
        for length in (1.0, 0.3):  # the whole step, then a shorter one
            x = here.x + length * move
            there = self.at(self.proximal_step(x, self.problem.quadratic.apply(x)))
            if there.value < here.value:
                self.caution = max(self.caution / 10, 1.0)
                return there
        # Times 1e-13, the least damping, this is more than the damping may be.
        self.caution = min(100 * self.caution, 1e13)
        return None

    def _newton_direction(self, w: Array, gap: Array, residual: float) -> Array | None:
        """Solve  (I - J (I - T Q)) s = gap  with J the prox Jacobian at w; slightly damped, as Q may be singular.

        None where too many weights are free to form their part of Q.
        """
        t, quadratic = self.problem.t, self.problem.quadratic
        separable = self.problem.penalty.separable
        if not separable and w.size > quadratic.block_limit:
            return None
        jacobian = self.problem.penalty.prox_jacobian(w, self.scale * (t if separable else float(t[0])))
        on = np.flatnonzero(jacobian > 0) if jacobian.ndim == 1 else np.arange(w.size)
        if on.size > quadratic.block_limit:
            return None
        move = gap.copy()
        move[on] = 0.0
        rhs = gap[on]
        # Relative: vanishes with the residual, so that the last steps are Newton's; doubles end at 1e-13.
        damping = max(1e-13, min(1e-3, 1e-2 * residual / self.size))
        damping = min(self.caution * damping, 0.5)
        inner = -t[on, None] * quadratic.block(on)
        inner[np.diag_indices(on.size)] += 1 - damping
        if jacobian.ndim == 1:
            if on.size < w.size:
                rhs = rhs - jacobian[on] * t[on] * quadratic.apply(move)[on]
            system = -jacobian[on, None] * inner
        else:
            system = -(jacobian @ inner)
        system[np.diag_indices(on.size)] += 1
        move[on] = _solve(system, rhs)
        return move

    def accelerated(self, here: _Point, steps: int) -> _Point:
        """Accelerated proximal gradient steps with restart; one plain step instead where they fail to descend."""
        x, qx = here.x, here.qx
        y, qy, theta = x, qx, 1.0
        for _ in range(steps):
            new = self.proximal_step(y, qy)
            qnew = self.problem.quadratic.apply(new)
            if float((y - new) @ ((new - x) / self.problem.t)) > 0:
                theta = 1.0
            grown = (1 + np.sqrt(1 + 4 * theta * theta)) / 2
            momentum = (theta - 1) / grown
            y, qy = new + momentum * (new - x), qnew + momentum * (qnew - qx)
            x, qx, theta = new, qnew, grown
        there = self.at(x)
        return there if there.value <= here.value else self.at(self.proximal_step(here.x, here.qx))


def _solve(system: Array, rhs: Array) -> Array:
    """Solve a square system that may be singular; where it is, to rounding, the least solution of least residual."""
    if not rhs.size:
        return rhs
    factor, pivots, singular = lapack.dgetrf(system)
    if not singular and lapack.dgecon(factor, float(np.linalg.norm(system, 1)))[0] > np.finfo(np.float64).eps:
        return np.asarray(lapack.dgetrs(factor, pivots, rhs)[0])
    if not np.isfinite(system).all():
        return np.full_like(rhs, np.nan)  # the caller takes no step that is not finite
    return np.asarray(np.linalg.lstsq(system, rhs, rcond=1e-12)[0])  # smaller singular values count as 0
