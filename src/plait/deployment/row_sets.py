"""Which rows earlier runs had: sets of 64-bit names on disk, each in a file that is named by its content."""

import fcntl
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from plait._files import make_folder, open_private, write_atomically
from plait._texts import Texts
from plait._types import Array
from plait.errors import StorageError

Names = npt.NDArray[np.uint64]
"""64 bits for every row, in ascending order."""
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio: spreads a label over all 64 bits
_DIGITS = 32  # of a set's digest: 128 bits


def names_of(ids: Sequence[str], labels: Array) -> Names:
    """A name for every row with its label."""
    texts = ids if type(ids) is Texts else Texts.of(ids)  # row numbers are not kept as texts
    each = np.ascontiguousarray(labels + 0.0, dtype=np.float64).view(np.uint64)  # + 0: -0 and 0 are one label
    mixed = (texts.hashes() ^ (each * _MIX)) * _MIX
    return np.unique(mixed ^ (mixed >> np.uint64(32)))


def among(run: Names, names: Names) -> npt.NDArray[np.bool_]:
    """Which names (n,) are in the run."""
    return run[np.minimum(np.searchsorted(run, names), run.size - 1)] == names


def digest_of(names: Names) -> str:
    return hashlib.sha256(names.astype("<u8").tobytes()).hexdigest()[:_DIGITS]


class RowSets:
    """The sets in one folder; each has a number beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = make_folder(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While no other program reads or writes here."""
        with open_private(self.folder / "lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @property
    def known(self) -> list[tuple[str, int]]:
        """Digest and number of all sets."""
        parts = [path.name.partition("-") for path in sorted(self.folder.iterdir())]
        return [(name, int(number)) for name, _, number in parts if len(name) == _DIGITS and number.isdecimal()]

    def add(self, names: Names, number: int) -> None:
        """Durable when this returns."""
        write_atomically(self.folder / f"{digest_of(names)}-{number}", names.astype("<u8").tobytes())

    def read(self, digest: str) -> Names:
        """A set that is known; StorageError where it was changed."""
        path = next(iter(sorted(self.folder.glob(f"{digest}-*"))), self.folder / digest)
        data = path.read_bytes() if path.exists() else b""
        names = np.frombuffer(data[: len(data) // 8 * 8], dtype="<u8")
        if hashlib.sha256(data).hexdigest()[:_DIGITS] != digest:
            raise StorageError(f"{path} must hold the rows of an earlier run. Found it changed. Restore a copy of it.")
        return names.astype(np.uint64)
