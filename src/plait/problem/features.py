"""A party's feature matrix D (N x d) as the operator that the mathematics needs, wherever its rows lie."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from plait._threads import side_by_side
from plait._types import Array
from plait.problem import row_blocks
from plait.problem.row_blocks import (
    Kernel,
    as_float64,
    computed,
    csr_blocks,
    elsewhere,
    grouped,
    row_slices,
    scale_rows,
)

_RANK_TOLERANCE = 1e-12  # of the largest eigenvalue of a Gram matrix: smaller ones are rounding errors
_MOST_PAIRS = 1 << 21  # pairs of ones in the rows of a table: 24 MiB
_MOST_PAIRED = 1024  # columns: of more, few pairs share a row, and a place for every pair does not pay
GRAM_LIMIT = 4096
"""The largest side of a dense d x d (or N x N) matrix that plait forms: 128 MiB of float64."""


class Features:
    """D with its products; a Gram matrix is formed at most once, and only when its side is at most GRAM_LIMIT.

    matrix   dense, CSR, or a `BlockedMatrix`, which lies on disk or on other machines
    """

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.sparse = sp.issparse(matrix)
        self.rows, self.columns = matrix.shape
        self.stored: int = matrix.nnz if self.sparse else self.rows * self.columns
        self._blocks = row_slices(self.rows, self.columns, self.stored)
        self.elsewhere = elsewhere(matrix)
        # One block of float64 in memory: products need no blocks, and give the same bits.
        self._whole = not self.elsewhere and len(self._blocks) == 1 and matrix.dtype == np.float64
        self._dense = self._whole and not self.sparse

    def _mapped(self, kernel: Kernel, vectors: Sequence[Array] = (), *shared: Any) -> Iterator[Any]:
        """What a kernel gives for each group of blocks, in order; `vectors` have one entry a row."""
        if self.elsewhere:
            return iter(self.matrix.mapped(kernel, vectors, shared))
        groups = grouped(self._blocks)
        return iter(side_by_side(lambda group: computed(kernel, group, self._block, vectors, shared), groups))

    def _block(self, rows: slice) -> Any:
        if self.sparse:
            return self.matrix if len(self._blocks) == 1 else self._csr_blocks[rows.start]
        return as_float64(self.matrix, rows)

    @cached_property
    def _csr_blocks(self) -> dict[int, Any]:
        return csr_blocks(self.matrix, self._blocks)

    def _summed(self, kernel: Kernel, vectors: Sequence[Array] = (), *shared: Any) -> Array:
        groups = self._mapped(kernel, vectors, *shared)
        total = np.array(next(groups))
        for part in groups:
            total += part
        return total

    def _stacked(self, kernel: Kernel, *shared: Any) -> Array:
        groups = self._mapped(kernel, (), *shared)
        first, done = next(groups), 0
        if len(first) == self.rows:
            return np.asarray(first)
        whole = np.empty((self.rows, *first.shape[1:]), first.dtype)
        for part in _and_then(first, groups):
            whole[done : done + len(part)] = part
            done += len(part)
        return whole

    def forward(self, x: Array) -> Array:
        """D x."""
        if self._whole:
            return np.asarray(self.matrix @ x)
        return self._stacked(row_blocks.forward, x)

    def adjoint(self, v: Array) -> Array:
        """D^T v."""
        if self._whole:
            return np.asarray(self._transposed @ v)
        return self._summed(row_blocks.adjoint, (v,))

    @cached_property
    def _transposed(self) -> Any:
        """D^T, which shares D's numbers; of a sparse table SciPy would check them anew in every product."""
        return self.matrix.T

    @cached_property
    def gram(self) -> Array:
        """D^T D, d x d."""
        return self.weighted_gram(None)

    @cached_property
    def gram_eigen(self) -> tuple[Array, Array]:
        """The eigenvalues (d,), ascending, and eigenvectors (d, d) of D^T D."""
        return eigen(self.gram)

    def gram_of(self, columns: npt.NDArray[np.intp], weights: Array | None = None) -> Array:
        """D_c^T diag(weights) D_c for a few columns c; weights >= 0, None for ones."""
        if self._dense and weights is not None:
            scaled = self.matrix[:, columns] * np.sqrt(weights)[:, None]
            return np.asarray(scaled.T @ scaled)
        return self._summed(row_blocks.gram, () if weights is None else (weights,), columns, "float64")

    @cached_property
    def dual_gram(self) -> Array:
        """D D^T, N x N."""
        d = self.matrix[:] if self.elsewhere else self.matrix
        k = d @ d.T
        return k.toarray() if self.sparse else k

    @cached_property
    def dual_eigen(self) -> tuple[Array, Array]:
        """The eigenvalues (N,), ascending, and eigenvectors (N, N) of D D^T."""
        return eigen(self.dual_gram)

    def weighted_gram(self, weights: Array | None, dtype: npt.DTypeLike = np.float64) -> Array:
        """D^T diag(weights) D, d x d; weights >= 0, None for ones."""
        if self._pairs is not None and weights is not None:
            half = np.asarray(self._pairs @ weights).reshape(self.columns, self.columns)
            return half + np.triu(half, 1).T
        if self._dense and weights is not None and dtype is np.float64:
            scaled = self.matrix * np.sqrt(weights)[:, None]
            return np.asarray(scaled.T @ scaled)
        return self._summed(row_blocks.gram, () if weights is None else (weights,), None, np.dtype(dtype).name)

    @cached_property
    def _pairs(self) -> Any:
        """For ones in few places of a row: the rows that each pair of columns has, (d d, N); None for other tables.

        Then every weighted Gram matrix is one product, of which the terms and their order are the same as without.
        """
        if not (self.sparse and self._whole and self.matrix.nnz and self.matrix.has_canonical_format):
            return None
        each = np.diff(self.matrix.indptr).astype(np.int64)
        pairs = each * (each + 1) // 2
        count = int(pairs.sum())
        if count > _MOST_PAIRS or self.columns > _MOST_PAIRED or not row_blocks.few_pairs(self.matrix):
            return None
        column = self.matrix.indices.astype(np.int32, copy=False)
        first = np.arange(column.size)
        after = np.repeat(self.matrix.indptr[1:], each) - first  # how many pairs a non-zero is the first of
        begins = np.cumsum(after) - after
        second = np.repeat(first - begins, after)
        second += np.arange(count)
        codes = column[second]
        codes += np.repeat(column * self.columns, after)
        ends = np.concatenate([[0], np.cumsum(pairs)])
        return sp.csr_matrix((np.ones(count), codes, ends), shape=(self.rows, self.columns**2)).T

    @cached_property
    def dense(self) -> Array:
        """D as one dense array of float64: for small tables in memory."""
        return np.asarray(self.matrix.toarray() if self.sparse else self.matrix, dtype=np.float64)

    def scaled_rows(self, rows: npt.NDArray[np.intp], factors: Array, dtype: npt.DTypeLike) -> Array:
        """diag(factors) D_r for some rows r, dense."""
        part = self.matrix[rows]
        if self.sparse:
            return scale_rows(part, factors, dtype).toarray()
        return (part * factors[:, None]).astype(dtype, copy=False)

    @cached_property
    def column_squares(self) -> Array:
        """The squared norm of every column, (d,): the diagonal of D^T D."""
        return self.weighted_column_squares(None)

    def weighted_column_squares(self, weights: Array | None) -> Array:
        """The diagonal of D^T diag(weights) D, (d,)."""
        if self._dense and weights is not None:
            return row_blocks.dense_column_squares(self.matrix, weights)
        return self._summed(row_blocks.column_squares, () if weights is None else (weights,))

    @property
    def row_squares(self) -> Array:
        """The squared norm of every row, (N,)."""
        return self._stacked(row_blocks.row_squares)

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


def _and_then(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def clip_rows(matrix: Any, radius: float | None) -> Any:
    """Rows longer than `radius` shortened to it; None leaves all as they are."""
    if radius is None:
        return matrix
    squares = matrix.multiply(matrix) if sp.issparse(matrix) else np.square(matrix)
    factor = 1 / np.maximum(1.0, np.sqrt(np.asarray(squares.sum(axis=1)).ravel()) / radius)
    return sp.diags(factor) @ matrix if sp.issparse(matrix) else matrix * factor[:, None]


def scores_of(matrix: Any, radius: float | None, weights: Array) -> Array:
    """The scores (N,) of rows that are clipped to `radius` first, wherever they lie; None clips none."""
    return Features(matrix).forward(weights) if radius is None else np.asarray(clip_rows(matrix, radius) @ weights)


def eigen(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, those that are numerically zero set to zero, and eigenvectors."""
    values, vectors = scipy.linalg.eigh(matrix, driver="evd", check_finite=False)
    return np.where(values > _RANK_TOLERANCE * max(values[-1], 0.0), values, 0.0), vectors
