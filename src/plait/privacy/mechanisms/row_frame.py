"""The frame of a helper's rows: their mean and spread, released with noise, by which rows are centred and scaled.

Noise is scaled for rows of norm 1.  Where rows lie close together around a centre c, most of that norm is the same for
all of them, and little of it tells them apart.  So a small part of the budget is spent on c and a radius r, and every
row D_i becomes

    ( clip((D_i - c) / r, 1),  CONSTANT ) / sqrt(1 + CONSTANT^2),

a row of norm at most 1 with one more column.  The signal grows by 1 / r against the noise.  The last column is the same
for all rows.  Its weight moves the intercept: the best intercept of a model that is not linear changes when a score is
added.

    mean      sum_i D_i                                       one summand changes: Delta = 2
    spread    sum_i v_i and sum_i v_i^2, v_i = min(|D_i - c|^2, 1)
              (v - v')^2 (1 + (v + v')^2) <= 2 on [0, 1]^2: Delta = sqrt(2)

With ZERO_OUT rows stay as they are: after centring, a row of zeros would not be zero any more, as the bound assumes.
"""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from plait._types import Array
from plait.privacy.accounting import Cost
from plait.privacy.clipping import Adjacency, ClippedRows, Floats, cut
from plait.privacy.mechanisms.releases import NoisyRelease, grid_for
from plait.privacy.noise import Keystream

CONSTANT = 0.3  # value of the constant column, where other columns have norm 1: they lose 4 % of their norm to it
MEAN_PART = 0.7  # part of the frame's mu^2 for the mean, which has many numbers and the larger sensitivity
LARGEST_ERROR = 0.3  # norm of the noise in the centre, beside rows of norm 1: above it no frame is released
DEVIATIONS = 1.5  # standard deviations of |D_i - c|^2 above its mean: rows beyond are clipped, which are few
LEAST_DEVIATION, MOST_DEVIATION = 0.3, 1.5  # limits of that deviation / the mean: beyond them it is noise
LEAST_RADIUS = 0.01  # smallest r: rows that are all alike are multiplied by a hundred at most
MOST_NUMBERS = 2**27  # most numbers in a table: centred rows are not sparse, and so many take 1 GB


@dataclass(frozen=True)
class NoisyMean(NoisyRelease):
    """sum_i D_i + N(0, sigma^2 I_d)."""

    width: int

    @property
    def dimension(self) -> int:
        return self.width

    @property
    def sensitivity(self) -> float:
        return self.adjacency.factor

    @property
    def unit(self) -> float:
        return 1.0

    def value(self, rows: ClippedRows) -> Floats:
        """The sum of all rows, exactly."""
        return rows.adjoint(np.ones(rows.shape[0]))

    def release(self, rows: ClippedRows, stream: Keystream) -> Floats:
        return self._noisy(self.value(rows), stream)


@dataclass(frozen=True)
class NoisySpread(NoisyRelease):
    """The sums of v_i = min(|D_i - c|^2, 1) and of v_i^2, with noise; c is already private."""

    @property
    def dimension(self) -> int:
        return 2

    @property
    def sensitivity(self) -> float:
        return math.sqrt(2)

    @property
    def unit(self) -> float:
        return 1.0

    def value(self, apart: Floats, bits: int) -> Floats:
        """Both sums for the rows' squared distances (N,), exactly."""
        v = cut(np.clip(np.nan_to_num(apart, nan=0.0), 0.0, 1.0), bits)
        return np.array([v.sum(), v @ v])

    def release(self, apart: Floats, bits: int, stream: Keystream) -> Floats:
        return self._noisy(self.value(apart, bits), stream)


