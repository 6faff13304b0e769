"""Noisy releases about the rows of one party. Each object both adds its noise and states its cost.

Rows have norm at most 1. One row changes from a to a'; ZERO_OUT has a' = 0:

    Gram      sum_i w_i D_i D_i^T,  0 <= w_i <= W     |aa^T - a'a'^T|_F^2 = |a|^4 + |a'|^4 - 2(a.a')^2 <= 2
              an entry beside the diagonal counts twice in this norm and is drawn once: its noise is sigma / sqrt(2)
    gradient  sum_i clip(q_i, B) D_i                  one summand changes, both have norm at most B
    scores    clip(D x, B), x already private         one coordinate changes, both values lie in [-B, B]
    sketch    signed bucket sums of clip(s_i, B) and their energy: one bucket and one sum change

Values are divided by W or B before the noise is added and multiplied after it, so that noise is added to the exact
sums of `ClippedRows`. Rounding to the noise grid is part of the sensitivity.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from plait.errors import SettingError
from plait.privacy.accounting import Cost
from plait.privacy.clipping import Adjacency, ClippedRows, Floats, cut
from plait.privacy.noise import STEPS_PER_SIGMA, Grid, Keystream


@dataclass(frozen=True)
class NoisyRelease(ABC):
    """A vector with discrete Gaussian noise on `grid`, which is in units of the normalised value."""

    grid: Grid
    adjacency: Adjacency

    @property
    @abstractmethod
    def dimension(self) -> int: ...

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """The l2 sensitivity of the normalised value before rounding to the grid."""

    @property
    def cost(self) -> Cost:
        """mu = (Delta + gamma sqrt(dimension)) / sigma, and the distance of discrete to continuous noise."""
        return Cost(mu=self.sensitivity * math.sqrt(self.precision) + self.rounding, slack=self.slack)

    @property
    def precision(self) -> float:
        """1 / sigma^2 of the normalised value."""
        return 1 / self.grid.sigma**2

    @property
    def rounding(self) -> float:
        """How far rounding to the grid can move the value, in units of the noise."""
        return self.grid.rounding(self.dimension) / self.grid.sigma

    @property
    def slack(self) -> float:
        """What the discrete law adds to epsilon over the continuous one."""
        return self.grid.slack(self.dimension)

    @property
    @abstractmethod
    def unit(self) -> float:
        """The factor between the normalised and the released value."""

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in the released value."""
        return self.grid.sigma * self.unit

    def _noisy(self, normalised: Floats, stream: Keystream) -> Floats:
        return self.grid.noisy(normalised, stream) * self.unit


