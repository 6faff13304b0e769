"""A party's feature matrix D (N x d), dense or CSR, as the operator that the mathematics needs."""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from plait._threads import by_halves
from plait._types import Array

_RANK_TOLERANCE = 1e-12  # of the largest eigenvalue of a Gram matrix: smaller ones are rounding errors
GRAM_LIMIT = 4096
"""The largest side of a dense d x d (or N x N) matrix that plait forms: 128 MiB of float64."""


_CROWDED = 0.06
"""From this share of non-zeros on, a Gram matrix is formed faster from dense chunks of rows."""
_ROWS_AT_ONCE = 4096  # rows made dense at once at least: fewer would make the product of matrices slow
_CHUNK = 1 << 22  # numbers made dense at once otherwise: 32 MiB
_ROWS_OF_SQUARES = 1 << 16  # rows whose squares are formed at once: a temporary that stays small beside the table
_LARGE, _WIDE = 1 << 21, 64
"""Numbers and columns in a dense table from which on its halves are worked on side by side."""
_LARGE_GRAM = 1 << 26
"""Terms of a Gram matrix from which on the halves of the rows are added up side by side."""


class Features:
    """D with its products; a Gram matrix is formed at most once, and only when its side is at most GRAM_LIMIT."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.sparse = sp.issparse(matrix)
        self.rows, self.columns = matrix.shape
        self.stored: int = matrix.nnz if self.sparse else matrix.size
        self.large = not self.sparse and self.stored >= _LARGE and self.columns >= _WIDE

    def forward(self, x: Array) -> Array:
        """D x."""
        if self.large:
            return np.concatenate(by_halves(lambda rows: self.matrix[rows] @ x, self.rows))
        return np.asarray(self.matrix @ x)

    def adjoint(self, v: Array) -> Array:
        """D^T v."""
        if self.large:
            first, second = by_halves(lambda rows: self.matrix[rows].T @ v[rows], self.rows)
            return first + second
        return np.asarray(self._transposed @ v)

    @cached_property
    def _transposed(self) -> Any:
        """A view, kept because SciPy takes a while to make one."""
        return self.matrix.T

    @cached_property
    def gram(self) -> Array:
        """D^T D, d x d."""
        return self.weighted_gram(None)

    @cached_property
    def gram_eigen(self) -> tuple[Array, Array]:
        """The eigenvalues (d,), ascending, and eigenvectors (d, d) of D^T D."""
        return eigen(self.gram)

    def gram_of(self, columns: npt.NDArray[np.intp]) -> Array:
        """D_c^T D_c for a few columns c."""
        return Features(self.matrix[:, columns]).gram

    @cached_property
    def dual_gram(self) -> Array:
        """D D^T, N x N."""
        k = self.matrix @ self.matrix.T
        return k.toarray() if self.sparse else k

    @cached_property
    def dual_eigen(self) -> tuple[Array, Array]:
        """The eigenvalues (N,), ascending, and eigenvectors (N, N) of D D^T."""
        return eigen(self.dual_gram)

    def weighted_gram(self, weights: Array | None, dtype: npt.DTypeLike = np.float64) -> Array:
        """D^T diag(weights) D, d x d; weights >= 0, None for ones."""
        d = self.matrix
        if self.sparse and d.nnz < _CROWDED * d.shape[0] * d.shape[1]:
            return (d.T @ (d if weights is None else _scaled_rows(d, weights))).toarray()
        if weights is None and not self.sparse:
            return d.T @ d
        return _chunked_gram(d, weights, dtype)

    def scaled_rows(self, rows: npt.NDArray[np.intp], factors: Array, dtype: npt.DTypeLike) -> Array:
        """diag(factors) D_r for some rows r, dense."""
        part = self.matrix[rows]
        if self.sparse:
            return _scaled_rows(part, factors, dtype).toarray()
        part *= factors[:, None]
        return part.astype(dtype, copy=False)

    @cached_property
    def column_squares(self) -> Array:
        """The squared norm of every column, (d,): the diagonal of D^T D."""
        return self.weighted_column_squares(None)

    def weighted_column_squares(self, weights: Array | None) -> Array:
        """The diagonal of D^T diag(weights) D, (d,)."""
        if self.sparse:
            return _sparse_column_squares(self.matrix, weights)
        w = np.ones(self.rows) if weights is None else weights
        return np.einsum("ij,ij,i->j", self.matrix, self.matrix, w)

    def graded(self, ratio: float) -> bool:
        """Whether the squared norms of two columns differ by more than this factor."""
        squares = self.column_squares[self.column_squares > 0]
        return squares.size > 0 and bool(squares.max() > ratio * squares.min())

    @property
    def primal_fits(self) -> bool:
        return self.columns <= GRAM_LIMIT

    @property
    def dual_fits(self) -> bool:
        return self.rows <= GRAM_LIMIT


def _scaled_rows(d: Any, weights: Array, dtype: npt.DTypeLike = np.float64) -> Any:
    """diag(weights) D for a CSR matrix, which shares its indices with D."""
    return type(d)(((d.data * np.repeat(weights, np.diff(d.indptr))).astype(dtype), d.indices, d.indptr), shape=d.shape)


def _sparse_column_squares(d: Any, w: Array | None) -> Array:
    """sum_i w_i D_ij^2 for every column j of a CSR matrix, a block of rows at a time: few temporaries."""
    total = np.zeros(d.shape[1])
    for start in range(0, d.shape[0], _ROWS_OF_SQUARES):
        stop = min(start + _ROWS_OF_SQUARES, d.shape[0])
        entries = slice(d.indptr[start], d.indptr[stop])
        squares = np.square(d.data[entries])
        if w is not None:
            squares *= np.repeat(w[start:stop], np.diff(d.indptr[start : stop + 1]))
        total += np.bincount(d.indices[entries], squares, d.shape[1])
    return total


def _chunked_gram(d: Any, weights: Array | None, dtype: npt.DTypeLike) -> Array:
    """sum over row chunks of (sqrt(w) D)^T (sqrt(w) D): BLAS-3 speed without a second copy of D."""
    n, columns = d.shape
    roots = np.ones(n) if weights is None else np.sqrt(weights)
    sparse = sp.issparse(d)
    at_once = min(n, max(_ROWS_AT_ONCE, _CHUNK // columns))
    dense = np.empty((at_once, columns), dtype)
    total = np.zeros((columns, columns), dtype)
    for start in range(0, n, at_once):
        count = min(at_once, n - start)

        def gram(part: slice, start: int = start) -> Array:
            chunk, rows = dense[part], slice(start + part.start, start + part.stop)
            if not sparse:
                np.multiply(d[rows], roots[rows, None], out=chunk, casting="same_kind")
            return np.asarray(chunk.T @ chunk)

        if sparse:  # SciPy unpacks one part at a time, whatever the threads
            rows = slice(start, start + count)
            _scaled_rows(d if count == n else d[rows], roots[rows], dtype).toarray(out=dense[:count])
        total += gram(slice(0, count)) if count * columns**2 < _LARGE_GRAM else np.add(*by_halves(gram, count))
    return total


def clip_rows(matrix: Any, radius: float | None) -> Any:
    """Rows longer than `radius` shortened to it; None leaves all as they are."""
    if radius is None:
        return matrix
    squares = matrix.multiply(matrix) if sp.issparse(matrix) else np.square(matrix)
    factor = 1 / np.maximum(1.0, np.sqrt(np.asarray(squares.sum(axis=1)).ravel()) / radius)
    return sp.diags(factor) @ matrix if sp.issparse(matrix) else matrix * factor[:, None]


def eigen(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, those that are numerically zero set to zero, and eigenvectors."""
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    return np.where(values > _RANK_TOLERANCE * max(values[-1], 0.0), values, 0.0), vectors
