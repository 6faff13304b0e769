"""Arrays that lie in files and are mapped into memory: the system drops their pages where memory is short.

A file has no name, so nothing is left when the process ends.  It is written, then mapped: a full disk is an error, and
not the end of the process.
"""

import mmap
import os
import tempfile
from pathlib import Path

import numpy as np

from plait._types import Array
from plait.errors import StorageError


def mapped_copy(array: Array, folder: Path | None) -> Array:
    """The same numbers, read-only, in a file of this folder; None for the system's temporary folder."""
    data = np.ascontiguousarray(array)
    if not data.size:
        return data
    view = data.reshape(-1).view(np.uint8).data
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="plait-", buffering=0) as file:
            while view:
                view = view[file.write(view) :]
            mapped = mmap.mmap(file.fileno(), data.nbytes, access=mmap.ACCESS_READ)
    except OSError as error:
        raise no_room(folder, data.nbytes, error) from error
    return np.frombuffer(mapped, data.dtype).reshape(data.shape)


def no_room(folder: Path | None, size: int, error: OSError) -> StorageError:
    """What to say where a file cannot be written."""
    where = tempfile.gettempdir() if folder is None else folder
    return StorageError(
        f"{where} must have room for {size / 1e6:.0f} MB that a run keeps. Found: {os.strerror(error.errno or 0)}. "
        "Make room, or set data.spool to another disk, and start again: the run resumes."
    )
