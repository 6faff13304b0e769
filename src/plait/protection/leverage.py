"""What D^T g tells about one label, and the limits that follow.

Where g = mu(z) - y, everything that a party sees depends on the labels only through D^T y.  The least-squares guess of
a row's label from D^T y puts the weight h_i = d_i^T (D^T D)^+ d_i on that label: the row's leverage.  It reads a
coin-flip label with probability Phi(sqrt(h / (1 - h))).  sum_i h_i is the rank of D, so the mean leverage is at most
d / N.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.special

from plait._types import Array
from plait.errors import PrivacyError

MAX_LEVERAGE = 0.5  # largest leverage of a row: above it the label would be read with probability over Phi(1) = 0.84
NOTED_LEVERAGE = 0.1  # leverage above which rows are counted in reports: a label is read with probability 0.63
MAX_COLUMNS_SHARE = 0.10  # most columns per row: there the label of a mean row is read with probability 0.63
WARNED_COLUMNS_SHARE = 0.01  # columns per row from which on a run warns: there it is 0.54
_ROWS_AT_ONCE = 2048  # rows that are multiplied together: 2048 x 100 doubles stay in the cache
_RANK_TOLERANCE = 1e-10  # of the largest eigenvalue of D^T D: smaller ones are rounding errors


@dataclass(frozen=True)
class Leverage:
    """Leverages (N,) of a party's rows, and how many columns they come from."""

    rows: Array
    columns: int

    @property
    def largest(self) -> float:
        return float(self.rows.max())

    @property
    def noted(self) -> int:
        """Rows above NOTED_LEVERAGE."""
        return int(np.count_nonzero(self.rows > NOTED_LEVERAGE))

    @property
    def refused(self) -> npt.NDArray[np.intp]:
        """Rows above MAX_LEVERAGE."""
        return np.flatnonzero(self.rows > MAX_LEVERAGE)

    def __str__(self) -> str:
        worst = float(label_exposure(np.array([self.largest]))[0])
        mean = float(label_exposure(np.array([self.rows.mean()]))[0])
        return (
            f"who has the sums over {self.rows.size} rows (D^T y, one for each of {self.columns} columns) guesses a "
            f"yes/no label right with probability {mean:.3f} for a mean row and {worst:.3f} for the one that stands "
            f"out most (chance: 0.500); largest leverage {self.largest:.3g} of a row, {self.noted} rows above "
            f"{NOTED_LEVERAGE}"
        )


def leverages(table: Any, intercept: bool = True) -> Leverage:
    """h (N,) of a table (N, d), dense or sparse; `intercept` adds a column of ones to it."""
    table = sp.csr_array(table, dtype=np.float64) if sp.issparse(table) else np.asarray(table, dtype=np.float64)
    rows, columns = table.shape
    gram = np.zeros((columns + 1, columns + 1))  # the last column is the intercept's
    gram[:-1, :-1] = (table.T @ table).toarray() if sp.issparse(table) else table.T @ table
    if intercept:
        gram[-1, :-1] = gram[:-1, -1] = table.sum(axis=0)
        gram[-1, -1] = rows
    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK_TOLERANCE * max(values[-1], np.finfo(float).tiny)
    root = vectors[:, kept] / np.sqrt(values[kept])
    found = np.empty(rows)
    for start in range(0, rows, _ROWS_AT_ONCE):
        some = slice(start, start + _ROWS_AT_ONCE)
        images = table[some] @ root[:-1] + root[-1]
        found[some] = np.einsum("ij,ij->i", images, images)
    return Leverage(np.clip(found, 0.0, 1.0), columns)


def label_exposure(leverage: Array) -> Array:
    """Phi(sqrt(h / (1 - h))): with this probability a least-squares attack reads a coin-flip label."""
    h = np.clip(leverage, 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(scipy.special.ndtr(np.sqrt(h / (1 - h))))


def check_rows(found: Leverage, limit: float = MAX_LEVERAGE) -> None:
    """PrivacyError where the label of a row could be read: the party then sends no hints."""
    rows = np.flatnonzero(found.rows > limit)
    if rows.size:
        listed = ", ".join(str(i) for i in rows[:5]) + (", ..." if rows.size > 5 else "")
        raise PrivacyError(
            f"every row must have a leverage of at most {limit:g}, or its label could be read from D^T g."
            f" Found {rows.size} rows above it (rows {listed}; largest {found.largest:.3f})."
            " Merge rare categories or drop these rows."
        )


def check_width(rows: int, columns: int) -> str | None:
    """PrivacyError for more columns than a tenth of the rows; above a hundredth, a warning to show."""
    if columns > MAX_COLUMNS_SHARE * rows:
        raise PrivacyError(
            f"a party must have at most {MAX_COLUMNS_SHARE:.0%} as many columns as rows, or D^T g shows labels."
            f" Found {columns} columns and {rows} rows. Use fewer columns or more rows."
        )
    if columns > WARNED_COLUMNS_SHARE * rows:
        mean = float(label_exposure(np.array([columns / rows]))[0])
        return f"{columns} columns of {rows} rows: D^T g lets a coin-flip label be read with probability {mean:.3f}"
    return None
