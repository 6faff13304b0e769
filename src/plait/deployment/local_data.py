"""What a party reads from its own files for a run: ids, prepared rows, labels and row weights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from blake3 import blake3

from plait._files import make_folder
from plait._texts import Texts
from plait._types import Array
from plait.alignment.ids import Ids, check_still_there, clean_ids
from plait.alignment.order import Order
from plait.data import preparation, ray_matrix
from plait.data.arrow_tables import QuerySource
from plait.data.csv_tables import MISSING
from plait.data.dates import dated
from plait.data.memory import IN_MEMORY, Room, amount
from plait.data.parts import checked_part, read_labels, read_weights
from plait.data.preparation import Preparation
from plait.data.recipes import Recipe
from plait.data.scaling import NoNumber, without_infinity
from plait.data.sources import Kind, Source
from plait.data.tables import STREAMED, Chooser, OfTexts, Table, open_path, read_id_columns, read_table
from plait.data.texts import Coded
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.party_privacy import check_preparation, mechanism_of
from plait.errors import ConfigError, InputError, PrivacyError
from plait.problem.row_blocks import Blocks, mapped


@dataclass(frozen=True)
class Rows:
    """A party's rows, ready to train on: ids, matrix (N, d), names of the columns, and how they were prepared.

    `remarks` are sentences for the party's owner about values that training did not have; `lies` says where the table
    lies, in memory or on disk.
    """

    ids: Sequence[str]
    matrix: Any
    columns: tuple[str, ...]
    prepared: Preparation
    remarks: tuple[str, ...] = ()
    lies: str = ""

    @property
    def checksum(self) -> int:
        """63 bits of BLAKE3 over ids, columns, and all of the matrix: a run resumed on other data is refused."""
        if sp.issparse(self.matrix):
            arrays = [self.matrix.data, self.matrix.indices, self.matrix.indptr]
            digests = [blake3(_bytes_of(array)).digest() for array in arrays]
        else:
            digests = [digest for group in mapped(self.matrix, _digests) for digest in group]
        heading = [sp.issparse(self.matrix), self.matrix.shape, self.columns, str(self.matrix.dtype)]
        seal = blake3(json.dumps(heading).encode() + b"".join(digests))
        for start in range(0, len(self.ids), 10_000):
            part = self.ids[start : start + 10_000]
            seal.update((part if isinstance(part, Texts) else Texts.of(part)).framed())
        return int.from_bytes(seal.digest(length=8), "little") >> 1


def _digests(blocks: Blocks, vectors: Sequence[Array]) -> list[bytes]:
    return [blake3(_bytes_of(block)).digest() for _, block in blocks]


def _bytes_of(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def load_ids(job: Job, file: PartyFile, name: str = "") -> Ids:
    """The ids of a party that is to be aligned, in its training file or in another one."""
    assert job.alignment is not None
    data = file.data
    source = _at(file, name) if name else _training_rows(file)
    columns = read_id_columns(source, data.id, data.csv_format)
    return clean_ids(file.name, data.id, columns, job.alignment, data.repeated_ids, data.missing_ids)


def load_rows(job: Job, file: PartyFile, order: Order | None = None) -> Rows:
    """Read and prepare a party's rows, all or the common ones; PrivacyError below trust.min_columns columns."""
    options, private = file.prepare, mechanism_of(job, file.name).guaranteed
    if private:
        check_preparation(file.name, options)
        # An error about a missing or infinite number would tell others something about a row.
        options = replace(options, impute="zero")
    leave_out = (*file.data.drop, *(name for name in (file.data.label, file.data.weight) if name))

    def wanted(source: Source) -> dict[str, Kind]:
        return preparation.kinds_wanted(source, options, leave_out, file.data.columns)

    room = room_of(job, file)
    if file.cluster.engine == "ray":
        table = _on_cluster(job, file, order, wanted, room)
    else:
        table = _read_common(job, file, order, wanted, "missing" if private else "refuse", room)
    if private:
        table = replace(table, numbers=without_infinity(table.numbers))
    try:
        prepared = preparation.fit(table, options, _left(table, leave_out), file.data.columns)
    except NoNumber as error:
        raise type(error)(error.column, error.row, _place(file, order, error.row)) from None
    rows = prepare_rows(file, table, prepared, room)
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


def room_of(job: Job, file: PartyFile) -> Room:
    """Where the party's table may lie; one with a guarantee is in memory, for its mechanism looks at every row."""
    return IN_MEMORY if mechanism_of(job, file.name).guaranteed else whole_room(file)


