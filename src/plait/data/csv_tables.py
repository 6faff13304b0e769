"""CSV files as a stream of typed columns.

The file is cut into pieces of whole rows.  A piece is converted column by column: by pyarrow where it is installed, on
all cores, else by NumPy.  A piece that neither takes, say for marks between thousands, is read cell by cell, with the
same result; so are the row and the value that an error names.
"""

import csv
import io
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from plait._texts import Texts
from plait._threads import in_order
from plait.data.csv_format import CsvFormat, detect
from plait.data.csv_pieces import Piece, pieces_of
from plait.data.sources import Batch, Kind, Kinds, NotANumber
from plait.data.texts import Coded
from plait.errors import InputError

MISSING = frozenset({"", "na", "nan", "null", "none", "n/a"})
_MISSING_WRITTEN = [form(word) for word in sorted(MISSING) for form in (str.lower, str.upper, str.title)] + ["NaN"]
_EXACT_ROWS = 10_000  # rows that are Python texts at a time: some MB
_ARROW_BLOCK = 256 << 10  # bytes that pyarrow converts at a time: 256 kB and their numbers fit in a core's own cache
_SAMPLE_BYTES = 1 << 18  # 256 kB at the beginning of a file: a few hundred rows of a wide table
_GUESS_ROWS = 1_000  # rows that show what a column holds
_LONGEST_FIELD = 64 << 20  # bytes: as long as a row may be

# Python's own reader refuses fields of more than 128 kB, such as a document in a column that is dropped.
csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))


@dataclass(frozen=True)
class CsvSource:
    """A CSV file."""

    path: Path
    form: CsvFormat
    rows: int | None = None

    @property
    def name(self) -> str:
        return self.path.name

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(next(rows_of(self.path, self.form)))

    @cached_property
    def about(self) -> int:
        """As many as if all rows took as much room as those at its beginning do."""
        with self.path.open("rb") as file:
            first = file.read(_SAMPLE_BYTES)
            return first.count(b"\n") * os.fstat(file.fileno()).st_size // max(1, len(first))

    def place(self, row: int) -> str:
        return f"{self.name}, line {row + 2}"

    def guess(self) -> dict[str, Kind]:
        rows = list(islice(rows_of(self.path, self.form), 1, _GUESS_ROWS + 1))
        columns = zip(self.columns, zip(*rows, strict=True), strict=True)
        return {name: "category" if as_numbers(cells, self.form) is None else "number" for name, cells in columns}

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        done = 0
        try:
            for piece, batch in in_order(lambda piece: (piece, self._fast(piece, kinds)), self._pieces()):
                if batch is None and not piece.regular:
                    break
                for ready in self._exact_piece(piece, kinds, done) if batch is None else (batch,):
                    done += ready.rows
                    yield ready
            else:
                if done:
                    return
        except UnicodeError as error:
            raise _unreadable(self.path, self.form, error) from error
        yield from self._exact(islice(rows_of(self.path, self.form), done + 1, None), kinds, done)

    def _pieces(self) -> Iterator[Piece]:
        _ = self.columns  # a header that cannot be used is refused first
        return pieces_of(self.path, self.form)

    def _fast(self, piece: Piece, kinds: Kinds) -> Batch | None:
        """The piece's columns, whole; None where it takes a closer look."""
        if not piece.regular or self.form.thousands:
            return None
        try:
            import pyarrow
        except ImportError:
            return None if piece.gaps else _by_numpy(piece, self.columns, kinds, self.form)
        try:
            return _by_arrow(piece, self.columns, kinds, self.form)
        except pyarrow.ArrowInvalid:
            return None

    def _exact_piece(self, piece: Piece, kinds: Kinds, done: int) -> Iterator[Batch]:
        text = io.StringIO(piece.data.decode(), newline="")
        rows = csv.reader(text, delimiter=self.form.separator, quotechar=self.form.quote)
        try:
            yield from self._exact(_checked(self.path, rows, len(self.columns), done), kinds, done)
        except csv.Error as error:
            raise _unreadable(self.path, self.form, error) from error

    def _exact(self, rows: Iterator[list[str]], kinds: Kinds, done: int) -> Iterator[Batch]:
        """Cell by cell."""
        while block := list(islice(rows, _EXACT_ROWS)):
            cells = dict(zip(self.columns, zip(*block, strict=True), strict=True))
            yield _from_cells({name: cells[name] for name in kinds}, kinds, self.form, f"{self.name}, line", done + 2)
            done += len(block)


