"""What an alignment leaves behind at a party: which of its rows are common, in the common order.

alignment.json   sizes of all sets, number of common rows, checksum of the ids
order.npy        row numbers of the party's file (n,), ordered by id
"""

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plait._files import read_json, write_atomically, write_json
from plait._texts import Texts
from plait.alignment.ids import Ids
from plait.errors import StorageError

_STORED = {"checksum": int, "order": str, "common": int, "sizes": {...: int}}


@dataclass(frozen=True)
class Order:
    """The common rows at one party: its rows (n,), their ids, and the sizes of all sets."""

    rows: Any
    ids: Texts
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, ids: Ids, places: Any, sizes: Mapping[str, int]) -> "Order":
        """The order of the ids at these places: by id, so that it depends on nothing secret."""
        places = np.asarray(places, np.int64)
        texts = ids.texts.take(places)
        ordered = texts.argsort()
        return cls(ids.rows[places[ordered]], texts.take(ordered), dict(sizes))

    def save(self, folder: Path, ids: Ids) -> None:
        """Write both files, alignment.json last: `exists` looks for it alone."""
        buffer = io.BytesIO()
        np.save(buffer, self.rows)
        write_atomically(folder / "order.npy", buffer.getvalue())
        seal = hashlib.sha256(buffer.getvalue()).hexdigest()
        counted = {"common": len(self.ids), "checksum": ids.checksum}
        content = {"format": 1, "sizes": dict(self.sizes), **counted, "order": seal}
        write_json(folder / "alignment.json", content)

    @staticmethod
    def exists(folder: Path) -> bool:
        return (folder / "alignment.json").exists()

    @staticmethod
    def checksum(folder: Path) -> int:
        """The checksum of the ids that were aligned."""
        return int(read_json(folder / "alignment.json", "an alignment", _STORED)["checksum"])

    @classmethod
    def load(cls, folder: Path, ids: Ids) -> "Order":
        """What `save` wrote; StorageError when it is not there, or the ids have changed since."""
        content = read_json(folder / "alignment.json", "an alignment", _STORED)
        if content["checksum"] != ids.checksum:
            raise StorageError(
                f"the ids must be those that were aligned in {folder}. Found others: the file, or its id rules, have "
                "changed. Restore them, or align again: `plait align --refresh` at every party."
            )
        try:
            data = (folder / "order.npy").read_bytes()
        except OSError as error:
            raise StorageError(f"{folder / 'order.npy'} must be readable. Found: {error.strerror}.") from error
        if hashlib.sha256(data).hexdigest() != content["order"]:
            raise StorageError(
                f"{folder / 'order.npy'} must be the order that was aligned. Found it damaged, or of "
                "another run. Restore the folder, or align again: `plait align --refresh`."
            )
        rows = _read_rows(data)
        places = np.minimum(np.searchsorted(ids.rows, rows), len(ids.rows) - 1)  # a party's rows ascend
        if len(rows) != content["common"] or not np.array_equal(ids.rows[places], rows):
            raise StorageError(f"{folder / 'order.npy'} must name rows of the party's file. Found others. Align again.")
        return cls(rows, ids.texts.take(places), content["sizes"])


def _read_rows(data: bytes) -> Any:
    """The row numbers (n,) in a NumPy file; an empty array where the bytes are something else."""
    try:
        rows = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError, MemoryError):
        return np.empty(0, np.int64)
    sound = isinstance(rows, np.ndarray) and rows.ndim == 1 and rows.dtype.kind in "iu"
    return rows if sound else np.empty(0, np.int64)
