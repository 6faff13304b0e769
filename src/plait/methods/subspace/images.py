"""The vectors that a coordinator has received.

Short vectors lie in one array in the order in which they came, round by round, and it grows: none is copied again.
Long ones lie each on its own, in memory or in a mapped file, and are worked on in blocks of rows, on all cores.  The
blocks depend on the number of rows and of vectors alone, and so do the results' bits.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from plait._mapped_files import IN_MEMORY, Workspace
from plait._threads import side_by_side
from plait._types import Array
from plait.problem.row_blocks import row_slices, vector_slices

T = TypeVar("T")
Places = npt.NDArray[np.intp]
_CACHED = 1 << 17  # numbers: 1 MiB as float64
_ULPS = 400 * float(np.finfo(np.float64).eps)
"""Of a number: 400 roundings, as a product D y goes through, with room: some columns cancel."""
_ROOM = 8  # rounds that a new array has room for beyond those that are there


class Shelf:
    """An array (n, N) of which the first rows are taken."""

    def __init__(self, room: int, rows: int) -> None:
        self.array = np.empty((room, rows))
        self.taken = 0


@dataclass(frozen=True)
class Images:
    """Vectors V (k, N), read-only.

    stored, places   short vectors as an array (n, N), and where each of them is there, (k,); None: as they stand
    shelf            the array that they lie in, where it may grow
    """

    vectors: tuple[Array, ...]
    rows: int
    workspace: Workspace = IN_MEMORY
    stored: Array | None = None
    places: Places | None = None
    shelf: Shelf | None = None

    @staticmethod
    def gathered(past: Sequence["Images"], newest: Sequence[Array], more: "Images") -> tuple["Images", list["Images"]]:
        """All groups' vectors with their newest (N,) and then some more, as one and group by group.

        Every group has as many.  Of short vectors only the newest are copied, where the others came from here last.
        """
        first = past[0]
        each = len(first) + 1
        if not first._short:
            whole = tuple(v for p, new in zip(past, newest, strict=True) for v in (*p.vectors, new))
            joined = Images((*whole, *more.vectors), first.rows, first.workspace)
            ends = range(0, len(whole) + 1, each)
            return joined, [Images(whole[a:b], first.rows, first.workspace) for a, b in pairwise(ends)]
        free, groups = len(more), len(past)
        last = free + groups * each
        shelf = first.shelf
        if shelf is None or shelf.taken != last - groups or last > len(shelf.array):
            shelf = Shelf(last + _ROOM * groups, first.rows)
            for j, vector in enumerate(more.vectors):
                shelf.array[j] = vector
            for i, images in enumerate(past):
                for j, vector in enumerate(images.vectors):
                    shelf.array[free + groups * j + i] = vector
        for i, vector in enumerate(newest):
            shelf.array[last - groups + i] = vector
        shelf.taken = last
        stored = shelf.array[:last]
        each_stored = [stored[free + i :: groups] for i in range(groups)]
        parts = [Images(tuple(s), first.rows, first.workspace, s, None, shelf) for s in each_stored]
        vectors = (*(v for part in parts for v in part.vectors), *stored[:free])
        return Images(vectors, first.rows, first.workspace, stored, _places(free, groups, each)), parts

    def __len__(self) -> int:
        return len(self.vectors)

    def and_these(self, vectors: Iterable[Array]) -> "Images":
        """The same with more vectors behind them."""
        return Images((*self.vectors, *vectors), self.rows, self.workspace)

    def newest(self, count: int) -> "Images":
        """The last ones only."""
        if count >= len(self):
            return self
        stored = self.stored if self.places is None else None
        first = len(self) - count
        last = None if stored is None else stored[first:]
        return Images(self.vectors[first:], self.rows, self.workspace, last)

    def picked(self, kept: npt.NDArray[np.bool_]) -> "Images":
        """Some of them, by a mask (k,)."""
        if kept.all():
            return self
        places = np.flatnonzero(kept) if self.places is None else self.places[kept]
        vectors = tuple(v for v, keep in zip(self.vectors, kept.tolist(), strict=True) if keep)
        return Images(vectors, self.rows, self.workspace, self.stored, None if self.stored is None else places)

    @cached_property
    def matrix(self) -> Array:
        """All of them as a matrix (k, N), in memory: for short vectors."""
        if self.stored is not None and self.places is None:
            return self.stored
        return np.stack(self.vectors) if self.vectors else np.empty((0, self.rows))

    @cached_property
    def _short(self) -> bool:
        return len(vector_slices(self.rows)) == 1

    @property
    def _table(self) -> Array:
        return self.matrix if self.stored is None else self.stored

    def _by_blocks(self, work: Callable[[slice], T]) -> list[T]:
        return side_by_side(work, row_slices(self.rows, max(1, len(self))))

    def _block(self, rows: slice) -> Array:
        return np.stack([v[rows] for v in self.vectors])

    def dot(self, vector: Array) -> Array:
        """V v (k,) for a vector v (N,)."""
        if self._short:
            found = np.asarray(self._table @ vector)
            return found if self.places is None else found[self.places]
        return self._summed(lambda block, rows: np.asarray(block @ vector[rows]))

    def combined(self, c: Array) -> Array:
        """V^T c (N,) for coefficients c (k,)."""
        if self._short:
            if self.places is not None:
                c, some = np.zeros(len(self._table)), c
                c[self.places] = some
            # The newest lie last: a step to the parties' own points y needs no pass over the others.
            first = int((c != 0).argmax()) if c.size else 0
            return np.asarray(c[first:] @ self._table[first:])
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

        found = self._summed(of)
        return found if self.places is None else found[self.places[:, None], self.places]

    def cross(self, some: Places, weights: Array) -> Array:
        """V diag(weights) V_s^T (k, s) for some of them."""
        some = some if self.places is None else self.places[some]
        # This way round BLAS takes half the time.
        found = self._summed(lambda block, rows: np.asarray((block[some] * weights[rows]) @ block.T)).T
        return found if self.places is None else found[self.places]

    def _summed(self, work: Callable[[Array, slice], Array]) -> Array:
        """The sum of what `work` gives for blocks (n, rows) of all that is stored, and their rows."""
        if self._short or not self.vectors:
            table = self._table
            return reduce(np.add, (work(table[:, rows], rows) for rows in _in_cache(self.rows, len(table))))
        return reduce(np.add, self._by_blocks(lambda rows: work(self._block(rows), rows)))


@lru_cache(maxsize=256)  # shapes: those of a few runs
def _places(free: int, groups: int, each: int) -> Places:
    """Where the vectors of each group are on a shelf, group by group, and then the free ones."""
    of_groups = [free + groups * j + i for i in range(groups) for j in range(each)]
    return np.array([*of_groups, *range(free)], dtype=np.intp)


@lru_cache(maxsize=256)  # shapes: those of a few runs
def _in_cache(rows: int, count: int) -> tuple[slice, ...]:
    """Parts of short vectors, of which so many together stay in a core's own cache."""
    parts = max(1, round(rows * count / _CACHED))
    return tuple(slice(rows * i // parts, rows * (i + 1) // parts) for i in range(parts))


def largest(vector: Array) -> float:
    """The largest size of a number, without a copy of the vector."""
    return max(float(vector.max()), -float(vector.min())) if vector.size else 0.0


def rounded_off(most: float) -> float:
    """The variance, at a row, of what double precision leaves out of a vector whose numbers have reached this size."""
    return (_ULPS * most) ** 2
