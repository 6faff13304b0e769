"""The coordinator's side of masked predictions: parties exchange keys, answer masked, and only totals can be read.

One exchange of masking keys among the parties is called a meeting.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from plait.deployment.job_file import Job
from plait.errors import ProtocolError
from plait.messages import Share
from plait.protection.score_masks import QUERIES_IN_A_MEETING, meeting_of, read_totals
from plait.protection.secure_sums import Words
from plait.transports.handshake import Meet, Query
from plait.transports.law import LIMIT_REACHED, MEETING_OVER, SCORED
from plait.transports.queries import QueryMailbox

_LONGEST_MEETING = 60.0  # seconds for a key of every party: each takes milliseconds


def masks_scores(job: Job) -> bool:
    """Whether the parties of this job mask their parts of scores."""
    return job.protection is not None and job.protection.mode == "sums"


@dataclass
class _Meeting:
    name: str
    arrivals: tuple[int, ...]
    queries: int = 0


class MaskedParties:
    """The parties outside the label party, which answer masked.

    Parameters
    ----------
    mailboxes : mapping of str to QueryMailbox
        Where they are asked, by name.
    """

    def __init__(self, mailboxes: Mapping[str, QueryMailbox]) -> None:
        self._mailboxes = mailboxes
        self._meeting: _Meeting | None = None
        self._lock = threading.Lock()

    @property
    def met(self) -> bool:
        """Whether the keys of the last meeting can be used: no party has reconnected since, and queries are left."""
        meeting = self._meeting
        fresh = meeting is not None and meeting.arrivals == self._arrivals()
        return fresh and meeting is not None and meeting.queries < QUERIES_IN_A_MEETING

    def query(self, ids: Sequence[str], run: str) -> Query:
        """A query under masks of its own; the parties exchange keys first where they must."""
        with self._lock:
            if not self.met:
                self._meet()
            assert self._meeting is not None
            self._meeting.queries += 1
            return Query(list(ids), run, self._meeting.name, self._meeting.queries - 1)

    def forget(self, query: Query) -> None:
        """Drop the keys of this query's meeting: some party no longer has them."""
        with self._lock:
            if self._meeting is not None and self._meeting.name == query.meeting:
                self._meeting = None

    def _arrivals(self) -> tuple[int, ...]:
        return tuple(mailbox.arrivals for mailbox in self._mailboxes.values())

    def _meet(self) -> None:
        """Collect a new key of every party and send all keys to each; MissingPartyError where one is away."""
        self._meeting, arrivals = None, self._arrivals()
        answers = self._tell([])
        keys = []
        for name, answer in answers.items():
            if len(answer.keys) != 1:
                raise ProtocolError(f"party {name!r} must answer with one key. Found {len(answer.keys)}. End it.")
            keys += answer.keys
        self._tell(keys)
        self._meeting = _Meeting(meeting_of([bytes.fromhex(key) for key in keys]), arrivals)

    def _tell(self, keys: list[str]) -> dict[str, Meet]:
        asked = {name: mailbox.meet(keys) for name, mailbox in self._mailboxes.items()}
        answers = {}
        for name, future in asked.items():
            try:
                answers[name] = future.result(_LONGEST_MEETING)
            except TimeoutError:
                raise self._mailboxes[name].away() from None
        return answers


def is_over(shares: Mapping[str, Share]) -> bool:
    """Whether a party has forgotten its keys."""
    return any(bool((share.scalars == MEETING_OVER).any()) for share in shares.values())


def limited(share: Share) -> bool:
    """Whether a party gives no more scores in this minute; it has masked nothing."""
    return bool((share.scalars == LIMIT_REACHED).any())


def unmasked(shares: Mapping[str, Share]) -> dict[str, Share]:
    """What can be read of masked parts: each row's total in the place of the first party, 0 in those of the others.

    Nothing can be read of a row where a party gives no part.
    """
    complete = np.logical_and.reduce([share.scalars == SCORED for share in shares.values()])
    totals = read_totals({name: cast(Words, share.vector) for name, share in shares.items()}, complete)
    first, nothing = next(iter(shares)), np.zeros(complete.size)
    return {name: Share(0, totals if name == first else nothing, share.scalars) for name, share in shares.items()}
