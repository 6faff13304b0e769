"""Turn whatever a user calls a table into checked matrices, with errors that name the party and the column."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._names import plain
from plait._types import Array
from plait.data.arrow_tables import StreamSource
from plait.data.memory import IN_MEMORY, Room
from plait.data.row_index import check_index
from plait.data.sources import Kind, NotANumber, Source
from plait.data.tables import read_table
from plait.errors import DataTypeError, InputError
from plait.problem.features import Features
from plait.problem.row_blocks import Blocks, by_parts, grouped, mapped, row_slices

_ENCODE = "Encode it first, say one column per value, or the days since a fixed date."
_DATES = ("datetime", "timedelta", "period", "date", "time", "duration")
"""How pandas, polars and NumPy begin the names of types of dates and times, in lower case."""


@dataclass(frozen=True)
class Part:
    """One party's matrix (N, d), dense, CSR or on disk, with the names of its columns."""

    name: str
    matrix: Any
    columns: tuple[str, ...]

    @cached_property
    def features(self) -> Features:
        """The matrix as an operator; runs on the same part share what it has factorised."""
        return Features(self.matrix)


def read_parts(parts: Any, room: Room = IN_MEMORY) -> tuple[Part, ...]:
    """A list of matrices, or a dict name -> matrix, as checked parts with equal numbers of rows."""
    if isinstance(parts, Mapping):
        named = [(str(name), table) for name, table in parts.items()]
    elif isinstance(parts, Sequence) and not isinstance(parts, str | bytes):
        named = [(f"party {i}", table) for i, table in enumerate(parts)]
    else:
        raise InputError(f"parts must be a list of matrices or a dict name -> matrix. Found {type(parts).__name__}.")
    if not named:
        raise InputError("parts must hold at least one party. Found none.")
    for name, times in Counter(name for name, _ in named).items():
        if times > 1:
            raise InputError(f"every party must have a name of its own. Found {name!r} twice.")
    read = tuple(read_part(name, table, room=room) for name, table in named)
    rows = read[0].matrix.shape[0]
    for part in read[1:]:
        if part.matrix.shape[0] != rows:
            raise InputError(
                f"all parties must hold the same rows in the same order. Found {rows} rows at {read[0].name!r} "
                f"and {part.matrix.shape[0]} at {part.name!r}. Align the tables first."
            )
    check_index(parts)
    return read


def read_part(name: str, table: Any, columns: tuple[str, ...] = (), room: Room = IN_MEMORY) -> Part:
    """One party's table: NumPy, SciPy sparse, pandas, polars, Arrow, or the path of a file or folder.

    columns   the names of the columns of a table without names
    room      where the numbers of a table may lie that is read here, as a stream
    """
    if isinstance(table, Part):
        return table
    table = _opened(table)
    streamed = hasattr(table, "__arrow_c_stream__") and not hasattr(table, "to_numpy")
    if isinstance(table, Path) or streamed:
        return checked_part(name, *_streamed(name, table, room))
    columns = columns or _column_names(table)
    matrix = sound_csr(f"party {name!r}", table) if sp.issparse(table) else _as_dense(name, table, columns)
    return checked_part(name, matrix, columns)


def _opened(table: Any) -> Any:
    """A path that is written as a text, a lazy frame of polars or a data set of pyarrow as what can be read."""
    if isinstance(table, str):
        return Path(table)
    if hasattr(table, "collect_schema") and hasattr(table, "lazy") and hasattr(table, "sink_parquet"):
        return table.collect()
    if hasattr(table, "get_fragments") and hasattr(table, "scanner"):
        return table.scanner().to_reader()
    return table


def checked_part(name: str, matrix: Any, columns: tuple[str, ...] = ()) -> Part:
    """A part of this matrix, which is dense, CSR or on disk; InputError where it is empty or not finite."""
    rows, width = matrix.shape
    if width == 0:
        raise InputError(f"party {name!r} must hold at least one column. Found none. Leave the party out.")
    if rows == 0:
        raise InputError(f"party {name!r} must hold at least one row. Found none.")
    part = Part(name, matrix, columns or tuple(str(j) for j in range(width)))
    _check_finite(part)
    return part


