"""From a job file and a party file to a Party, and to the labels."""

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait.alignment.ids import Ids, clean_ids
from plait.alignment.order import Order
from plait.config import Job, PartyFile
from plait.data import preparation
from plait.data.parts import read_labels, read_part, read_weights
from plait.data.preparation import Preparation
from plait.data.tables import Table, read_id_columns, read_table
from plait.errors import ConfigError, InputError, PrivacyError
from plait.matrix import Features
from plait.messages import is_single
from plait.methods.base import Block, Task
from plait.party import Party
from plait.types import Array


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
    leave_out = tuple(name for name in (*file.data.drop, file.data.label) if name)
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


def make_party(job: Job, name: str, rows: Rows) -> Party:
    """The party that the job describes, over these rows."""
    weights = read_weights(None, len(rows.ids))
    block = Block(Features(rows.matrix), job.penalties[name], job.loss, weights)
    return Party(name, block, job.method, is_single(job.run.wire))


@dataclass(frozen=True)
class Labels:
    """What the coordinator holds: ids and labels (N,)."""

    ids: tuple[str, ...]
    values: Array


def load_labels(job: Job, file: PartyFile, name: str = "", order: Order | None = None) -> Labels:
    """The labels, in the loss's own form, from the coordinator's file (or another of its files)."""
    if not file.data.label:
        raise ConfigError(f"{file.name}.toml must name the label column. Found none: set data.label.")
    table = read_file(file, name) if name else _read_common(job, file, order)
    values = read_labels(table.column(file.data.label), table.rows)
    return Labels(table.ids, job.loss.labels(values))


def make_task(job: Job, labels: Labels) -> Task:
    """The coordinator's half of the problem."""
    weights = read_weights(None, len(labels.ids))
    return Task(job.loss, labels.values, weights, job.parties, job.intercept)
