"""One-hot encoding: a column of categories becomes one column per value."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plait._types import Array
from plait.data.csv_tables import as_numbers
from plait.data.tables import Table
from plait.data.texts import Coded


def encode(table: Table, categories: Mapping[str, tuple[str, ...]], unit: float, rows: slice) -> Array:
    """One column per value of every category (n, c): `unit` in the rows that have the value, else 0."""
    columns = []
    for column, values in categories.items():
        at = places_among(category(table, column, rows), values)
        encoded = np.zeros((at.size, len(values)))
        encoded[np.flatnonzero(at >= 0), at[at >= 0]] = unit
        columns.append(encoded)
    count = len(range(*rows.indices(table.rows)))
    return np.hstack(columns) if columns else np.empty((count, 0))


def encode_sparse(table: Table, categories: Mapping[str, tuple[str, ...]], unit: float, rows: slice) -> Any:
    """The same as a CSR matrix (n, c)."""
    count, width = len(range(*rows.indices(table.rows))), 0
    places, present = np.empty((count, len(categories)), np.int32), np.empty((count, len(categories)), bool)
    for j, (column, values) in enumerate(categories.items()):
        at = places_among(category(table, column, rows), values)
        places[:, j], present[:, j] = width + at, at >= 0
        width += len(values)
    pointers = np.append(0, np.cumsum(np.count_nonzero(present, axis=1)))
    columns = places[present]
    return sp.csr_matrix((np.full(columns.size, unit), columns, pointers), shape=(count, width))


def values_of(table: Table, name: str, given: Sequence[Any] | None) -> tuple[str, ...]:
    """The values of a category: those that are given, else those that the column has, sorted."""
    return tuple(sorted(category(table, name, slice(None)).present)) if given is None else tuple(map(str, given))


def category(table: Table, name: str, rows: slice) -> Coded:
    """Some rows of a column as texts, a number as Python writes it."""
    if name in table.texts:
        return table.texts[name][rows]
    table.need(name)
    column = table.numbers[rows][:, [table.names.index(name)]]
    dense = np.asarray(column.toarray() if sp.issparse(column) else column)[:, 0]
    values, codes = np.unique(dense, return_inverse=True)
    return Coded(tuple(str(float(value)) for value in values), codes.astype(np.int32))


def places_among(column: Coded, values: tuple[str, ...]) -> npt.NDArray[np.intp]:
    """The place of every row's value among these (n,); -1 where it is none of them.

    A text that is none of them stands for the number that it is: 01, 1 and 1.0 are one number.
    """
    places = {value: j for j, value in enumerate(values)}
    numbers = {_as_number(value): j for value, j in reversed(places.items())}
    if "nan" not in places:  # an empty cell is no other value that is no number
        numbers.pop("nan", None)
    known = [places.get(value, numbers.get(_as_number(value), -1)) for value in column.values]
    return np.array(known or [-1], dtype=np.intp)[column.codes]


def _as_number(text: str) -> str:
    """The text as that of a number, where it is one: 1 stands for 1.0."""
    read = as_numbers([text])
    return text if read is None else str(float(read[0]))