def _streamed(name: str, table: Any, room: Room) -> tuple[Any, tuple[str, ...]]:
    """A file, or an Arrow C stream of another library, read batch by batch: its numbers (N, d) and their names."""
    source = table if isinstance(table, Path) else StreamSource(table, f"party {name!r}")
    try:
        read = read_table(source, choose=_all_numbers, texts="refuse", room=room)
    except NotANumber as error:
        raise InputError(
            f"party {name!r} must bring numbers. Column {error.column!r} cannot be read as numbers: found "
            f"{error.found!r} in {error.where}. {_ENCODE}"
        ) from error
    return read.numbers, read.names


def _all_numbers(source: Source) -> dict[str, Kind]:
    return dict.fromkeys(source.columns, "number")


def in_columns(part: Part, width: int, columns: tuple[str, ...]) -> Any:
    """The part's matrix (N, width) with its columns in the order `columns`, where both have names.

    A table without names is taken as it is.  InputError when the columns are not those of training.
    """
    found = part.columns
    if len(found) != width:
        raise InputError(f"party {part.name!r} must bring the {width} columns it was trained on. Found {len(found)}.")
    if found == columns or not columns or _positions(found) or _positions(columns):
        return part.matrix
    if set(found) != set(columns) or len(set(found)) < width:
        repeated = sorted(name for name, times in Counter(found).items() if times > 1)
        unknown = [name for name in found if name not in columns] or repeated
        raise InputError(
            f"party {part.name!r} must bring the columns it was trained on: {', '.join(columns[:5])}"
            f"{', ...' if width > 5 else ''}. Found {', '.join(map(repr, unknown[:5]))}. Pick these columns by name."
        )
    return part.matrix[:, [found.index(c) for c in columns]]


def _positions(columns: tuple[str, ...]) -> bool:
    """Whether the columns are called by their positions, as those of a table without names."""
    return columns == tuple(str(j) for j in range(len(columns)))


def read_labels(y: Any, rows: int) -> Array:
    """Labels (N,) as float64, finite."""
    labels = _numbers("labels", y, "Encode the classes.")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"labels must be one number per row. Found an array of shape {labels.shape}.")
    if labels.size != rows:
        raise InputError(f"there must be one label per row. Found {labels.size} labels for {rows} rows.")
    bad = np.flatnonzero(~np.isfinite(labels))
    if bad.size:
        raise InputError(f"labels must be finite. Found {labels[bad[0]]} in row {bad[0]} ({bad.size} such rows).")
    return labels


def read_weights(weights: Any, rows: int) -> Array:
    """Sample weights (N,), scaled to sum to 1; None or one number for equal ones."""
    if weights is None:
        return equal_weights(rows)
    w = _numbers("sample weights", weights, "Give one number per row.")
    if w.ndim == 0:
        w = np.full(rows, w)
    if w.shape != (rows,):
        raise InputError(
            f"there must be one sample weight per row. Found shape {w.shape} for {rows} rows. "
            "Sample weights must be 1D array or scalar."
        )
    if not np.isfinite(w).all() or (w < 0).any():
        raise InputError(f"sample weights must be finite and not negative. Found {w[~(w >= 0) | ~np.isfinite(w)][0]}.")
    if w.sum() == 0:
        raise InputError("sample weights must not all be zero.")
    return w / w.sum()


def equal_weights(rows: int) -> Array:
    """1/N for each of N rows, (N,), read-only: one number that stands for all takes no memory."""
    return np.broadcast_to(np.float64(1.0 / rows), (rows,))


def _numbers(what: str, given: Any, advice: str) -> Array:
    """Labels or weights as float64; InputError when they are not numbers."""
    try:
        found = np.asarray(given)
        if found.dtype.kind in "Mm":
            raise TypeError("dates and times are no numbers")
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = np.asarray(given, dtype=object).dtype if not hasattr(given, "dtype") else given.dtype
        raise InputError(f"{what} must be numbers. Found {kind}, which cannot be read as such. {advice}") from error


def _column_names(table: Any) -> tuple[str, ...]:
    columns = getattr(table, "columns", None)
    return () if columns is None else tuple(str(c) for c in columns)


