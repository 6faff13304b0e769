"""An append-only, hash-chained, fsynced file of JSON lines that notices when it was cut, edited or lost.

    journal.jsonl   one entry per line: version, seq, kind, body, hash (over these and the hash before)
    head.json       outside the folder of the journal: how many entries it has, and the entry being written, if any
    lock            held exclusively while anything is read or written

The hash is keyed (HMAC-SHA256): without the key nobody can add an entry or change one.  Chains of version 1 had
no key; they are read and never written.

An entry is announced in the head, then written and synced, then counted in the head. After a crash the announced
entry counts as written, whatever part of it reached the disk. A partial line stays ("torn" bytes), and the entry is
written again after it with their digest. A journal with fewer entries than its head, or without a head, is damaged.
"""

import fcntl
import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from plait._files import make_folder, open_private, write_atomically, write_durably
from plait._hash_chain import START, canonical
from plait.errors import PrivacyError

VERSION = 2  # of the chain's format: entries are keyed since 2
UNKEYED = 1  # the version of chains without a key, which are only read

Body = dict[str, Any]


def is_unkeyed(journal: Path) -> bool:
    """Whether a chain's file is of version 1, by its first line."""
    with journal.open("rb") as file:
        line = file.readline()
    try:
        return bool(json.loads(line)["version"] == UNKEYED)
    except (ValueError, KeyError, TypeError):
        return False


@dataclass(frozen=True)
class ChainEntry:
    seq: int
    kind: str
    body: Body
    hash: str


class Watcher(Protocol):
    """A second place that knows how many entries a chain has."""

    def check(self, entries: list[ChainEntry]) -> None: ...

    def note(self, entries: list[ChainEntry]) -> None: ...


class HashChain:
    """The entries of one journal; use it inside `locked()`."""

    def __init__(self, folder: Path, key: bytes = b"", *watchers: Watcher) -> None:
        self.folder = folder
        self._key = key
        self._watchers = watchers
        self._version = VERSION if key else UNKEYED
        self.path = folder / "journal.jsonl"
        self.head_path = folder.with_name(folder.name + ".head.json")

    @contextmanager
    def locked(self) -> Iterator[list[ChainEntry]]:
        """Hold the lock and give the verified entries; an unfinished append is finished first."""
        make_folder(self.folder)
        with open_private(self.folder / "lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = self._recover()
            for watcher in self._watchers:
                watcher.check(entries)
            yield entries

    def append(self, entries: list[ChainEntry], kind: str, body: Body) -> list[ChainEntry]:
        """Write one entry durably and return the longer list; the lock must be held."""
        entry = self._entry(entries, kind, body)
        longer = [*entries, entry]
        self._write_head(entries, pending={"kind": kind, "body": body})
        self._write_line(entry)
        self._write_head(longer)
        for watcher in self._watchers:
            watcher.note(longer)
        return longer

    def _recover(self) -> list[ChainEntry]:
        head = self._read_head()
        entries, torn = self._read()
        if head is None:
            if entries or torn:
                raise self._damaged("its head file is missing")
            return []
        seq, pending = head["seq"], head["pending"]
        if len(entries) < seq or (seq and entries[seq - 1].hash != head["hash"]):
            raise self._damaged(f"{seq} entries had been written and {len(entries)} fit together")
        if len(entries) > seq + (pending is not None) or (torn and pending is None):
            raise self._damaged("it holds lines that were never announced")
        if pending is None:
            return entries
        if len(entries) > seq:
            self._write_head(entries)
            return entries
        body = {**pending["body"], "recovered": True}
        if torn:
            body["torn"] = hashlib.sha256(torn).hexdigest()
        return self.append(entries, pending["kind"], body)

    def _read(self) -> tuple[list[ChainEntry], bytes]:
        """The entries that fit together, and the bytes after the last one; an entry must name torn bytes before it."""
        entries: list[ChainEntry] = []
        torn: list[bytes] = []
        content = self.path.read_bytes() if self.path.exists() else b""
        for line in content.removesuffix(b"\n").split(b"\n") if content else []:
            entry = self._parse(line, entries)
            named = hashlib.sha256(b"\n".join(torn)).hexdigest() if torn else None
            if entry is not None and entry.body.get("torn") == named:
                entries.append(entry)
                torn = []
            else:
                torn.append(line)
        return entries, b"\n".join(torn)

    def _write_line(self, entry: ChainEntry) -> None:
        line = self._line(entry)
        with open_private(self.path, "a+b") as file:
            if file.tell() and not self._ends_a_line():
                line = b"\n" + line
            write_durably(file, line, self.path)

    def _ends_a_line(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"

    def _read_head(self) -> Body | None:
        try:
            head = json.loads(self.head_path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise self._damaged("its head file cannot be read") from error
        if not isinstance(head, dict) or head.get("version") != self._version:
            raise self._damaged(f"its head file is not of version {self._version}")
        return head

    def _write_head(self, entries: list[ChainEntry], pending: Body | None = None) -> None:
        head = {
            "version": self._version,
            "seq": len(entries),
            "hash": entries[-1].hash if entries else START,
            "pending": pending,
        }
        write_atomically(self.head_path, json.dumps(head).encode())

    def _damaged(self, why: str) -> PrivacyError:
        return PrivacyError(
            f"A ledger must be whole, or nobody knows what was spent. Found {self.path}: {why}. Its budget "
            "counts as spent and nothing is released. Restore the newest copy."
        )

    def _entry(self, entries: list[ChainEntry], kind: str, body: Body) -> ChainEntry:
        previous = entries[-1].hash if entries else START
        return ChainEntry(len(entries) + 1, kind, body, self._hash(len(entries) + 1, previous, kind, body))

    def _hash(self, seq: int, previous: str, kind: str, body: Body) -> str:
        content = canonical([self._version, seq, previous, kind, body])
        if not self._key:
            return hashlib.sha256(content).hexdigest()
        return hmac.new(self._key, content, hashlib.sha256).hexdigest()

    def _line(self, entry: ChainEntry) -> bytes:
        content = {
            "version": self._version,
            "seq": entry.seq,
            "kind": entry.kind,
            "body": entry.body,
            "hash": entry.hash,
        }
        return canonical(content) + b"\n"

    def _parse(self, line: bytes, entries: list[ChainEntry]) -> ChainEntry | None:
        """The next entry of the chain, or None when the line is not that."""
        try:
            content = json.loads(line)
            expected = self._entry(entries, content["kind"], content["body"])
            found = (content["version"], content["seq"])
            fits = found == (self._version, expected.seq) and hmac.compare_digest(content["hash"], expected.hash)
        except (ValueError, KeyError, TypeError):
            return None
        return expected if fits else None