def whole_room(file: PartyFile) -> Room:
    """What the process of this file may take, and where it puts what does not fit."""
    data = file.data
    folder = file.path(data.spool) if data.spool else make_folder(file.path(file.runs))
    return Room(amount(data.memory), folder, data.numbers)


def prepare_rows(file: PartyFile, table: Table, prepared: Preparation, room: Room = IN_MEMORY) -> Rows:
    """New rows through a preparation that was fitted before."""
    matrix, columns = prepared.apply(table, room)
    part = checked_part(file.name, matrix, columns)
    return Rows(table.ids, part.matrix, columns, prepared, tuple(prepared.unseen(table)), room.describe(matrix))


def read_file(file: PartyFile, name: str, distinct: bool = True) -> Table:
    """One of the party's files, by its path relative to the party file."""
    if not name:
        raise ConfigError(f"{file.name}.toml must name the file to read. Found none: set data.score, or give --rows.")
    return read_table(_at(file, name), file.data.id, distinct, file.data.csv_format, dates=_dates(file))


@dataclass(frozen=True)
class NewRows:
    """New rows under their ids: as the job's rules write them (`table.ids`), and as they stand in the file."""

    table: Table
    written: Sequence[str]


def read_new_rows(job: Job, file: PartyFile, name: str) -> NewRows:
    """Rows to score, one for each id by the rules of the job."""
    table = read_file(file, name, distinct=job.alignment is None)
    if job.alignment is None or not file.data.id:
        return NewRows(table, table.ids)
    ids = load_ids(job, file, name)
    check_still_there(file.name, table.ids, ids.rows, ids.texts, len(file.data.id), job.alignment)
    return NewRows(table.pick(ids.rows, ids.texts), [table.ids[int(row)] for row in ids.rows])


def read_training_rows(file: PartyFile) -> Table:
    """The table that the party trains on, whole."""
    return read_table(_training_rows(file), file.data.id, False, file.data.csv_format, dates=_dates(file))


def read_training_ids(file: PartyFile) -> Sequence[str]:
    """The ids of that table alone, as they stand in it."""
    return read_table(_training_rows(file), file.data.id, False, file.data.csv_format, lambda source: {}).ids


def _at(file: PartyFile, name: str) -> Path:
    return Path(name) if Path(name).is_absolute() else file.path(name)


def _training_rows(file: PartyFile) -> Path | Source:
    data = file.data
    if data.source:
        return QuerySource(data.source, file.path(""))
    return _at(file, data.file)


