"""An append-only file of numbered records: what a run must not forget between two messages.

    record   "PLTJ" | seq u64 | size u64 | CRC-32 of the payload u32 | payload

A record is written before anything that follows from it is sent, so killing the process loses nothing.  Making it
durable against a power cut (fsync) takes milliseconds and so happens while the peers compute; the next record waits
for it.  A record cut short by a crash is dropped when the journal is opened again: nothing followed from it.
"""

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from plait.errors import StorageError
from plait.storage.files import sync_folder

_RECORD = struct.Struct("<4sQQI")
_MAGIC = b"PLTJ"


@dataclass(frozen=True)
class Record:
    """The payload of one numbered exchange."""

    seq: int
    payload: bytes


class Journal:
    """Records in the order of their numbers, at most one writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        new = not path.exists()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        if new:
            sync_folder(path.parent)
        self.bytes = self._drop_torn_tail()
        self._syncing: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, "plait-sync")

    def append(self, seq: int, parts: list[bytes | memoryview]) -> None:
        """Write one record; it survives the death of this process at once, and a power cut by the next append."""
        self.settle()
        check = 0
        for part in parts:
            check = zlib.crc32(part, check)
        size = sum(len(part) for part in parts)
        self._file.write(_RECORD.pack(_MAGIC, seq, size, check))
        for part in parts:
            self._file.write(part)
        self._file.flush()
        self.bytes += _RECORD.size + size
        self._syncing = self._pool.submit(os.fdatasync, self._file.fileno())

    def settle(self) -> None:
        """Wait until everything written so far is durable."""
        if self._syncing is not None:
            self._syncing.result()
            self._syncing = None

    def clear(self) -> None:
        """Forget all records: a snapshot holds what they led to."""
        self.settle()
        self._file.truncate(0)
        os.fsync(self._file.fileno())
        self.bytes = 0

    def records(self) -> Iterator[Record]:
        """Every whole record, oldest first."""
        with self.path.open("rb") as file:
            while (record := _read(file.read, self.path)) is not None:
                yield record

    def close(self) -> None:
        self.settle()
        self._pool.shutdown()
        self._file.close()

    def _drop_torn_tail(self) -> int:
        whole = 0
        for record in self.records():
            whole += _RECORD.size + len(record.payload)
        if whole != self._file.tell():
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
        return whole


def _read(read: Callable[[int], bytes], path: Path) -> Record | None:
    """The next record; None at the end or where the last write was cut short."""
    header = read(_RECORD.size)
    if len(header) < _RECORD.size:
        return None
    magic, seq, size, check = _RECORD.unpack(header)
    if magic != _MAGIC:
        raise StorageError(f"the journal {path} must hold records. Found something else. Start a fresh run.")
    payload = read(size)
    return Record(seq, payload) if len(payload) == size and zlib.crc32(payload) == check else None
