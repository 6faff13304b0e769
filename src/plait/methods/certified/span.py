"""The coordinator's exact minimisations over vectors it has received, at no communication.

    c <- argmin over c of   sum_i w_i loss((z + P^T c)_i; y_i) + c^T K c / 2 + sum_g max_j (a_gj + s_gj^T c)

The pieces of group g model its penalty: one for a smooth penalty, several where kinks are known; steps out of bounds
are cut off by walls.  Damped Newton methods: the objective never grows, whatever the loss.
"""

from dataclasses import dataclass, replace

import numpy as np

from plait._types import Array
from plait.methods.admm.z_update import increasing_root
from plait.methods.base import Task
from plait.methods.certified.pieces import Pieces, cut_step

_STEPS, _HALVINGS, _DOUBLINGS = 50, 40, 40
_ARMIJO = 1e-4
PRECISE = 1e-13
_NEARLY, _ENOUGH = 0.1, 1e-3
"""A Newton step that gains no more than these shares of all that was gained leaves the Hessian as it is, and ends."""
_FLAT = 1e-9  # of the largest eigenvalue, in scaled coordinates: what lies below is rounding, and is left alone
_DEPENDENT = 1e-9  # of a vector's square: what newer vectors leave of it; less would be taken a thousand times and more
_STILL_FALLING = 0.5  # of the first slope: where so much is left after a whole step, a longer one is tried
_CAUTION = 100.0  # times what rounding is expected to add to the loss: it stays, and what is gained here is little
_LEAST = 1e-4  # of the largest curvature: what a sample on which the loss is flat counts at least


@dataclass(frozen=True)
class PieceMinimum:
    """Coefficients (K,), the scores there (N,), the objective there, and the loss there where it was computed."""

    coefficients: Array
    scores: Array
    value: float
    known: "Point | None" = None


@dataclass(frozen=True)
class Point:
    """Point z (N,), the mean loss there, its gradient (N,) and its curvature (N,)."""

    z: Array
    value: float
    gradient: Array
    curvature: Array

    @staticmethod
    def at(task: Task, z: Array) -> "Point":
        value, gradient, h = task.loss.derivatives(z, task.labels)
        if h.min() <= 0:  # where the loss is flat or bends down, a little curvature, so that a slope is followed
            top = float(h.max())
            h = np.maximum(h, _LEAST * top if top > 0 else 1.0)
        return Point(z, float(task.weights @ value), task.weights * gradient, task.weights * h)


def best_shift(task: Task, z: Array) -> float:
    """The number b that minimises the mean loss at z + b, found between two ends where its slope changes sign."""
    if not task.loss.convex:
        starts = [0.0, float(np.median(task.labels - z))]
        ones, none = np.ones((1, z.size)), np.zeros(1)
        ends = [
            (start, minimise_over_span(task, Point.at(task, z + start), ones, none, np.zeros((1, 1))))
            for start in starts
        ]
        start, best = min(ends, key=lambda end: end[1].value)
        return start + float(best.coefficients[0])

    def slope(b: float) -> float:
        return float(np.sum(task.gradient(z + b)))

    return increasing_root(slope, 0.0, width=1.0)


def minimise_over_span(
    task: Task,
    start: Point,
    basis: Array,
    r: Array,
    k: Array,
    precision: float = PRECISE,
    noise: Array | None = None,
) -> PieceMinimum:
    """Over all c.  basis: (K, N), one received vector per row; r (K,) and k (K, K) model the penalty along it.

    noise (K, K) is the covariance of the vectors' rounding at each sample.  Where vectors nearly cancel, their rounding
    is left, and the loss would fall along it, though no party's scores do.
    """
    return minimise_pieces(task, start, basis, Pieces.single(r, k), precision, noise)


def minimise_pieces(
    task: Task, start: Point, basis: Array, pieces: Pieces, precision: float = PRECISE, noise: Array | None = None
) -> PieceMinimum:
    """The same, over c within the walls, with penalties that are modelled by several pieces."""
    if noise is None or not noise.any():
        return _minimise(_Bounded(task, basis, pieces), start, precision)
    # What the vectors' rounding adds to the loss is a ridge: vectors that cancel would leave their rounding alone.
    ridge = _CAUTION * float(start.curvature.sum()) * noise
    careful = replace(pieces, curvature=pieces.curvature + ridge)
    best = _minimise(_Bounded(task, basis, careful, np.diag(ridge)), start, precision)
    c = best.coefficients
    return replace(best, value=best.value - float(c @ (ridge @ c)) / 2)


@dataclass(frozen=True)
class _Place:
    """Coefficients (K,), the scores there, and the objective."""

    coefficients: Array
    scores: Point
    value: float


