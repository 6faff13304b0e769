"""Permanent label noise: the noise of a row's label is a function of the secret, its id, its label and epsilon.

However often the labels are used, in whatever rows, order or run, a row with the same label reports the same: there
is nothing to average.  A row whose label has changed reports anew, and that is a second release about it: the
ledger is charged epsilon once for every different label that some row has had.

Without ids a row is known by its place, and any other labels vector may be the same people in other places: then
every vector is charged on its own.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from plait._files import write_atomically
from plait.errors import PrivacyError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.canonical import canonical_digest
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.noise import Keystream, Noise, Release

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAME = "labels"
_PAIRS = np.dtype([("id", "<u8"), ("label", "<u8")])  # keyed digests: 8 bytes keep a million ids apart


class DrawsLabels(Protocol):
    """A label mechanism: `batched` when it draws one word per row at a time, in step for all rows."""

    batched: ClassVar[bool]

    @property
    def cost(self) -> Cost: ...

    def release(self, labels: Floats, stream: Any) -> Any: ...


class RecordStream:
    """Uniform integers, an own stream of them for every row: word j of row i is BLAKE2b(key, record_i, j)."""

    def __init__(self, key: bytes, records: Sequence[bytes]) -> None:
        self._key = key
        self._records = records
        self._drawn = 0

    def below(self, bound: int, count: int) -> Ints:
        """The next integer of every row, exactly uniform on 0..bound - 1."""
        assert count == len(self._records)
        self._drawn += 1
        return np.array([self._one(record, bound) for record in self._records], dtype=np.int64)

    def _one(self, record: bytes, bound: int) -> int:
        attempt = 0
        while True:
            place = f"{self._drawn} {attempt} ".encode()
            word = int.from_bytes(hashlib.blake2b(place + record, key=self._key, digest_size=8).digest(), "big")
            if word < 2**64 - 2**64 % bound:  # a word beyond the last whole run of `bound` would be uneven
                return word % bound
            attempt += 1


@dataclass(frozen=True)
class PermanentLabels:
    """Draws labels under one table's secret and charges them to its account, where there is one."""

    noise: Noise
    party: str
    table: str
    ledger: Ledger | None = None

    def draw(self, mechanism: DrawsLabels, labels: Floats, ids: Sequence[str] | None) -> Floats:
        """The reported labels (N,) of these rows, charged before they are drawn."""
        release = Release(NAME, self.party, 0, NAME, canonical_digest(NAME, self.table, mechanism).hex())
        key = self.noise.stream(release).words(8).tobytes()
        names = [str(i) for i in range(labels.size)] if ids is None else list(ids)
        records = [f"{name}\0{float(value)!r}".encode() for name, value in zip(names, labels, strict=True)]
        if self.ledger is not None:
            levels, known = self._levels(self.ledger, release, key, names, records, by_place=ids is None)
            for level in levels:
                self.ledger.reserve(level, mechanism.cost, repr(mechanism), self.noise)
            known()
        if mechanism.batched:
            return np.asarray(mechanism.release(labels, RecordStream(key, records)), dtype=np.float64)
        streams = (Keystream(hashlib.blake2b(r, key=key, digest_size=32).digest()) for r in records)
        drawn = [mechanism.release(labels[i : i + 1], stream) for i, stream in enumerate(streams)]
        return np.concatenate(drawn).astype(np.float64) if drawn else np.empty(0)

    def _levels(
        self, ledger: Ledger, release: Release, key: bytes, names: list[str], records: list[bytes], *, by_place: bool
    ) -> tuple[list[Release], Callable[[], None]]:
        """The charges that these labels need, one for every different label that some row has had by now.

        Once they are paid, the function that comes with them notes the labels.
        """
        if by_place:
            vector = hashlib.blake2b(b"\1".join(records), key=key, digest_size=32).hexdigest()
            return [Release(NAME, self.party, 0, NAME, release.digest + vector)], lambda: None
        pairs = np.empty(len(records), dtype=_PAIRS)
        pairs["id"] = [_short(key, b"id " + name.encode()) for name in names]
        pairs["label"] = [_short(key, record) for record in records]
        known = Known(ledger, release.digest)
        union = np.unique(np.concatenate([known.read(), pairs]))
        most = int(np.unique(union["id"], return_counts=True)[1].max()) if union.size else 1
        levels = [Release(NAME, self.party, level, NAME, release.digest) for level in range(most)]
        return levels, lambda: known.write(union)


@dataclass(frozen=True)
class Known:
    """Which labels of which ids were reported, as keyed digests; the ledger knows the digest of the file."""

    ledger: Ledger
    mechanism: str

    def read(self) -> NDArray[Any]:
        noted = [body for body in self.ledger.notes(NAME) if body["mechanism"] == self.mechanism]
        if not noted:
            return np.empty(0, dtype=_PAIRS)
        content = self._path.read_bytes() if self._path.exists() else b""
        if hashlib.sha256(content).hexdigest() not in {body["sha256"] for body in noted[-2:]}:
            raise PrivacyError(
                f"The list of reported labels must be whole, or a label could be reported anew for nothing. Found "
                f"{self._path} missing or changed. Nothing is released. Restore it."
            )
        return np.frombuffer(content, dtype=_PAIRS)

    def write(self, union: NDArray[Any]) -> None:
        content = union.tobytes()
        digest = hashlib.sha256(content).hexdigest()
        if self._path.exists() and self._path.read_bytes() == content:
            return
        self.ledger.note(NAME, {"mechanism": self.mechanism, "sha256": digest})
        write_atomically(self._path, content)

    @property
    def _path(self) -> Path:
        return self.ledger.path.parent / f"labels-{self.mechanism[:24]}.bin"


def _short(key: bytes, content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, key=key, digest_size=8).digest(), "big")
