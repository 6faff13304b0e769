"""Turn whatever a user calls a table into checked matrices, with errors that name the party and the column."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._types import Array
from plait.data.arrow_tables import StreamSource, unreadable
from plait.data.csv_format import CsvFormat
from plait.data.memory import IN_MEMORY, Room
from plait.data.plain_matrices import as_dense, sound_csr
from plait.data.row_index import check_index
from plait.data.sources import Kind, NotANumber, Source
from plait.data.tables import STREAMED, open_path, read_table
from plait.errors import InputError
from plait.problem.features import Features
from plait.problem.row_blocks import Blocks, by_parts, grouped, mapped, row_slices

_ENCODE = "Encode it first, say one column per value, or the days since a fixed date."


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
        return _streamed(name, table, room)
    columns = columns or _column_names(table)
    matrix = sound_csr(f"party {name!r}", table) if sp.issparse(table) else as_dense(name, table, columns)
    return checked_part(name, matrix, columns)


def _opened(table: Any) -> Any:
    """A path that is written as a text, a lazy frame of polars or a data set of pyarrow as what can be read."""
    if isinstance(table, str):
        return Path(table)
    if hasattr(table, "collect_schema") and hasattr(table, "lazy") and hasattr(table, "sink_parquet"):
        try:
            return table.collect()
        except Exception as error:  # any of polars' own
            raise unreadable(error) from error
    if hasattr(table, "get_fragments") and hasattr(table, "scanner"):
        return table.scanner().to_reader()
    return table


def checked_part(
    name: str, matrix: Any, columns: tuple[str, ...] = (), place: Callable[[int], str] = "row {}".format
) -> Part:
    """A part of this matrix, which is dense, CSR or on disk; InputError where it is empty or not finite.

    place   how messages call a row, counted from 0
    """
    rows, width = matrix.shape
    if width == 0:
        raise InputError(f"party {name!r} must hold at least one column. Found none. Leave the party out.")
    if rows == 0:
        raise InputError(f"party {name!r} must hold at least one row. Found none.")
    part = Part(name, matrix, columns or tuple(str(j) for j in range(width)))
    _check_finite(part, place)
    return part


def _streamed(name: str, table: Any, room: Room) -> Part:
    """A file, or an Arrow C stream of another library, read batch by batch."""
    source = table if isinstance(table, Path) else StreamSource(table, f"party {name!r}")
    try:
        read = read_table(source, choose=_all_numbers, texts="refuse", room=room)
    except NotANumber as error:
        raise InputError(
            f"party {name!r} must bring numbers. Column {error.column!r} cannot be read as numbers: found "
            f"{error.found!r} in {error.where}. {_ENCODE}"
        ) from error
    if isinstance(table, Path) and (table.is_dir() or table.suffix.lower() in STREAMED):
        return checked_part(name, read.numbers, read.names, open_path(table, CsvFormat()).place)
    return checked_part(name, read.numbers, read.names)


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
    """Row weights (N,), scaled to sum to 1; None or one number for equal ones."""
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


def _check_finite(part: Part, place: Callable[[int], str]) -> None:
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
        f"party {part.name!r} must bring finite numbers. Found {found} in column {part.columns[column]!r}, "
        f"{place(row)}. Impute or drop missing values (NaN) and infinity first."
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
