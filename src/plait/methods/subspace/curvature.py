"""A party's curvature H = D^T diag(w) D + diag(h), and how systems with it are solved.

Which way is chosen by what a pass over the data costs.  A factorisation may cost as much as a few passes: it takes all
rows if they are that cheap, else a sample of them, and where even a useful sample is too dear, conjugate gradients
iterate on products.  The choice depends only on the table and on what a party stores, so one that starts again chooses
the same.
"""

from functools import partial, reduce
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.linalg

from plait._types import Array
from plait.problem.features import GRAM_LIMIT, Features
from plait.problem.row_blocks import by_parts, vector_slices

_PASSES, _PASSES_FOR_ALL = 8.0, 20.0
"""How many passes over the data a factorisation may cost from a sample of the rows, and from all of them."""
_DENSE_NUMBER, _SPARSE_NUMBER, _MADE_DENSE, _PRODUCT, _ELIMINATION = 0.3, 0.7, 0.5, 0.01, 0.007
"""Nanoseconds: to pass over a dense number, over a stored sparse one; to unpack a sparse one; for a term of a Gram
matrix; for a term of its factorisation."""
_FEWEST_ROWS = 400  # of a sample: fewer leave directions without curvature
SMALL = 2e7
"""Terms of a Gram matrix up to which its cost does not matter."""
_THINNEST, _THIN, _ENOUGH = 0.25, 4, 300
"""Rows of a sample per column.  Below the first a sample is of no use.  Below the second its Gram matrix lacks
curvature in some directions, and is shrunk.  Above the third more rows change little."""
_SHRINKAGE = 0.1
"""How much of a thin sample's Gram matrix is taken from its diagonal alone."""
LIFT = 1e-10
"""How much of each column's own curvature is added to the diagonal, which may be singular."""
_LARGE, _SINGLE = 1e8, 1e-5
"""Terms of a Gram matrix from which on single precision pays; of the curvature: a ridge beside which it is safe."""
_REFINED, _ITERATED = 3, 60  # conjugate gradients: with a sample's factor beside them, and without any
_SINGULAR = 1e-12  # of the largest eigenvalue, in scaled columns: below it a column is a combination of others
_TOGETHER = 3  # vectors from which on a sparse table's product with all of them takes less than one by one; same bits
_MOST_SPECTRAL = 500  # columns: the eigenvalues of more take longer than a round


class _Factor(Protocol):
    def solve(self, rhs: Array) -> Array: ...


class _Diagonal:
    def __init__(self, diagonal: Array) -> None:
        self._diagonal = np.maximum(diagonal, 1e-300)

    def solve(self, rhs: Array) -> Array:
        return (rhs.T / self._diagonal).T


class _Cholesky:
    def __init__(self, gram: Array, h: Array, shrinkage: float = 0.0) -> None:
        own = gram.diagonal()
        lifted = np.maximum(h, LIFT * np.where(own > 0, own, 1.0))
        if shrinkage:
            matrix = (1 - gram.dtype.type(shrinkage)) * gram
            lifted = shrinkage * own + lifted
        else:
            matrix = gram.copy()
        matrix.flat[:: len(matrix) + 1] += lifted.astype(gram.dtype, copy=False)
        # LAPACK itself: for a dozen columns SciPy's own functions take longer than it does.
        single = gram.dtype == np.float32
        self._dtype, factorise = gram.dtype, scipy.linalg.lapack.spotrf if single else scipy.linalg.lapack.dpotrf
        self._substitute = scipy.linalg.lapack.spotrs if single else scipy.linalg.lapack.dpotrs
        self._factor, info = factorise(matrix, overwrite_a=1, clean=0)
        if info > 0:
            raise np.linalg.LinAlgError(f"a curvature is not positive definite from column {info} on.")

    def solve(self, rhs: Array) -> Array:
        return np.asarray(self._substitute(self._factor, rhs.astype(self._dtype, copy=False))[0])


class _Spectral:
    """The least solution of a singular system; what is singular is judged with columns in units of their own."""

    def __init__(self, gram: Array) -> None:
        own = np.diag(gram)
        self._unit = np.sqrt(np.where(own > 0, own, 1.0))
        values, vectors = np.linalg.eigh(gram / np.outer(self._unit, self._unit))
        kept = values > _SINGULAR * max(float(values[-1]), 1e-300)
        self._root = vectors[:, kept] / np.sqrt(values[kept])
        self._idle, _ = np.linalg.qr((vectors[:, ~kept].T / self._unit).T)

    def solve(self, rhs: Array) -> Array:
        found = np.asarray(((self._root @ (self._root.T @ (rhs.T / self._unit).T)).T / self._unit).T)
        return found - self._idle @ (self._idle.T @ found)


