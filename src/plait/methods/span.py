"""The coordinator's exact minimisation over a span of received vectors, at no communication.

    c <- argmin over c of   sum_i w_i loss((z + P^T c)_i; y_i) + r^T c + c^T K c / 2

A damped Newton method: the objective never grows, whatever the loss.
"""

from dataclasses import dataclass

import numpy as np

from plait.methods.base import Task
from plait.types import Array

_STEPS, _HALVINGS = 50, 40
_ARMIJO = 1e-4


@dataclass(frozen=True)
class Minimum:
    """Coefficients (K,), the scores there (N,), and how much the objective fell."""

    coefficients: Array
    scores: Array
    decrease: float


def minimise_over_span(task: Task, z: Array, basis: Array, r: Array, k: Array, precision: float = 1e-13) -> Minimum:
    """basis: (K, N), one received vector per row; r (K,) and k (K, K) model the penalty along it."""
    scale = _scales(task, basis, k)
    rows, r, k = basis / scale[:, None], r / scale, k / np.outer(scale, scale)
    c = np.zeros(scale.size)
    first = value = task.mean_loss(z)
    for _ in range(_STEPS):
        gradient = rows @ task.gradient(z) + r + k @ c
        step = _newton_step(task, z, rows, k, gradient)
        slope = float(gradient @ step)
        if -slope <= precision * max(abs(value), 1e-300):
            break
        moved = step @ rows
        length, new = _line_search(task, z, moved, c, step, r, k, value, slope)
        if length == 0:
            break
        c, z = c + length * step, z + length * moved
        value = new
    return Minimum(c / scale, z, first - value)


def _scales(task: Task, basis: Array, k: Array) -> Array:
    """Each vector's size in the problem's own metric, so that the Newton system is well scaled."""
    size = np.sqrt(np.maximum((basis * basis) @ task.weights + np.diag(k), 0.0))
    return np.where(size > 0, size, 1.0)


def _newton_step(task: Task, z: Array, rows: Array, k: Array, gradient: Array) -> Array:
    curvature = task.weights * np.maximum(task.loss.hessian(z, task.labels), 0.0)
    hessian = (rows * curvature) @ rows.T + k
    values, vectors = np.linalg.eigh(hessian)
    # Directions without curvature are left alone rather than followed to infinity.
    keep = values > 1e-13 * max(float(values[-1]), 1e-300)
    v = vectors[:, keep]
    return -v @ ((v.T @ gradient) / values[keep])


def _line_search(
    task: Task, z: Array, moved: Array, c: Array, step: Array, r: Array, k: Array, value: float, slope: float
) -> tuple[float, float]:
    """Halve the step until the objective falls enough; length 0 when it never does."""
    length = 1.0
    for _ in range(_HALVINGS):
        there = c + length * step
        new = task.mean_loss(z + length * moved) + float(r @ there + there @ (k @ there) / 2)
        if new <= value + _ARMIJO * length * slope:
            return length, new
        length /= 2
    return 0.0, value
