"""Which columns of one table belong to which party: from what a user writes to checked parts."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plait.data.parts import Part, read_part
from plait.data.plain_matrices import sound_csr
from plait.errors import InputError, SettingError

Owners: TypeAlias = dict[str, npt.NDArray[np.intp]]
"""Party name -> the positions of its columns."""


def as_table(x: Any) -> Any:
    """X as something with two dimensions whose columns can be taken by position."""
    if sp.issparse(x):
        return sound_csr("X", x)
    table = x if hasattr(x, "columns") and hasattr(x, "to_numpy") else np.asarray(x)
    shape = np.shape(table)
    if len(shape) != 2:
        raise InputError(
            f"X must have rows and columns. Found {len(shape)} dimensions, shape {shape}. "
            "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        )
    if shape[0] == 0 or shape[1] == 0:
        raise InputError(
            f"Found array with {shape[0]} sample(s) and {shape[1]} feature(s) (shape={shape}) "
            "while a minimum of 1 is required."
        )
    return table


def assign_columns(parties: Any, width: int, names: Iterable[str] | None = None) -> Owners:
    """Who holds which of `width` columns; every column must have exactly one owner.

    parties    None        one party
               a number M  M parties with equally many columns, in order
               a dict      party name -> column names, positions or slices (one of them, or a list)
    names      the names of the columns, where they have any
    """
    if parties is None:
        return {"all": np.arange(width)}
    if isinstance(parties, int | np.integer) and not isinstance(parties, bool):
        if not 1 <= parties <= width:
            raise SettingError(f"parties must lie between 1 and the number of columns ({width}). Found {parties}.")
        return {f"party {i}": c for i, c in enumerate(np.array_split(np.arange(width), parties))}
    if not isinstance(parties, Mapping) or not parties:
        raise SettingError(f"parties must be None, a number, or a dict name -> columns. Found {parties!r}.")
    known = None if names is None else {str(n): i for i, n in enumerate(names)}
    owners = {str(party): _positions(str(party), columns, width, known) for party, columns in parties.items()}
    _check_one_owner(owners, width, list(known) if known else None)
    return owners


def split_columns(table: Any, owners: Owners) -> dict[str, Part]:
    """Each party's part of the table, checked, its columns named as in the table."""
    named = hasattr(table, "columns")
    parts = {}
    for party, positions in owners.items():
        columns = tuple(str(table.columns[i]) if named else str(i) for i in positions)
        parts[party] = read_part(party, _take(table, positions), columns)
    return parts


def _take(table: Any, positions: npt.NDArray[np.intp]) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[:, positions]
    if hasattr(table, "columns"):
        return table[:, positions.tolist()]
    if np.array_equal(positions, np.arange(positions[0], positions[-1] + 1)):
        return table[:, positions[0] : positions[-1] + 1]  # a view, where a list would copy
    return table[:, positions]


def _positions(party: str, columns: Any, width: int, known: dict[str, int] | None) -> npt.NDArray[np.intp]:
    listed = [columns] if isinstance(columns, str | int | np.integer | slice) else list(columns)
    found: list[int] = []
    for column in listed:
        if isinstance(column, slice):
            found.extend(range(*column.indices(width)))
        elif isinstance(column, str):
            found.append(_by_name(party, column, known))
        elif isinstance(column, int | np.integer) and not isinstance(column, bool) and -width <= column < width:
            found.append(int(column) % width)
        else:
            raise InputError(
                f"party {party!r} must name columns of the table, by name or by position below {width}. "
                f"Found {column!r}."
            )
    if not found:
        raise InputError(f"party {party!r} must hold at least one column. Found none. Leave the party out.")
    return np.array(found, dtype=np.intp)


def _by_name(party: str, column: str, known: dict[str, int] | None) -> int:
    if known is None:
        raise InputError(
            f"party {party!r} names the column {column!r}, but the table's columns have no names. "
            "Pass a DataFrame, or give positions."
        )
    if column not in known:
        some = ", ".join(map(repr, list(known)[:5])) + (", ..." if len(known) > 5 else "")
        raise InputError(f"party {party!r} names the unknown column {column!r}. The table has {some}.")
    return known[column]


def _check_one_owner(owners: Owners, width: int, names: list[str] | None) -> None:
    holder: dict[int, str] = {}
    for party, positions in owners.items():
        for i in positions.tolist():
            if i in holder:
                label = names[i] if names else i
                twice = (
                    f"{party!r} names it twice" if holder[i] == party else f"both {holder[i]!r} and {party!r} hold it"
                )
                raise InputError(f"column {label!r} must belong to one party: {twice}.")
            holder[i] = party
    free = [names[i] if names else i for i in range(width) if i not in holder]
    if free:
        shown = ", ".join(map(repr, free[:5])) + (", ..." if len(free) > 5 else "")
        raise InputError(f"every column must belong to a party. Found none for {shown}. Assign or drop these columns.")
