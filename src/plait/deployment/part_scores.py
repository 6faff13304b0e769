"""A party's part of the score of each of its new rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._types import Array
from plait.data.tables import Table
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.local_data import Rows
from plait.deployment.pairs import pair_digest, partners
from plait.deployment.run_folder import RunFolder
from plait.errors import InputError, ProtocolError
from plait.messages import LARGEST


@dataclass(frozen=True)
class PartScores:
    """Rows, their rounded parts (N,), which of them may be scored (N,), and the index of each id."""

    rows: Rows
    part: Array
    given: NDArray[np.bool_]
    place: Mapping[str, int]


def rows_of_ids(file: PartyFile, table: Table, ids: Sequence[str]) -> Table:
    """The rows of these ids, in their order."""
    place = {text: i for i, text in enumerate(table.ids)}
    lost = sum(text not in place for text in ids)
    if lost:
        raise InputError(
            f"the new rows of {file.name!r} must hold the ids that were joined. Found {lost} of {len(ids)} missing. "
            "Join them again: the label party starts its program once more, with --refresh."
        )
    return table.pick(np.array([place[text] for text in ids], dtype=np.int64), tuple(ids))


def need_sendable(ids: Sequence[str], part: Array, file: str) -> None:
    """Raise InputError where a row's part of a score is too large: sent, it would end the service for all rows."""
    wrong = np.flatnonzero(~(np.abs(part) <= LARGEST))
    if wrong.size:
        raise InputError(
            f"every row in {file} must have a score up to {LARGEST:g}. Found {wrong.size} with larger ones, the first "
            f"of them with id {ids[int(wrong[0])][:80]!r}. Correct its numbers, or leave them empty."
        )


def need_same_job(job: Job, name: str, folder: RunFolder) -> None:
    """ProtocolError where the run is of another job: the coordinator names it, and may have no part in that one.

    Settings may have changed since.  The run of this party's own pair is one of the job.
    """
    status = folder.status

    def whose(settings: Mapping[str, Any]) -> tuple[object, object, object]:
        return settings.get("name"), settings.get("parties"), settings.get("coordinator", {}).get("name")

    own = (job.model_digest, *([pair_digest(job, name)] if name in partners(job) else []))
    if status.job not in own and whose(status.settings) != whose(job.settings):
        raise ProtocolError(
            f"run {status.run} must be of the job {job.name!r}, with the same parties. Found one of another job. "
            "Nothing was scored."
        )