class _Woodbury:
    """The inverse of  (1 - s) S^T S + s diag(S^T S) + diag(h)  for S (n, d) with fewer rows than columns."""

    def __init__(self, part: Array, h: Array, shrinkage: float) -> None:
        diagonal = h + shrinkage * np.einsum("ij,ij->j", part, part)
        self._root = np.sqrt(diagonal).astype(part.dtype)
        self._scaled = part / (self._root / part.dtype.type(np.sqrt(1 - shrinkage)))
        inner = self._scaled @ self._scaled.T  # of one array with itself: half the work
        inner[np.diag_indices_from(inner)] += 1
        self._factor = scipy.linalg.cho_factor(inner, overwrite_a=True, check_finite=False)

    def solve(self, rhs: Array) -> Array:
        v = (rhs.T / self._root).T.astype(self._scaled.dtype, copy=False)
        v -= self._scaled.T @ scipy.linalg.cho_solve(self._factor, self._scaled @ v, check_finite=False)
        return (v.T / self._root).T


class Curvature:
    """H at some weights w (N,) and ridge h (d,), or an approximation of it that a few iterations make up for.

    early, late   how many conjugate gradient steps on H itself improve on `solve`, in a run's first rounds and later
    shown         whether `cross` and `square` say how the columns overlap with a vector of scores
    """

    def __init__(self, features: Features, w: Array, h: Array, ridge: float, last: "Curvature | None" = None) -> None:
        self.features, self.w, self.h = features, w, h
        # Single precision is enough where the ridge, which h never falls below, is far above rounding.
        self._small = features.rows * features.columns**2 <= SMALL
        if self._small:  # it is cheap in double precision, too
            single, count = False, features.rows
        else:
            single = bool((ridge >= _SINGLE * float(w.max()) * features.column_squares).all())
            count = rows_taken(features, single)
        self.shown = count > 0
        self.early, self.late = (0, 0) if self.shown else (_ITERATED, _ITERATED)
        self._gram: Array = np.empty((0, 0))
        self._rows: npt.NDArray[np.intp] | slice = slice(None)
        self._roots: Array | None = None
        kept = last if last is not None and last.w is w else None
        self._crossed: dict[int, Array] = {} if kept is None else kept._crossed
        if not self.shown:
            self._factor: _Factor = _Diagonal(features.weighted_column_squares(w) + h)
        elif count == features.rows:
            dtype: Any = np.float32 if single and features.rows * features.columns**2 > _LARGE else np.float64
            self._gram = features.weighted_gram(w, dtype) if kept is None else kept._gram
            spectral = h.size <= _MOST_SPECTRAL and not h.any()
            self._factor = _Spectral(self._gram) if spectral else _Cholesky(self._gram, h)
        else:
            self._take(count, np.float32 if single else np.float64, kept)

    def _take(self, count: int, dtype: npt.DTypeLike, kept: "Curvature | None") -> None:
        """Factorise from a sample of the rows."""
        thin = count < _THIN * self.features.columns
        self.early = _REFINED if thin else 0
        if kept is None:
            self._rows, weights = sample(self.w, count)
            self._roots = np.sqrt(weights)
            self._part = self.features.scaled_rows(self._rows, self._roots, dtype)
            self._gram = self._part.T @ self._part if count >= self.features.columns else self._gram
        else:
            self._rows, self._roots, self._part, self._gram = kept._rows, kept._roots, kept._part, kept._gram
        shrinkage = _SHRINKAGE if thin else 0.0
        of_gram = partial(_Cholesky, self._gram) if self._gram.size else partial(_Woodbury, self._part)
        self._factor = of_gram(self.h, shrinkage)

    def solve(self, rhs: Array) -> Array:
        """H^{-1} rhs, roughly; rhs (d,) or (d, k)."""
        return self._factor.solve(rhs).astype(np.float64, copy=False)

    def cross(self, moves: Array, names: tuple[int, ...]) -> Array:
        """D^T W O^T (d, k) for vectors of scores O (k, N), over the same rows as H.

        A vector is known by its name: what it gave is kept as long as the weights stay.  One name more than there are
        vectors stands for ones, behind them.
        """
        shift = len(names) > len(moves)
        if self._roots is not None:
            scaled = weighted(moves[:, self._rows], self._roots, shift)
            return (self._part.T @ scaled.T.astype(self._part.dtype, copy=False)).astype(np.float64, copy=False)
        if shift and names[-1] not in self._crossed:
            self._crossed[names[-1]] = self.features.adjoint(self.w)
        if self._small and not self.features.sparse and len(moves):
            # A product with all vectors is fast, but its bits depend on how many they are: it is not kept.
            found = self.features.adjoint((moves * self.w).T)
            return np.column_stack([found, self._crossed[names[-1]]]) if shift else found
        new = [i for i, name in enumerate(names[: len(moves)]) if name not in self._crossed]
        if self._small and len(new) >= _TOGETHER:
            found = self.features.adjoint((moves[new] * self.w).T)
            self._crossed.update((names[i], column) for i, column in zip(new, found.T, strict=True))
        else:
            self._crossed.update((names[i], self.features.adjoint(self.w * moves[i])) for i in new)
        return np.array([self._crossed[name] for name in names]).T

    def square(self, moves: Array, ones: bool = False) -> Array:
        """O W O^T (k, k), over the same rows as H; with `ones` of ones behind them, too."""
        if self._roots is not None:
            return _square(moves[:, self._rows], self._roots, ones)
        if len(vector_slices(self.w.size)) == 1:
            return _square(moves, np.sqrt(self.w), ones)
        squares = by_parts(lambda rows: _square(moves[:, rows], np.sqrt(self.w[rows]), ones), self.w.size)
        return reduce(np.add, squares)