@dataclass(frozen=True)
class NoisyGram(NoisyRelease):
    """Ghat = sum_i w_i D_i D_i^T + E, public w_i in [0, W]; E symmetric, independent above the diagonal.

    E has standard deviation sigma on the diagonal (`grid`) and sigma / sqrt(2) beside it (`beside`).  In units of this
    noise, adding M to the matrix has the squared size sum_i M_ii^2 / sigma^2 + sum_(i<j) 2 M_ij^2 / sigma^2, which is
    |M|_F^2 / sigma^2.  So the sensitivity is that of the Frobenius norm, and no entry is paid for twice.
    """

    width: int
    weight_bound: float
    beside: Grid

    @classmethod
    def for_mu(cls, mu: float, width: int, weight_bound: float, adjacency: Adjacency) -> Self:
        grid = grid_for(mu, math.sqrt(adjacency.factor), width * (width + 1) // 2)
        return cls(grid, adjacency, width, weight_bound, Grid.for_sigma(grid.sigma / math.sqrt(2)))

    @property
    def dimension(self) -> int:
        return self.width * (self.width + 1) // 2

    @property
    def sensitivity(self) -> float:
        """In the Frobenius norm of the whole matrix."""
        return math.sqrt(self.adjacency.factor)

    @property
    def precision(self) -> float:
        return max(1 / self.grid.sigma**2, 1 / (2 * self.beside.sigma**2))

    @property
    def rounding(self) -> float:
        pairs = self.dimension - self.width
        return math.hypot(
            self.grid.rounding(self.width) / self.grid.sigma, self.beside.rounding(pairs) / self.beside.sigma
        )

    @property
    def slack(self) -> float:
        return self.grid.slack(self.width) + self.beside.slack(self.dimension - self.width)

    @property
    def unit(self) -> float:
        return self.weight_bound

    def _noisy(self, normalised: Floats, stream: Keystream) -> Floats:
        row, column = np.triu_indices(self.width)
        diagonal = row == column
        noisy = np.empty_like(normalised)
        noisy[diagonal] = self.grid.noisy(normalised[diagonal], stream)
        noisy[~diagonal] = self.beside.noisy(normalised[~diagonal], stream)
        return noisy * self.unit

    def value(self, rows: ClippedRows, weights: Floats) -> Floats:
        """The upper triangle of sum_i (w_i / W) D_i D_i^T, exactly."""
        triangle: Floats = rows.weighted(weights / self.weight_bound).gram()[np.triu_indices(self.width)]
        return triangle

    def release(self, rows: ClippedRows, weights: Floats, stream: Keystream) -> Floats:
        """The noisy upper triangle, flat: see `full`."""
        return self._noisy(self.value(rows, weights), stream)

    def full(self, triangle: Floats) -> Floats:
        """The symmetric matrix of a released triangle."""
        gram = np.zeros((self.width, self.width))
        gram[np.triu_indices(self.width)] = triangle
        return gram + np.triu(gram, 1).T


@dataclass(frozen=True)
class NoisyGradient(NoisyRelease):
    """ghat = sum_i clip(q_i, B) D_i + N(0, sigma^2 I_d); q_i may depend on row i and on anything public."""

    width: int
    bound: float

    @classmethod
    def for_mu(cls, mu: float, width: int, bound: float, adjacency: Adjacency) -> Self:
        return cls(grid_for(mu, adjacency.factor, width), adjacency, width, bound)

    @property
    def dimension(self) -> int:
        return self.width

    @property
    def sensitivity(self) -> float:
        return self.adjacency.factor

    @property
    def unit(self) -> float:
        return self.bound

    def value(self, rows: ClippedRows, residuals: Floats) -> Floats:
        """sum_i clip(q_i / B, 1) D_i, exactly."""
        return rows.adjoint(cut(_bounded(residuals / self.bound), rows.bits))

    def release(self, rows: ClippedRows, residuals: Floats, stream: Keystream) -> Floats:
        return self._noisy(self.value(rows, residuals), stream)


@dataclass(frozen=True)
class NoisyScores(NoisyRelease):
    """w = clip(D x, B) + N(0, sigma^2 I_N) for weights x that are already private: one number per row."""

    records: int
    bound: float

    @classmethod
    def for_mu(cls, mu: float, records: int, bound: float, adjacency: Adjacency) -> Self:
        return cls(grid_for(mu, adjacency.factor, records), adjacency, records, bound)

    @property
    def dimension(self) -> int:
        return self.records

    @property
    def sensitivity(self) -> float:
        return self.adjacency.factor

    @property
    def unit(self) -> float:
        return self.bound

    def value(self, rows: ClippedRows, weights: Floats) -> Floats:
        return _bounded(rows.forward(weights / self.bound))

    def release(self, rows: ClippedRows, weights: Floats, stream: Keystream) -> Floats:
        return self._noisy(self.value(rows, weights), stream)


@dataclass(frozen=True)
class NoisySketch(NoisyRelease):
    """Signed bucket sums of clip(s_i, B), s_i a function of row i, and the energy sum_i clip(s_i, B)^2 / B.

    Buckets and signs are public. With c and c' the two values in units of B, the squared change is
    (c - c')^2 (1 + (c + c')^2): at most 4 on [-1, 1]^2, as without the energy, and at most 2 for c' = 0.
    """

    buckets: int
    bound: float

    @classmethod
    def for_mu(cls, mu: float, buckets: int, bound: float, adjacency: Adjacency) -> Self:
        return cls(grid_for(mu, _sketch_sensitivity(adjacency), buckets + 1), adjacency, buckets, bound)

    @property
    def dimension(self) -> int:
        return self.buckets + 1

    @property
    def sensitivity(self) -> float:
        return _sketch_sensitivity(self.adjacency)

    @property
    def unit(self) -> float:
        return self.bound

    def value(self, scores: Floats, bucket: NDArray[np.int64], sign: Floats, bits: int) -> Floats:
        clipped = cut(_bounded(scores / self.bound), bits)
        sums = np.bincount(bucket, weights=sign * clipped, minlength=self.buckets)
        return np.append(sums, clipped @ clipped)

    def release(self, scores: Floats, bucket: NDArray[np.int64], sign: Floats, bits: int, stream: Keystream) -> Floats:
        return self._noisy(self.value(scores, bucket, sign, bits), stream)


def _bounded(values: Floats) -> Floats:
    """One number per row, clipped to [-1, 1]; NaN counts as 0, so that no row stops a release."""
    return np.clip(np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)


def rounding_mu(dimension: int) -> float:
    """The most that rounding to plait's grid adds to mu: sqrt(dimension) / STEPS_PER_SIGMA."""
    return math.sqrt(dimension) / STEPS_PER_SIGMA


def _sketch_sensitivity(adjacency: Adjacency) -> float:
    return 2.0 if adjacency is Adjacency.REPLACE else math.sqrt(2)


def grid_for(mu: float, sensitivity: float, dimension: int) -> Grid:
    """The grid with which a release costs at most `mu`, rounding included."""
    left = mu - rounding_mu(dimension)
    if not (math.isfinite(mu) and left > 0):
        raise SettingError(
            f"The budget of a release must exceed mu = {rounding_mu(dimension):.1e}, which rounding "
            f"{dimension} numbers takes. Found mu = {mu:.1e}. Ask for a larger epsilon or fewer numbers."
        )
    return Grid.for_sigma(sensitivity / left)
