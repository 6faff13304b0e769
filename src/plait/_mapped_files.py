"""Vectors that lie in files and are mapped into memory: the system drops their pages where memory is short.

A file has no name, so nothing is left when the process ends.  Its room on the disk is taken before it is mapped: a full
disk is an error, and not the end of the process.
"""

import mmap
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.errors import StorageError


@dataclass(frozen=True)
class Workspace:
    """Where the vectors of a run lie that have one number per row: in memory, or in mapped files.

    on_disk   whether they lie in files
    folder    the folder of the files; None for the system's temporary folder
    """

    on_disk: bool = False
    folder: Path | None = None

    def empty(self, count: int, dtype: npt.DTypeLike = np.float64) -> Array:
        """A vector (count,) that is to be filled."""
        return mapped_empty(count, self.folder, dtype) if self.on_disk and count else np.empty(count, dtype)

    def kept(self, vector: Array) -> Array:
        """A vector that a run keeps from round to round, where there is room for it."""
        if not self.on_disk or not vector.size or in_file(vector):
            return vector
        found = self.empty(vector.size, vector.dtype)
        found[...] = vector
        return found


IN_MEMORY = Workspace()


def mapped_empty(count: int, folder: Path | None, dtype: npt.DTypeLike = np.float64) -> Array:
    """A vector (count,), count > 0, in a file of this folder; None for the system's temporary folder."""
    size = count * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="plait-", buffering=0) as file:
            _reserve(file.fileno(), size)
            mapped = mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise no_room(folder, size, error) from error
    return np.frombuffer(mapped, dtype)


def in_file(vector: Array) -> bool:
    """Whether these numbers are those of a mapped file."""
    root: Any = vector
    while isinstance(root, np.ndarray):
        root = root.base
    return isinstance(root, memoryview) and isinstance(root.obj, mmap.mmap)


def _reserve(file: int, size: int) -> None:
    """Take room on the disk: a page of a mapped file that finds none would end the process."""
    reserve: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
    if reserve is not None:
        reserve(file, 0, size)
        return
    zeros = bytes(_WRITTEN)
    for start in range(0, size, _WRITTEN):
        os.write(file, zeros[: min(_WRITTEN, size - start)])


_WRITTEN = 1 << 20  # bytes that are written at once where a system cannot reserve room: 1 MiB


def no_room(folder: Path | None, size: int, error: OSError) -> StorageError:
    """What to say where a file cannot be written."""
    where = tempfile.gettempdir() if folder is None else folder
    return StorageError(
        f"{where} must have room for {size / 1e6:.0f} MB that a run keeps. Found: {os.strerror(error.errno or 0)}. "
        "Make room, or set data.spool to another disk, and start again: the run resumes."
    )
