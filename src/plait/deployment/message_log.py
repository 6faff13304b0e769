"""The audit log: one line of JSON for every message sent or received, each line sealing the one before it.

Every line holds the time, what happened, sizes and BLAKE3 digests, never the numbers themselves, and `seal` =
SHA-256(seal of the line before + this line without its seal).  A line changed, removed or inserted breaks the chain.

Digests of long messages take milliseconds, so a worker makes their lines, in order, once the messages have travelled
(`catch_up`); all other lines are written when the call returns.  A killed process may lose the lines of its last few
messages.
"""

import contextlib
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plait._files import make_folder, open_private
from plait._hash_chain import START, canonical, digest
from plait._names import plain
from plait.errors import StorageError
from plait.messages import Message

_MOST_BEHIND, _LONGEST_WAIT = 32, 1.0  # lines that may wait; seconds that the writer waits for a pause in the run
_TOLD = 8  # lines of a kind that are written one by one; after them only when their number has doubled
_LONG, _HUGE = 1 << 20, 1 << 25
"""Bytes: below the first, a digest is made faster than handed to the worker; above the second, memory would fill."""


class AuditLog:
    """Appends to a log; opening an existing one checks it first."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self._path = path
        self._lock = threading.Lock()
        self._file = open_private(path, "ab")
        self._file.truncate(path.read_bytes().rfind(b"\n") + 1)  # drop a line that a crash cut short
        self._seal = START
        for entry in read_log(path):
            self._seal = entry.seal
        self._failure: OSError | None = None
        self._counted: Counter[str] = Counter()
        self._lines: queue.Queue[Callable[[], None] | None] = queue.Queue(_MOST_BEHIND)
        self._go = threading.Event()
        self._pause = 0.0
        self._worker = threading.Thread(target=self._work, name="plait-audit", daemon=True)
        self._worker.start()

    def message(self, what: str, peer: str, seq: int, message: Message) -> None:
        """Have a line written about a message that was "sent" or "received"."""
        now = _now()

        def write() -> None:
            facts = {"peer": peer, "seq": seq, "round": message.round, "bytes": message.bytes, "digest": message.digest}
            self._write({"time": now, "what": what, **facts})

        if _LONG <= message.bytes <= _HUGE:
            self._go.clear()
            self._submit(write)
        else:
            self.settle()
            self._attempt(write)
            self._check()

    def note(self, what: str, **facts: Any) -> None:
        """Record anything else that matters: start, resume, refusals, the end."""
        short = {key: plain(value) if isinstance(value, str) else value for key, value in facts.items()}
        line = {"time": _now(), "what": what, **short}
        self.settle()
        self._attempt(lambda: self._write(line))
        self._check()

    def note_some(self, what: str, **facts: Any) -> None:
        """Note the first few of a kind, then only when their number has doubled: a peer must not fill the disk."""
        self._counted[what] += 1
        count = self._counted[what]
        if count <= _TOLD or count & (count - 1) == 0:
            self.note(what, **facts, times=count)

    def catch_up(self, pause: float = 0.0) -> None:
        """Now, or in so many seconds, is a good time to write what is waiting."""
        self._pause = pause
        self._go.set()

    def settle(self) -> None:
        """Wait until every line is written."""
        self.catch_up()
        self._lines.join()
        self._check()

    def close(self) -> None:
        self.catch_up()
        self._lines.put(None)
        self._worker.join()
        with contextlib.suppress(OSError):  # an error of writing was raised before
            self._file.close()

    def _submit(self, write: Callable[[], None]) -> None:
        self._check()
        if self._lines.full():
            self.catch_up()
        self._lines.put(write)

    def _check(self) -> None:
        if self._failure is not None:
            raise StorageError(
                f"the audit log {self._path} must be writable. Found: {self._failure}. Make room, or correct it, and "
                "start again."
            )

    def _work(self) -> None:
        while (write := self._lines.get()) is not None:
            self._go.wait(_LONGEST_WAIT)
            pause, self._pause = self._pause, 0.0
            time.sleep(pause)
            self._attempt(write)
            self._lines.task_done()

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._failure = error

    def _write(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._seal = _seal(self._seal, line)
            self._file.write((json.dumps({**line, "seal": self._seal}) + "\n").encode())
            self._file.flush()


@dataclass(frozen=True)
class LogLine:
    """One line of a log and its seal."""

    facts: dict[str, Any]
    seal: str


def read_log(path: Path) -> Iterator[LogLine]:
    """The lines of a log, each checked against the one before it; StorageError where the chain is broken."""
    previous = START
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            line = json.loads(text)
            seal = line.pop("seal")
            expected = _seal(previous, line)
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise StorageError(f"line {number} of {path} must be a sealed entry. Found another text.") from None
        if seal != expected:
            raise StorageError(f"the audit log {path} must be unbroken. Found line {number} changed or out of place.")
        previous = seal
        yield LogLine(line, seal)


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _seal(previous: str, line: dict[str, Any]) -> str:
    return digest(previous.encode() + canonical(line))
