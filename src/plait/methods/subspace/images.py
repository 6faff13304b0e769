"""The vectors that a coordinator has received: each lies on its own, in memory or in a mapped file.

Short vectors are worked on as one matrix.  Long ones are worked on in blocks of rows, on all cores, and no copy of them
all is made.  The blocks depend on the number of rows and of vectors alone, and so do the results' bits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from plait._mapped_files import IN_MEMORY, Workspace
from plait._threads import side_by_side
from plait._types import Array
from plait.problem.row_blocks import row_slices, vector_slices

T = TypeVar("T")
_CACHED = 1 << 17  # numbers: 1 MiB as float64


@dataclass(frozen=True)
class Images:
    """Vectors V (k, N), read-only."""

    vectors: tuple[Array, ...]
    rows: int
    workspace: Workspace = IN_MEMORY

    @staticmethod
    def joined(images: Sequence["Images"]) -> "Images":
        """All vectors of several."""
        return Images(tuple(v for each in images for v in each.vectors), images[0].rows, images[0].workspace)

    def __len__(self) -> int:
        return len(self.vectors)

    def and_these(self, vectors: Iterable[Array]) -> "Images":
        """The same with more vectors behind them."""
        return Images((*self.vectors, *vectors), self.rows, self.workspace)

    def newest(self, count: int) -> "Images":
        """The last ones only."""
        return self.part(max(0, len(self) - count), len(self))

    def picked(self, kept: npt.NDArray[np.bool_]) -> "Images":
        """Some of them, by a mask (k,)."""
        if kept.all():
            return self
        return Images(tuple(v for v, keep in zip(self.vectors, kept, strict=True) if keep), self.rows, self.workspace)

    @cached_property
    def matrix(self) -> Array:
        """All of them as a matrix (k, N), in memory: for short vectors."""
        return np.stack(self.vectors) if self.vectors else np.empty((0, self.rows))

    @property
    def _short(self) -> bool:
        return len(vector_slices(self.rows)) == 1

    def _by_blocks(self, work: Callable[[slice], T]) -> list[T]:
        return side_by_side(work, row_slices(self.rows, max(1, len(self))))

    def _block(self, rows: slice) -> Array:
        return np.stack([v[rows] for v in self.vectors])

    def dot(self, vector: Array) -> Array:
        """V v (k,) for a vector v (N,)."""
        if self._short:
            return np.asarray(self.matrix @ vector)
        return self.summed(lambda block, rows: np.asarray(block @ vector[rows]))

    def combined(self, c: Array) -> Array:
        """V^T c (N,) for coefficients c (k,)."""
        if self._short:
            return np.asarray(c @ self.matrix)
        found = self.workspace.empty(self.rows)

        def fill(rows: slice) -> None:
            found[rows] = c @ self._block(rows) if self.vectors else 0.0

        self._by_blocks(fill)
        return found

    def gram(self, weights: Array) -> Array:
        """V diag(weights) V^T (k, k), weights (N,) >= 0."""

        def of(block: Array, rows: slice) -> Array:
            weighted = block * np.sqrt(weights[rows])
            return np.asarray(weighted @ weighted.T)

        return self.summed(of)

    def summed(self, work: Callable[[Array, slice], Array]) -> Array:
        """The sum of what `work` gives for blocks (k, n) of V and their rows."""
        if self._short or not self.vectors:
            return reduce(np.add, (work(self.matrix[:, rows], rows) for rows in _in_cache(self.rows, len(self))))
        return reduce(np.add, self._by_blocks(lambda rows: work(self._block(rows), rows)))

    def part(self, first: int, last: int) -> "Images":
        """Some of them; short vectors are views of one matrix."""
        if not self._short:
            return Images(self.vectors[first:last], self.rows, self.workspace)
        block = self.matrix[first:last]
        found = Images(tuple(block), self.rows, self.workspace)
        found.__dict__["matrix"] = block  # as if it had been asked for: no copy
        return found


@lru_cache(maxsize=256)  # shapes: those of a few runs
def _in_cache(rows: int, count: int) -> tuple[slice, ...]:
    """Parts of short vectors, of which so many together stay in a core's own cache."""
    parts = max(1, round(rows * count / _CACHED))
    return tuple(slice(rows * i // parts, rows * (i + 1) // parts) for i in range(parts))


def largest(vector: Array) -> float:
    """The largest size of a number, without a copy of the vector."""
    return max(float(vector.max()), -float(vector.min())) if vector.size else 0.0