def _by_arrow(piece: Piece, columns: tuple[str, ...], kinds: Kinds, form: CsvFormat) -> Batch | None:
    import pyarrow as pa

    from plait.data.arrow_columns import from_arrow

    try:
        table = _arrow_table(piece.data, columns, kinds, form, _ARROW_BLOCK)
    except pa.ArrowInvalid:
        if not piece.quoted:
            raise
        table = _arrow_table(piece.data, columns, kinds, form, len(piece.data) + 1)
    # For an empty line pyarrow makes a row of nothing: a column of numbers without a gap shows that there is none.
    whole = any(kind == "number" and not table.column(name).null_count for name, kind in kinds.items())
    if not whole and piece.gaps:
        return None
    return from_arrow(table, kinds, "", 0)


def _arrow_table(data: bytes, columns: tuple[str, ...], kinds: Kinds, form: CsvFormat, block: int) -> Any:
    """A piece by pyarrow.  A block that ends at a newline within quotes is refused, so one block is the last try."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    return arrow_csv.read_csv(
        pa.BufferReader(data),
        arrow_csv.ReadOptions(use_threads=False, block_size=block, column_names=columns),
        arrow_csv.ParseOptions(
            delimiter=form.separator,
            quote_char=form.quote,
            newlines_in_values=block > len(data),  # looks at everything twice
            ignore_empty_lines=False,
        ),
        _conversion(columns, tuple(kinds.items()), form.decimal),
    )


@lru_cache(maxsize=16)  # tables that are read at the same time
def _conversion(columns: tuple[str, ...], kinds: tuple[tuple[str, Kind], ...], decimal: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    types = {"number": pa.float64(), "category": pa.dictionary(pa.int32(), pa.utf8()), "text": pa.large_utf8()}
    return arrow_csv.ConvertOptions(
        column_types={name: types[kind] for name, kind in kinds},
        include_columns=[name for name, _ in kinds] or [columns[0]],
        null_values=_MISSING_WRITTEN,
        decimal_point=decimal,
    )


def _by_numpy(piece: Piece, columns: tuple[str, ...], kinds: Kinds, form: CsvFormat) -> Batch | None:
    """Numbers at the speed of NumPy's own reader; None for rows with quotes or of different lengths."""
    if piece.quoted or not piece.even(form.separator, len(columns)):
        return None
    text = piece.data.decode()
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    found: dict[str, Any] = {}
    if numbers:
        read = _load(text, form, [columns.index(name) for name in numbers])
        if read is None or read.shape[0] != piece.rows:
            return None
        found = {name: read[:, j] for j, name in enumerate(numbers)}
    others = {name: columns.index(name) for name, kind in kinds.items() if kind != "number"}
    lines = _lines(text) if others else []
    cells = {name: [line.split(form.separator, at + 1)[at] for line in lines] for name, at in others.items()}
    rest = _from_cells(cells, {name: kinds[name] for name in others}, form, "", 0)
    return Batch(piece.rows, found, rest.categories, rest.texts)


def _load(text: str, form: CsvFormat, places: list[int]) -> Any:
    """These columns (n, p); None where some cell is not a number, nor empty."""
    between = form.separator
    if form.decimal != ".":
        text = text.replace(form.decimal, ".")
    for _ in range(2):  # two empty cells in a row share a separator
        text = text.replace(f"{between}{between}", f"{between}nan{between}")
    text = text.replace(f"{between}\n", f"{between}nan\n").replace(f"\n{between}", f"\nnan{between}")
    text = f"nan{text}" if text.startswith(between) else text
    try:
        return np.loadtxt(_lines(text), delimiter=between, usecols=places, ndmin=2, comments=None)
    except ValueError:
        return None


def _lines(text: str) -> list[str]:
    """Rows end in newlines only; other characters that end lines are part of a field."""
    return text.removesuffix("\n").split("\n")


