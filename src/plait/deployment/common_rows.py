"""New rows that all parties hold, found privately before they are scored: nobody is asked for any other row."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plait.alignment.ids import normal_id
from plait.alignment.proposal import Consent
from plait.deployment.align import CoordinatorAlignment, missing_from
from plait.deployment.align_party import PartyAlignment
from plait.deployment.alignment_folder import choose_alignment
from plait.deployment.endpoints import Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.progress import Progress
from plait.deployment.run_folder import COORDINATOR, new_run
from plait.messages import Share

SOMEBODY = "some party"
"""Who lacks a row after a private join of three parties or more: nobody knows."""
_NOBODYS = ""  # an id that no row has: sent in the place of all ids that are not common, so that nobody sees those


@dataclass(frozen=True)
class Question:
    """What the parties are asked for N rows of the label party.

    ids      the ids that are sent
    at       the index of each row among the sent ids (N,)
    absent   which rows some party lacks, as the private join says (N,)
    """

    ids: Sequence[str]
    at: NDArray[np.intp]
    absent: NDArray[np.bool_]

    @classmethod
    def by_list(cls, ids: Sequence[str]) -> "Question":
        """All ids are sent."""
        return cls(ids, np.arange(len(ids)), np.zeros(len(ids), dtype=np.bool_))

    def spread(self, answer: Share) -> Share:
        """The answer, one part and one mark for each of the N rows."""
        assert answer.vector is not None
        return Share(answer.round, answer.vector[self.at], answer.scalars[self.at])


@dataclass(frozen=True)
class CommonRows:
    """The rows of one alignment of new rows.

    job         the rules of the ids, and who takes part
    alignment   its name
    ids         the ids that all parties hold, as the rules of the job write them
    width       how many columns make an id
    """

    job: Job
    alignment: str
    ids: Sequence[str]
    width: int

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.ids)

    def question(self, ids: Sequence[str]) -> Question:
        """The common ones of these ids; one id that nobody has is sent in the place of all others."""
        rules = self.job.alignment
        assert rules is not None
        normal = [normal_id(text, self.width, rules) for text in ids]
        absent = np.array([text not in self._known for text in normal], dtype=np.bool_)
        sent = [text for text, lost in zip(normal, absent.tolist(), strict=True) if not lost]
        at = np.where(absent, len(sent), np.cumsum(~absent) - 1)
        return Question([*sent, *([_NOBODYS] if absent.any() else [])], at, absent)


def lacking(job: Job) -> tuple[str, ...]:
    """Who lacks a row that is not common: the other party where there is one, else nobody knows."""
    others = tuple(name for name in job.parties if name != job.coordinator.name)
    return others if len(others) == 1 else (SOMEBODY,)


def find_common_rows(
    job: Job,
    file: PartyFile,
    local: Sequence[PartyFile],
    rows_of: Callable[[PartyFile], str],
    listen: Listen | None,
    purpose: str,
    progress: Progress,
    consent: Consent,
    refresh: bool = False,
) -> CommonRows:
    """Align the new rows of all parties at the coordinator, unless these rows were aligned before.

    local     the parties in this process; the others dial in
    rows_of   the file of a party's new rows
    purpose   what the programs are here for: a batch or a service
    """
    others = [party for party in local if party.name != file.name]
    here = [
        PartyAlignment(job, file, consent, progress, COORDINATOR, rows_of(file)),
        *(PartyAlignment(job, party, consent, progress, rows=rows_of(party)) for party in others),
    ]
    name, key = new_run() if refresh else choose_alignment(here, resume=listen is not None)
    orders = CoordinatorAlignment(job, here, name, key, progress).meet(purpose, listen, missing_from(local, job))
    return CommonRows(job, name, orders[file.name].ids, len(file.data.id))
