"""Minimise  scale * penalty(x) + x^T Q x / 2 - q^T x,  Q positive semidefinite, possibly singular.

Accelerated proximal gradient in a diagonal metric, interleaved with semismooth Newton steps on the fixed point
x = prox(x - t (Q x - q)) where Q is at hand as a matrix.  A Newton step is taken only if it lowers the objective, so
the iteration is a descent method whatever the penalty.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from plait.penalties import Penalty
from plait.types import Array

_FIRST_BURST, _LONGEST_BURST = 8, 200


@dataclass(frozen=True)
class Quadratic:
    """Q as a product, its diagonal (d,), and Q itself (d, d) where it was formed."""

    apply: Callable[[Array], Array]
    diagonal: Array
    dense: Array | None = None

    def steps(self, separable: bool) -> Array:
        """Step sizes t with  T^(1/2) Q T^(1/2) <= I:  one per weight, all equal unless the penalty is separable."""
        floor = 1e-12 * max(float(self.diagonal.max(initial=0.0)), 1e-300)
        t = 1 / np.maximum(self.diagonal, floor) if separable else np.ones_like(self.diagonal)
        return t / max(self._norm(np.sqrt(t)), 1e-300)

    def _norm(self, root: Array) -> float:
        """The largest eigenvalue of root Q root, from above, by power iteration."""
        v = np.random.default_rng(0).standard_normal(root.size)
        value = 0.0
        for _ in range(30):
            v = v / np.linalg.norm(v)
            v = root * self.apply(root * v)
            previous, value = value, float(np.linalg.norm(v))
            if value == 0 or abs(value - previous) < 1e-2 * value:
                break
        return 1.1 * value


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

    def solve(self, linear: Array, scale: float, start: Array, tolerance: float, bursts: int = 100) -> Array:
        """The minimiser, to a fixed-point residual of `tolerance` relative to the largest entry of `linear`."""
        run = _Run(self, linear, scale)
        here = run.at(self._prox(start, np.zeros_like(self.t), scale))
        goal = tolerance * max(float(np.abs(linear).max(initial=0.0)), 1e-300)
        burst = _FIRST_BURST
        for _ in range(bursts):
            w = here.x - self.t * (here.qx - linear)
            target = self._prox(w, self.t, scale)
            residual = float(np.max(np.abs(here.x - target) / self.t, initial=0.0))
            if residual <= goal:
                break
            better = run.newton(here, w, target, residual) if self.quadratic.dense is not None else None
            if better is None:
                better = run.accelerated(here, burst)
                burst = min(2 * burst, _LONGEST_BURST)
            here = better
        return here.x

    def _prox(self, v: Array, t: Array, scale: float) -> Array:
        """prox of scale * penalty in the metric 1/t; t is one number unless the penalty is separable."""
        return self.penalty.prox(v, scale * (t if self.penalty.separable else float(t[0])))


@dataclass
class _Run:
    problem: CompositeProblem
    linear: Array
    scale: float

    def at(self, x: Array) -> _Point:
        qx = self.problem.quadratic.apply(x)
        return _Point(x, qx, self.scale * self.problem.penalty.value(x) + float(x @ (qx / 2 - self.linear)))

    def proximal_step(self, x: Array, qx: Array) -> Array:
        t = self.problem.t
        return self.problem._prox(x - t * (qx - self.linear), t, self.scale)

    def newton(self, here: _Point, w: Array, target: Array, residual: float) -> _Point | None:
        """A semismooth Newton step followed by a proximal one, if that lowers the objective; else None."""
        move = self._newton_direction(w, target - here.x, residual)
        if not np.isfinite(move).all():
            return None
        for length in (1.0, 0.3):
            x = here.x + length * move
            there = self.at(self.proximal_step(x, self.problem.quadratic.apply(x)))
            if there.value < here.value:
                return there
        return None

    def _newton_direction(self, w: Array, gap: Array, residual: float) -> Array:
        """Solve  (I - J (I - T Q)) s = gap  with J the prox Jacobian at w; slightly damped, as Q may be singular."""
        t, dense = self.problem.t, self.problem.quadratic.dense
        assert dense is not None
        separable = self.problem.penalty.separable
        jacobian = self.problem.penalty.prox_jacobian(w, self.scale * (t if separable else float(t[0])))
        damping = max(1e-13, min(1e-3, 1e-2 * residual / max(float(np.abs(self.linear).max()), 1e-300)))
        move = gap.copy()
        if jacobian.ndim == 1:
            on, off = np.flatnonzero(jacobian > 0), np.flatnonzero(jacobian <= 0)
            inner = -t[on, None] * dense[np.ix_(on, on)]
            inner[np.diag_indices(on.size)] += 1 - damping
            system = -jacobian[on, None] * inner
            rhs = gap[on] - jacobian[on] * t[on] * (dense[np.ix_(on, off)] @ move[off])
        else:
            on = np.arange(w.size)
            inner = -t[:, None] * dense
            inner[np.diag_indices(w.size)] += 1 - damping
            system, rhs = -(jacobian @ inner), gap
        if on.size:
            system[np.diag_indices(on.size)] += 1
            try:
                move[on] = scipy.linalg.solve(system, rhs, check_finite=False)
            except (np.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
                move[on] = np.linalg.lstsq(system, rhs, rcond=1e-12)[0]
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