def _left(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the names that the table has: what is left out of a source is not read."""
    return tuple(name for name in names if name in table.names or name in table.texts)


def _read_common(
    job: Job, file: PartyFile, order: Order | None, choose: Chooser, texts: OfTexts, room: Room = IN_MEMORY
) -> Table:
    """The wanted columns of the party's training rows; those of the order, when they were aligned."""
    distinct = job.alignment is None
    data = file.data
    table = read_table(_training_rows(file), data.id, distinct, data.csv_format, choose, texts, room, _dates(file))
    return table if order is None else _in_order(job, file, table, order, room)


def _in_order(job: Job, file: PartyFile, table: Table, order: Order, room: Room = IN_MEMORY) -> Table:
    """The common rows in the common order, once it is known that their ids stand where they stood."""
    if job.alignment is not None and file.data.id:
        check_still_there(file.name, table.ids, order.rows, order.ids, len(file.data.id), job.alignment)
    return table.pick(order.rows, order.ids, room)


def _on_cluster(job: Job, file: PartyFile, order: Order | None, choose: Chooser, room: Room) -> Table:
    """The wanted columns: ids and categories here, numbers where the cluster's actors hold them."""
    if room is IN_MEMORY:
        raise PrivacyError(f"party {file.name!r} has a guarantee, so its table must lie here. Leave out [cluster].")
    source, ids = _source(file), file.data.id
    kinds = {name: kind for name, kind in choose(source).items() if name not in ids}
    numbers = tuple(name for name, kind in kinds.items() if kind == "number")

    def without_numbers(source: Source) -> dict[str, Kind]:
        here: dict[str, Kind] = {name: kind for name, kind in kinds.items() if kind != "number"}
        return here or ({} if ids else {source.columns[0]: "text"})  # one column is read to count the rows

    table = read_table(source, ids, job.alignment is None, file.data.csv_format, without_numbers, "refuse")
    seal = table.ids.hashes() if ids and isinstance(table.ids, Texts) else None
    table = table if order is None else _in_order(job, file, table, order)
    workers = ray_matrix.join(file.cluster.address, file.cluster.workers)
    rows = None if order is None else np.asarray(order.rows)
    recipe = Recipe(source, kinds, rows, dtype=room.dtype, ids=ids if seal is not None else (), seal=seal)
    matrix = ray_matrix.RayMatrix(recipe, (len(table.ids), len(numbers)), workers)
    return Table(table.ids, matrix, numbers, {name: table.texts[name] for name in kinds if kinds[name] == "category"})


def _source(file: PartyFile) -> Source:
    place = _training_rows(file)
    return dated(open_path(place, file.data.csv_format) if isinstance(place, Path) else place, _dates(file))


def _place(file: PartyFile, order: Order | None, row: int) -> str:
    """Where a row of the table that was read, counted from 0, stands in its source."""
    row = row if order is None else int(order.rows[row])
    place = _training_rows(file)
    if isinstance(place, Path) and not (place.is_dir() or place.suffix.lower() in STREAMED):
        return f"{place.name}, row {row + 1}"
    return _source(file).place(row)


def _dates(file: PartyFile) -> dict[str, str]:
    """The columns of dates that are used, each with its format."""
    data = file.data
    used = {*data.columns} if data.columns else {*file.prepare.dates}
    return {name: written for name, written in file.prepare.dates.items() if name in used - {*data.drop}}


@dataclass(frozen=True)
class Labels:
    """What the coordinator holds: ids, labels (N,), and row weights (N,), None where all rows count alike."""

    ids: Sequence[str]
    values: Array
    weights: Array | None = None


def load_labels(job: Job, file: PartyFile, name: str = "", order: Order | None = None) -> Labels:
    """The labels, in the loss's own form, from the coordinator's file (or another of its files)."""
    if not file.data.label:
        raise ConfigError(f"{file.name}.toml must name the label column. Found none: set data.label.")

    def wanted(source: Source) -> dict[str, Kind]:
        guessed = source.guess()
        return {name: guessed[name] for name in (file.data.label, file.data.weight) if name in guessed}

    table = read_new_rows(job, file, name).table if name else _read_common(job, file, order, wanted, "keep")
    table.need(file.data.label)
    values = job.loss.labels(read_labels(_label_numbers(file, table), table.rows))
    weights = None if name else _sample_weights(job, file, table)  # new rows count alike
    return Labels(table.ids, whole_room(file).workspace(table.rows).kept(values), weights)


def _label_numbers(file: PartyFile, table: Table) -> Array:
    """Labels as numbers: 1 for `data.positive` and 0 for the other value, where there are two; else as they are."""
    positive, found = file.data.positive, table.texts.get(file.data.label)
    if found is None:
        numbers = table.column(file.data.label)
        if not positive:
            return numbers
        values, codes = np.unique(numbers, return_inverse=True)
        found = Coded(tuple(map(_label_text, values.tolist())), codes.astype(np.int32))
    named = found.renamed([_label_text(value) for value in found.values])
    _need_given(file, named)
    if len(named.present) != 2 or positive not in named.present:
        raise InputError(
            f"labels that are not numbers must take two values, and data.positive in {file.name}.toml must be one of "
            f"them. Found {len(named.present)}: {', '.join(map(repr, sorted(named.present)[:5]))}; data.positive = "
            f"{positive!r}."
        )
    return np.array([value == positive for value in named.values], dtype=np.float64)[named.codes]


def _need_given(file: PartyFile, labels: Coded) -> None:
    """Raise InputError where a row has no label."""
    empty = [i for i, value in enumerate(labels.values) if value.lower() in MISSING]
    if count := int(np.isin(labels.codes, empty).sum()):
        raise InputError(
            f"every row must have a label, in column {file.data.label!r} of {file.name}. Found {count} of "
            f"{len(labels.codes)} rows without one. Remove these rows from the file, or fill them in."
        )


def _label_text(value: Any) -> str:
    """A label as its owner writes it: 1 rather than 1.0."""
    return f"{value:g}" if isinstance(value, float) else str(value).strip()


def _sample_weights(job: Job, file: PartyFile, table: Table) -> Array | None:
    if job.weighted != bool(file.data.weight):
        raise ConfigError(
            f"the job says model.weighted = {str(job.weighted).lower()}, and {file.name}.toml must agree: data.weight "
            f"names a column of row weights, or none. Found {file.data.weight!r}."
        )
    return read_weights(table.column(file.data.weight), table.rows) if file.data.weight else None
