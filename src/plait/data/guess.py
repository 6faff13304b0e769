"""What the columns of a file seem to be: the id, the label, numbers, categories, and what is better left out."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from plait._texts import in_both_cases
from plait.data.arrow_tables import ParquetSource
from plait.data.csv_format import CsvFormat, detect
from plait.data.csv_tables import MISSING, as_numbers, rows_of
from plait.data.dates import formats_of
from plait.data.sources import Batch, Kinds
from plait.data.tables import read_table
from plait.errors import InputError

_SAMPLE_ROWS = 5_000  # rows that are looked at: enough to meet rare values, read in well under a second
_MOST_CATEGORIES = 20  # a text column with more values in the sample is a name or free text, not a category
_NEARLY_ALL = 0.9  # of the values of a column: then the others are mistakes
_ID_NAME = re.compile(
    r"(^|[_\s-])(id|ids|key|no|nr|number|kennung|kunde|kundennummer|customer|client|patient|account|konto)($|[_\s-])"
)
_LABEL_NAME = re.compile(r"^(label|target|y|class|outcome|default|churn|bad|response|event|ausfall|repaid|converted)$")
_YES = ("yes", "true", "y", "ja", "oui", "si", "bad", "default", "positive")
_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}([ T]\d{1,2}:\d{2}.*)?")
_PEOPLES_YEARS = range(1850, 2150)  # whole numbers of eight digits are dates where all lie in these years


@dataclass(frozen=True)
class Guess:
    """What a file's columns seem to be, each with the reason where it is not obvious."""

    form: CsvFormat
    columns: tuple[str, ...]
    id: str = ""
    label: str = ""
    positive: str = ""
    missing: bool = False
    """Whether any number is missing in the sample."""
    one_hot: tuple[str, ...] = ()
    drop: dict[str, str] = field(default_factory=dict)
    """Columns that are better left out, and why."""
    dates: dict[str, str] = field(default_factory=dict)
    """Columns of dates, and how they are written."""
    folded: bool = False
    """Whether some ids are in capitals and others in small letters, so that case can hardly matter."""


def guess_columns(path: Path, labelled: bool) -> Guess:
    """Look at the first rows of a file; `labelled` says whether one column should be the label."""
    form, sample = _sample(path)
    names = tuple(sample)
    numbers = {name: as_numbers(values, form) for name, values in sample.items()}
    dates = {name: written for name, values in sample.items() if (written := _date_formats(values))}
    id_column = _id(sample, numbers, dates)
    label = _label(sample, id_column) if labelled else ""
    others = [name for name in names if name not in (id_column, label)]
    drop, one_hot, missing = {}, [], False
    for name in others:
        distinct = {value.strip() for value in sample[name]} - {""}
        if len(distinct) < 2:
            drop[name] = "the same value in every row"
        elif len(dates.get(name, ())) == 1:
            continue
        elif name in dates:
            drop[name] = f"dates, {' or '.join(dates[name])}: say which under [prepare.dates]"
        elif numbers[name] is not None:
            missing = missing or bool(np.isnan(numbers[name]).any())
        elif all(_DATE.fullmatch(value) for value in distinct):
            drop[name] = "dates of an unknown or mixed form: write years of four digits, in one form"
        elif len(distinct) <= _MOST_CATEGORIES:
            one_hot.append(name)
        else:
            drop[name] = _why_no_category(sample[name], form)
    known = {name: written[0] for name, written in dates.items() if name in others and name not in drop}
    positive = _positive(sample, label, numbers)
    folded = in_both_cases(sample.get(id_column, ())) is not None
    return Guess(form, names, id_column, label, positive, missing, tuple(one_hot), drop, known, folded)


def _why_no_category(values: Sequence[str], form: CsvFormat) -> str:
    """Why a column of many different texts is left out."""
    given = [value for value in values if value.strip().lower() not in MISSING]
    texts = [value for value in given if as_numbers([value], form) is None]
    if len(texts) <= (1 - _NEARLY_ALL) * len(given):
        return f"numbers, but for {len(texts)} of {len(given)} values, like {texts[0].strip()[:20]!r}: correct these"
    return f"texts with more than {_MOST_CATEGORIES} values"


def _date_formats(values: Sequence[str]) -> list[str]:
    """How the dates of a column are written: several formats where day and month cannot be told apart."""
    distinct = {value.strip() for value in values if value.strip().lower() not in MISSING}
    found = formats_of(distinct) if distinct else []
    if found == ["YYYYMMDD"] and not all(int(value[:4]) in _PEOPLES_YEARS for value in distinct):
        return []
    return found


class _Beginning(ParquetSource):
    """The first rows of Parquet files."""

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        yield from islice(super().batches(kinds), 1)


def _sample(path: Path) -> tuple[CsvFormat, dict[str, list[str]]]:
    """The first rows of every column as texts."""
    if path.suffix.lower() == ".csv":
        form = detect(path)
        header, *rows = islice(rows_of(path, form), _SAMPLE_ROWS + 1)
        return form, {name: list(values) for name, values in zip(header, zip(*rows, strict=True), strict=True)}
    first_rows_do = path.is_dir() or path.suffix.lower() == ".parquet"
    table = read_table(_Beginning(path)) if first_rows_do else read_table(path)
    shown: dict[str, Any] = {name: table.column(name)[:_SAMPLE_ROWS] for name in (*table.names, *table.texts)}
    texts = {name: ["" if v != v else f"{v:g}" if isinstance(v, float) else str(v) for v in column.tolist()]
             for name, column in shown.items()}  # fmt: skip
    if not texts:
        raise InputError(f"{path.name} must have columns with names. Found none.")
    return CsvFormat(), texts


def _id(sample: dict[str, list[str]], numbers: dict[str, Any], dates: Collection[str]) -> str:
    """A column whose values all differ and are whole numbers or texts; one whose name says so is preferred."""
    able, nearly = [], []
    for name, values in sample.items():
        if name in dates:
            continue
        read = numbers[name]
        whole = read is None or (not np.isnan(read).any() and bool((read == np.floor(read)).all()))
        given = {v for v in values if v.strip().lower() not in MISSING}
        if whole and len(given) == len(values):
            able.append(name)
        elif len(given) >= _NEARLY_ALL * len(values):
            nearly.append(name)
    for names in (able, nearly):  # a few ids that are repeated or missing are named by the checks before a run
        if named := [name for name in names if _ID_NAME.search(name.lower())]:
            return named[0]
    return (able or [""])[0]


def _label(sample: dict[str, list[str]], id_column: str) -> str:
    """A column whose name says so; else the last one with two values."""
    named = [name for name in sample if _LABEL_NAME.match(name.lower().strip())]
    two = [name for name, values in sample.items() if name != id_column and len({v.strip() for v in values}) == 2]
    return (named or two[-1:] or [""])[0]


def _positive(sample: dict[str, list[str]], label: str, numbers: dict[str, Any]) -> str:
    """The value that counts as 1, where labels are two texts."""
    if not label or numbers[label] is not None:
        return ""
    values: Sequence[str] = sorted({value.strip() for value in sample[label]} - {""})
    affirmative = [value for value in values if value.lower() in _YES]
    return (affirmative or list(values[-1:]) or [""])[0]
