"""A matrix that grows block by block while a table is read: in memory, and on disk once it does not fit there."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from plait._types import Array
from plait.data.disk_matrix import DiskWriter
from plait.data.memory import IN_MEMORY, Room
from plait.problem.row_blocks import row_slices

_FIRST_BYTES = 2 << 20  # 2 MiB: what is allocated at first where the number of rows is not known
_GROWTH = 8  # each time by an eighth: the system moves such large blocks without copying, and little is left unused


class MatrixWriter:
    """Rows are appended; `finish` gives the matrix (N, d), which is an array or a `DiskMatrix`."""

    def __init__(self, width: int, rows: int | None = None, room: Room = IN_MEMORY, about: int | None = None) -> None:
        """For so many rows, where their number is known, or for about so many."""
        self._width, self._room, self._dtype = width, room, np.dtype(room.dtype)
        self._row_bytes = max(1, width * self._dtype.itemsize)
        self._rows = 0
        self._disk: DiskWriter | None = None
        self._matrix: Any = None
        if rows is not None and rows * self._row_bytes > room.for_table:
            self._disk = DiskWriter(width, self._dtype, room.folder)
        else:
            # Memory that is taken at once comes in large pages.  What is not used is given back, and was never touched.
            likely = min(about or 0, room.for_table // self._row_bytes)
            first = max(likely, _FIRST_BYTES // self._row_bytes + 1) if rows is None else rows
            self._matrix = np.empty((first, width), self._dtype)

    def append(self, columns: Sequence[Array], rows: int) -> None:
        """Columns (n,) of the next n rows."""
        here = self._place(rows)
        for j, column in enumerate(columns):
            here[:, j] = column
        self._done(here)

    def append_rows(self, block: Array) -> None:
        """The next rows (n, d)."""
        here = self._place(len(block))
        here[...] = block
        self._done(here)

    def _place(self, rows: int) -> Array:
        """Where the next rows go."""
        need = self._rows + rows
        if self._disk is None and need * self._row_bytes > self._room.for_table:
            self._disk = DiskWriter(self._width, self._dtype, self._room.folder)
            for part in row_slices(self._rows, self._width):
                self._disk.append(self._matrix[part])
            self._matrix = None
        if self._disk is not None:
            return np.empty((rows, self._width), self._dtype)
        have = self._matrix.shape[0]
        if need > have:
            self._matrix.resize((max(need, have + have // _GROWTH), self._width), refcheck=False)
        here: Array = self._matrix[self._rows : need]
        return here

    def _done(self, here: Array) -> None:
        self._rows += len(here)
        if self._disk is not None:
            self._disk.append(here)

    def finish(self) -> Any:
        """The matrix; nothing can be appended afterwards."""
        if self._disk is not None:
            return self._disk.finish()
        if self._rows != self._matrix.shape[0]:
            self._matrix.resize((self._rows, self._width), refcheck=False)
        return self._matrix


def picked_rows(matrix: Any, rows: Any, room: Room) -> Any:
    """These rows (n,) of a dense matrix, in this order, where there is room for them."""
    writer = MatrixWriter(matrix.shape[1], len(rows), room)
    for part in row_slices(len(rows), matrix.shape[1]):
        writer.append_rows(matrix[rows[part]])
    return writer.finish()
