"""Which rows a key names, as NumPy reads it: for matrices that lie on disk or on other machines."""

from typing import Any

import numpy as np
import numpy.typing as npt


def parted(key: Any) -> tuple[Any, Any]:
    """The rows and the columns of a key; all columns where it names none."""
    return key if isinstance(key, tuple) else (key, slice(None))


def row_places(rows: Any, count: int) -> npt.NDArray[np.int64]:
    """The numbers (n,) of rows given by a slice, by numbers, negative ones from the end, or by a mask (N,).

    IndexError for rows that are not there.
    """
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    found = np.atleast_1d(np.asarray(rows))
    if found.dtype == bool:
        if found.shape != (count,):
            raise IndexError(f"a mask of rows must have {count} entries. Found shape {found.shape}.")
        return np.flatnonzero(found)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise IndexError(f"rows must be a slice, a list of whole numbers, or a mask. Found {rows!r}.")
    places = found.astype(np.int64)
    if places.size and not (-count <= places.min() and places.max() < count):
        raise IndexError(f"rows must lie below {count}. Found {places.min()} to {places.max()}.")
    return np.where(places < 0, places + count, places)