def _from_cells(cells: Mapping[str, Sequence[str]], kinds: Kinds, form: CsvFormat, where: str, first: int) -> Batch:
    """Texts that stand in a file, each column in its kind."""
    numbers, categories, texts = {}, {}, {}
    for name, values in cells.items():
        if kinds[name] == "category":
            categories[name] = Coded.of(values)
        elif kinds[name] == "text":
            texts[name] = Texts.of(values)
        else:
            numbers[name] = as_numbers(values, form)
            if numbers[name] is None:
                at = next(i for i, value in enumerate(values) if as_numbers([value], form) is None)
                raise NotANumber(f"{where} {first + at}", name, values[at])
    return Batch(len(next(iter(cells.values()), ())), numbers, categories, texts)


def as_numbers(values: Sequence[Any], form: CsvFormat | None = None) -> Any:
    """Values as float64 with NaN for missing ones; None when some are texts."""
    if form is None or form.plain:
        try:
            return np.fromiter(map(float, values), np.float64, len(values))
        except (TypeError, ValueError):
            pass
    try:
        return np.array([_number(v, form or CsvFormat()) for v in values])
    except (TypeError, ValueError):
        return None


def _number(value: Any, form: CsvFormat) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, str):
        return float("nan") if value.strip().lower() in MISSING else form.number(value)
    return float(value)


def rows_of(path: Path, form: CsvFormat) -> Iterator[list[str]]:
    """The header, then the rows, each as long as the header."""
    encoding = "utf-8-sig" if form.encoding == "utf-8" else form.encoding
    empty = True
    try:
        with path.open(newline="", encoding=encoding) as file:
            reader = csv.reader(file, delimiter=form.separator, quotechar=form.quote)
            header = _named(next(reader, []))
            _check_header(path, header, form)
            yield header
            for row in _checked(path, reader, len(header)):
                empty = False
                yield row
    except (UnicodeError, csv.Error) as error:
        raise _unreadable(path, form, error) from error
    if empty:
        raise _no_row(path, len(header))


def _checked(path: Path, rows: Any, width: int, done: int = 0) -> Iterator[list[str]]:
    """The rows; empty lines may only stand after the last one."""
    empty = 0
    for number, row in enumerate(rows, start=done + 2):
        if not row:
            empty = empty or number
            continue
        if empty:
            raise InputError(f"{path.name}, line {empty} must have {width} fields. Found 0.")
        if len(row) != width:
            raise InputError(f"{path.name}, line {number} must have {width} fields. Found {len(row)}.")
        yield row


def _no_row(path: Path, width: int) -> InputError:
    return InputError(f"{path.name} must have a header and at least one row. Found {width} fields and no row.")


def _unreadable(path: Path, form: CsvFormat, error: Exception) -> InputError:
    return InputError(f"{path.name} must be a CSV file in {form.encoding.upper()}. Found: {error}. {_hint(path, form)}")


def _named(header: list[str]) -> list[str]:
    """The names of the columns; one without a name is called by its place, such as "column 5"."""
    return [name if name.strip() else f"column {place}" for place, name in enumerate(header, start=1)]


def _check_header(path: Path, header: list[str], form: CsvFormat) -> None:
    if not header:
        raise _no_row(path, 0)
    repeated = sorted(name for name, times in Counter(header).items() if times > 1)
    if repeated:
        raise InputError(f"the columns of {path.name} must have different names. Found {repeated[0]!r} twice.")
    if len(header) == 1 and (hint := _hint(path, form)):
        raise InputError(
            f"{path.name} must have fields separated by {form.separator!r}. Found one field a line. {hint}"
        )


def _hint(path: Path, form: CsvFormat) -> str:
    """What the file looks like, where that is not how it is read."""
    found = detect(path)
    differing = {k: getattr(found, k) for k in ("separator", "encoding") if getattr(found, k) != getattr(form, k)}
    if not differing or found.encoding == "utf-8-sig":
        return ""
    lines = ", ".join(f"{name} = {value!r}" for name, value in differing.items())
    return f"It looks like {lines}: write that into [data] of the party file."
