"""The new rows of a party: which of them may be scored, and its part of each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from plait._types import Array
from plait.data.tables import Table
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.local_data import Rows, load_ids, prepare_rows, read_training_rows
from plait.errors import InputError


@dataclass(frozen=True)
class PartScores:
    """Rows, their rounded parts (N,), which of them may be scored (N,), and where each id stands."""

    rows: Rows
    part: Array
    given: NDArray[np.bool_]
    place: Mapping[str, int]


def _dense_rows(matrix: Any) -> Iterator[Array]:
    """The rows of a matrix (N, d), dense or CSR, one after another."""
    for i in range(matrix.shape[0]):
        yield np.asarray(matrix[[i]].todense() if sp.issparse(matrix) else matrix[i]).ravel()


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


def trained_on(job: Job, file: PartyFile, rows: Rows, private: bool) -> NDArray[np.bool_]:
    """Which of the rows (N,) were there for training, by id, or by what they hold where there are no ids."""
    if file.trust.score_training_rows and not private:
        return np.zeros(len(rows.ids), dtype=np.bool_)
    if file.data.id:
        texts = read_training_rows(file).ids if job.alignment is None else load_ids(job, file).texts
        known = {text.strip().casefold() for text in texts}
        return np.array([text.strip().casefold() in known for text in rows.ids], dtype=np.bool_)
    table = read_training_rows(file)
    seen = {row.tobytes() for row in _dense_rows(prepare_rows(file, table, rows.prepared).matrix)}
    return np.array([row.tobytes() in seen for row in _dense_rows(rows.matrix)], dtype=np.bool_)
