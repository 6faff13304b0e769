"""The coordinator's exact minimisation over vectors it has received, at no communication.

    c <- argmin over c of   sum_i w_i loss((z + P^T c)_i; y_i) + r^T c + c^T K c / 2

r and K model the penalties along the vectors.  A damped Newton method: the objective never grows, whatever the loss.
A pass over the rows is dear, and a Hessian is as dear as many.  So a `Valley` keeps where the last minimisation ended
with the loss's slopes and Hessian there: with another model of the penalties the next one starts from it.  Where that
asks for a small step only, the loss's parabola is believed and no row is looked at.  `Products` of one round serve in
the next one, in which a party's vectors are the same but for one.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from plait._replace import replace
from plait._types import Array
from plait.methods.admm.z_update import increasing_root
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.problem.losses.base import weighted_median
from plait.problem.row_blocks import by_parts

_STEPS, _HALVINGS, _DOUBLINGS = 50, 40, 40  # Newton steps, and halvings and doublings of one: more gain nothing
_ARMIJO = 1e-4  # of the fall that the slope promises: a step that reaches it is taken
PRECISE = 1e-13  # of the objective: a promised fall that rounding hides
_SLOW = 0.1  # of the fall that the last step promised: where the next one promises more, the Hessian is made anew
_ENOUGH = 1e-3  # of all that was gained: a Newton step that promises no more is the last one
_WELL = 1e-9  # an estimate of the reciprocal condition number from which on a factorisation is trusted
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
        gradient, curvature = task.workspace.empty(z.size), task.workspace.empty(z.size)

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
class Products:
    """Of vectors V (K, N):  V diag(w) V^T (K, K) with the samples' weights, and the loss's Hessian (K, K) along them.

    The Hessian may be that of an earlier place.  known (K,) says for which vectors there is one.
    """

    gram: Array
    hessian: Array
    known: npt.NDArray[np.bool_]

    @staticmethod
    def of(
        task: Task, start: Point, vectors: Images, before: "Products | None", kept: npt.NDArray[np.intp]
    ) -> "Products":
        """kept (K,): where each vector was in the last round, -1 for a new one."""
        size = len(vectors)
        old = np.flatnonzero(kept >= 0) if before is not None else np.empty(0, dtype=np.intp)
        if before is None or 2 * old.size < size:  # most are new
            gram = vectors.gram(task.weights)
            return Products(gram, np.zeros((size, size)), np.zeros(size, dtype=bool))
        place, new = kept[old], np.flatnonzero(kept < 0)
        gram, hessian = np.empty((size, size)), np.zeros((size, size))
        gram[np.ix_(old, old)] = before.gram[np.ix_(place, place)]
        known = np.zeros(size, dtype=bool)
        known[old] = before.known[place]
        rest = np.flatnonzero(~known) if known.any() else np.empty(0, dtype=np.intp)

        def part(some: Array, rows: slice) -> Array:
            weighted = np.vstack([some[new] * task.weights[rows], some[rest] * start.curvature[rows]])
            return np.asarray(some @ weighted.T)

        cross = vectors.summed(part)
        gram[:, new], gram[new] = cross[:, : new.size], cross[:, : new.size].T
        if rest.size:
            hessian[np.ix_(old, old)] = before.hessian[np.ix_(place, place)]
            hessian[:, rest], hessian[rest] = cross[:, new.size :], cross[:, new.size :].T
            known[:] = True
        return Products(gram, hessian, known)


@dataclass(frozen=True)
class Valley:
    """Independent images (k, N) among those received, and where the last minimisation over them ended.

    kept      (K,): which of the received vectors they are
    at        coefficients (k,) and the loss there
    ridge     (k, k): what the vectors' rounding adds to the loss
    hessian   (k, k) of the loss somewhere near, None before the first minimisation
    slopes    (k,) of the loss at `at`, None where they have not been computed
    """

    basis: Images
    kept: npt.NDArray[np.bool_]
    at: Array
    point: Point
    ridge: Array
    products: Products
    hessian: Array | None = None
    slopes: Array | None = None

    @staticmethod
    def of(
        task: Task,
        start: Point,
        vectors: Images,
        k: Array,
        noise: Array | None = None,
        products: Products | None = None,
    ) -> "Valley":
        """k (K, K): a curvature of the penalties that is sure.

        noise (K, K) is the covariance of the vectors' rounding at each sample.  Where vectors nearly cancel, their
        rounding is left, and the loss would fall along it, though no party's scores do.
        """
        ridge = np.zeros((len(vectors), len(vectors)))
        if noise is not None and noise.any():
            fitted = float(start.gradient @ start.gradient) / (2 * _FITTED * max(abs(start.value), 1e-300))
            ridge = max(_CAUTION * float(start.curvature.sum()), fitted) * noise
        if products is None:
            products = Products.of(task, start, vectors, None, np.empty(0, dtype=np.intp))
        kept = _independent(float(start.curvature.sum()) * products.gram + k + ridge, np.diag(ridge))
        whole = bool(kept.all())
        basis, ridge = (vectors, ridge) if whole else (vectors.picked(kept), ridge[np.ix_(kept, kept)])
        # A Hessian of another place would hide along which steps a loss with flat parts is flat.
        known = task.loss.bends_slowly and bool(products.known[kept].all()) and kept.any()
        hessian = products.hessian[np.ix_(kept, kept)] if known else None
        return Valley(basis, kept, np.zeros(len(basis)), start, ridge, products, hessian)

    def lowest(self, task: Task, r: Array, k: Array, precision: float = PRECISE) -> tuple["Valley", Minimum]:
        """The minimum with penalties modelled by r (K,) and k (K, K), and the valley with its end there."""
        valley, found = _newton(self._model(task, r, k), self, precision, _ENOUGH)
        return valley, replace(found, coefficients=self._spread(found.coefficients))

    def lower(
        self, task: Task, r: Array, k: Array, enough: float, small: float | None
    ) -> tuple["Valley", Array, float]:
        """The same less exactly: the valley, the coefficients (K,) and the objective there, loss by its parabola.

        enough: of all that was gained, what a Newton step must promise so that another follows.  Where the loss bends
        by no more than `small` on the way, its parabola is believed; it never is where that is None, and then the
        minimum is exact.
        """
        model, valley, gained = self._model(task, r, k), self, 0.0
        step, bent = model.bent(valley)
        if small is None or bent > small:
            before = valley.point.value + model.penalty(valley.at)
            precise = (_ENOUGH, 0.0) if small is None else (enough, small)
            valley, _ = _newton(model, valley, PRECISE, *precise)
            gained = before - valley.point.value - model.penalty(valley.at)
            valley = model.sloped(valley)
            step, bent = model.bent(valley)
        believed = small is not None and bent <= max(small, enough * gained)
        c = valley.at + step if believed else valley.at
        value = valley.loss(c) + model.penalty(c) - float(c @ (self.ridge @ c)) / 2
        return valley, self._spread(c), value

    def parabola(self, c: Array) -> float:
        """The loss for coefficients c (K,), by its parabola at `at`."""
        return self.loss(c[self.kept])

    def loss(self, c: Array) -> float:
        """The same for coefficients (k,) of the independent vectors."""
        assert self.slopes is not None
        assert self.hessian is not None
        away = c - self.at
        return self.point.value + float(self.slopes @ away) + float(away @ (self.hessian @ away)) / 2

    def carried(self) -> Products:
        """The products with the Hessian as it is now, for the next round."""
        known = np.zeros(self.kept.size, dtype=bool)
        hessian = np.zeros((self.kept.size,) * 2)
        if self.hessian is not None:
            known |= self.kept
            hessian[np.ix_(self.kept, self.kept)] = self.hessian
        return replace(self.products, hessian=hessian, known=known)

    def _model(self, task: Task, r: Array, k: Array) -> "_Model":
        if len(self.basis) < self.kept.size:
            r, k = r[self.kept], k[self.kept][:, self.kept]
        return _Model(task, self.basis, r, k + self.ridge, self.ridge)

    def _spread(self, c: Array) -> Array:
        """Coefficients (K,) of all received vectors."""
        whole = np.zeros(self.kept.size)
        whole[self.kept] = c
        return whole


def minimise_over_span(
    task: Task, start: Point, vectors: Images, r: Array, k: Array, noise: Array | None = None
) -> Minimum:
    """Over all c.  vectors: (K, N), those received; r (K,) and k (K, K) model the penalty along them."""
    return Valley.of(task, start, vectors, k, noise).lowest(task, r, k)[1]


def best_shift(task: Task, z: Array) -> float:
    """The number b that minimises the mean loss at z + b, found between two ends where its slope changes sign."""
    if not task.loss.convex:
        starts = [0.0, weighted_median(task.labels - z, task.weights)]
        ones, none = Images((equal_ones(z.size),), z.size, task.workspace), np.zeros(1)
        ends = [
            (start, minimise_over_span(task, Point.at(task, z + start), ones, none, np.zeros((1, 1))))
            for start in starts
        ]
        start, best = min(ends, key=lambda end: end[1].value)
        return start + float(best.coefficients[0])

    def slope(b: float) -> float:
        return float(np.sum(task.gradient(task.vector(lambda rows: z[rows] + b))))

    return increasing_root(slope, 0.0, width=1.0)


def _independent(gram: Array, rounding: Array) -> npt.NDArray[np.bool_]:
    """Which vectors (K,) add to those after them more than rounding; all samples count, curved or not."""
    size = np.diag(gram).copy()
    root = np.sqrt(np.maximum(size, 1e-300))
    least = 2 * np.maximum(_DEPENDENT, rounding / np.maximum(size, 1e-300))
    left = gram / (root[:, None] * root)
    # Vectors are eliminated from the newest to the oldest: what is left of each is the diagonal of a factorisation.
    if size.size and bool((size > 0).all()):
        factor, info = scipy.linalg.lapack.dpotrf(left[::-1, ::-1], lower=1)
        if info == 0 and bool((np.diag(factor)[::-1] ** 2 > least).all()):
            return np.ones(size.size, dtype=bool)
    keep = np.zeros(len(size), dtype=bool)
    for j in range(len(size) - 1, -1, -1):
        keep[j] = size[j] > 0 and left[j, j] > least[j]
        if keep[j]:
            row = left[j] / np.sqrt(left[j, j])
            left -= row[:, None] * row
    return keep


def equal_ones(rows: int) -> Array:
    """A vector (N,) of ones that takes no memory."""
    return np.broadcast_to(np.float64(1.0), (rows,))


@dataclass(frozen=True)
class _Model:
    """What is minimised: the mean loss, and the penalties with the cost of rounding,  r^T c + c^T K c / 2."""

    task: Task
    basis: Images
    r: Array
    k: Array
    ridge: Array

    def penalty(self, c: Array) -> float:
        return float(self.r @ c) + float(c @ (self.k @ c)) / 2

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

    def step(self, valley: Valley) -> Array:
        """The Newton step (k,)."""
        assert valley.hessian is not None
        return _free_step(self.gradient(valley), valley.hessian + self.k)

    def bent(self, valley: Valley) -> tuple[Array, float]:
        """The Newton step (k,), and by how much the loss's parabola bends along it: infinitely where it is unknown."""
        if valley.slopes is None or valley.hessian is None:
            return np.zeros_like(valley.at), np.inf
        step = self.step(valley)
        return step, float(step @ (valley.hessian @ step)) / 2


