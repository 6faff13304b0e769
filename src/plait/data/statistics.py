"""What scaling needs to know of every number column, gathered in one pass over blocks of rows."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from plait._types import Array
from plait.problem.row_blocks import row_blocks


@dataclass(frozen=True)
class Statistics:
    """Of every column (d,): rows, numbers that are there, mean, sum of squared deviations, least and largest number.

    first_missing   the first row without a number; -1 where there is none
    """

    rows: int
    count: Array
    mean: Array
    squares: Array
    low: Array
    high: Array
    first_missing: Array

    @property
    def missing(self) -> Array:
        return self.rows - self.count

    @property
    def deviation(self) -> Array:
        return np.where(self.high > self.low, np.sqrt(self.squares / max(self.rows, 1)), 0.0)

    def filled(self, fill: Array) -> "Statistics":
        """As if every missing number were this one."""
        count = self.missing
        if not count.any():
            return self
        gap = fill - self.mean
        return Statistics(
            self.rows,
            self.count + count,
            self.mean + gap * (count / self.rows),
            self.squares + gap * gap * (self.count * count / self.rows),
            np.where(count > 0, np.fmin(self.low, fill), self.low),
            np.where(count > 0, np.fmax(self.high, fill), self.high),
            self.first_missing,
        )

    def followed_by(self, other: "Statistics") -> "Statistics":
        """Of these rows and those that follow (Chan, Golub and LeVeque)."""
        both = np.maximum(self.count + other.count, 1)
        gap = other.mean - self.mean
        return Statistics(
            self.rows + other.rows,
            self.count + other.count,
            self.mean + gap * (other.count / both),
            self.squares + other.squares + gap * gap * (self.count * other.count / both),
            np.fmin(self.low, other.low),
            np.fmax(self.high, other.high),
            np.where(
                (self.first_missing < 0) & (other.first_missing >= 0),
                self.rows + other.first_missing,
                self.first_missing,
            ),
        )


def gather(matrix: Any) -> Statistics:
    """The statistics of a dense matrix (N, d) with NaN for missing numbers.

    No value stops it or makes it warn: whether a column may hold infinite or huge numbers is decided where it is used.
    """
    total: Statistics | None = None
    with np.errstate(all="ignore"):
        for _, block in row_blocks(matrix):
            here = _of_block(np.asarray(block, dtype=np.float64))
            total = here if total is None else total.followed_by(here)
        return total if total is not None else _of_block(np.empty(matrix.shape))


def _of_block(block: Array) -> Statistics:
    rows, width = block.shape
    absent = np.isnan(block)
    any_absent = bool(absent.any())
    count = rows - absent.sum(axis=0, dtype=np.float64) if any_absent else np.full(width, float(rows))
    there = np.where(absent, 0.0, block) if any_absent else block
    mean = there.sum(axis=0) / np.maximum(count, 1)
    apart = np.where(absent, 0.0, block - mean) if any_absent else block - mean
    low = np.fmin.reduce(block, axis=0, initial=np.inf)
    high = np.fmax.reduce(block, axis=0, initial=-np.inf)
    first = np.where(absent.any(axis=0), absent.argmax(axis=0), -1) if any_absent else np.full(width, -1)
    return Statistics(rows, count, mean, np.einsum("ij,ij->j", apart, apart), low, high, first)
