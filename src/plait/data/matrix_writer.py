"""A matrix that grows row block by row block while a table is read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._types import Array

_FIRST_BYTES = 8 << 20  # what is allocated at first where the number of rows is not known
_GROWTH = 8  # each time by an eighth: the system moves such large blocks without copying, and little is left unused


class MatrixWriter:
    """Rows (n, d) are appended; `finish` gives the matrix (N, d)."""

    def __init__(self, width: int, dtype: npt.DTypeLike = np.float64, rows: int | None = None) -> None:
        self._width, self._dtype = width, np.dtype(dtype)
        first = _FIRST_BYTES // max(1, width * self._dtype.itemsize) + 1 if rows is None else rows
        self._matrix: Any = np.empty((first, width), self._dtype)
        self._rows = 0

    def append(self, columns: Sequence[Array], rows: int) -> None:
        """Columns (n,) of the next n rows."""
        self._reserve(rows)
        here = self._matrix[self._rows : self._rows + rows]
        for j, column in enumerate(columns):
            here[:, j] = column
        self._rows += rows

    def _reserve(self, rows: int) -> None:
        have, need = self._matrix.shape[0], self._rows + rows
        if need > have:
            self._matrix.resize((max(need, have + have // _GROWTH), self._width), refcheck=False)

    def finish(self) -> Any:
        """The matrix; nothing can be appended afterwards."""
        if self._rows != self._matrix.shape[0]:
            self._matrix.resize((self._rows, self._width), refcheck=False)
        return self._matrix
