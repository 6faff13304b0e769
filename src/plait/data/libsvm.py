"""LIBSVM files, read in pieces."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait.data.csr_writer import CsrWriter
from plait.data.memory import Room
from plait.errors import InputError

_PIECE = 1 << 24  # bytes of a LIBSVM file that are read at a time: 16 MiB become some 50 MB
_MOST_COLUMNS = 2**31 - 1  # columns that four bytes can count
_LABEL = _MOST_COLUMNS - 1  # where the label stands until it is known how many columns there are


def read(path: Path, room: Room) -> Any:
    """A CSR matrix (N, d + 1), with the label as its last column.

    Columns are numbered from 0 in the file, or from 1 where no row has a column 0.
    """
    writer, low, high = CsrWriter(room), _MOST_COLUMNS, -1
    for matrix, labels in _pieces(path):
        if matrix.nnz:
            low, high = min(low, int(matrix.indices.min())), max(high, int(matrix.indices.max()))
        writer.append(_with_label(matrix, labels))
    shift = int(0 < low <= high)
    return writer.finish(high + 2 - shift, shift, _LABEL)


def _pieces(path: Path) -> Iterator[tuple[Any, Any]]:
    """Some rows at a time: a CSR matrix with the columns' numbers as they are written, and labels (n,)."""
    from sklearn.datasets import load_svmlight_file

    size = path.stat().st_size
    for start in range(0, max(size, 1), _PIECE):
        try:
            yield load_svmlight_file(
                str(path), n_features=_MOST_COLUMNS, zero_based=True, offset=start, length=min(_PIECE, size - start)
            )
        except ValueError as error:
            raise InputError(f"{path.name} must be in LIBSVM form. Found: {error}.") from error


def _with_label(matrix: Any, labels: Any) -> Any:
    """Rows with their labels behind them, in a column of their own; a label of 0 is not stored."""
    there = labels != 0
    ends = matrix.indptr[1:]
    data = np.insert(matrix.data, ends[there], labels[there])
    indices = np.insert(matrix.indices, ends[there], _LABEL)
    pointers = matrix.indptr + np.append(0, np.cumsum(there))
    return sp.csr_matrix((data, indices, pointers), shape=(matrix.shape[0], _MOST_COLUMNS))
