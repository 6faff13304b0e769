"""A dense matrix that lies on disk, in row blocks: for tables that do not fit into memory.

Its file has no name: when the process ends, however it ends, nothing of the table is left behind.  Blocks are read, not
mapped: the system still keeps what memory is free for, and a damaged disk is an error, not the end of the process.
"""

import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from plait._threads import in_order
from plait._types import Array
from plait.data.row_places import parted, row_places
from plait.errors import StorageError
from plait.problem.row_blocks import Kernel, computed, grouped, row_slices

_GATHERED_ROWS = 1 << 16  # rows that are read one by one before whole blocks are the faster way


class DiskMatrix:
    """A matrix (N, d) of float32 or float64 in a file."""

    def __init__(self, file: BinaryIO, shape: tuple[int, int], dtype: npt.DTypeLike) -> None:
        self._file, self.shape, self.dtype = file, shape, np.dtype(dtype)
        self.ndim = 2
        self._row_bytes = shape[1] * self.dtype.itemsize
        self._buffers = threading.local()
        weakref.finalize(self, file.close)

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self.shape[0] * self._row_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Rows by a slice, by their numbers or by a mask, and some columns of them, as an array in memory.

        Rows and columns are chosen one after the other: two lists give all pairs of both.
        """
        rows, columns = parted(key)
        if isinstance(rows, slice):
            return self._sliced(range(*rows.indices(self.shape[0])), columns)
        found = self._gathered(row_places(rows, self.shape[0]))[:, columns]
        return found[0] if np.ndim(rows) == 0 else found

    def _sliced(self, rows: range, columns: Any) -> Array:
        """Rows at equal distances: only the wanted columns of all of them are in memory at a time."""
        if not rows:
            return np.empty((0, self.shape[1]), self.dtype)[:, columns]
        low, high = min(rows[0], rows[-1]), max(rows[0], rows[-1]) + 1
        if isinstance(columns, slice) and columns == slice(None):
            found = self._read(low, np.empty((high - low, self.shape[1]), self.dtype))
        else:
            found = np.concatenate([block[:, columns] for block in self._blocks(low, high)])
        return found if rows.step == 1 else found[rows[0] - low :: rows.step]

    def _blocks(self, start: int, stop: int) -> Iterator[Array]:
        for rows in row_slices(*self.shape):
            first, last = max(rows.start, start), min(rows.stop, stop)
            if first < last:
                yield self[first:last]

    def _gathered(self, rows: npt.NDArray[np.int64]) -> Array:
        """Some rows, in their order."""
        found = np.empty((rows.size, self.shape[1]), self.dtype)
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        if rows.size <= _GATHERED_ROWS and rows.size < self.shape[0] // 8:
            for place, row in zip(order.tolist(), ordered.tolist(), strict=True):
                self._read(row, found[place : place + 1])
            return found
        for block in row_slices(*self.shape):
            first, last = np.searchsorted(ordered, [block.start, block.stop])
            if last > first:
                found[order[first:last]] = self[block][ordered[first:last] - block.start]
        return found

    def _read(self, start: int, out: Array) -> Array:
        """Fill an array (n, d) with the rows from this one on."""
        view, at = out.reshape(-1).view(np.uint8).data, start * self._row_bytes
        while view:
            try:
                count = os.preadv(self._file.fileno(), [view], at)
            except OSError as error:
                raise _lost(error.strerror or "an error") from error
            if count == 0:
                raise _lost("the end of its file")
            view, at = view[count:], at + count
        return out

    def mapped(self, kernel: Kernel, vectors: Sequence[Array], shared: tuple[Any, ...]) -> Iterator[Any]:
        """What a kernel gives for each group of blocks, in order; one block a core is in memory."""
        groups = grouped(row_slices(*self.shape))
        return in_order(lambda group: computed(kernel, group, self.block, vectors, shared), groups)

    def block(self, rows: slice) -> Array:
        """Some rows as float64; the next call in the same thread overwrites them."""
        count = rows.stop - rows.start
        stored = self._buffer("stored", count, self.dtype)
        self._read(rows.start, stored)
        if self.dtype == np.float64:
            return stored
        wide = self._buffer("wide", count, np.dtype(np.float64))
        wide[...] = stored
        return wide

    def _buffer(self, name: str, rows: int, dtype: np.dtype[Any]) -> Array:
        """Memory that a thread keeps for the next block."""
        kept = getattr(self._buffers, name, None)
        if kept is None or len(kept) < rows:
            kept = np.empty((rows, self.shape[1]), dtype)
            setattr(self._buffers, name, kept)
        return kept[:rows]


class DiskWriter:
    """Rows (n, d) are written to a file; `finish` gives the matrix."""

    def __init__(self, width: int, dtype: npt.DTypeLike, folder: Path | None) -> None:
        self._width, self._dtype, self._rows = width, np.dtype(dtype), 0
        self._folder = folder
        try:
            self._file: Any = tempfile.TemporaryFile(dir=folder, prefix="plait-", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise StorageError(f"{folder} must take a table's blocks. Found: {error.strerror}.") from error
        self._close = weakref.finalize(self, self._file.close)

    def append(self, rows: Array) -> None:
        """The next rows (n, d)."""
        view = np.ascontiguousarray(rows, self._dtype).reshape(-1).view(np.uint8).data
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise self._full(error) from error
        self._rows += len(rows)

    def _full(self, error: OSError) -> StorageError:
        folder = Path(tempfile.gettempdir()) if self._folder is None else self._folder
        free = shutil.disk_usage(folder).free
        return StorageError(
            f"{folder} must have room for the prepared table. Found: {error.strerror}, after {self._rows} rows; "
            f"{free / 1e9:.1f} GB are free. Free some, or set data.spool to another disk. Nothing is lost: start again."
        )

    def finish(self) -> DiskMatrix:
        """The matrix; nothing can be appended afterwards."""
        self._close.detach()
        return DiskMatrix(self._file, (self._rows, self._width), self._dtype)


def _lost(what: str) -> StorageError:
    return StorageError(
        f"every block of the prepared table must be readable. Found {what}: the disk is faulty, or the file was cut. "
        "Start the program again: it reads the table anew, and the run goes on."
    )
