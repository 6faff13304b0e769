"""Masked parts of scores: who asks for the scores of new rows learns each row's total, and no party's part of it.

    share_m = wide(part_m) + sum_{k > m} mask_mk - sum_{k < m} mask_mk   in Z_2^64, four words a row

First the parties exchange keys, which is called a meeting: each draws a new key, signs it with its certificate, and
gets the keys of all others.  Keys live in memory only.  A program that was killed has forgotten its key, and the
parties meet anew.  So no mask outlives its program, and none hides two values.  A mask depends on the ids and the run
that are asked for: where two parties are asked for different rows, their masks do not cancel.  A party that gives no
part of a row sends random words for it, and then nothing can be read of that row's total.
"""

import hashlib
import json
import secrets
import threading
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.errors import ProtocolError
from plait.protection.randomness import KEY_BYTES
from plait.protection.secure_sums import (
    ANNOUNCEMENT_BYTES,
    WIDE,
    Announcement,
    MaskingParty,
    Run,
    Sign,
    Verify,
    Words,
    from_wide,
    in_range,
    to_wide,
    total,
)

QUERIES_IN_A_MEETING = 10_000  # most queries of one meeting: the digests of what it masked take a few megabytes


class ScoreMasks:
    """One party's side: it exchanges keys with the others, and masks its parts of scores.

    Parameters
    ----------
    job : str
        The digest of the job.
    name : str
        The name of this party.
    group : sequence of str
        All parties whose parts are added up, this one among them.
    sign, verify : callable
        Sign bytes with this party's certificate; check a signature by another party's certificate.
    """

    def __init__(self, job: str, name: str, group: Sequence[str], sign: Sign, verify: Verify) -> None:
        self._name, self._group = name, frozenset(group)
        self._sign, self._verify = sign, verify
        self._run = Run(job, "")
        self._party: MaskingParty | None = None
        self._meeting = ""
        self._lock = threading.Lock()

    def join(self, key: str) -> None:
        """Take part in the prediction named `key`; keys of any other prediction are refused from now on."""
        with self._lock:
            run = Run(self._run.job, f"scores {key}")
            if run != self._run:
                self._run, self._party, self._meeting = run, None, ""

    def answer(self, keys: Sequence[str]) -> list[str]:
        """A new key of this party where `keys` is empty; else use these and return no key.  Keys are hexadecimal."""
        if not keys:
            return [self.announce().hex()]
        self.meet([bytes.fromhex(key) for key in keys])
        return []

    def announce(self) -> bytes:
        """A new key, signed; the meeting before it is over."""
        with self._lock:
            self._meeting = ""
            self._party = MaskingParty(self._run, self._name, secrets.token_bytes(KEY_BYTES))
            return self._party.announce(self._sign).encode().rstrip(b"\0")

    def meet(self, announced: Sequence[bytes]) -> None:
        """Use these keys: one of each party, signed, and this party's newest one among them."""
        with self._lock:
            if self._party is None:
                raise ProtocolError("a party must be asked for its key before it is told those of others. End it.")
            found = [Announcement.decode(data.ljust(ANNOUNCEMENT_BYTES, b"\0")) for data in announced]
            own = [each.public_key for each in found if each.name == self._name]
            if len(found) != len(self._group) or {each.name for each in found} != self._group:
                listed = ", ".join(sorted(self._group))
                raise ProtocolError(f"the keys must be one each of {listed}. Found others. Nothing was scored.")
            if own != [self._party.public_key]:
                raise ProtocolError(
                    f"the key of {self._name} must be its newest. Found another. The coordinator is faulty, or not "
                    "honest. Nothing was scored."
                )
            self._party.meet(found, self._verify)
            self._meeting = meeting_of(announced)

    def mask(
        self, meeting: str, number: int, run: str, ids: Sequence[str], parts: Array, given: npt.NDArray[np.bool_]
    ) -> Words | None:
        """The masked parts (n,) as words (WIDE n,); None where this meeting is over.

        Words of a row that is not `given` are random.
        """
        with self._lock:
            if self._party is None or not meeting or meeting != self._meeting:
                return None
            if number >= QUERIES_IN_A_MEETING:
                raise ProtocolError(
                    f"a meeting must serve queries 0 to {QUERIES_IN_A_MEETING - 1}. Found {number}. Meet anew."
                )
            words = to_wide(np.where(given, parts, 0.0), len(self._group)).reshape(WIDE, -1)
            lost = int((~given).sum())
            words[:, ~given] = self._party.nothing(number, WIDE * lost).reshape(WIDE, -1)
            return self._party.mask(words.reshape(-1), number, _asked(run, ids))


def meeting_of(announced: Sequence[bytes]) -> str:
    """The name of a meeting: a digest of its keys, in any order."""
    seal = hashlib.sha256(b"plait meeting 1")
    for data in sorted(announced):
        seal.update(len(data).to_bytes(8, "big") + data)
    return seal.hexdigest()


def read_totals(masked: Mapping[str, Words], complete: npt.NDArray[np.bool_]) -> Array:
    """The totals (n,) of masked parts.  A row is not `complete` where a party has given no part of it; its total is 0.

    ProtocolError where masks have not cancelled: a sum of parts has small words, and uncancelled masks have large ones.
    """
    words = total(list(masked.values())).reshape(WIDE, -1)[:, complete]
    if not in_range(words, len(masked)):
        raise ProtocolError(
            f"the masks of {', '.join(masked)} must cancel. They do not: a party has masked other rows, or under other "
            "keys. Nothing was scored. Let every party use the same plait and the same job file."
        )
    found = np.zeros(complete.size)
    found[complete] = from_wide(words.reshape(-1))
    return found


def _asked(run: str, ids: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps([run, list(ids)]).encode()).hexdigest()
