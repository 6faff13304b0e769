"""Permanent label noise: the noise of a row's label is a function of the secret, its id, its label and epsilon.

A row with the same label always gets the same noisy label, whatever the run and whichever other rows are used.  So
nobody can average the noise away.  A row whose label has changed gets new noise, and that is a second release about
it.  So is one whose id is written in another way.  The ledger is therefore charged epsilon as many times as the most
reports that any one person has had.

Without ids a row is known by its place.  Another vector of labels may then be the same people in another order, so
every vector is charged on its own.
"""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from plait.errors import InputError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.canonical import canonical_digest
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.ledger.noted_file import NotedFile, keyed_digests
from plait.privacy.noise import Keystream, Noise, Release

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAME = "labels"
_PAIRS = np.dtype([("id", "<u8"), ("label", "<u8")])  # keyed digests of 8 bytes
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")  # before a number
_WHOLE = "The list of reported labels must be whole, or a label could be reported anew for nothing"


class DrawsLabels(Protocol):
    """A label mechanism; `batched` where it draws equally many integers for every row: rows are drawn together."""

    batched: ClassVar[bool]

    @property
    def cost(self) -> Cost: ...

    def release(self, labels: Floats, stream: Any) -> Any: ...


class RecordStream:
    """Uniform integers, with a stream of its own for every row: word j of row i is BLAKE2b(key, record_i, j).

    record_i is the row's id and label, as bytes.
    """

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
            if word < 2**64 - 2**64 % bound:  # larger words would make some results more likely than others
                return word % bound
            attempt += 1


@dataclass(frozen=True)
class PermanentLabels:
    """Draws noisy labels under one table's secret, and charges them to its account, where there is one."""

    noise: Noise
    party: str
    table: str
    ledger: Ledger | None = None

    def draw(self, mechanism: DrawsLabels, labels: Floats, ids: Sequence[str] | None) -> Floats:
        """The noisy labels (N,) of these rows, charged before they are drawn."""
        release = Release(NAME, self.party, 0, NAME, canonical_digest(NAME, self.table, mechanism).hex())
        key = self.noise.stream(release).words(8).tobytes()
        names = [str(each) for each in (range(labels.size) if ids is None else ids)]
        _need_different(names)
        records = [f"{name}\0{float(value)!r}".encode() for name, value in zip(names, labels, strict=True)]
        if self.ledger is not None:
            self._charge(self.ledger, release, mechanism, key, names if ids is not None else None, records)
        if mechanism.batched:
            return np.asarray(mechanism.release(labels, RecordStream(key, records)), dtype=np.float64)
        streams = (Keystream(hashlib.blake2b(r, key=key, digest_size=32).digest()) for r in records)
        drawn = [mechanism.release(labels[i : i + 1], stream) for i, stream in enumerate(streams)]
        return np.concatenate(drawn).astype(np.float64) if drawn else np.empty(0)

    def _charge(
        self,
        ledger: Ledger,
        release: Release,
        mechanism: DrawsLabels,
        key: bytes,
        names: list[str] | None,
        records: list[bytes],
    ) -> None:
        """Pay for these labels before they are drawn; without `names` each vector of labels pays on its own."""

        def pay(level: int, digest: str) -> None:
            at_level = Release(NAME, self.party, level, NAME, digest)
            ledger.reserve(at_level, mechanism.cost, repr(mechanism), self.noise)

        if names is None:
            vector = hashlib.blake2b(b"\1".join(records), key=key, digest_size=32).hexdigest()
            pay(0, release.digest + vector)
            return
        pairs = np.empty(len(records), dtype=_PAIRS)
        pairs["id"] = keyed_digests(key, (b"id " + _as_person(name).encode() for name in names))
        pairs["label"] = keyed_digests(key, records)
        reported = NotedFile(ledger.chain, NAME, release.digest, _PAIRS, _WHOLE)
        with reported.locked() as known:
            union = np.unique(np.concatenate([known, pairs]))
            for level in range(_most_labels(union)):
                pay(level, release.digest)
            reported.write(union)


def _need_different(names: Sequence[str]) -> None:
    """Rows with one id would have one noise: those whose reports differ would be known to have different labels."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(
            f"every row must have an id of its own, because the noise of its label belongs to its id. Found {twice!r} "
            "more than once. Nothing was reported. Leave rows of one person out but for one, or number them."
        )


def _as_person(name: str) -> str:
    """What ids of one person have in common that are written in different ways, such as " p07" and "P7".

    The account counts reports by this: a job may compare ids by other rules, and then they reach the noise otherwise.
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return _ZEROS.sub("", "".join(text.split()))


def _most_labels(pairs: NDArray[Any]) -> int:
    """The most different reports that any one person has had."""
    return int(np.unique(pairs["id"], return_counts=True)[1].max()) if pairs.size else 1