@dataclass(frozen=True)
class FramePlan:
    """The two releases that make a frame for `records` rows."""

    mean: NoisyMean
    spread: NoisySpread
    records: int

    @classmethod
    def for_mu(cls, mu: float, records: int, width: int) -> Self:
        """Releases that cost mu together."""
        mean = mu * math.sqrt(MEAN_PART)
        spread = mu * math.sqrt(1 - MEAN_PART)
        replace = Adjacency.REPLACE
        return cls(
            NoisyMean(grid_for(mean, replace.factor, width), replace, width),
            NoisySpread(grid_for(spread, math.sqrt(2), 2), replace),
            records,
        )

    @property
    def cost(self) -> Cost:
        """What both releases cost together."""
        return self.mean.cost + self.spread.cost

    @property
    def useful(self) -> bool:
        """Whether the noise in the centre is below LARGEST_ERROR, and the dense rows fit into memory."""
        error = self.mean.sigma * math.sqrt(self.mean.width) / self.records
        return error < LARGEST_ERROR and self.records * (self.mean.width + 1) <= MOST_NUMBERS

    def centre(self, total: Floats) -> Floats:
        """c (d,) from the released sum of rows (d,), shrunk towards 0 by its fraction of noise (James and Stein)."""
        noise = self.mean.width * self.mean.sigma**2
        kept = max(0.0, 1 - noise / max(float(total @ total), noise))
        return total * (kept / self.records)

    def radius(self, sums: Floats) -> float:
        """r from the released sums (2,): r^2 = mean + DEVIATIONS standard deviations of |D_i - c|^2."""
        # One standard deviation of the noise is added, because a radius that is too small clips many rows.
        first = min(1.0, (max(0.0, float(sums[0])) + self.spread.sigma) / self.records)
        variance = max(0.0, float(sums[1]) / self.records - first**2)
        deviation = float(np.clip(math.sqrt(variance), LEAST_DEVIATION * first, MOST_DEVIATION * first))
        return float(np.clip(math.sqrt(first + DEVIATIONS * deviation), LEAST_RADIUS, 1.0))


@dataclass(frozen=True, eq=False)
class FramedRows:
    """The rows that a helper's releases use: `rows` (N, d), or (N, d + 1) with a constant column last.

    With weights x of the helper's columns and t of the constant column, in units of the helper's own rows, the score of
    row i is clip(D_i - c, r) . x + r CONSTANT t.
    """

    rows: ClippedRows
    centre: Array
    radius: float
    constant: bool

    @classmethod
    def plain(cls, rows: ClippedRows) -> Self:
        """The rows as they are."""
        return cls(rows, np.zeros(rows.shape[1]), 1.0, constant=False)

    @classmethod
    def of(cls, rows: ClippedRows, centre: Array, radius: float) -> Self:
        """Centred, scaled and clipped rows with a constant column; centre and radius are released values."""
        moved = dense(rows.matrix) - centre
        moved /= np.maximum(radius, np.linalg.norm(moved, axis=1))[:, None]
        length = math.hypot(1.0, CONSTANT)
        framed = np.column_stack([moved, np.full(moved.shape[0], CONSTANT)]) / length
        return cls(ClippedRows.of(framed), centre, radius, constant=True)

    @property
    def scale(self) -> float:
        """The factor between a framed row and the row in the helper's own units."""
        return self.radius * math.hypot(1.0, CONSTANT) if self.constant else 1.0

    def forward(self, weights: Array) -> Array:
        """The scores (N,) of weights (d,), or (d + 1,) with that of the constant column."""
        return self.scale * self.rows.forward(weights)

    def parted(self, weights: Array) -> tuple[Array, float]:
        """The weights (d,) of the helper's own columns, and what is added to every score beside them."""
        if not self.constant:
            return weights, 0.0
        own = weights[:-1]
        return own, float(self.radius * CONSTANT * weights[-1] - self.centre @ own)

    def joined(self, own: Array, shift: float) -> Array:
        """The inverse of `parted`."""
        if not self.constant:
            return own
        return np.append(own, (shift + self.centre @ own) / (self.radius * CONSTANT))


def dense(matrix: Any) -> Array:
    """A dense copy of the matrix (N, d)."""
    return np.asarray(matrix.toarray()) if sp.issparse(matrix) else np.array(matrix, dtype=np.float64)
