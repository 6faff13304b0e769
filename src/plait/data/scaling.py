"""What replaces missing numbers, and how columns are scaled:  scaled = (x - shift) * factor."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._types import Array
from plait.data.statistics import Statistics, medians
from plait.errors import ConfigError, InputError
from plait.problem.row_blocks import row_slices


class NoNumber(InputError):
    """What stands in a column, in a row counted from 0, cannot be computed with."""

    def __init__(self, column: str, row: int, sentence: str) -> None:
        self.column, self.row = column, row
        super().__init__(sentence)


class MissingNumber(NoNumber):
    """A number is missing where none may be."""

    def __init__(self, column: str, row: int, place: str) -> None:
        super().__init__(
            column,
            row,
            f"column {column!r} must have no missing numbers. Found one in {place}. "
            'Set prepare.impute = "mean", "median" or "zero".',
        )


class InfiniteNumber(NoNumber):
    """A number is infinite."""

    def __init__(self, column: str, row: int, place: str) -> None:
        super().__init__(
            column,
            row,
            f"column {column!r} must hold finite numbers. Found infinity in {place}. Correct it, leave it empty, or "
            "list the column in data.drop.",
        )


def need_finite(matrix: Any, known: Statistics, names: tuple[str, ...]) -> None:
    """Raise InfiniteNumber where a column of a dense matrix holds infinity."""
    infinite = np.flatnonzero(np.isinf(known.low) | np.isinf(known.high))
    infinite = infinite[known.count[infinite] > 0]
    if not infinite.size:
        return
    at = int(infinite[0])
    for rows in row_slices(*matrix.shape):
        found = np.flatnonzero(np.isinf(matrix[rows][:, at]))
        if found.size:
            row = rows.start + int(found[0])
            raise InfiniteNumber(names[at], row, f"row {row + 1}")


def without_infinity(matrix: Any) -> Any:
    """The matrix (N, p) with infinite numbers as missing ones; in a sparse one, where nothing is filled in, as 0."""
    if sp.issparse(matrix):
        kept = matrix.copy()
        kept.data = np.where(np.isfinite(matrix.data), matrix.data, 0.0)
        return kept
    return np.where(np.isinf(matrix), np.nan, matrix)


def filling(matrix: Any, known: Statistics, names: tuple[str, ...], how: str) -> Array:
    """What replaces a missing number of each column (p,); not a number where none may be missing."""
    width = len(names)
    if how == "zero":
        return np.zeros(width)
    if how == "none":
        columns = np.flatnonzero(known.missing)
        if columns.size:
            row = int(known.first_missing[columns[0]])
            raise MissingNumber(names[columns[0]], row, f"row {row + 1}")
        return np.full(width, np.nan)
    empty = np.flatnonzero(known.count == 0)
    if empty.size:
        raise InputError(f"column {names[empty[0]]!r} must hold some numbers. Found none. List it in data.drop.")
    if how == "mean":
        return known.mean
    return medians(matrix, known)


def scaling(matrix: Any, known: Statistics | None, how: str) -> tuple[Array, Array]:
    """Shift and factor of each column (p,); constant columns keep a factor of 1.

    known   the statistics of a dense matrix, None for a sparse one
    """
    width = matrix.shape[1]
    shift = np.zeros(width)
    if how == "none" or width == 0:
        return shift, np.ones(width)
    if known is None:
        if how != "maxabs":
            raise InputError(
                f'sparse data must be scaled by "maxabs" or "none". Found {how!r}, which would make it dense.'
            )
        blocks = row_slices(matrix.shape[0], matrix.shape[1], matrix.nnz)
        largest = [abs(matrix[rows]).max(axis=0).toarray().ravel() for rows in blocks]
        spread = np.max(largest, axis=0)
    elif how == "maxabs":
        spread = np.fmax(np.abs(known.low), np.abs(known.high))
    elif how == "minmax":
        shift, spread = known.low, known.high - known.low
    else:
        shift, spread = known.mean, known.deviation
    return shift, 1 / np.where(spread > 0, spread, 1.0)


def scaling_by_ranges(
    matrix: Any, numbers: tuple[str, ...], categories: int, ranges: Mapping[str, Any]
) -> tuple[Array, Array, float]:
    """Shift, factor, and the largest size of a scaled number, from ranges that are known without the data.

    Each of p numbers and h categories takes 1/(p + h) of a row's squared norm: no row is longer than 1.
    """
    if sp.issparse(matrix):
        raise InputError('sparse data must be scaled by "maxabs" or "none". Found "ranges", which would make it dense.')
    missing = [name for name in numbers if name not in ranges]
    if missing:
        raise ConfigError(
            f'prepare.ranges must give [low, high] of every number column with scale = "ranges". Found none for '
            f"{', '.join(missing[:5])}."
        )
    try:
        low, high = np.array([ranges[name] for name in numbers], dtype=np.float64).reshape(-1, 2).T
    except (TypeError, ValueError):
        low = high = np.zeros(1)
    if not (np.isfinite(high - low).all() and (low < high).all()):
        raise ConfigError("prepare.ranges must give two finite numbers, low < high, per column. Found something else.")
    unit = 1 / np.sqrt(len(numbers) + categories)
    return (low + high) / 2, 2 * unit / (high - low), unit