def _as_dense(name: str, table: Any, columns: tuple[str, ...]) -> Any:
    _refuse_dates(name, table, columns)
    try:
        values = _values(table)
    except (TypeError, ValueError, OverflowError) as error:  # rows of different lengths, say
        raise InputError(f"party {name!r} must bring a table with rows and columns. Found: {error}.") from error
    if values.ndim == 1:
        raise InputError(
            f"party {name!r} must bring a table with rows and columns. Found one dimension, length {values.size}. "
            "Reshape your data: table.reshape(-1, 1) for one column."
        )
    if values.ndim != 2:
        raise InputError(f"party {name!r} must bring a table with rows and columns. Found shape {values.shape}.")
    if np.iscomplexobj(values):
        raise InputError(f"party {name!r} must bring real numbers. Complex data not supported.")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = DataTypeError if isinstance(error, TypeError) else InputError
        raise kind(
            f"party {name!r} must bring numbers. {_first_text(values, columns)} ({plain(str(error), 200)})"
        ) from error


def _values(table: Any) -> Any:
    if hasattr(table, "iloc"):  # pandas, whose own missing value is no number
        return table.to_numpy(na_value=np.nan)
    return table.to_numpy() if hasattr(table, "to_numpy") else np.asarray(table)


def _refuse_dates(name: str, table: Any, columns: tuple[str, ...]) -> None:
    """Dates and times would be read as whole numbers of nanoseconds or days."""
    kinds = getattr(table, "dtypes", None)
    listed = [getattr(table, "dtype", "")] if kinds is None else list(kinds)
    for j, kind in enumerate(listed):
        if str(kind).lower().startswith(_DATES):
            label = columns[j] if columns else str(j)
            raise DataTypeError(
                f"party {name!r} must bring numbers. Column {label!r} holds dates or times ({kind}). Turn it into a "
                "number first, say the days since a fixed date."
            )


def _first_text(values: Any, columns: tuple[str, ...]) -> str:
    """Which column cannot be read as numbers, for the error message."""
    for j in range(values.shape[1]):
        try:
            np.asarray(values[:, j], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            label = columns[j] if columns else str(j)
            return f"Column {label!r} cannot be read as numbers. Encode it first, say one column per value."
    return "The table cannot be read as numbers."


def sound_csr(who: str, table: Any) -> Any:
    """A SciPy sparse matrix as CSR of float64, once its indices are known to lie within its shape."""
    if np.iscomplexobj(table):
        raise InputError(f"{who} must bring real numbers. Complex data not supported.")
    if table.ndim != 2:
        raise InputError(f"{who} must bring a table with rows and columns. Found shape {table.shape}.")
    if table.format in ("csr", "csc"):
        _check_indices(who, table)
    matrix = sp.csr_matrix(table)
    return matrix if matrix.dtype == np.float64 else matrix.astype(np.float64)


def _check_indices(who: str, matrix: Any) -> None:
    """A matrix whose index arrays overflowed, or were damaged, would read foreign memory in a product."""
    slow, fast = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
    pointers, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
    sound = (
        pointers.size == slow + 1
        and pointers[0] == 0
        and bool(np.all(np.diff(pointers) >= 0))
        and pointers[-1] <= indices.size
        and (indices.size == 0 or (indices.min() >= 0 and indices.max() < fast))
    )
    if not sound:
        raise InputError(
            f"{who} must bring a sound {matrix.format.upper()} matrix. Found pointers or indices outside its shape "
            f"{matrix.shape}; {pointers.dtype} may have overflowed. Rebuild it with 64-bit indices."
        )


def _check_finite(part: Part) -> None:
    matrix = part.matrix
    if sp.issparse(matrix):
        if all(by_parts(lambda part: bool(np.isfinite(matrix.data[part]).all()), matrix.nnz)):
            return
        at = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        row, column = int(np.searchsorted(matrix.indptr, at, side="right")) - 1, int(matrix.indices[at])
        found = matrix.data[at]
    else:
        bad = [(group, *place) for group, place in enumerate(mapped(matrix, _not_finite)) if place is not None]
        if not bad:
            return
        group, within, column = bad[0]
        row = grouped(row_slices(*matrix.shape))[group][0].start + within
        found = matrix[row : row + 1][0, column]
    raise InputError(
        f"party {part.name!r} must bring finite numbers. Found {found} in column {part.columns[column]!r}, row {row}. "
        "Impute or drop missing values (NaN) and infinity first."
    )


def _not_finite(blocks: Blocks, vectors: Sequence[Array]) -> tuple[int, int] | None:
    """Row, counted from the first of these blocks, and column of the first number that is NaN or infinite."""
    for rows, block in blocks:
        # A sum is finite exactly when no entry is NaN or infinite, short of overflow: no mask in the good case.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum(axis=0)).all() or np.isfinite(block).all():
                continue
        row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
        return rows.start + row, column
    return None
