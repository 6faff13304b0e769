"""Whose rows an account has ever paid for: these are never scored, whatever file they stand in later."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plait.privacy.ledger.keys import chain_key, open_chain
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.ledger.noted_file import NotedFile, keyed_digests

_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")  # before a number
_FRACTION = re.compile(r"(?<=\d)\.0+")  # of a whole number that some program has made a float
_UNSEEN = ("Cc", "Cf")  # control and format characters, such as a byte order mark: nobody sees them
_WHOLE = "The list of the people in a table must be whole, or one of them could be scored"


@dataclass(frozen=True)
class People:
    """The rows of one account that took part in a run, as keyed digests of their names.

    A name is a row's id; where there are no ids, it is the content of the row.
    """

    root: Path
    party: str
    table: str
    witness: Path | None = None

    def add(self, names: Iterable[bytes]) -> None:
        """Add these rows to the list; none is ever removed."""
        with self._file.locked() as known:
            self._file.write(np.union1d(known, self._digests(names)))

    def include(self, names: Iterable[bytes]) -> NDArray[np.bool_]:
        """Which of these rows (N,) took part in a run; none where there is no account."""
        digests = self._digests(names)
        if not Ledger.folder(self.root, self.party, self.table).exists():
            return np.zeros(digests.size, dtype=np.bool_)
        return np.isin(digests, self._file.read())

    def _digests(self, names: Iterable[bytes]) -> NDArray[np.uint64]:
        return keyed_digests(chain_key(self.root), names)

    @property
    def _file(self) -> NotedFile:
        chain = open_chain(self.root, Ledger.folder(self.root, self.party, self.table).name, self.witness)
        return NotedFile(chain, "people", "rows", np.dtype("<u8"), _WHOLE)


def as_person(name: str) -> str:
    """What ids of one person have in common that are written in different ways, such as " p07" and "P7".

    The accounts know people by this: a job may compare ids by other rules, and a program may write them otherwise.
    """
    text = name
    if not (name.isascii() and name.isprintable()):
        seen = (c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) not in _UNSEEN)
        text = "".join(str(unicodedata.decimal(c, c)) for c in seen)
    text = unicodedata.normalize("NFKC", "".join(text.casefold().split()))
    number = _FRACTION.sub("", text) if text.replace(".", "", 1).isdecimal() else text
    return _ZEROS.sub("", number)
