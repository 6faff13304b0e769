"""The coordinator's exact minimisation over vectors it has received, at no communication.

    c <- argmin over c of   sum_i w_i loss((z + P^T c)_i; y_i) + r^T c + c^T K c / 2

r and K model the penalties along the vectors.  A damped Newton method: the objective never grows, whatever the loss.
A `Valley` keeps where the last minimisation ended, and the loss's Hessian there: with another model of the penalties
the next one starts from it, and takes a pass or two over the rows.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.methods.admm.z_update import increasing_root
from plait.methods.base import Task
from plait.problem.row_blocks import by_parts

_STEPS, _HALVINGS, _DOUBLINGS = 50, 40, 40  # Newton steps, and halvings and doublings of one: more gain nothing
_ARMIJO = 1e-4  # of the fall that the slope promises: a step that reaches it is taken
PRECISE = 1e-13  # of the objective: a promised fall that rounding hides
_NEARLY, _ENOUGH = 0.1, 1e-3
"""A Newton step that gains no more than these shares of all that was gained leaves the Hessian as it is, and ends."""
_FLAT = 1e-12  # of the largest eigenvalue, in scaled coordinates: what lies below is rounding, and is left alone
_DEPENDENT = 1e-12  # of a vector's square: what newer vectors leave of it; less is rounding
_STILL_FALLING = 0.5  # of the first slope: where so much is left after a whole step, a longer one is tried
_CAUTION = 100.0  # times what rounding is expected to add to the loss: it stays, and what is gained here is little
_FITTED = 1e-7  # of the loss: what a vector that is all rounding may seem to gain in a round
_LEAST = 1e-4  # of the largest curvature: what a sample on which the loss is flat counts at least


@dataclass(frozen=True)
class Point:
    """Scores z (N,), the mean loss there, its gradient (N,) and its curvature (N,)."""

    z: Array
    value: float
    gradient: Array
    curvature: Array

    @staticmethod
    def at(task: Task, z: Array) -> "Point":
        gradient, curvature = np.empty(z.size), np.empty(z.size)

        def look(rows: slice) -> tuple[float, float, float]:
            w = task.weights[rows]
            value, slope, h = task.loss.of_rows(rows).derivatives(z[rows], task.labels[rows])
            np.multiply(w, slope, out=gradient[rows])
            curvature[rows] = h
            return float(w @ value), float(h.min()), float(h.max())

        values, lows, tops = zip(*by_parts(look, z.size), strict=True)
        # Where the loss is flat or bends down, a little curvature, so that a slope is followed.
        least = -np.inf if min(lows) > 0 else (_LEAST * max(tops) if max(tops) > 0 else 1.0)

        def weigh(rows: slice) -> None:
            np.multiply(task.weights[rows], np.maximum(curvature[rows], least), out=curvature[rows])

        by_parts(weigh, z.size)
        return Point(z, sum(values), gradient, curvature)


@dataclass(frozen=True)
class Minimum:
    """Coefficients (K,), the scores there (N,), the objective there, and the loss there where it was computed."""

    coefficients: Array
    scores: Array
    value: float
    known: Point | None = None


@dataclass(frozen=True)
class Valley:
    """Independent vectors (k, N) among those received, and where the last minimisation over them ended.

    kept      (K,): which of the received vectors they are
    at        coefficients (k,) and the loss there
    hessian   (k, k) of the loss somewhere near, None before the first minimisation
    ridge     (k, k): what the vectors' rounding adds to the loss
    """

    basis: Array
    kept: npt.NDArray[np.bool_]
    at: Array
    point: Point
    ridge: Array
    hessian: Array | None = None

    @staticmethod
    def of(task: Task, start: Point, vectors: Array, k: Array, noise: Array | None = None) -> "Valley":
        """k (K, K): a curvature of the penalties that is sure.

        noise (K, K) is the covariance of the vectors' rounding at each sample.  Where vectors nearly cancel, their
        rounding is left, and the loss would fall along it, though no party's scores do.
        """
        ridge = np.zeros((len(vectors), len(vectors)))
        if noise is not None and noise.any():
            fitted = float(start.gradient @ start.gradient) / (2 * _FITTED * max(abs(start.value), 1e-300))
            ridge = max(_CAUTION * float(start.curvature.sum()), fitted) * noise
        kept = _independent(task, start, vectors, k + ridge, np.diag(ridge))
        basis = vectors if kept.all() else vectors[kept]
        return Valley(basis, kept, np.zeros(len(basis)), start, ridge[np.ix_(kept, kept)])

    def lowest(self, task: Task, r: Array, k: Array, precision: float = PRECISE) -> tuple["Valley", Minimum]:
        """The minimum with penalties modelled by r (K,) and k (K, K), and the valley with its end there."""
        model = _Model(task, self.basis, r[self.kept], k[np.ix_(self.kept, self.kept)], self.ridge)
        valley, found = _newton(model, self, precision)
        c = np.zeros(self.kept.size)
        c[self.kept] = found.coefficients
        return valley, replace(found, coefficients=c)


def minimise_over_span(
    task: Task, start: Point, vectors: Array, r: Array, k: Array, noise: Array | None = None
) -> Minimum:
    """Over all c.  vectors: (K, N), one received vector per row; r (K,) and k (K, K) model the penalty along them."""
    return Valley.of(task, start, vectors, k, noise).lowest(task, r, k)[1]


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


def _independent(task: Task, start: Point, vectors: Array, k: Array, rounding: Array) -> npt.NDArray[np.bool_]:
    """Which vectors (K,) add to those after them more than rounding; all samples count, curved or not."""
    gram = weighted_gram(vectors, float(start.curvature.sum()), task.weights) + k
    size = np.diag(gram).copy()
    least = np.maximum(_DEPENDENT, rounding / np.maximum(size, 1e-300))
    root = np.sqrt(np.maximum(size, 1e-300))
    left = gram / np.outer(root, root)
    keep = np.zeros(len(size), dtype=bool)
    for j in range(len(size) - 1, -1, -1):
        keep[j] = size[j] > 0 and left[j, j] > 2 * least[j]
        if keep[j]:
            row = left[j] / np.sqrt(left[j, j])
            left -= np.outer(row, row)
    return keep


def weighted_gram(vectors: Array, scale: float, weights: Array) -> Array:
    """V diag(scale * weights) V^T (k, k) for vectors V (k, N), part by part: no copy of them all is made."""

    def part(rows: slice) -> Array:
        weighted = vectors[:, rows] * np.sqrt(scale * weights[rows])
        return np.asarray(weighted @ weighted.T)

    return reduce(np.add, by_parts(part, weights.size))


@dataclass(frozen=True)
class _Place:
    """Coefficients (k,), the loss there, and the objective."""

    coefficients: Array
    point: Point
    value: float


@dataclass(frozen=True)
class _Model:
    """What is minimised: the mean loss, a model of the penalty, and the cost of rounding."""

    task: Task
    basis: Array
    r: Array
    k: Array
    ridge: Array

    def place(self, c: Array, point: Point) -> _Place:
        return _Place(c, point, point.value + float(self.r @ c) + float(c @ ((self.k + self.ridge) @ c)) / 2)

    def slopes(self, place: _Place) -> Array:
        """The gradient with respect to the coefficients, (k,)."""
        return self.basis @ place.point.gradient + self.r + (self.k + self.ridge) @ place.coefficients

    def bend(self, place: _Place) -> Array:
        """The loss's Hessian (k, k)."""
        return weighted_gram(self.basis, 1.0, place.point.curvature)

    def value(self, place: _Place) -> float:
        """The objective, without the cost of rounding."""
        return place.value - float(place.coefficients @ (self.ridge @ place.coefficients)) / 2


