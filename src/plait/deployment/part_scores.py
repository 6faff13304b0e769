"""A party's part of the score of each of its new rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait._types import Array
from plait.data.tables import Table
from plait.deployment.job_file import PartyFile
from plait.deployment.local_data import Rows
from plait.errors import InputError


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
