"""Read a party's table, from a file, a folder or a query, into numbers, texts and ids."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from plait._names import plain, some_of
from plait._texts import RowNumbers, Texts
from plait.data import libsvm
from plait.data.arrow_tables import ArrowSource, ParquetSource
from plait.data.csv_format import CsvFormat
from plait.data.csv_tables import CsvSource, as_numbers
from plait.data.dates import dated
from plait.data.matrix_writer import MatrixWriter, picked_rows
from plait.data.memory import IN_MEMORY, Room
from plait.data.sources import Batch, Kind, NotANumber, Source
from plait.data.texts import Coded
from plait.errors import InputError, PlaitError

OfTexts = Literal["keep", "refuse", "missing"]
Chooser = Callable[[Source], dict[str, Kind]]
"""Which columns are wanted, and in which kind."""


STREAMED: Mapping[str, Callable[[Path, CsvFormat], Source]] = {
    ".csv": CsvSource,
    ".parquet": lambda path, _: ParquetSource(path),
    ".arrow": lambda path, _: ArrowSource(path),
    ".feather": lambda path, _: ArrowSource(path),
}
"""Files that are read as streams, by their endings."""


@dataclass(frozen=True)
class Table:
    """Rows with ids; numbers (N, p) dense or CSR with NaN for missing; texts by column."""

    ids: Sequence[str]
    numbers: Any
    names: tuple[str, ...]
    texts: dict[str, Coded]

    @property
    def rows(self) -> int:
        return int(self.numbers.shape[0])

    def pick(self, rows: Any, ids: Sequence[str], room: Room = IN_MEMORY) -> "Table":
        """These rows (n,) in this order, under these ids."""
        numbers = self.numbers[rows] if sp.issparse(self.numbers) else picked_rows(self.numbers, rows, room)
        return Table(ids, numbers, self.names, {name: texts[rows] for name, texts in self.texts.items()})

    def column(self, name: str) -> Any:
        """One column, (N,), of numbers or texts."""
        if name in self.texts:
            return self.texts[name].array()
        self.need(name)
        column = self.numbers[:, [self.names.index(name)]]
        return np.asarray(column.toarray() if sp.issparse(column) else column)[:, 0]

    def need(self, name: str) -> None:
        """InputError where there is no such column."""
        if name not in self.names and name not in self.texts:
            raise InputError(f"the file must have a column {name!r}. Found {some_of((*self.names, *self.texts))}.")


def read_table(
    place: Path | Source,
    id_columns: str | tuple[str, ...] = (),
    distinct: bool = True,
    form: CsvFormat | None = None,
    choose: Chooser | None = None,
    texts: OfTexts = "keep",
    room: Room = IN_MEMORY,
    dates: Mapping[str, str] | None = None,
) -> Table:
    """A table; without id columns the rows are numbered; `distinct` refuses repeated ids.

    place    a file or folder, by its extension, or a source
    form     how a CSV file is written
    choose   the columns that are wanted, and how; by default all, as numbers where they are numbers
    room     where the numbers of a large table may lie
    texts    what happens to a column that is wanted as numbers and holds a text: "keep" reads it as texts, "refuse"
             refuses it, and with "missing" the number is missing in those rows
    dates    columns of dates, each with its format: they are read as numbers
    """
    names = (id_columns,) if isinstance(id_columns, str) and id_columns else tuple(id_columns)
    if isinstance(place, Path):
        table = _read_path(place, names, form or CsvFormat(), choose, texts, room, dates or {})
    else:
        table = _read_source(dated(place, dates or {}, texts == "missing"), names, choose, texts, room)
    repeated = table.ids.repeated() if distinct and names and isinstance(table.ids, Texts) else 0
    if repeated:
        raise InputError(f"the ids in {place.name} must be different. Found {repeated} repeated.")
    return table


def read_id_columns(place: Path | Source, names: tuple[str, ...], form: CsvFormat | None = None) -> list[Any]:
    """The values of the id columns alone, as they stand in the file: the other columns need no memory."""
    if isinstance(place, Path) and place.suffix.lower() in (".npy", ".npz"):
        _need_file(place)
        return _translated(place, lambda: _numpy_columns(place, names))
    source = open_path(place, form or CsvFormat()) if isinstance(place, Path) else place
    _need_columns(source.name, names, source.columns)
    found: list[list[Texts]] = [[] for _ in names]
    for batch in source.batches(dict.fromkeys(names, "text")):
        for values, name in zip(found, names, strict=True):
            values.append(batch.texts[name])
    return [Texts.joined(parts) for parts in found]


def open_path(path: Path, form: CsvFormat) -> Source:
    """A CSV file, a Parquet file, a folder of Parquet files, or an Arrow file, as a source."""
    if path.is_dir():
        return ParquetSource(path)
    if path.suffix.lower() not in STREAMED:
        raise InputError(
            f"a data file must end in {', '.join(STREAMED)}, or be a folder of Parquet files. Found {path.name!r}."
        )
    _need_file(path)
    return STREAMED[path.suffix.lower()](path, form)


def _read_path(
    path: Path,
    id_columns: tuple[str, ...],
    form: CsvFormat,
    choose: Chooser | None,
    texts: OfTexts,
    room: Room,
    dates: Mapping[str, str],
) -> Table:
    sparse = partial(_read_libsvm, room=room)
    whole: dict[str, Callable[[Path, tuple[str, ...]], Table]]
    whole = {".svm": sparse, ".libsvm": sparse, ".npy": _read_numpy, ".npz": _read_numpy}
    reader = whole.get(path.suffix.lower())
    if reader is None and not path.is_dir() and path.suffix.lower() not in STREAMED:
        raise InputError(f"a data file must end in {', '.join([*STREAMED, *whole])}. Found {path.name!r}.")
    if reader is not None:
        if dates:
            raise InputError(f"dates must stand in a CSV file, a Parquet file or a query. Found them in {path.name}.")
        _need_file(path)
        return _translated(path, lambda: reader(path, id_columns))
    source = open_path(path, form)
    return _translated(
        path, lambda: _read_source(dated(source, dates, texts == "missing"), id_columns, choose, texts, room)
    )


def _need_file(path: Path) -> None:
    if "\0" in str(path) or not path.is_file():
        raise InputError(f"the data file must be at {str(path)!r}. Found no such file.")


def _translated(path: Path, read: Callable[[], Any]) -> Any:
    """What was read; InputError for whatever a damaged file makes the library behind the reader raise."""
    try:
        return read()
    except PlaitError:
        raise
    except MemoryError as error:
        raise InputError(
            f"the process must have memory to read {path.name}. Found too little: {plain(str(error), 200)}. Allow it "
            "more, or set data.memory (in Python memory=) to what it may take: the table then lies on disk."
        ) from error
    except Exception as error:
        raise InputError(
            f"{path.name} must be a whole {path.suffix} file. Found it damaged, or another kind: "
            f"{plain(str(error), 200)}."
        ) from error


def _read_source(
    source: Source, id_columns: tuple[str, ...], choose: Chooser | None, texts: OfTexts, room: Room
) -> Table:
    """All batches; a column that was taken for numbers, and holds a text further down, is read again as texts."""
    _need_columns(source.name, id_columns, source.columns)
    kinds = source.guess() if choose is None else choose(source)
    asked = tuple(name for name, kind in kinds.items() if kind == "number" and name not in id_columns)
    while True:
        try:
            wanted = {name: kind for name, kind in kinds.items() if name not in id_columns}
            if texts == "missing":
                return _with_missing(_gathered(source, id_columns, wanted, room, by_row=True), asked, source.form)
            return _gathered(source, id_columns, wanted, room)
        except NotANumber as error:
            if texts == "refuse":
                raise
            kinds[error.column] = "category"


def _with_missing(table: Table, asked: tuple[str, ...], form: CsvFormat | None) -> Table:
    """The table with the columns that were asked for as numbers, in their order; a text that is none becomes NaN.

    Each row is read on its own: what one row holds changes no other row.
    """
    if table.names == asked:
        return table
    columns = [_numbers(table.texts[n], form) if n in table.texts else table.column(n) for n in asked]
    rest = {name: column for name, column in table.texts.items() if name not in asked}
    return Table(table.ids, np.column_stack(columns), asked, rest)


def _numbers(column: Coded, form: CsvFormat | None) -> Any:
    """Every row's number (N,); each different text is read once."""
    read = [as_numbers((text,), form) for text in column.values]
    found = np.array([np.nan if each is None else float(each[0]) for each in read])
    return found[column.codes]


