"""Sorted records beside a ledger's file, whose digest the ledger has noted: a lost or changed list is noticed.

Two programs may add to it at once: whoever does holds its lock from reading to writing, so that nothing that one of
them adds is unknown to the other.
"""

import fcntl
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._files import make_folder, open_private, write_atomically
from plait.errors import PrivacyError
from plait.privacy.ledger.hash_chain import HashChain

DIGEST_BYTES = 8  # of a keyed digest: keeps a million of them apart


@dataclass(frozen=True)
class NotedFile:
    """Different records of one type beside a chain.

    kind    under which the chain notes the digests of this file
    tag     what the records belong to, a mechanism for example: one kind may have several files
    what    how messages call the list, and why it must be whole
    """

    chain: HashChain
    kind: str
    tag: str
    dtype: np.dtype[Any]
    what: str

    @contextmanager
    def locked(self) -> Iterator[NDArray[Any]]:
        """The records as they are, while nobody else can add any."""
        make_folder(self.chain.folder)
        with open_private(self._path.with_suffix(".lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read()

    def read(self) -> NDArray[Any]:
        """The records; PrivacyError where the file is not what the chain has noted."""
        noted = self._notes()
        if not noted:
            return np.empty(0, dtype=self.dtype)
        content = self._path.read_bytes() if self._path.exists() else b""
        # A program may have been killed between the note and the file: then the file is the one before.
        if hashlib.sha256(content).hexdigest() not in noted[-2:]:
            raise PrivacyError(f"{self.what}. Found {self._path} missing or changed. Nothing is released. Restore it.")
        return np.frombuffer(content, dtype=self.dtype)

    def write(self, records: NDArray[Any]) -> None:
        """Keep these records, all of them; the lock must be held."""
        content = records.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        if self._notes()[-1:] != [digest]:
            with self.chain.locked() as entries:
                self.chain.append(entries, self.kind, {"mechanism": self.tag, "sha256": digest})
        if not self._path.exists() or self._path.read_bytes() != content:
            write_atomically(self._path, content)

    def _notes(self) -> list[str]:
        with self.chain.locked() as entries:
            mine = [e.body for e in entries if e.kind == self.kind and e.body["mechanism"] == self.tag]
        return [str(body["sha256"]) for body in mine]

    @property
    def _path(self) -> Path:
        return self.chain.folder / f"{self.kind}-{self.tag[:24]}.bin"


def keyed_digests(key: bytes, names: Iterable[bytes]) -> NDArray[np.uint64]:
    """A number for every name (N,), which only the holder of the key can find."""
    made = [hashlib.blake2b(name, key=key, digest_size=DIGEST_BYTES).digest() for name in names]
    return np.frombuffer(b"".join(made), dtype=">u8").astype(np.uint64)
