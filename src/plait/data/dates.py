"""Columns of dates: how they are written, and the one number that each of them becomes.

A date becomes the years since the beginning of 2000, of 365.25 days each.  The number depends on nothing but the date:
the same date is the same number in training, in scoring, and at every reader.
"""

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from plait._types import Array
from plait.data.csv_format import CsvFormat
from plait.data.csv_tables import MISSING
from plait.data.sources import Batch, Kind, Kinds, Source
from plait.data.texts import Coded
from plait.errors import ConfigError, InputError

FORMATS = ("YYYY-MM-DD", "DD.MM.YYYY", "YYYY/MM/DD", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "YYYYMMDD")
"""The formats that are recognised without being stated; the first is that of ISO 8601 and of databases."""
_ORIGIN = datetime.date(2000, 1, 1)
_YEAR = 365.25  # days of a mean year of the Julian calendar: a day more or less in a century
_TIME = r"(?:[ T]\d{1,2}:\d{2}.*)?"  # a time of day may follow
_PARTS = ("YYYY", "MM", "DD")


@dataclass(frozen=True)
class DateFormat:
    """How dates are written: YYYY, MM and DD once each, with what stands between them."""

    written: str

    def __post_init__(self) -> None:
        rest = self.written
        for part in _PARTS:
            rest = rest.replace(part, "", 1)
        if not all(part in self.written for part in _PARTS) or re.search(r"\w", rest):
            raise ConfigError(
                "the format of a date must hold YYYY, MM and DD once each, and what stands between them, such as "
                f"{FORMATS[0]} or {FORMATS[1]}. Found {self.written!r}."
            )

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        pattern = re.escape(self.written).replace("YYYY", r"(?P<year>\d{4})")
        short = "1," if re.search(r"\W", self.written) else ""  # 1.2.1990 is clear, 199012 is not
        for part, name in (("MM", "month"), ("DD", "day")):
            pattern = pattern.replace(part, rf"(?P<{name}>\d{{{short}2}})", 1)
        return re.compile(pattern + _TIME)

    def date(self, text: str) -> datetime.date:
        """The day that a text names; ValueError where it names none."""
        found = self._pattern.fullmatch(text.strip().removesuffix(".0"))  # whole numbers of a Parquet file end so
        if found is None:
            raise ValueError(f"{text!r} is not written {self.written}")
        return datetime.date(int(found["year"]), int(found["month"]), int(found["day"]))

    def years(self, text: str) -> float:
        """Years from the beginning of 2000 to the date, negative before; NaN for a missing one."""
        if text.strip().lower() in MISSING:
            return float("nan")
        return (self.date(text) - _ORIGIN).days / _YEAR

    def reads(self, texts: Iterable[str]) -> bool:
        """Whether all of them are dates of this format."""
        try:
            return all(self.date(text) for text in texts)
        except ValueError:
            return False


def formats_of(texts: Iterable[str]) -> list[str]:
    """The formats that all of these texts have; none where they are not dates."""
    return [written for written in FORMATS if DateFormat(written).reads(texts)]


@dataclass(frozen=True)
class DatedSource:
    """A source some of whose columns are dates: they are read as numbers."""

    source: Source
    formats: Mapping[str, DateFormat]
    lenient: bool = False
    """Whether a text that is no date counts as missing."""

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def columns(self) -> tuple[str, ...]:
        return self.source.columns

    @property
    def rows(self) -> int | None:
        return self.source.rows

    @property
    def about(self) -> int | None:
        return self.source.about

    @property
    def form(self) -> CsvFormat | None:
        return self.source.form

    def place(self, row: int) -> str:
        return self.source.place(row)

    def guess(self) -> dict[str, Kind]:
        return {name: "number" if name in self.formats else kind for name, kind in self.source.guess().items()}

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        dates = [name for name in self.formats if kinds.get(name) == "number"]
        done = 0
        for batch in self.source.batches({**kinds, **dict.fromkeys(dates, "category")}):
            years = {name: self._years(name, batch.categories[name], done) for name in dates}
            rest = {name: column for name, column in batch.categories.items() if name not in years}
            yield replace(batch, numbers={**batch.numbers, **years}, categories=rest)
            done += batch.rows

    def _years(self, name: str, column: Coded, done: int) -> Array:
        """The column's numbers; every different date is read once."""
        form, numbers = self.formats[name], np.empty(len(column.values))
        for i, text in enumerate(column.values):
            try:
                numbers[i] = form.years(text)
            except ValueError:
                if self.lenient:
                    numbers[i] = np.nan
                    continue
                row = done + int(np.flatnonzero(column.codes == i)[0])
                raise InputError(
                    f"{self.place(row)}: column {name!r} must hold dates, written {form.written}. Found {text[:80]!r}. "
                    "Correct it, or the format in [prepare.dates], or list the column in data.drop."
                ) from None
        return numbers[column.codes] if numbers.size else np.empty(0)


def dated(source: Source, formats: Mapping[str, str], lenient: bool = False) -> Source:
    """The source with these columns of dates, each by its name and its format."""
    for name in formats:
        if name not in source.columns:
            raise InputError(
                f"{source.name} must have the column {name!r}, which [prepare.dates] names. Found "
                f"{', '.join(source.columns)}."
            )
    if not formats:
        return source
    return DatedSource(source, {name: DateFormat(written) for name, written in formats.items()}, lenient)
