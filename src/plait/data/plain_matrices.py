"""Tables that lie in memory already (NumPy, pandas, polars, SciPy) as matrices of float64; errors name the column."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._names import plain
from plait.errors import DataTypeError, InputError

_DATES = ("datetime", "timedelta", "period", "date", "time", "duration")
"""How pandas, polars and NumPy begin the names of types of dates and times, in lower case."""


def as_dense(name: str, table: Any, columns: tuple[str, ...]) -> Any:
    """A table (N, d) as float64; InputError with the column that cannot be read as numbers."""
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
