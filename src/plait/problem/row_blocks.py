"""In which blocks of rows a matrix is worked on, and what is computed on a block.

The blocks depend on the matrix's shape alone.  So sums are added up in the same order, and have the same bits, wherever
the blocks lie: in memory, on disk, or on other machines.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plait._mapped_files import IN_MEMORY, Workspace
from plait._threads import side_by_side
from plait._types import Array

_BLOCK_NUMBERS = 1 << 20  # numbers in a block: 8 MiB as float64, which a core's cache holds for the most part
_FEWEST_ROWS = 1024  # rows of a block of a wide matrix: fewer would make the product of matrices slow
_MOST_NUMBERS = 1 << 24  # numbers in a block, however wide the matrix is: 128 MiB
_MOST_GROUPS = 64  # sums of blocks that are made side by side: more than most machines have cores
_CROWDED = 0.06
"""From this share of non-zeros on, a Gram matrix is formed faster from dense rows."""
_PAIR = 20  # terms of a dense product that take as long as one pair of non-zeros

T = TypeVar("T")
Blocks = Sequence[tuple[slice, Any]]
"""Some consecutive blocks of a matrix, each with its place among their rows."""
Kernel = Callable[..., Any]
"""A function at the top of a module, of blocks, of vectors' entries at their rows, and of what all groups share."""


