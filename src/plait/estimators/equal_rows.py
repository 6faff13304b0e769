"""Equal rows of a small table as one row with their weights added up.

A row that is there twice and a row of twice the weight then give the same model, to the last digit: also where an
optimum is not unique, or at infinity, and rounding would decide.  Rows come in an order that depends on their numbers
only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plait._types import Array
from plait.data.parts import Part

SMALL = 1 << 20  # numbers, 8 MB: as many take less time than a sparse table's bookkeeping
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, to an odd number: its multiples are spread evenly


def merge_equal_rows(
    parts: Mapping[str, Part], labels: Sequence[Array], weights: Array | None
) -> tuple[Mapping[str, Part], Sequence[Array], Array | None]:
    """The same problem with each row once, by labels (N,) and columns; unchanged where all rows differ and count alike.

    weights: (N,), or None for equal ones.
    """
    rows = labels[0].size
    if rows * sum(part.matrix.shape[1] for part in parts.values()) > SMALL:
        return parts, labels, weights
    dense = {name: replace(part, matrix=_dense(part.matrix)) for name, part in parts.items()}
    table = np.column_stack([*labels, *(part.matrix for part in dense.values())])
    keys, first, group = np.unique(_keys(table), return_index=True, return_inverse=True)
    alike = weights is None or np.ptp(weights) == 0
    if (alike and keys.size == rows) or not np.array_equal(table[first[group]], table):
        return parts, labels, weights
    merged = {name: replace(part, matrix=part.matrix[first]) for name, part in dense.items()}
    return merged, [y[first] for y in labels], np.bincount(group, weights).astype(np.float64)


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def _keys(table: Array) -> npt.NDArray[np.uint64]:
    """One number for each row of a table (N, d): the same for equal rows, and for others only by a rare accident."""
    bits = np.ascontiguousarray(table + 0.0).view(np.uint64)  # + 0.0 makes -0 and 0 the same bits
    bits = (bits ^ (bits >> np.uint64(32))) * _ODD
    factors = 2 * np.arange(table.shape[1], dtype=np.uint64) + np.uint64(1)
    keys: npt.NDArray[np.uint64] = ((bits ^ (bits >> np.uint64(29))) * (factors * _ODD)).sum(axis=1, dtype=np.uint64)
    return keys
