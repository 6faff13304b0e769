"""A CSR matrix that grows while a table is read: in memory, and in mapped files once it does not fit there.

SciPy works on the mapped arrays as on any others, so that nothing else knows where they lie.
"""

import mmap
import os
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plait._mapped_files import no_room
from plait._types import Array
from plait.data.memory import Room
from plait.problem.row_blocks import vector_slices

_MOST_SHORT = 2**31 - 1  # stored numbers that four bytes can count


class _Numbers:
    """Numbers of one type that are appended: in memory, or in a file without a name."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._parts: list[Array] = []
        self._file: Any = None
        self.count = 0

    def append(self, numbers: Array, room: Room) -> None:
        part = np.ascontiguousarray(numbers, self._dtype)
        self.count += part.size
        if self._file is None:
            self._parts.append(part)
        else:
            self._write(part, room)

    def spill(self, room: Room) -> None:
        """From now on in a file, and all before, too."""
        try:
            self._file = tempfile.TemporaryFile(dir=room.folder, prefix="plait-", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise no_room(room.folder, self.count * self._dtype.itemsize, error) from error
        for part in self._parts:
            self._write(part, room)
        self._parts = []

    def _write(self, part: Array, room: Room) -> None:
        view = part.view(np.uint8).data
        try:
            while view:
                view = view[os.write(self._file.fileno(), view) :]
        except OSError as error:
            raise no_room(room.folder, part.nbytes, error) from error

    def finish(self) -> Array:
        if self._file is None:
            return np.concatenate(self._parts) if self._parts else np.empty(0, self._dtype)
        with self._file as file:
            return np.frombuffer(mmap.mmap(file.fileno(), self.count * self._dtype.itemsize), self._dtype)


class CsrWriter:
    """Rows are appended; `finish` gives the matrix (N, d) of float64."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._data, self._indices, self._lengths = _Numbers(np.float64), _Numbers(np.int32), _Numbers(np.int32)
        self._on_disk = False

    def append(self, block: Any) -> None:
        """The next rows, as a CSR matrix."""
        self._data.append(block.data, self._room)
        self._indices.append(block.indices, self._room)
        self._lengths.append(np.diff(block.indptr), self._room)
        if not self._on_disk and 12 * self._data.count + 4 * self._lengths.count > self._room.for_table:
            self._on_disk = self._data.count > 0
            for numbers in (self._data, self._indices) if self._on_disk else ():
                numbers.spill(self._room)

    def finish(self, width: int, shift: int = 0, last: int | None = None) -> Any:
        """All rows: `shift` is taken from every column's number, and column `last` becomes the last one, width - 1."""
        lengths = self._lengths.finish()
        kind = np.int32 if self._data.count <= _MOST_SHORT else np.int64
        pointers = np.zeros(lengths.size + 1, kind)
        np.cumsum(lengths, out=pointers[1:])
        data, indices = self._data.finish(), self._indices.finish()
        for part in vector_slices(indices.size) if shift or last is not None else ():
            some = indices[part]
            indices[part] = np.where(some == last, width - 1, some - shift)
        return sp.csr_matrix((data, indices.astype(kind, copy=False), pointers), shape=(lengths.size, width))
