"""Permanent label noise: the noise of a row's label is a function of the secret, its id, its label and epsilon.

A row with the same label always gets the same noisy label, whatever the run and whichever other rows are used.  So
nobody can average the noise away.  A row whose label has changed gets new noise, and that is a second release about
it.  So is one whose id is written in another way.  The ledger is therefore charged epsilon as many times as the most
reports that any one person has had.  Ids none of which was reported before may be other names of the same people, say
those of another column.  They are charged as such.

Without ids a row is known by its place.  Another vector of labels may then be the same people in another order, so
every vector is charged on its own.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from plait.errors import BudgetError, InputError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.canonical import canonical_digest
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.ledger.noted_file import NotedFile, keyed_digests
from plait.privacy.ledger.people import as_person
from plait.privacy.noise import Keystream, Noise, Release

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAME = "labels"
_PAIRS = np.dtype([("id", "<u8"), ("label", "<u8")])  # keyed digests of 8 bytes
_OTHER_NAMES = (
    "None of these ids was reported before, so they count as other names of the same people. Use the ids of before, or "
    "let the owner open the account of another table for other people."
)
_MARK = np.uint64(0)  # stands in the place of an id; hardly any id has this digest
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
        pairs["id"] = keyed_digests(key, (b"id " + as_person(name).encode() for name in names))
        pairs["label"] = keyed_digests(key, records)
        reported = NotedFile(ledger.chain, NAME, release.digest, _PAIRS, _WHOLE)
        with reported.locked() as known:
            union = _joined(known, pairs)
            try:
                for level in range(_most_reports(union)):
                    pay(level, release.digest)
            except BudgetError as error:
                raise (BudgetError(f"{error} {_OTHER_NAMES}") if _names(union) > _names(known) else error) from None
            reported.write(union)


def _need_different(names: Sequence[str]) -> None:
    """Rows with one id would have one noise: those whose reports differ would be known to have different labels."""
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise InputError(
            f"every row must have an id of its own, because the noise of its label belongs to its id. Found {twice!r} "
            "more than once. Nothing was reported. Leave rows of one person out but for one, or number them."
        )


def _joined(known: NDArray[Any], pairs: NDArray[Any]) -> NDArray[Any]:
    """Both lists; a mark is added, a pair with the id _MARK, where no id of `pairs` is known: these are other names."""
    people, marks = known[known["id"] != _MARK], known[known["id"] == _MARK]
    if people.size and pairs.size and not np.isin(pairs["id"], people["id"]).any():
        marks = np.append(marks, np.array([(_MARK, marks.size)], dtype=_PAIRS))
    return np.unique(np.concatenate([marks, people, pairs]))


def _most_reports(pairs: NDArray[Any]) -> int:
    """The most reports that any one person may have had, under as many names as there are marks, and one more."""
    people = pairs["id"][pairs["id"] != _MARK]
    return _names(pairs) * (int(np.unique(people, return_counts=True)[1].max()) if people.size else 1)


def _names(pairs: NDArray[Any]) -> int:
    """Under how many names each person may stand in the list."""
    return 1 + int(np.count_nonzero(pairs["id"] == _MARK))
