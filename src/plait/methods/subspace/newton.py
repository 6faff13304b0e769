"""A damped Newton method on the coefficients of vectors: the objective never grows, whatever the loss.

minimise over c   sum_i w_i loss((z + P^T c)_i; y_i) + r^T c + c^T K c / 2
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.point import Point, moved_scores
from plait.methods.subspace.valley import Valley

_STEPS, _HALVINGS, _DOUBLINGS = 50, 40, 40  # Newton steps, and halvings and doublings of one: more gain nothing
_ARMIJO = 1e-4  # of the fall that the slope promises: a step that reaches it is taken
_SLOW = 0.1  # of the fall that the last step promised: where the next one promises more, the Hessian is made anew
_WELL = 1e-9  # an estimate of the reciprocal condition number from which on a factorisation is trusted
_FLAT = 1e-12  # of the largest eigenvalue, in scaled coordinates: what lies below is rounding, and is left alone
_STILL_FALLING = 0.5  # of the first slope: where so much is left after a whole step, a longer one is tried


@dataclass(frozen=True)
class Minimum:
    """Coefficients (K,), the scores there (N,), the objective there, and the loss there where it was computed."""

    coefficients: Array
    scores: Array
    value: float
    known: Point | None = None


@dataclass(frozen=True)
class SpanObjective:
    """What is minimised: the mean loss, and the penalties with the cost of rounding,  r^T c + c^T K c / 2."""

    task: Task
    basis: Images
    r: Array
    k: Array
    ridge: Array

    @staticmethod
    def of(task: Task, valley: Valley, r: Array, k: Array) -> "SpanObjective":
        """With penalties modelled by r (K,) and k (K, K) along all received vectors."""
        if len(valley.basis) < valley.kept.size:
            r, k = r[valley.kept], k[valley.kept][:, valley.kept]
        return SpanObjective(task, valley.basis, r, k + valley.ridge, valley.ridge)

    def penalty(self, c: Array) -> float:
        return float(c @ (self.r + (self.k @ c) / 2))

    def sloped(self, valley: Valley) -> Valley:
        """With slopes and a Hessian where one is missing."""
        if valley.slopes is None:
            valley = replace(valley, slopes=self.basis.dot(valley.point.gradient))
        if valley.hessian is None:
            valley = replace(valley, hessian=self.basis.gram(valley.point.curvature))
        return valley

    def gradient(self, valley: Valley) -> Array:
        """With respect to the coefficients, (k,)."""
        assert valley.slopes is not None
        return np.asarray(valley.slopes + self.r + self.k @ valley.at)

    def newton_step(self, valley: Valley) -> tuple[Array, Array]:
        """The gradient (k,) and the Newton step (k,)."""
        assert valley.hessian is not None
        gradient = self.gradient(valley)
        return gradient, _free_step(gradient, valley.hessian + self.k)

    def bent(self, valley: Valley) -> tuple[Array, float]:
        """The Newton step (k,), and by how much the loss's parabola bends along it: infinitely where it is unknown."""
        if valley.slopes is None or valley.hessian is None:
            return np.zeros_like(valley.at), np.inf
        _, step = self.newton_step(valley)
        return step, float(step @ (valley.hessian @ step)) / 2


def newton(
    model: SpanObjective, valley: Valley, precision: float, enough: float, small: float = 0.0
) -> tuple[Valley, Minimum]:
    """Minimise the model from where the valley ended: the valley with its new end, and the minimum.

    It ends at a Newton step that promises a fall of at most `precision` of the objective, of `enough` of what was
    gained so far, or of `small`.
    """
    value = first = valley.point.value + model.penalty(valley.at)
    fresh, promised, known = False, np.inf, True
    c, z = valley.at, valley.point.z
    for _ in range(_STEPS if model.r.size else 0):
        fresh |= valley.hessian is None
        valley = model.sloped(valley)
        gradient, step = model.newton_step(valley)
        fall = -float(gradient @ step)
        if not fresh and fall > _SLOW * promised:
            valley, promised = replace(valley, hessian=None), np.inf  # it is that of another place
            continue
        moved = model.basis.combined(step)
        if fall <= precision * max(abs(value), 1e-300):
            # Too little to see in the objective, yet the step halves the digits still missing in z.
            c, z, known = c + step, moved_scores(model.task, z, moved), False
            break
        found = _line_search(model, valley, step, moved, fall, value)
        if found is None:
            if fresh:
                break
            valley, promised = replace(valley, hessian=None), np.inf
            continue
        last, promised = value - found[2], fall
        c, point, value = found
        z = point.z
        valley = replace(valley, at=c, point=point, slopes=None)
        fresh = False
        if fall <= max(enough * (first - value), small):
            break
        if last < fall / 4:
            valley, promised = replace(valley, hessian=None), np.inf
    value -= float(c @ (model.ridge @ c)) / 2
    return valley, Minimum(c, z, value, valley.point if known else None)


def _free_step(gradient: Array, hessian: Array) -> Array:
    """The Newton step, in coordinates in which every vector has the same size."""
    if not gradient.size:  # every vector was rounding
        return gradient
    size = hessian.diagonal()
    scale = np.sqrt(np.where(size > 0, size, 1.0))
    scaled = hessian / (scale[:, None] * scale)
    factor, info = dpotrf(scaled, lower=1, clean=0)
    if info == 0 and dpocon(factor, float(np.add.reduce(np.abs(scaled)).max()), uplo="L")[0] > _WELL:
        return np.asarray(dpotrs(factor, gradient / -scale, lower=1)[0] / scale)
    values, vectors = np.linalg.eigh(scaled)
    slopes = vectors.T @ (gradient / scale)
    # Directions without curvature are left alone rather than followed to infinity.
    keep = values > _FLAT * max(float(values[-1]), 1e-300)
    return np.asarray(-(vectors[:, keep] @ (slopes[keep] / values[keep])) / scale)


def _line_search(
    model: SpanObjective, valley: Valley, step: Array, moved: Array, fall: float, value: float
) -> tuple[Array, Point, float] | None:
    """Halve the step until the objective falls enough, or double it while it keeps falling; None otherwise."""

    def at(length: float) -> tuple[Array, Point, float]:
        c, point = (
            valley.at + length * step,
            Point.at(model.task, moved_scores(model.task, valley.point.z, moved, length)),
        )
        return c, point, point.value + model.penalty(c)

    length = 1.0
    for _ in range(_HALVINGS):
        there = at(length)
        if there[2] <= value - _ARMIJO * length * fall:
            break
        length /= 2
    else:
        return None
    for _ in range(_DOUBLINGS if length == 1 else 0):
        slope = float(moved @ there[1].gradient) + float(step @ (model.r + model.k @ there[0]))
        if slope > -_STILL_FALLING * fall:
            break
        length *= 2
        further = at(length)
        if not further[2] < there[2]:
            break
        there = further
    return there
