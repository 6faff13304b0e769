"""Where a table comes from: something that gives its columns batch by batch, typed, as often as it is asked."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from plait._texts import Texts
from plait._types import Array
from plait.data.csv_format import CsvFormat
from plait.data.texts import Coded
from plait.errors import InputError

Kind = Literal["number", "category", "text"]
"""How a column is wanted: float64 with NaN for missing numbers, texts with few values, or any texts."""
Kinds = Mapping[str, Kind]
REMEDY = "List it in prepare.one_hot, in [prepare.dates] where they are dates, or in data.drop."


class NotANumber(InputError):
    """A column that was wanted as numbers holds a text."""

    def __init__(self, where: str, column: str, found: object) -> None:
        self.where, self.column, self.found = where, column, str(found)[:80]
        super().__init__(f"{where}: column {column!r} must hold numbers. Found texts, like {self.found!r}. {REMEDY}")

    def __reduce__(self) -> tuple[type["NotANumber"], tuple[str, str, str]]:
        """As it was made: an actor of a cluster may raise it in another process."""
        return NotANumber, (self.where, self.column, self.found)


@dataclass(frozen=True)
class Batch:
    """Some consecutive rows: every wanted column (n,) in its kind."""

    rows: int
    numbers: dict[str, Array] = field(default_factory=dict)
    categories: dict[str, Coded] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=dict)


class Source(Protocol):
    """A table that is read as a stream."""

    @property
    def name(self) -> str:
        """How messages call it."""
        ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def rows(self) -> int | None:
        """How many rows it has; None where nobody knows before they are read."""
        ...

    @property
    def about(self) -> int | None:
        """About how many rows it has, where that is known before they are read and their number is not."""
        ...

    @property
    def form(self) -> CsvFormat | None:
        """How numbers are written in its texts; None for as Python writes them."""
        ...

    def place(self, row: int) -> str:
        """How messages call a row, counted from 0."""
        ...

    def guess(self) -> dict[str, Kind]:
        """What every column seems to be, by its type or by the first rows."""
        ...

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        """The wanted columns, batch by batch; NotANumber where a number is wanted and a text found."""
        ...
