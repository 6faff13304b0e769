"""In which blocks of rows a matrix is worked on: by its shape alone, so that sums are the same wherever it lies."""

from collections.abc import Iterator
from typing import Any

_BLOCK_NUMBERS = 1 << 20  # numbers in a block: 8 MiB as float64, which stays in a core's cache for the most part


def block_rows(columns: int) -> int:
    """Rows of a block of a matrix with so many columns."""
    return max(1, _BLOCK_NUMBERS // max(1, columns))


def row_slices(rows: int, columns: int) -> list[slice]:
    """The blocks of a matrix of this shape, in order."""
    step = block_rows(columns)
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


def row_blocks(matrix: Any) -> Iterator[tuple[slice, Any]]:
    """Every block of rows of a matrix (N, d), with its place."""
    for rows in row_slices(*matrix.shape):
        yield rows, matrix[rows]
