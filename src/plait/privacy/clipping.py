"""Rows of bounded norm on a coarse grid, whose sums are exact.

Each row is clipped to norm 1, and its entries are cut towards zero to multiples of 2^-bits.  The bits are so few that
every sum of products over all rows is an integer below 2^53, in units of 2^(-2 bits).  Floating-point products are then
exact in any order.  So replacing one row changes a released sum by that row's summand and by nothing else.
"""

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from plait._checks import need_type
from plait.errors import InputError, PrivacyError, SettingError
from plait.problem.features import GRAM_LIMIT

Floats = NDArray[np.float64]
_LARGEST = 2.0**400  # entries below it have squares whose sum over any row is a finite double


class Adjacency(enum.Enum):
    """What may differ between two tables that a guarantee makes hard to tell apart.

    The ids of the rows and their number are public.

    Attributes
    ----------
    REPLACE
        One row has other values.  This is the default, and the stronger guarantee.
    ZERO_OUT
        One row has only zeros.
    """

    REPLACE = "replace one row"
    ZERO_OUT = "set one row to zeros"

    @property
    def factor(self) -> float:
        """Sensitivity of a sum over rows of vectors of norm at most 1."""
        return 2.0 if self is Adjacency.REPLACE else 1.0


@dataclass(frozen=True)
class PublicRanges:
    """Map columns to [-1, 1] / sqrt(d) by ranges that were known before the data: every row then has norm at most 1.

    Parameters
    ----------
    low : list of float
        The least value of every column.
    high : list of float
        The largest value of every column.
    """

    low: Sequence[float]
    high: Sequence[float]

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            need_type(f"PublicRanges({name})", getattr(self, name), Sequence[float])
        low, high = np.asarray(self.low, dtype=float), np.asarray(self.high, dtype=float)
        if low.ndim != 1 or low.shape != high.shape or not np.isfinite(low - high).all() or not (low < high).all():
            raise SettingError("PublicRanges(low, high) needs one finite low < high per column.")

    def apply(self, matrix: Any) -> Floats:
        """The scaled columns (N, d); values outside their range are moved to its edge."""
        low, high = np.asarray(self.low, dtype=float), np.asarray(self.high, dtype=float)
        rows = np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != low.size:
            raise SettingError(f"PublicRanges has {low.size} ranges. Found a table of shape {rows.shape}.")
        scaled = 2 * (np.clip(rows, low, high) - low) / (high - low) - 1
        return scaled / np.sqrt(low.size)


@dataclass(frozen=True, eq=False)
class ClippedRows:
    """A table whose rows have norm at most 1 and whose entries are multiples of 2^-bits.

    `ClippedRows.of` makes it.

    Parameters
    ----------
    matrix : ndarray or CSR matrix of shape (N, d)
        The clipped rows.
    bits : int
        How many binary digits after the point an entry has.
    """

    matrix: Any
    bits: int

    @classmethod
    def of(cls, matrix: Any, radius: float = 1.0) -> "ClippedRows":
        """Divide by the public `radius`, clip each row to norm 1, cut to the grid; no row affects another.

        No row raises an error: an entry that is not a number, or too large to square, counts as 0.
        """
        rows = sp.csr_matrix(matrix, dtype=np.float64) if sp.issparse(matrix) else np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2 or 0 in rows.shape:
            raise InputError(f"Features must be a matrix with rows and columns. Found shape {rows.shape}.")
        rows = _finite(rows)
        norms = row_norms(rows)
        if not (math.isfinite(radius) and radius > 0):
            raise InputError(f"`radius` must be positive and finite. Found {radius}.")
        bits = exact_bits(rows.shape[0])
        # The margin covers the rounding errors of the norm and of the division.
        scale = (1 - 2.0**-36) / (radius * np.maximum(1.0, norms / radius))
        return cls(_scaled(rows, scale, bits), bits)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def forward(self, x: Floats) -> Floats:
        """D x."""
        return np.asarray(self.matrix @ x)

    def adjoint(self, v: Floats) -> Floats:
        """D^T v, exactly, for v on the grid."""
        return np.asarray(self.matrix.T @ v)

    def gram(self) -> Floats:
        """D^T D, d x d, exactly."""
        if self.shape[1] > GRAM_LIMIT:
            raise PrivacyError(
                f"A private party may hold at most {GRAM_LIMIT} columns: its mechanism forms D^T D. Found "
                f"{self.shape[1]}. Choose or combine columns by a public rule first."
            )
        product = self.matrix.T @ self.matrix
        return np.asarray(product.toarray() if sp.issparse(product) else product)

    def weighted(self, weights: Floats) -> "ClippedRows":
        """Rows sqrt(weight_i) D_i for weights in [0, 1], on the same grid."""
        return ClippedRows(_scaled(self.matrix, np.sqrt(np.clip(weights, 0.0, 1.0)), self.bits), self.bits)


def row_norms(matrix: Any) -> Floats:
    """The norm of every row, (N,)."""
    if sp.issparse(matrix):
        return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return np.linalg.norm(matrix, axis=1)


def _finite(rows: Any) -> Any:
    """The rows, with 0 for entries that are not finite or whose squares are not."""
    values = rows.data if sp.issparse(rows) else rows
    usable = np.abs(values) < _LARGEST  # false for NaN
    if usable.all():
        return rows
    if not sp.issparse(rows):
        return np.where(usable, rows, 0.0)
    cleaned = sp.csr_matrix(rows, copy=True)
    cleaned.data = np.where(usable, cleaned.data, 0.0)
    return cleaned


def _scaled(rows: Any, scale: Floats, bits: int) -> Any:
    """Rows times scale_i, cut to the grid."""
    if not sp.issparse(rows):
        return cut(rows * scale[:, None], bits)
    scaled = sp.csr_matrix(rows, copy=True)
    scaled.data = cut(scaled.data * np.repeat(scale, np.diff(scaled.indptr)), bits)
    return scaled


def exact_bits(records: int) -> int:
    """Bits after the point for which records * 2^(2 bits) stays below 2^53."""
    return max(1, (52 - math.ceil(math.log2(max(records, 2)))) // 2)


def cut(values: Floats, bits: int) -> Floats:
    """`values` cut towards zero to multiples of 2^-bits; no magnitude grows."""
    return np.ldexp(np.trunc(np.ldexp(values, bits)), -bits)