def _gathered(
    source: Source, id_columns: tuple[str, ...], kinds: dict[str, Kind], room: Room, by_row: bool = False
) -> Table:
    """All batches as one table; `by_row` where no row may change how another one is read."""
    numbers = tuple(name for name, kind in kinds.items() if kind == "number")
    if source.rows is not None:
        room.check(source.rows)
    writer = MatrixWriter(len(numbers), source.rows, room, source.about)
    ids: list[Texts] = []
    coded: dict[str, list[Coded]] = {name: [] for name, kind in kinds.items() if kind == "category"}
    count = 0
    for batch in source.batches({**kinds, **dict.fromkeys(id_columns, "text")}):
        writer.append([batch.numbers[name] for name in numbers], batch.rows)
        for name, parts in coded.items():
            parts.append(batch.categories[name])
        if id_columns:
            ids.append(ids_of(batch, id_columns))
        count += batch.rows
    room.check(count)
    if not count:
        raise InputError(f"{source.name} must have at least one row. Found none.")
    texts = {name: Coded.joined(parts) for name, parts in coded.items()}
    if not by_row:  # one text among them would change the names of all
        texts = {name: _as_numbers_are_written(source, column) for name, column in texts.items()}
    return Table(Texts.joined(ids) if id_columns else RowNumbers(count), writer.finish(), numbers, texts)