@lru_cache(maxsize=256)  # shapes: those of a few runs
def row_slices(rows: int, columns: int, stored: int | None = None) -> tuple[slice, ...]:
    """The blocks of a matrix of this shape, in order; `stored` numbers of it are not zero."""
    per_row = max(1.0, (rows * columns if stored is None else stored) / max(1, rows))
    most = min(max(_FEWEST_ROWS, _BLOCK_NUMBERS / per_row), max(1.0, _MOST_NUMBERS / per_row))
    count = max(1, int(np.ceil(rows / most)))
    return tuple(slice(*ends) for ends in pairwise(rows * i // count for i in range(count + 1)))


def vector_slices(rows: int) -> tuple[slice, ...]:
    """The parts in which vectors of one number per row are worked on, so that temporaries stay small."""
    return row_slices(rows, 1)


def by_parts(work: Callable[[slice], T], rows: int) -> list[T]:
    """What `work` gives for every part of vectors of one number per row, in order; parts are worked on side by side."""
    parts = vector_slices(rows)
    return [work(parts[0])] if len(parts) == 1 else side_by_side(work, parts)


def sum_of_sizes(vector: Array) -> float:
    """The sum of the numbers' sizes, without a copy of a long vector."""
    return sum(by_parts(lambda rows: float(np.abs(vector[rows]).sum()), vector.size))


def vector_by_parts(part: Callable[[slice], Array], rows: int, workspace: Workspace = IN_MEMORY) -> Array:
    """A vector (N,) in the workspace; `part` makes the numbers of some rows, for every part."""
    if len(vector_slices(rows)) == 1 and not workspace.on_disk:
        return part(slice(0, rows))
    found = workspace.empty(rows)

    def fill(where: slice) -> None:
        found[where] = part(where)

    by_parts(fill, rows)
    return found


def grouped(blocks: Sequence[slice]) -> list[Sequence[slice]]:
    """Consecutive blocks that are added up one after the other; groups are worked on side by side."""
    return split(blocks, _MOST_GROUPS)


def split(items: Sequence[T], most: int) -> list[Sequence[T]]:
    """Consecutive items in parts of about equal length, none of them empty and at most so many."""
    count = min(len(items), most)
    return [items[a:b] for a, b in pairwise(len(items) * i // count for i in range(count + 1))]


def row_blocks(matrix: Any) -> Iterator[tuple[slice, Any]]:
    """Every block of rows of a matrix (N, d), with its place."""
    for rows in row_slices(*matrix.shape):
        yield rows, matrix[rows]


@runtime_checkable
class BlockedMatrix(Protocol):
    """A dense matrix (N, d) that is not in this process's memory."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    def __getitem__(self, rows: Any) -> Any:
        """Some rows, or columns, in memory."""
        ...

    def mapped(self, kernel: Kernel, vectors: Sequence[Array], shared: tuple[Any, ...]) -> Iterator[Any]:
        """What a kernel gives for each group of blocks, in order."""
        ...


class Loaded(Sequence[tuple[slice, Any]]):
    """The blocks of a group, each fetched when its turn comes."""

    def __init__(self, group: Sequence[slice], fetch: Callable[[slice], Any]) -> None:
        self._group, self._fetch = group, fetch

    def __len__(self) -> int:
        return len(self._group)

    def __getitem__(self, at: Any) -> Any:
        rows, first = self._group[at], self._group[0].start
        return slice(rows.start - first, rows.stop - first), self._fetch(rows)


def computed(
    kernel: Kernel,
    group: Sequence[slice],
    fetch: Callable[[slice], Any],
    vectors: Sequence[Array],
    shared: tuple[Any, ...],
) -> Any:
    """What a kernel gives for a group of blocks; of the vectors (N,) it sees the group's rows."""
    first, last = group[0].start, group[-1].stop
    return kernel(Loaded(group, fetch), [v[first:last] for v in vectors], *shared)


def mapped(matrix: Any, kernel: Kernel, vectors: Sequence[Array] = (), shared: tuple[Any, ...] = ()) -> Iterator[Any]:
    """What a kernel gives for each group of blocks of a dense matrix, in order, wherever the matrix lies."""
    if elsewhere(matrix):
        return iter(matrix.mapped(kernel, vectors, shared))
    groups = grouped(row_slices(*matrix.shape))
    return iter(
        side_by_side(lambda group: computed(kernel, group, partial(as_float64, matrix), vectors, shared), groups)
    )


def as_float64(matrix: Any, rows: slice) -> Array:
    """Some rows as float64: shorter numbers are stored, and not computed with."""
    return np.asarray(matrix[rows], dtype=np.float64)


def elsewhere(matrix: Any) -> bool:
    """Whether a matrix is not in this process's memory."""
    return not isinstance(matrix, np.ndarray) and isinstance(matrix, BlockedMatrix)


def forward(blocks: Blocks, vectors: Sequence[Array], x: Array) -> Array:
    """D x for the rows of these blocks."""
    parts = [block @ x for _, block in blocks]
    return np.asarray(parts[0] if len(parts) == 1 else np.concatenate(parts))


def adjoint(blocks: Blocks, vectors: Sequence[Array]) -> Array:
    """The sum of D^T v over these blocks."""
    total: Any = 0
    for rows, block in blocks:
        total = total + _transposed_product(block, vectors[0][rows])
    return np.asarray(total)


def _transposed_product(block: Any, v: Array) -> Array:
    """block^T v.  NumPy's `@` lets no other thread work while it makes fewer than 500 numbers; its `dot` does."""
    contiguous = not sp.issparse(block) and (block.flags.c_contiguous or block.flags.f_contiguous)
    return np.asarray(np.dot(block.T, v) if contiguous else block.T @ v)


def gram(blocks: Blocks, vectors: Sequence[Array], columns: Any, dtype: str) -> Array:
    """The sum of D_c^T diag(weights) D_c over these blocks, with ones for no weights, and all columns for None."""
    total: Any = 0
    for rows, block in blocks:
        block = block if columns is None else block[:, columns]
        total = total + _gram(block, vectors[0][rows] if vectors else None, np.dtype(dtype))
    return np.asarray(total)


def few_pairs(block: Any) -> bool:
    """Whether a CSR block has so few non-zeros in a row, all of them ones, that its Gram matrix is a sum over pairs."""
    each = np.diff(block.indptr)
    few = _PAIR * float(each @ each) <= block.shape[0] * block.shape[1] ** 2
    return few and bool((block.data == 1).all())


def _gram(block: Any, weights: Array | None, dtype: np.dtype[Any]) -> Array:
    if sp.issparse(block):
        if block.nnz < _CROWDED * block.shape[0] * block.shape[1] or few_pairs(block):
            return np.asarray((block.T @ (block if weights is None else scale_rows(block, weights))).toarray())
        dense = (block.astype(dtype) if weights is None else scale_rows(block, np.sqrt(weights), dtype)).toarray()
    elif weights is None:
        dense = block.astype(dtype, copy=False)
    else:
        dense = np.empty(block.shape, dtype)
        np.multiply(block, np.sqrt(weights)[:, None], out=dense, casting="same_kind")
    return np.asarray(dense.T @ dense)


def column_squares(blocks: Blocks, vectors: Sequence[Array]) -> Array:
    """The sum of weights * D_ij^2 over the rows of these blocks, for every column j."""
    total: Any = 0
    for rows, block in blocks:
        w = vectors[0][rows] if vectors else None
        if sp.issparse(block):
            squares = type(block)((np.square(block.data), block.indices, block.indptr), shape=block.shape)
            total = total + squares.T @ (np.ones(block.shape[0]) if w is None else w)
        else:
            total = total + dense_column_squares(block, w)
    return np.asarray(total)


def dense_column_squares(block: Array, weights: Array | None) -> Array:
    """The sum of weights * D_ij^2 over the rows of a block, for every column j."""
    if weights is None:
        return np.asarray(np.einsum("ij,ij->j", block, block))
    return np.asarray(np.dot(weights, np.square(block)))


def row_squares(blocks: Blocks, vectors: Sequence[Array]) -> Array:
    """The squared norm of every row of these blocks."""
    parts = [block.multiply(block).sum(axis=1) if sp.issparse(block) else np.einsum("ij,ij->i", block, block)
             for _, block in blocks]  # fmt: skip
    return np.concatenate([np.asarray(part).ravel() for part in parts])


def scale_rows(d: Any, weights: Array, dtype: npt.DTypeLike = np.float64) -> Any:
    """diag(weights) D for a CSR matrix, which shares its indices with D."""
    return type(d)(((d.data * np.repeat(weights, np.diff(d.indptr))).astype(dtype), d.indices, d.indptr), shape=d.shape)


def csr_blocks(d: Any, blocks: Sequence[slice]) -> dict[int, Any]:
    """Blocks of a CSR matrix, by their first row, that share its numbers."""
    found = {}
    for rows in blocks:
        begin, end = d.indptr[rows.start], d.indptr[rows.stop]
        shape = (rows.stop - rows.start, d.shape[1])
        pointers = d.indptr[rows.start : rows.stop + 1] - begin
        found[rows.start] = type(d)((d.data[begin:end], d.indices[begin:end], pointers), shape=shape)
    return found
