"""An append-only file of numbered records: what a run must not forget between two messages.

    record   "PLTJ" | seq u64 | size u64 | CRC-32 of the payload u32 | payload

`append` writes at once, so that killing the process loses nothing, and makes the record durable against a power cut
(fsync, which takes milliseconds) while the peers compute.  `append_behind` writes, too, while the peers compute.  The
next append waits for the one before it: at most the newest record can be missing after a crash, and peers repeat
their last two messages on request.  A record cut short by a crash is dropped when the journal is opened again.
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
from plait.storage.state import Buffer

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
        self._working: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, "plait-sync")

    def append(self, seq: int, parts: list[Buffer]) -> None:
        """Write one record; it survives the death of this process at once, and a power cut by the next append."""
        self.settle()
        self._write(seq, parts)
        self._working = self._pool.submit(os.fdatasync, self._file.fileno())

    def append_behind(self, seq: int, parts: list[Buffer]) -> None:
        """Write one record in the background; it is durable by the next append."""
        self.settle()
        self._working = self._pool.submit(self._write_and_sync, seq, parts)

    def replace_behind(self, write_snapshot: Callable[[], None]) -> None:
        """Write a snapshot that makes all records so far superfluous, then forget them, in the background."""
        self.settle()
        self._working = self._pool.submit(self._replace, write_snapshot)

    def _write_and_sync(self, seq: int, parts: list[Buffer]) -> None:
        self._write(seq, parts)
        os.fdatasync(self._file.fileno())

    def _write(self, seq: int, parts: list[Buffer]) -> None:
        check = 0
        for part in parts:
            check = zlib.crc32(part, check)
        size = sum(len(part) for part in parts)
        self._file.write(_RECORD.pack(_MAGIC, seq, size, check))
        for part in parts:
            self._file.write(part)
        self._file.flush()
        self.bytes += _RECORD.size + size

    def _replace(self, write_snapshot: Callable[[], None]) -> None:
        write_snapshot()
        self._file.truncate(0)
        os.fdatasync(self._file.fileno())
        self.bytes = 0

    def settle(self) -> None:
        """Wait until everything written so far is durable."""
        if self._working is not None:
            self._working.result()
            self._working = None

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
