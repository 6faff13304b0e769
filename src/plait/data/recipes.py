"""How some rows of a table come about: from their source, through a preparation, anywhere and any number of times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._texts import RowNumbers
from plait.data.matrix_writer import MatrixWriter
from plait.data.memory import IN_MEMORY
from plait.data.preparation import Preparation
from plait.data.sources import Batch, Kind, Source
from plait.data.tables import Table, ids_of
from plait.data.texts import Coded
from plait.errors import InputError, other_rows


@dataclass(frozen=True)
class Recipe:
    """The rows of a source.

    kinds      the columns that are wanted, numbers and categories
    order      which rows of the source, in which order (N,); None for all
    prepared   what is done to them; None for the numbers as they are
    dtype      how numbers are stored
    ids        the columns of ids, by which rows are known again; none where they have no ids
    seal       64 bits of every id of the source (N,), as it was read first
    """

    source: Source
    kinds: dict[str, Kind]
    order: npt.NDArray[np.int64] | None = None
    prepared: Preparation | None = None
    dtype: str = "float64"
    ids: tuple[str, ...] = ()
    seal: npt.NDArray[np.uint64] | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        return tuple(name for name, kind in self.kinds.items() if kind == "number")

    def through(self, prepared: Preparation) -> "Recipe":
        return replace(self, prepared=prepared)

    def load(self, first: int, last: int) -> Any:
        """Rows first to last (exclusive) of the table: numbers (n, d)."""
        wanted = np.arange(first, last) if self.order is None else self.order[first:last]
        by_place = np.argsort(wanted, kind="stable")
        table = self._table(wanted[by_place])
        table = table.pick(np.argsort(by_place, kind="stable"), table.ids, replace(IN_MEMORY, dtype=self.dtype))
        if self.prepared is None:
            return table.numbers
        return self.prepared.apply(table, replace(IN_MEMORY, dtype=self.dtype), dense=True)[0]

    def _table(self, ascending: npt.NDArray[np.int64]) -> Table:
        """These rows of the source, which is read no further than to the last of them."""
        writer = MatrixWriter(len(self.numbers), ascending.size, replace(IN_MEMORY, dtype=self.dtype))
        coded: dict[str, list[Coded]] = {name: [] for name, kind in self.kinds.items() if kind == "category"}
        done = found = 0
        for batch in self.source.batches({**self.kinds, **dict.fromkeys(self.ids, "text")}):
            upto = int(np.searchsorted(ascending, done + batch.rows))
            here = ascending[found:upto] - done
            if here.size:
                self._check(batch, here, ascending[found:upto])
                writer.append([batch.numbers[name][here] for name in self.numbers], here.size)
                for name, parts in coded.items():
                    parts.append(batch.categories[name][here])
            done, found = done + batch.rows, upto
            if found == ascending.size:
                break
        if found < ascending.size:
            raise InputError(
                f"{self.source.name} must have the rows that it had when the run began. Found {done}, too few. Restore "
                "it, or start over with --fresh."
            )
        texts = {name: _joined(parts) for name, parts in coded.items()}
        return Table(RowNumbers(ascending.size), writer.finish(), self.numbers, texts)

    def _check(self, batch: Batch, here: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> None:
        """InputError unless these rows of the source, at these places of a batch, have the ids that they had first."""
        if self.seal is not None and not np.array_equal(ids_of(batch, self.ids).take(here).hashes(), self.seal[rows]):
            raise other_rows(self.source.name)


def _joined(parts: Sequence[Coded]) -> Coded:
    return Coded.joined(parts) if parts else Coded((), np.empty(0, np.int32))
