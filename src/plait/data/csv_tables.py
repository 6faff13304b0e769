"""CSV files, read in blocks of rows: a column of numbers never exists as texts."""

import csv
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from plait.data.csv_format import CsvFormat, detect
from plait.errors import InputError

MISSING = frozenset({"", "na", "nan", "null", "none", "n/a"})
_BLOCK_ROWS = 10_000  # rows that are texts at a time: some MB, and long enough for NumPy to convert a column at once


def read_columns(path: Path, form: CsvFormat, texts: Collection[str] = ()) -> dict[str, Any]:
    """Every column (N,): float64 with NaN for missing numbers, or texts where some value is not a number.

    `texts` names columns that stay texts whatever they look like.  A column that turns out to hold texts is read again.
    """
    names = header_of(path, form)
    found: dict[str, list[Any]] = {name: [] for name in names}
    again: set[str] = set()
    for block in _blocks(path, form):
        for name, values in zip(names, zip(*block, strict=True), strict=True):
            if name in again:
                continue
            read = np.array(values) if name in texts else as_numbers(values, form)
            if read is None:
                again.add(name)
                found[name].clear()
            else:
                found[name].append(read)
    late = read_texts(path, form, [name for name in names if name in again])
    return {name: late[name] if name in late else np.concatenate(found[name]) for name in names}


def read_texts(path: Path, form: CsvFormat, names: Sequence[str]) -> dict[str, Any]:
    """These columns (N,) as the texts that stand in the file."""
    if not names:
        return {}
    header = header_of(path, form)
    places = [header.index(name) for name in names]
    blocks = [[np.array([row[place] for row in block]) for place in places] for block in _blocks(path, form)]
    return {name: np.concatenate(parts) for name, parts in zip(names, zip(*blocks, strict=True), strict=True)}


def header_of(path: Path, form: CsvFormat) -> list[str]:
    """The names of the columns."""
    return next(rows_of(path, form))


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


def _blocks(path: Path, form: CsvFormat) -> Iterator[list[list[str]]]:
    rows = rows_of(path, form)
    next(rows)
    while block := list(islice(rows, _BLOCK_ROWS)):
        yield block


def rows_of(path: Path, form: CsvFormat) -> Iterator[list[str]]:
    """The header, then the rows, each as long as the header."""
    encoding = "utf-8-sig" if form.encoding == "utf-8" else form.encoding
    number = 1
    try:
        with path.open(newline="", encoding=encoding) as file:
            reader = csv.reader(file, delimiter=form.separator, quotechar=form.quote)
            header = next(reader, [])
            _check_header(path, header, form)
            yield header
            for number, row in enumerate(reader, start=2):
                if len(row) != len(header):
                    raise InputError(f"{path.name}, line {number} must have {len(header)} fields. Found {len(row)}.")
                yield row
    except (UnicodeError, csv.Error) as error:
        raise InputError(
            f"{path.name} must be a CSV file in {form.encoding.upper()}. Found: {error}. {_hint(path, form)}"
        ) from error
    if number == 1:
        raise InputError(f"{path.name} must have a header and at least one row. Found {len(header)} fields and no row.")


def _check_header(path: Path, header: list[str], form: CsvFormat) -> None:
    repeated = sorted({name for name in header if header.count(name) > 1})
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