@dataclass(frozen=True)
class _Bounded:
    """What is minimised: the mean loss and a model of the penalty."""

    task: Task
    basis: Array
    pieces: Pieces
    least: Array | float = 0.0
    """What is left of a vector's square (K,) must be more than this."""

    def independent(self, start: Point) -> Array:
        """Which vectors (K,) add to those after them more than rounding; all samples count, curved or not."""
        bend = float(start.curvature.sum())
        weighted = self.basis * np.sqrt(bend * self.task.weights)
        gram = weighted @ weighted.T + self.pieces.curvature
        size = np.diag(gram).copy()
        least = np.maximum(_DEPENDENT, self.least / np.maximum(size, 1e-300))
        root = np.sqrt(np.maximum(size, 1e-300))
        left = gram / np.outer(root, root)
        keep = np.zeros(len(size), dtype=bool)
        for j in range(len(size) - 1, -1, -1):
            keep[j] = size[j] > 0 and left[j, j] > 2 * least[j]
            if keep[j]:
                row = left[j] / np.sqrt(left[j, j])
                left -= np.outer(row, row)
        return keep

    def only(self, kept: Array) -> "_Bounded":
        """The same over some of the vectors."""
        return _Bounded(self.task, self.basis[kept], self.pieces.only(kept))

    def place(self, coefficients: Array, scores: Point) -> _Place:
        return _Place(coefficients, scores, scores.value + self.pieces.value(coefficients))

    def slopes(self, place: _Place) -> Array:
        """The gradient with respect to the coefficients, (K,), of all but the pieces."""
        return self.basis @ place.scores.gradient + self.pieces.curvature @ place.coefficients

    def hessian(self, place: _Place) -> Array:
        """(K, K)."""
        weighted = self.basis * np.sqrt(place.scores.curvature)
        return weighted @ weighted.T + self.pieces.curvature


def _minimise(problem: _Bounded, start: Point, precision: float) -> PieceMinimum:
    """Over the vectors that are not, up to rounding, combinations of newer ones."""
    kept = problem.independent(start)
    if kept.all() and kept.size:
        return _newton(problem, start, precision)
    if not kept.any():
        return PieceMinimum(np.zeros(kept.size), start.z, problem.place(np.zeros(kept.size), start).value, start)
    best = _newton(problem.only(kept), start, precision)
    c = np.zeros(kept.size)
    c[kept] = best.coefficients
    return replace(best, coefficients=c)


def _newton(problem: _Bounded, start: Point, precision: float) -> PieceMinimum:
    size = problem.basis.shape[0]
    place = first = problem.place(np.zeros(size), start)
    scale, hessian, renew = np.ones(size), problem.pieces.curvature, True
    linear = problem.pieces.linear
    for count in range(_STEPS):
        if renew:
            hessian = problem.hessian(place)
        if count == 0:
            scale = _scales(hessian)
        gradient = problem.slopes(place)
        scaled = hessian / np.outer(scale, scale)
        if linear is None:
            step, fall = cut_step(problem.pieces, place.coefficients, gradient, scaled, scale, _FLAT)
        else:
            gradient = gradient + linear
            step = _free_step(gradient / scale, scaled) / scale
            fall = -float(gradient @ step)
        moved = step @ problem.basis
        if fall <= precision * max(abs(place.value), 1e-300):
            # Too little to see in the objective, yet the step halves the digits still missing in z.
            return PieceMinimum(place.coefficients + step, place.scores.z + moved, place.value)
        there = _line_search(problem, place, step, moved, fall, gradient if linear is not None else None)
        if there is None:
            break
        gained = first.value - there.value
        renew, place = fall > _NEARLY * gained, there
        if fall <= _ENOUGH * gained:
            break
    return PieceMinimum(place.coefficients, place.scores.z, place.value, place.scores)


def _scales(hessian: Array) -> Array:
    """Each vector's size in the problem's own metric, so that the Newton system is well scaled."""
    size = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    return np.where(size > 0, size, 1.0)


def _free_step(gradient: Array, hessian: Array) -> Array:
    values, vectors = np.linalg.eigh(hessian)
    slopes = vectors.T @ gradient
    # Directions without curvature are left alone rather than followed to infinity.
    keep = values > _FLAT * max(float(values[-1]), 1e-300)
    return -vectors[:, keep] @ (slopes[keep] / values[keep])


def _line_search(
    problem: _Bounded, place: _Place, step: Array, moved: Array, fall: float, gradient: Array | None
) -> _Place | None:
    """Halve the step until the objective falls enough, or double it while it keeps falling; None where neither works.

    gradient (K,): that of the whole objective where it is smooth.
    """

    def at(length: float) -> _Place:
        scores = Point.at(problem.task, place.scores.z + length * moved)
        return problem.place(place.coefficients + length * step, scores)

    length = 1.0
    for _ in range(_HALVINGS):
        there = at(length)
        if there.value <= place.value - _ARMIJO * length * fall:
            break
        length /= 2
    else:
        return None
    linear = problem.pieces.linear
    if gradient is None or linear is None or length < 1:
        return there
    for _ in range(_DOUBLINGS):
        slope = float((problem.slopes(there) + linear) @ step)
        if slope > -_STILL_FALLING * fall:
            break
        length *= 2
        further = at(length)
        if not further.value < there.value:
            break
        there = further
    return there


def within_walls(pieces: Pieces, walls: Array, bounds: Array) -> Pieces:
    """The same pieces with more walls."""
    return replace(pieces, walls=np.vstack([pieces.walls, walls]), bounds=np.concatenate([pieces.bounds, bounds]))
