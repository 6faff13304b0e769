"""What an observer can take from an unprotected run: pure functions of its messages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RANK_TOLERANCE = 1e-9  # of the largest singular value: smaller ones are rounding errors


@dataclass(frozen=True, eq=False)
class Recovery:
    """Rows (N, d) that an attack reconstructed, and the fraction that is right of the rows that it did not know."""

    rows: Floats
    fraction: float


def labels_from_gradient(gradient: Floats) -> Ints:
    """Labels 0/1 from the broadcast loss gradient: l'(z, 1) < 0 < l'(z, 0) for every margin loss."""
    return (gradient < 0).astype(np.int64)


def dual_from_broadcasts(broadcasts: Sequence[Floats]) -> Floats:
    """u, a multiple of the loss gradient, from all broadcasts v_t = 2 u_t - u_(t-1) of ADMM sharing, u_0 = 0."""
    dual = np.zeros_like(broadcasts[0])
    for v in broadcasts:
        dual = (v + dual) / 2
    return dual


def column_space(shares: Floats) -> Floats:
    """An orthonormal basis, N x r, of what T shares D x_t (N x T) reveal of col(D)."""
    left, values, _ = np.linalg.svd(shares, full_matrices=False)
    return left[:, values > RANK_TOLERANCE * values[0]]


def column_space_revealed(shares: Floats, matrix: Floats) -> float:
    """The fraction of col(D) that the shares span."""
    true = column_space(matrix)
    seen = column_space(shares)
    return float(np.linalg.norm(true.T @ seen) ** 2 / true.shape[1])


def rows_from_shares(shares: Floats, matrix: Floats, known: Ints, tolerance: float = 1e-3) -> Recovery:
    """Every row's features from T shares W (N x T) and known rows: W_known B = D_known, D = W B."""
    mixing, *_ = np.linalg.lstsq(shares[known], matrix[known], rcond=None)
    rows = shares @ mixing
    return _recovery(rows, np.linalg.norm(rows - matrix, axis=1) <= tolerance, known)


def rows_by_equal_values(share: Floats, matrix: Floats, known: Ints, digits: int = 9) -> Recovery:
    """Rows from one share (N,): a row with the same value as a known row gets that row's features."""
    scale = float(np.max(np.abs(share))) or 1.0
    keys = np.round(share / scale, digits)
    book = {key: matrix[i] for key, i in zip(keys[known].tolist(), known.tolist(), strict=True)}
    rows = np.array([book.get(key, np.full(matrix.shape[1], np.nan)) for key in keys.tolist()])
    return _recovery(rows, np.all(rows == matrix, axis=1), known)


def _recovery(rows: Floats, right: NDArray[np.bool_], known: Ints) -> Recovery:
    """The rows (N, d), and the fraction of the unknown ones that are `right` (N,)."""
    return Recovery(rows, float(np.delete(right, known).mean()))


def classes_by_equal_values(share: Floats, digits: int = 9) -> int:
    """How many different rows an observer of one share (N,) can tell apart."""
    scale = float(np.max(np.abs(share))) or 1.0
    return int(np.unique(np.round(share / scale, digits)).size)


def which_matrix(share: Floats, candidates: list[Floats]) -> int:
    """The index of the candidate table whose column space is nearest to the share (N,)."""
    residuals = []
    for matrix in candidates:
        basis = column_space(matrix)
        residuals.append(float(np.linalg.norm(share - basis @ (basis.T @ share))))
    return int(np.argmin(residuals))
