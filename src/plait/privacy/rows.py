"""Rows of bounded norm on a coarse grid, whose sums are exact.

A record enters a release through its own row only. Each row is clipped to norm 1 and its entries are cut
towards zero to multiples of 2^-bits, few enough for every sum of products over the records to be an integer
below 2^53 in units of 2^(-2 bits). Floating-point products are then exact in any order, and replacing one
record changes a released sum by that record's summand and by nothing else.
"""

import enum
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plait.errors import InputError

Floats = NDArray[np.float64]


class Adjacency(enum.Enum):
    """Which two data sets a guarantee makes indistinguishable; record ids and their number are public."""

    REPLACE = "replace one record"
    ZERO_OUT = "blank one record"

    @property
    def factor(self) -> float:
        """Sensitivity of a sum of vectors of norm at most 1."""
        return 2.0 if self is Adjacency.REPLACE else 1.0


@dataclass(frozen=True, eq=False)
class ClippedRows:
    """A matrix N x d whose rows have norm at most 1 and entries on the grid 2^-bits."""

    matrix: Floats
    bits: int

    @classmethod
    def of(cls, matrix: ArrayLike, radius: float = 1.0) -> "ClippedRows":
        """Divide by the public `radius`, clip each row to norm 1, cut to the grid: each row on its own."""
        rows = np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2 or 0 in rows.shape:
            raise InputError(f"Features must be a matrix with rows and columns. Found shape {rows.shape}.")
        if not np.all(np.isfinite(rows)):
            bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
            raise InputError(f"Features must be finite. Found NaN or infinity in row {bad}. Fill or drop it first.")
        if not (math.isfinite(radius) and radius > 0):
            raise InputError(f"`radius` must be positive and finite. Found {radius}.")
        bits = exact_bits(rows.shape[0])
        norms = np.linalg.norm(rows, axis=1) / radius
        # The margin covers the rounding errors of the norm and of the division.
        scale = (1 - 2.0**-36) / (radius * np.maximum(1.0, norms))
        return cls(cut(rows * scale[:, None], bits), bits)

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def weighted(self, weights: Floats) -> "ClippedRows":
        """Rows sqrt(weight_i) D_i for weights in [0, 1], on the same grid."""
        root = np.sqrt(np.clip(weights, 0.0, 1.0))
        return ClippedRows(cut(self.matrix * root[:, None], self.bits), self.bits)


def exact_bits(records: int) -> int:
    """Bits after the point for which records * 2^(2 bits) stays below 2^53."""
    return max(1, (52 - math.ceil(math.log2(max(records, 2)))) // 2)


def cut(values: Floats, bits: int) -> Floats:
    """`values` cut towards zero to multiples of 2^-bits; no magnitude grows."""
    return np.ldexp(np.trunc(np.ldexp(values, bits)), -bits)