def _newton(
    model: _Model, valley: Valley, precision: float, enough: float, small: float = 0.0
) -> tuple[Valley, Minimum]:
    value = first = valley.point.value + model.penalty(valley.at)
    fresh, promised, known = False, np.inf, True
    c, z = valley.at, valley.point.z
    for _ in range(_STEPS if model.r.size else 0):
        fresh |= valley.hessian is None
        valley = model.sloped(valley)
        gradient, step = model.gradient(valley), model.step(valley)
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


def moved_scores(task: Task, z: Array, moved: Array, length: float = 1.0) -> Array:
    """z + length * moved, (N,)."""
    return task.vector(lambda rows: z[rows] + length * moved[rows])


def _free_step(gradient: Array, hessian: Array) -> Array:
    """The Newton step, in coordinates in which every vector has the same size."""
    if not gradient.size:  # every vector was rounding
        return gradient
    size = np.sqrt(np.maximum(np.diag(hessian), 0.0))
    scale = np.where(size > 0, size, 1.0)
    scaled = hessian / (scale[:, None] * scale)
    factor, info = scipy.linalg.lapack.dpotrf(scaled, lower=1)
    if info == 0 and scipy.linalg.lapack.dpocon(factor, float(np.abs(scaled).sum(axis=0).max()), uplo="L")[0] > _WELL:
        return np.asarray(-scipy.linalg.lapack.dpotrs(factor, gradient / scale, lower=1)[0] / scale)
    values, vectors = np.linalg.eigh(scaled)
    slopes = vectors.T @ (gradient / scale)
    # Directions without curvature are left alone rather than followed to infinity.
    keep = values > _FLAT * max(float(values[-1]), 1e-300)
    return np.asarray(-(vectors[:, keep] @ (slopes[keep] / values[keep])) / scale)


def _line_search(
    model: _Model, valley: Valley, step: Array, moved: Array, fall: float, value: float
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