def _square(moves: Array, roots: Array, ones: bool) -> Array:
    scaled = weighted(moves, roots, ones)
    return scaled @ scaled.T


def weighted(vectors: Array, w: Array, ones: bool) -> Array:
    """Vectors (k, n) times w (n,), and with `ones` those of ones behind them."""
    if not ones:
        return vectors * w
    found = np.empty((len(vectors) + 1, w.size))
    np.multiply(vectors, w, out=found[:-1])
    found[-1] = w
    return found


def rows_taken(features: Features, single: bool) -> int:
    """How many rows a factorisation is made from; 0 where iterating is better.

    A thin sample needs a ridge that is not small, as numbers in single precision do, and columns that are not sparse:
    few rows say little about rare ones.
    """
    n, d = features.rows, features.columns
    one_pass = features.stored * (_SPARSE_NUMBER if features.sparse else _DENSE_NUMBER)

    def passes(rows: int) -> float:
        side = min(rows, d)
        cost = _PRODUCT * rows * d * side + _ELIMINATION * side**3
        return (cost + (_MADE_DENSE * rows * d if features.sparse else 0.0)) / max(one_pass, 1.0)

    if n * d**2 <= SMALL or (d <= GRAM_LIMIT and passes(n) <= _PASSES_FOR_ALL):
        return n
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        fits = passes(middle) <= _PASSES and min(middle, d) <= GRAM_LIMIT
        low, high = (middle, high) if fits else (low, middle)
    thin_serves = single and not features.sparse and low >= _THINNEST * d
    if low >= _FEWEST_ROWS and (thin_serves or low >= _THIN * d):
        return min(low, _ENOUGH * d)
    return n if d <= GRAM_LIMIT and not (single or features.sparse) else 0


def sample(w: Array, count: int) -> tuple[npt.NDArray[np.intp], Array]:
    """About `count` rows, the heavier the likelier, and weights for them that stand for all of w (N,).

    Systematic sampling: rows that weigh more than one part in `count` of the rest are all taken, with their own weight.
    """
    sure = np.zeros(w.size, dtype=bool)
    chance = w * (count / float(w.sum()))
    while (over := (chance > 1) & ~sure).any():
        sure |= over
        rest = float(w[~sure].sum())
        chance = np.where(sure, 1.0, w * (max(count - int(sure.sum()), 0) / rest if rest > 0 else 0.0))
    passed = np.floor(np.cumsum(chance) + 0.5)
    rows = np.flatnonzero(np.diff(passed, prepend=0.0))
    return rows, w[rows] / chance[rows]
