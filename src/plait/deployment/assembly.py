"""From a job file and a party file to a Party, and to the labels."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._types import Array
from plait.alignment.ids import Ids, clean_ids
from plait.alignment.order import Order
from plait.data import preparation
from plait.data.parts import read_labels, read_part, read_weights
from plait.data.preparation import Preparation
from plait.data.tables import Table, read_id_columns, read_table
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.party_privacy import check_preparation, guaranteed, mechanism_of, policy_at
from plait.errors import ConfigError, InputError, PrivacyError
from plait.messages import Broadcast
from plait.methods.base import Block, Task
from plait.methods.private.briefing import Briefed, briefing
from plait.privacy.policy import check_party
from plait.problem.features import Features
from plait.training.party import Party
from plait.training.under_policy import party_method


@dataclass(frozen=True)
class Rows:
    """A party's rows, ready to train on: ids, matrix (N, d), names of the columns, and how they were prepared."""

    ids: tuple[str, ...]
    matrix: Any
    columns: tuple[str, ...]
    prepared: Preparation

    @property
    def checksum(self) -> int:
        """CRC-32 of the matrix: a run resumed on other data is refused."""
        matrix = self.matrix.data if sp.issparse(self.matrix) else self.matrix
        return zlib.crc32(np.ascontiguousarray(matrix).reshape(-1).view(np.uint8).data)


def load_ids(job: Job, file: PartyFile) -> Ids:
    """The ids of a party that is to be aligned."""
    assert job.alignment is not None
    data = file.data
    columns = read_id_columns(file.path(data.file), data.id)
    return clean_ids(file.name, data.id, columns, job.alignment, data.repeated_ids, data.missing_ids)


def load_rows(job: Job, file: PartyFile, order: Order | None = None) -> Rows:
    """Read and prepare a party's rows, all or the common ones; PrivacyError when its columns are too few to hide."""
    table = _read_common(job, file, order)
    if guaranteed(job, file.name):
        check_preparation(file.name, file.prepare)
    leave_out = tuple(name for name in (*file.data.drop, file.data.label, file.data.weight) if name)
    prepared = preparation.fit(table, file.prepare, leave_out, file.data.columns)
    rows = prepare_rows(file, table, prepared)
    if rows.matrix.shape[1] < file.trust.min_columns:
        raise PrivacyError(
            f"party {file.name!r} must bring at least {file.trust.min_columns} columns. Found {rows.matrix.shape[1]}: "
            "what it sends would show them. Add columns, or lower trust.min_columns in its file."
        )
    try:
        job.penalties[file.name].check(rows.matrix.shape[1])
    except InputError as error:
        raise InputError(f"party {file.name!r}: {error}") from None
    return rows


def prepare_rows(file: PartyFile, table: Table, prepared: Preparation) -> Rows:
    """New rows through a preparation that was fitted before."""
    matrix, columns = prepared.apply(table)
    part = read_part(file.name, matrix)
    return Rows(table.ids, part.matrix, columns, prepared)


def read_file(file: PartyFile, name: str, distinct: bool = True) -> Table:
    """One of the party's files, by its path relative to the party file."""
    if not name:
        raise ConfigError(f"{file.name}.toml must name the file to read. Found none: set data.score, or give --rows.")
    path = Path(name)
    return read_table(path if path.is_absolute() else file.path(name), file.data.id, distinct)


def _read_common(job: Job, file: PartyFile, order: Order | None) -> Table:
    """The party's training rows; those of the order, when they were aligned."""
    table = read_file(file, file.data.file, distinct=job.alignment is None)
    return table if order is None else table.pick(order.rows, order.ids)


def make_party(job: Job, file: PartyFile, rows: Rows) -> Party:
    """The party that the job describes, over these rows, under its own mechanism."""
    policy, mechanism = policy_at(job, file), mechanism_of(job, file.name)
    check_party(file.name, mechanism, rows.matrix)
    loss, weights = policy.loss_of_targets(job.loss), read_weights(None, len(rows.ids))
    block = Block(Features(rows.matrix), job.penalties[file.name], loss, weights)
    book = policy.book(file.name, rows.matrix, mechanism)
    method = party_method(job.method, policy, job.parties, book, block)
    method = Briefed(method, guaranteed(job, file.name)) if job.briefed else method
    return Party(file.name, block, method, job.run.wire)


@dataclass(frozen=True)
class Labels:
    """What the coordinator holds: ids, labels (N,), and sample weights (N,), None where all records count alike."""

    ids: tuple[str, ...]
    values: Array
    weights: Array | None = None


def load_labels(job: Job, file: PartyFile, name: str = "", order: Order | None = None) -> Labels:
    """The labels, in the loss's own form, from the coordinator's file (or another of its files)."""
    if not file.data.label:
        raise ConfigError(f"{file.name}.toml must name the label column. Found none: set data.label.")
    table = read_file(file, name) if name else _read_common(job, file, order)
    values = read_labels(table.column(file.data.label), table.rows)
    weights = None if name else _sample_weights(job, file, table)  # new rows count alike
    return Labels(table.ids, job.loss.labels(values), weights)


def _sample_weights(job: Job, file: PartyFile, table: Table) -> Array | None:
    if job.weighted != bool(file.data.weight):
        raise ConfigError(
            f"the job says model.weighted = {str(job.weighted).lower()}, and {file.name}.toml must agree: data.weight "
            f"names a column of sample weights, or none. Found {file.data.weight!r}."
        )
    return read_weights(table.column(file.data.weight), table.rows) if file.data.weight else None


@dataclass(frozen=True)
class Assignment:
    """The coordinator's half of the problem, and what the parties must be told first, if anything."""

    task: Task
    briefing: Broadcast | None


def make_assignment(job: Job, file: PartyFile, labels: Labels) -> Assignment:
    """Labels under the job's privacy: what the parties get to see is noised here, once."""
    loss, targets, softness = policy_at(job, file).protect_labels(job.loss, labels.values)
    weights = read_weights(None, len(labels.ids)) if labels.weights is None else labels.weights
    task = Task(loss, targets, weights, job.parties, job.intercept)
    return Assignment(task, briefing(labels.weights, softness) if job.briefed else None)
