"""An append-only file of numbered records: what a run must not forget between two messages.

    record   "PLJ3" | seq u64 | size u64 | check u32 | payload

The check is the CRC-32 of the owner, seq, size, and one page: the sum of all pages of the payload, byte by byte.  This
is ten times as fast as a CRC of all pages, and also notices a page that did not reach the disk.  The owner is one party
of one run: records of another owner are not read.

`append` writes at once, so that killing the process loses nothing; `append_behind` lets a worker write.  Making
records durable against a power cut (fsync) takes milliseconds, so the worker does it for all records at hand while
the peers compute.  At most `lag` records may wait for the disk: peers keep as many messages, to repeat them.  A record
cut short by a crash is dropped when the journal is opened again.
"""

import contextlib
import os
import shutil
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from plait._files import make_folder, open_private, sync_folder
from plait.data.memory import in_words
from plait.deployment.state import Buffer
from plait.errors import StorageError

_RECORD = struct.Struct("<4sQQI")
_MAGIC = b"PLJ3"
_PAGE = 4096  # bytes that are added up at once for the checksum: NumPy is fast on them and they fit into the cache


@dataclass(frozen=True)
class Record:
    """The payload of one numbered exchange."""

    seq: int
    payload: bytes


class Journal:
    """Records in the order of their numbers, one writer, and a worker that makes them durable."""

    def __init__(self, path: Path, lag: int = 1, owner: str = "") -> None:
        self.path = path
        self._owner = zlib.crc32(owner.encode())
        new = not path.exists()
        make_folder(path.parent)
        self._file = open_private(path, "ab")
        if new:
            sync_folder(path.parent)
        try:
            self.bytes = self._drop_torn_tail()
        except StorageError:
            self._file.close()
            raise
        self._lag = lag
        self._jobs: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._replacing = False
        self._failure: OSError | StorageError | None = None
        self._closing = False
        self._worker = threading.Thread(target=self._work, name="plait-journal", daemon=True)
        self._worker.start()

    def append(self, seq: int, parts: list[Buffer]) -> None:
        """Write one record; it survives the death of this process at once."""
        self._wait(lambda: not self._replacing)  # a record written before the file is emptied would be lost
        try:
            self._write(seq, parts)
        except OSError as error:
            self._failure = error
        self._submit(lambda: None)

    def append_behind(self, seq: int, make_parts: Callable[[], list[Buffer]]) -> None:
        """Have the worker make and write one record."""
        self._submit(lambda: self._write(seq, make_parts()))

    def replace_behind(self, write_snapshot: Callable[[], None]) -> None:
        """Have the worker write a snapshot that replaces all records so far, then remove them."""
        self._replacing = True
        self._submit(lambda: self._replace(write_snapshot))

    def settle(self) -> None:
        """Wait until everything is durable."""
        self._wait(lambda: not self._jobs)

    def close(self) -> None:
        """End the worker; an error of writing was raised before."""
        with contextlib.suppress(StorageError):
            self.settle()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._worker.join()
        with contextlib.suppress(OSError):
            self._file.close()

    def _submit(self, job: Callable[[], None]) -> None:
        with self._changed:
            self._jobs.append(job)
            self._changed.notify_all()
        self._wait(lambda: len(self._jobs) <= self._lag)

    def _wait(self, until: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or until())
            if self._failure is not None:
                raise StorageError(
                    f"the journal {self.path} must be writable. Found: {self._failure}. Make room, or correct it, and "
                    "start again: the run resumes."
                )

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._jobs:
                    return
                jobs = list(self._jobs)
            try:
                for job in jobs:
                    job()
                self._make_durable()
            except (OSError, StorageError) as error:
                self._failure = error
            except MemoryError:
                self._failure = StorageError("too little memory to write the state")
            with self._changed:
                for _ in jobs:
                    self._jobs.popleft()
                self._changed.notify_all()

    def _make_durable(self) -> None:
        """Write the file to the disk, and drop its pages from memory: they are read again only after a restart."""
        os.fdatasync(self._file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def _write(self, seq: int, parts: list[Buffer]) -> None:
        size = sum(len(part) for part in parts)
        self._file.write(_RECORD.pack(_MAGIC, seq, size, _check(parts, seq, size, self._owner)))
        for part in parts:
            self._file.write(part)
        self._file.flush()
        self.bytes += _RECORD.size + size

    def _replace(self, write_snapshot: Callable[[], None]) -> None:
        write_snapshot()
        self._file.truncate(0)
        self.bytes = 0
        with self._changed:
            self._replacing = False
            self._changed.notify_all()

    def records(self) -> Iterator[Record]:
        """Every whole record, oldest first."""
        with self.path.open("rb") as file:
            while (record := _read(file, self.path, self._owner)) is not None:
                yield record

    def _drop_torn_tail(self) -> int:
        whole = 0
        for record in self.records():
            whole += _RECORD.size + len(record.payload)
        if whole != self._file.tell():
            self._file.truncate(whole)
            os.fsync(self._file.fileno())
        return whole


class NoJournal:
    """Keeps nothing: for simulations, which are run again from the start."""

    bytes = 0

    def append(self, seq: int, parts: list[Buffer]) -> None:
        return

    def append_behind(self, seq: int, make_parts: Callable[[], list[Buffer]]) -> None:
        return

    def replace_behind(self, write_snapshot: Callable[[], None]) -> None:
        return

    def records(self) -> Iterator[Record]:
        return iter(())

    def close(self) -> None:
        return


_WINDOW_BYTES = 64 << 20  # bytes of past messages that each side may hold in memory to repeat them
_LONGEST_WINDOW = 16  # messages: a disk that is further behind is broken


def disk_plan(path: Path, rows: int, vectors: int, precision: str, rounds: int) -> str:
    """How much disk a journal at this path will take, in one sentence; StorageError where there is too little.

    Every round adds `vectors` vectors of one number per row, in the number format of the job.
    """
    each = vectors * rows * np.dtype(precision).itemsize
    where = next(folder for folder in path.parents if folder.exists())
    free = shutil.disk_usage(where).free
    if each * _FEWEST_ROUNDS > free:
        raise StorageError(
            f"{where} must have room for the journal of a run: {in_words(each * _FEWEST_ROUNDS)} for "
            f"{_FEWEST_ROUNDS} rounds. Found {in_words(free)} free. Make room, and start again."
        )
    most = f", at most {in_words(each * rounds)} in {rounds} rounds" if rounds < _UNLIMITED else ""
    return f"the journal takes {in_words(each)} a round{most}; {in_words(free)} are free; none is left at the end"


_FEWEST_ROUNDS = 2  # rounds that must fit onto the disk, or no round is worth beginning
_UNLIMITED = 10**6  # rounds: a limit as high as this says nothing about the disk that a run takes


def window(rows: int) -> int:
    """How many past messages of one number per row both sides keep to repeat: few when they are large."""
    return max(2, min(_LONGEST_WINDOW, _WINDOW_BYTES // (8 * rows)))


def _check(parts: Iterable[Buffer], seq: int, size: int, owner: int) -> int:
    total, at = np.zeros(_PAGE, np.uint8), 0
    for part in parts:
        data = np.frombuffer(part, np.uint8)
        lead = min(data.size, -at % _PAGE)
        total[at % _PAGE : at % _PAGE + lead] += data[:lead]
        pages = (data.size - lead) // _PAGE
        rest = data[lead + pages * _PAGE :]
        total += data[lead : data.size - rest.size].reshape(pages, _PAGE).sum(axis=0, dtype=np.uint8)
        total[: rest.size] += rest
        at += data.size
    return zlib.crc32(total.tobytes(), zlib.crc32(struct.pack("<QQ", seq, size), owner))


def _read(file: BinaryIO, path: Path, owner: int) -> Record | None:
    """The next record; None at the end or where the last write was cut short."""
    header = file.read(_RECORD.size)
    if len(header) < _RECORD.size or not any(header):
        return None
    magic, seq, size, check = _RECORD.unpack(header)
    if magic != _MAGIC:
        raise StorageError(f"the journal {path} must hold records. Found something else. Start a fresh run.")
    if size > os.fstat(file.fileno()).st_size - file.tell():
        return None
    payload = file.read(size)
    return Record(seq, payload) if len(payload) == size and _check([payload], seq, size, owner) == check else None
