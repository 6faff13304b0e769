"""The coordinator's exact minimisations over vectors it has received, at no communication.

    c <- argmin over c of   sum_i w_i loss((z + P^T c)_i; y_i) + r^T c + c^T K c / 2

over all c, or over 0 <= c <= 1.  Damped Newton methods: the objective never grows, whatever the loss.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from plait._types import Array
from plait.methods.base import Task
from plait.problem.penalties import Box
from plait.problem.prox_newton import CompositeProblem, Quadratic

_STEPS, _HALVINGS = 50, 40
_ARMIJO = 1e-4
PRECISE = 1e-13
ROUGH = 1e-9
"""The precision for candidates of which only the best is taken."""
_NEARLY, _ENOUGH = 0.1, 1e-3
"""A Newton step that gains no more than these shares of all that was gained leaves the Hessian as it is, and ends."""
_FLAT = 1e-11
_CLEAR = 6.0
"""How many standard deviations a slope must be from what rounding alone would show, for its direction to be taken."""
_LEAST = 1e-4

NewtonStep = Callable[[Array, Array, Array, Array], Array]
"""Gradient (K,), the covariance of what rounding added to it (K, K), Hessian (K, K) and point (K,) to a step (K,)."""


@dataclass(frozen=True)
class SpanMinimum:
    """Coefficients (K,), the scores there (N,), the objective there, and the loss there where it was computed."""

    coefficients: Array
    scores: Array
    value: float
    known: "Scores | None" = None


@dataclass(frozen=True)
class Scores:
    """Scores z (N,), the mean loss there, its gradient (N,) and its curvature (N,)."""

    z: Array
    value: float
    gradient: Array
    curvature: Array

    @staticmethod
    def at(task: Task, z: Array) -> "Scores":
        value, gradient, h = task.loss.derivatives(z, task.labels)
        if h.min() <= 0:  # where the loss is flat or bends down, a little curvature, so that a slope is followed
            top = float(h.max())
            h = np.maximum(h, _LEAST * top if top > 0 else 1.0)
        return Scores(z, float(task.weights @ value), task.weights * gradient, task.weights * h)


def minimise_over_span(
    task: Task,
    start: Scores,
    basis: Array,
    r: Array,
    k: Array,
    precision: float = PRECISE,
    noise: Array | None = None,
) -> SpanMinimum:
    """Over all c.  basis: (K, N), one received vector per row; r (K,) and k (K, K) model the penalty along it.

    noise (K, K) is the covariance of the vectors' rounding at each sample.  Where vectors nearly cancel, their rounding
    is left, and the loss would fall along it, though no party's scores do.
    """
    return _minimise(_Bounded(task, basis, r, k, noise), start, _free_step, precision)


def minimise_over_box(task: Task, start: Scores, basis: Array, r: Array) -> SpanMinimum:
    """Over 0 <= c <= 1, with a penalty that is linear along the basis."""
    problem = _Bounded(task, basis, r, np.zeros((r.size, r.size)))
    return _minimise(problem, start, _boxed_step, ROUGH, scaled=False)


@dataclass(frozen=True)
class _Place:
    """Coefficients (K,), the scores there, and the objective."""

    coefficients: Array
    scores: Scores
    value: float


@dataclass(frozen=True)
class _Bounded:
    """What is minimised: the mean loss and a parabola above the penalty."""

    task: Task
    basis: Array
    r: Array
    k: Array
    noise: Array | None = None

    def place(self, coefficients: Array, scores: Scores) -> _Place:
        penalty = float(self.r @ coefficients + coefficients @ (self.k @ coefficients) / 2)
        return _Place(coefficients, scores, scores.value + penalty)

    def slopes(self, place: _Place) -> Array:
        """The gradient with respect to the coefficients, (K,)."""
        return self.basis @ place.scores.gradient + self.r + self.k @ place.coefficients

    def blur(self, place: _Place) -> Array:
        """The covariance of what the vectors' rounding adds to those slopes, (K, K)."""
        if self.noise is None or not self.noise.any():
            return np.zeros_like(self.k)
        return self.noise * float(place.scores.gradient @ place.scores.gradient)

    def hessian(self, place: _Place) -> Array:
        """(K, K)."""
        weighted = self.basis * np.sqrt(place.scores.curvature)
        return weighted @ weighted.T + self.k


def _minimise(
    problem: _Bounded, start: Scores, newton: NewtonStep, precision: float, scaled: bool = True
) -> SpanMinimum:
    place = first = problem.place(np.zeros_like(problem.r), start)
    scale, hessian, renew = np.ones_like(problem.r), problem.k, True
    for count in range(_STEPS):
        gradient = problem.slopes(place)
        if renew:
            hessian = problem.hessian(place)
        if count == 0 and scaled:
            scale = _scales(hessian)
        scales, at = np.outer(scale, scale), place.coefficients * scale
        step = newton(gradient / scale, problem.blur(place) / scales, hessian / scales, at) / scale
        slope = float(gradient @ step)
        moved = step @ problem.basis
        if -slope <= precision * max(abs(place.value), 1e-300):
            # Too little to see in the objective, yet the step halves the digits still missing in z.
            return SpanMinimum(place.coefficients + step, place.scores.z + moved, place.value)
        there = _line_search(problem, place, step, moved, slope)
        if there is None:
            break
        gained = first.value - there.value
        renew, place = -slope > _NEARLY * gained, there
        if -slope <= _ENOUGH * gained:
            break
    return SpanMinimum(place.coefficients, place.scores.z, place.value, place.scores)


def _scales(hessian: Array) -> Array:
    """Each vector's size in the problem's own metric, so that the Newton system is well scaled."""
    size = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    return np.where(size > 0, size, 1.0)


def _free_step(gradient: Array, blur: Array, hessian: Array, c: Array) -> Array:
    values, vectors = np.linalg.eigh(hessian)
    slopes = vectors.T @ gradient
    # Directions without curvature are left alone rather than followed to infinity.
    keep = values > _FLAT * max(float(values[-1]), 1e-300)
    if blur.any():
        keep &= slopes**2 > _CLEAR**2 * np.einsum("ik,ij,jk->k", vectors, blur, vectors, optimize=True)
    return -vectors[:, keep] @ (slopes[keep] / values[keep])


def _boxed_step(gradient: Array, blur: Array, hessian: Array, c: Array) -> Array:
    """The minimiser of the quadratic model over the box."""
    if np.trace(hessian) == 0:
        return np.zeros_like(c)
    q = hessian + 1e-12 * max(float(np.trace(hessian)), 1e-300) * np.eye(c.size)
    problem = CompositeProblem(Box(0.0, 1.0), Quadratic.of(q))
    return problem.solve(q @ c - gradient, 1.0, c, 1e-10, bursts=20) - c


def _line_search(problem: _Bounded, place: _Place, step: Array, moved: Array, slope: float) -> _Place | None:
    """Halve the step until the objective falls enough; None when it never does."""
    length = 1.0
    for _ in range(_HALVINGS):
        scores = Scores.at(problem.task, place.scores.z + length * moved)
        there = problem.place(place.coefficients + length * step, scores)
        if there.value <= place.value + _ARMIJO * length * slope:
            return there
        length /= 2
    return None
