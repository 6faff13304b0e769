"""A file of sorted entries beside a ledger, which notes its digest: a lost or changed file is noticed.

Two programs may add to it at once.  Each holds a lock from reading to writing, so that neither misses what the other
has added.
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

DIGEST_BYTES = 8  # bytes of a keyed digest: a million of them hardly ever collide


@dataclass(frozen=True)
class NotedFile:
    """Distinct entries of type `dtype` in a file beside a chain.

    kind    the kind of the chain's entries that note the digests of this file
    tag     what the file belongs to, a mechanism for example: one kind may have several files
    what    begins an error message: which list this is, and why it must be whole
    """

    chain: HashChain
    kind: str
    tag: str
    dtype: np.dtype[Any]
    what: str

    @contextmanager
    def locked(self) -> Iterator[NDArray[Any]]:
        """The entries (n,), while nobody else can add any."""
        make_folder(self.chain.folder)
        with open_private(self._path.with_suffix(".lock"), "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read()

    def read(self) -> NDArray[Any]:
        """The entries (n,); PrivacyError where the file is not what the chain has noted."""
        noted = self._notes()
        if not noted:
            return np.empty(0, dtype=self.dtype)
        content = self._path.read_bytes() if self._path.exists() else b""
        # A program may have been killed between the note and the file: then the file is the one before.
        if hashlib.sha256(content).hexdigest() not in noted[-2:]:
            raise PrivacyError(f"{self.what}. Found {self._path} missing or changed. Nothing is released. Restore it.")
        return np.frombuffer(content, dtype=self.dtype)

    def write(self, records: NDArray[Any]) -> None:
        """Store these entries (n,) in the place of the former; the lock must be held."""
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
