"""A file of records of one size that grows at its end: it holds sets that are too large for memory."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from plait._files import make_folder, open_private
from plait.errors import StorageError


class Spool:
    """Records of `size` bytes; a record that a crash cut short is dropped when the spool is opened again."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self._size = size
        held = path.stat().st_size if path.exists() else 0
        self.count = held // size
        if held != self.count * size:
            with open_private(path, "r+b") as file:
                file.truncate(self.count * size)

    def append(self, data: bytes) -> None:
        """Add whole records; they survive a power cut when this returns."""
        try:
            make_folder(self.path.parent)
            with open_private(self.path, "ab") as file:
                file.write(data)
                file.flush()
                os.fdatasync(file.fileno())
        except OSError as error:
            raise StorageError(f"{self.path} must be writable. Found: {error.strerror}. Make room.") from error
        self.count += len(data) // self._size

    def records(self) -> Any:
        """All records as an array (count, size) of bytes that stays on disk."""
        if self.count == 0:
            return np.empty((0, self._size), np.uint8)
        return np.memmap(self.path, np.uint8, "r", shape=(self.count, self._size))