def _newton(model: _Model, valley: Valley, precision: float) -> tuple[Valley, Minimum]:
    place = first = model.place(valley.at, valley.point)
    hessian, known = valley.hessian, True
    extra = model.k + model.ridge
    for _ in range(_STEPS if model.r.size else 0):
        fresh = hessian is None
        if hessian is None:
            hessian = model.bend(place)
        gradient = model.slopes(place)
        step = _free_step(gradient, hessian + extra)
        fall = -float(gradient @ step)
        moved = step @ model.basis
        if fall <= precision * max(abs(place.value), 1e-300):
            # Too little to see in the objective, yet the step halves the digits still missing in z.
            place = replace(
                place, coefficients=place.coefficients + step, point=replace(place.point, z=place.point.z + moved)
            )
            known = False
            break
        there = _line_search(model, place, step, moved, fall)
        if there is None:
            if fresh:
                break
            hessian = None  # it was that of another place
            continue
        gained, last = first.value - there.value, place.value - there.value
        place = there
        if fall <= _ENOUGH * gained:
            break
        if fall > _NEARLY * gained or last < fall / 4:
            hessian = None
    end = (
        replace(valley, at=place.coefficients, point=place.point, hessian=hessian)
        if known
        else replace(valley, hessian=hessian)
    )
    return end, Minimum(place.coefficients, place.point.z, model.value(place), place.point if known else None)


def _free_step(gradient: Array, hessian: Array) -> Array:
    """The Newton step, in coordinates in which every vector has the same size."""
    size = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    scale = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(hessian / np.outer(scale, scale))
    slopes = vectors.T @ (gradient / scale)
    # Directions without curvature are left alone rather than followed to infinity.
    keep = values > _FLAT * max(float(values[-1]), 1e-300)
    return -(vectors[:, keep] @ (slopes[keep] / values[keep])) / scale


def _line_search(model: _Model, place: _Place, step: Array, moved: Array, fall: float) -> _Place | None:
    """Halve the step until the objective falls enough, or double it while it keeps falling; None otherwise."""

    def at(length: float) -> _Place:
        return model.place(place.coefficients + length * step, Point.at(model.task, place.point.z + length * moved))

    length = 1.0
    for _ in range(_HALVINGS):
        there = at(length)
        if there.value <= place.value - _ARMIJO * length * fall:
            break
        length /= 2
    else:
        return None
    for _ in range(_DOUBLINGS if length == 1 else 0):
        if float(model.slopes(there) @ step) > -_STILL_FALLING * fall:
            break
        length *= 2
        further = at(length)
        if not further.value < there.value:
            break
        there = further
    return there