def _as_numbers_are_written(source: Source, column: Coded) -> Coded:
    """Categories that are all numbers, each under one name: 1, 01 and 1.0 are 1.0."""
    numbers = as_numbers(column.values, source.form)
    return column if numbers is None else column.renamed([str(float(number)) for number in numbers])


def ids_of(batch: Batch, names: tuple[str, ...]) -> Texts:
    """One text per row; a JSON list of texts where several columns make the id."""
    if len(set(names)) == 1:
        return batch.texts[names[0]]
    return Texts.of(_listed([batch.texts[name] for name in dict.fromkeys(names)]))


def _listed(parts: Sequence[Collection[str]]) -> list[str]:
    return [json.dumps(row, ensure_ascii=False) for row in zip(*parts, strict=True)]


def _numpy_columns(path: Path, names: tuple[str, ...]) -> list[list[Any]]:
    arrays = _arrays(path)
    _need_columns(path.name, names, sorted(arrays))
    return [list(arrays[name].reshape(-1).tolist()) for name in names]


def _need_columns(where: str, names: tuple[str, ...], found: Sequence[str]) -> None:
    for name in names:
        if name not in found:
            raise InputError(f"{where} must have the id column {name!r}. Found {some_of(found)}.")


def _read_libsvm(path: Path, id_columns: tuple[str, ...], room: Room) -> Table:
    if id_columns:
        raise InputError(f"{path.name} cannot hold ids. Found id = {id_columns}. Leave it empty, or use CSV.")
    matrix = libsvm.read(path, room)
    rows, width = matrix.shape
    return Table(RowNumbers(rows), matrix, (*(str(j) for j in range(width - 1)), "label"), {})


def _arrays(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return {"X": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except ValueError as error:
        raise InputError(f"{path.name} must hold plain arrays. Found: {error}.") from error


def _read_numpy(path: Path, id_columns: tuple[str, ...]) -> Table:
    """A .npy matrix; or a .npz with X (N, d), and if wanted ids, columns and one array per further column."""
    arrays = _arrays(path)
    if "X" not in arrays or arrays["X"].ndim != 2:
        raise InputError(f"{path.name} must hold a matrix X with rows and columns. Found {sorted(arrays)}.")
    matrix = np.asarray(arrays.pop("X"), dtype=np.float64)
    named = arrays.pop("columns", None)
    names = [str(n) for n in named] if named is not None else [str(j) for j in range(matrix.shape[1])]
    ids: Sequence[str] = RowNumbers(matrix.shape[0])
    if id_columns:
        _need_columns(path.name, id_columns, sorted(arrays))
        parts = [[str(v) for v in arrays.pop(name)] for name in dict.fromkeys(id_columns)]
        ids = Texts.of(parts[0] if len(parts) == 1 else _listed(parts))
    for name, values in arrays.items():
        names.append(name)
        matrix = np.column_stack([matrix, np.asarray(values, dtype=np.float64)])
    return Table(ids, np.ascontiguousarray(matrix), tuple(names), {})
