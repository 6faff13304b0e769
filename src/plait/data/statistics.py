"""What scaling needs to know of every number column, gathered in one pass over blocks of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from plait._types import Array
from plait.problem.row_blocks import Blocks, mapped

_BINS = 1 << 12  # of a column's histogram: 100 million numbers leave some ten thousand in one
_FEW = 1 << 16  # numbers of a column that are sorted at once


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
    blocks = [one for group in mapped(matrix, _of_blocks) for one in group]
    with np.errstate(all="ignore"):
        return reduce(Statistics.followed_by, blocks)


def _of_blocks(blocks: Blocks, vectors: Sequence[Array]) -> list[Statistics]:
    with np.errstate(all="ignore"):
        return [_of_block(np.asarray(block, dtype=np.float64)) for _, block in blocks]


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


def medians(matrix: Any, known: Statistics) -> Array:
    """The median of every column (d,), exact, without any column in memory.

    One pass counts how many numbers lie in each bin between the least and the largest.  The bins that hold the two
    middle numbers become the new range, until few enough are left to be sorted.
    """
    low, high = known.low.copy(), known.high.copy()
    below = np.zeros(known.count.size, dtype=np.int64)
    inside = known.count.astype(np.int64)
    ranks = np.stack([(inside - 1) // 2, inside // 2])
    for _ in range(64):  # each pass divides a range by thousands; equal numbers end it before
        wide = np.flatnonzero((inside > _FEW) & (low < high))
        if not wide.size:
            break
        edges = [np.linspace(low[j], high[j], _BINS + 1) for j in wide]
        counts = sum(mapped(matrix, _histograms, (), (wide, edges)))
        for i, j in enumerate(wide):
            sums = np.concatenate([[0], np.cumsum(counts[i])])
            first, last = np.searchsorted(sums, ranks[:, j] - below[j], side="right") - 1
            low[j], high[j] = edges[i][first], edges[i][last + 1]
            if last + 1 < _BINS:
                high[j] = np.nextafter(high[j], -np.inf)  # bins do not hold their upper ends, but the last one does
            below[j] += sums[first]
            inside[j] = sums[last + 1] - sums[first]
    return _middles(matrix, low, high, ranks - below)


def _histograms(blocks: Blocks, vectors: Sequence[Array], columns: Any, edges: list[Array]) -> Any:
    """How many numbers of each of these columns lie between its edges."""
    counts = np.zeros((len(edges), edges[0].size - 1), dtype=np.int64)
    for _, block in blocks:
        for i, j in enumerate(columns):
            counts[i] += np.histogram(_within(block[:, j], edges[i][0], edges[i][-1]), edges[i])[0]
    return counts


def _within(column: Array, low: float, high: float) -> Array:
    numbers = column.astype(np.float64)
    return numbers[(numbers >= low) & (numbers <= high)]


def _middles(matrix: Any, low: Array, high: Array, ranks: Any) -> Array:
    """The mean of the numbers of these two ranks (2, d) among those of each column between low and high."""
    groups = list(mapped(matrix, _between, (), (low, high)))
    found = []
    for j in range(low.size):
        numbers = np.sort(np.concatenate([group[j] for group in groups]))
        found.append((numbers[ranks[0, j]] + numbers[ranks[1, j]]) / 2 if low[j] < high[j] else low[j])
    return np.array(found)


def _between(blocks: Blocks, vectors: Sequence[Array], low: Array, high: Array) -> list[Array]:
    """The numbers of each column between its bounds; none where they are equal."""
    kept: list[list[Array]] = [[np.empty(0)] for _ in low]
    for _, block in blocks:
        for j, column in enumerate(kept):
            if low[j] < high[j]:
                column.append(_within(block[:, j], low[j], high[j]))
    return [np.concatenate(column) for column in kept]
