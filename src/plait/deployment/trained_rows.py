"""Which rows a party has trained on: by id, or by what they hold where there are no ids."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from plait._types import Array
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.ledger_note import note_ledger
from plait.deployment.local_data import Rows, load_ids, load_rows, prepare_rows, read_training_ids, read_training_rows
from plait.deployment.party_privacy import guaranteed, people_of
from plait.privacy.ledger.people import as_person
from plait.privacy.policy import Policy


def note_people(job: Job, file: PartyFile, policy: Policy, rows: Rows) -> None:
    """Note whose rows take part in a run with a guarantee: they are never scored, whatever file they stand in later.

    Note also which ledger folder has their account.
    """
    if policy.ledger is not None and guaranteed(job, file.name):
        policy.ledger.ledger(file.name)  # the account is open before anything is noted in it
        note_ledger(file)
        policy.ledger.people(file.name).add(_names(file, rows))


def trained_rows(job: Job, file: PartyFile, rows: Rows, private: bool) -> NDArray[np.bool_]:
    """Which of the rows (N,) were there for training; a `private` party remembers those of every protected run."""
    if file.trust.score_training_rows and not private:
        return np.zeros(len(rows.ids), dtype=np.bool_)
    names = list(_names(file, rows))
    now = set(_names_of_training(job, file, rows))
    found = np.array([name in now for name in names], dtype=np.bool_)
    return found | people_of(file).include(names) if private else found


def _names_of_training(job: Job, file: PartyFile, rows: Rows) -> Iterator[bytes]:
    """The names of all rows in the party's training file, as it is now."""
    if file.data.id:
        texts = read_training_ids(file) if job.alignment is None else load_ids(job, file).texts
        return (_name(text) for text in texts)
    if guaranteed(job, file.name):  # read as for training, where no value stops anything
        return (row.tobytes() for row in _dense_rows(load_rows(job, file).matrix))
    matrix = prepare_rows(file, read_training_rows(file), rows.prepared).matrix
    return (row.tobytes() for row in _dense_rows(matrix))


def _names(file: PartyFile, rows: Rows) -> Iterator[bytes]:
    if file.data.id:
        return (_name(text) for text in rows.ids)
    return (row.tobytes() for row in _dense_rows(rows.matrix))


def _name(text: str) -> bytes:
    return as_person(text).encode()


def _dense_rows(matrix: Any) -> Iterator[Array]:
    """The rows of a matrix (N, d), dense or CSR, one after another."""
    for i in range(matrix.shape[0]):
        yield np.asarray(matrix[[i]].todense() if sp.issparse(matrix) else matrix[i]).ravel()
