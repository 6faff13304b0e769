"""Whole numbers for columns and gradients.

    E_j = rint(scale_j D_j)          ||E_j||_2 < 2^nu
    G   = rint(g / 2^exponent)       ||G||_2   < 2^gamma
    D_j^T g ~ 2^exponent <E_j, G> / scale_j

The two roundings are the only errors, because <E_j, G> is encrypted and decrypted exactly.  They change D_j^T g by at
most ||g||_1 / (2 scale_j) + 2^(exponent - 1) ||E_j||_1 / scale_j.  Where rounding errors have independent signs, it is
about (2^-nu + 2^-gamma) ||D_j||_2 ||g||_2 / 3.  Columns that are small whole numbers times one factor are not rounded.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plait._types import Array
from plait.errors import InputError
from plait.protection.parameters import COUNTS, MAX_ROWS, REALS, Parameters


@dataclass(frozen=True)
class Columns:
    """E (N, d), whole numbers as float64, by columns or CSC; scale (d,); exact (d,): whether E_j = scale_j D_j."""

    values: Any
    scale: Array
    exact: npt.NDArray[np.bool_]
    parameters: Parameters

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return int(rows), int(columns)

    def column(self, j: int) -> Array:
        """E_j (N,), dense."""
        if sp.issparse(self.values):
            stored = slice(self.values.indptr[j], self.values.indptr[j + 1])
            column = np.zeros(self.values.shape[0])
            np.add.at(column, self.values.indices[stored], self.values.data[stored])
            return column
        return np.asarray(self.values[:, j])

    def decoded(self) -> Any:
        """The table (N, d) that the whole numbers stand for: E_j / scale_j, dense or CSR."""
        if sp.issparse(self.values):
            return sp.csr_matrix(self.values.multiply(1 / self.scale))
        return np.ascontiguousarray(self.values / self.scale)

    def largest_column_sum(self) -> float:
        """max_j ||E_j||_1."""
        return float(np.max(np.asarray(abs(self.values).sum(axis=0)), initial=0.0))

    def decode(self, products: npt.NDArray[np.int64], exponent: int) -> Array:
        """D^T g (d,) from the whole numbers <E_j, G>."""
        return np.ldexp(products.astype(np.float64), exponent) / self.scale


_SAME = 1e-9  # of one unit: a number this close to a whole one differs from it by the rounding of doubles alone
_TRIED = 64  # numbers of a column that are tried first: they rule out most columns that are not multiples of one number
_COLUMNS_AT_ONCE = 16  # columns copied together from a row-major table: one pass over its memory serves them all


def encode_columns(table: Any, parameters: Parameters | None = None) -> Columns:
    """The whole numbers of a table (N, d), dense or sparse.

    Without `parameters`: COUNTS where every column fits, else REALS.
    """
    if table.ndim != 2 or not 0 < table.shape[0] <= MAX_ROWS or table.shape[1] == 0:
        raise InputError(f"a protected table must have 1 to {MAX_ROWS} rows and a column. Found shape {table.shape}.")
    matrix = sp.csc_array(table, dtype=np.float64, copy=True) if sp.issparse(table) else _by_columns(table)
    stored = list(_stored(matrix))
    sizes = [_size(values) for values in stored]
    if not all(math.isfinite(size.norm) for size in sizes):
        raise InputError("a protected table must hold finite numbers. Found nan or infinity. Fill or drop them.")
    if parameters is None:
        # Multiples are whole numbers, up to rounding.
        parameters = COUNTS if all(size.multiple < 2**COUNTS.column_bits - 1e-6 for size in sizes) else REALS
    scale = np.array([_scale(size, parameters) for size in sizes])
    exact = np.array([_round(values, factor) for values, factor in zip(stored, scale, strict=True)])
    return Columns(matrix, scale, exact, parameters)


def _by_columns(table: Any) -> Array:
    """A copy of a dense table (N, d) in which each column is contiguous."""
    rows, columns = table.shape
    out = np.empty((columns, rows))
    for first in range(0, columns, _COLUMNS_AT_ONCE):
        out[first : first + _COLUMNS_AT_ONCE] = table[:, first : first + _COLUMNS_AT_ONCE].T
    return out.T


def _round(values: Array, factor: float) -> bool:
    """Scale and round a column's numbers in place; return whether the rounding changed nothing."""
    values *= factor
    whole = np.rint(values)
    exact = bool(np.all(np.abs(whole - values) <= _SAME))
    values[:] = whole
    return exact


@dataclass(frozen=True)
class _Size:
    """Of one column: how many numbers are stored, their norm, their common factor, and norm / factor.

    Where the numbers have no common factor, `factor` is 0 and `multiple` is infinite.
    """

    stored: int
    norm: float
    factor: float
    multiple: float


def _stored(matrix: Any) -> Iterator[Array]:
    """Views of the stored numbers of each column."""
    if sp.issparse(matrix):
        for start, stop in itertools.pairwise(matrix.indptr):
            yield matrix.data[start:stop]
    else:
        yield from matrix.T


def _size(values: Array) -> _Size:
    norm = float(np.linalg.norm(values))
    sizes = np.abs(values[values != 0])
    factor = float(sizes.min()) if sizes.size else 1.0
    if not math.isfinite(norm) or not _multiples(sizes[:_TRIED], factor) or not _multiples(sizes, factor):
        return _Size(values.size, norm, 0.0, math.inf)
    return _Size(values.size, norm, factor, norm / factor)


def _multiples(sizes: Array, factor: float) -> bool:
    ratios = sizes / factor
    return bool(np.all(np.abs(ratios - np.rint(ratios)) <= 1e-12 * ratios))  # rounding of one division


def _scale(size: _Size, parameters: Parameters) -> float:
    """1 / factor where the multiples fit; else the largest power of two for which the rounded column fits."""
    if size.multiple < 2.0**parameters.column_bits - 1e-6:  # multiples are whole numbers, up to rounding
        return 1.0 / size.factor
    room = 2.0**parameters.column_bits - math.sqrt(size.stored) / 2 - 1
    if room <= 0:
        raise InputError(
            f"{parameters.name} must hold columns of norm below 2^{parameters.column_bits}. Found {size.stored} numbers"
            f" that are not multiples of one number. Use {REALS.name}."
        )
    return 2.0 ** math.floor(math.log2(room / size.norm))


def encode_gradient(gradient: Array, parameters: Parameters, inward: bool = False) -> tuple[npt.NDArray[np.int64], int]:
    """G (N,) and its exponent, for which G is about g / 2^exponent and ||G||_2 < 2^gamma.

    Where the gradient sums to zero, so does G.  Numbers are rounded to the nearest whole number, and so by the same
    amount for both labels of a row: see `encode_weights`.  With `inward` they are rounded towards zero: a gradient of a
    loss with kinks then stays within the slopes that the loss has.
    """
    norm = float(np.linalg.norm(gradient))
    if gradient.ndim != 1 or not math.isfinite(norm):
        raise InputError("a gradient must be one vector of finite numbers. Found another. End the run.")
    if norm == 0:
        return np.zeros(gradient.size, dtype=np.int64), 0
    exponent = _exponent(norm, gradient.size, parameters)
    scaled = np.ldexp(gradient, -exponent)
    balanced = _balanced_inward(scaled) if inward else _balanced(scaled, np.rint(scaled))
    return balanced.astype(np.int64), exponent


def _exponent(norm: float, size: int, parameters: Parameters) -> int:
    """The least e for which a vector of this norm over 2^e, rounded, has a norm below 2^gamma."""
    room = 2.0**parameters.gradient_bits - math.sqrt(size) - 1
    return math.ceil(math.log2(norm / room))


def encode_weights(weights: Array) -> Array:
    """Row weights (N,) that sum to 1, each rounded so that N times it is a whole multiple of one power of two.

    That power is the largest unit in which a gradient with slopes of at most 1 is ever encoded.  So another label of a
    row, which changes its slope by a whole number, changes its G by a whole number, and rounding tells nothing of it.
    Slopes of losses with kinks are rounded towards zero, so there this would be in vain.
    """
    summed = weights * weights.size
    exponent = _exponent(float(np.linalg.norm(summed)), weights.size, COUNTS)
    return np.ldexp(np.rint(np.ldexp(summed, -exponent)), exponent) / weights.size


def _balanced_inward(scaled: Array) -> Array:
    """The numbers (N,) rounded towards zero; where they summed to zero, they still do.

    For this, numbers of the sign that prevails are moved a little further towards zero.
    """
    whole = np.trunc(scaled)
    excess = whole.sum()
    if abs(float(scaled.sum())) >= 0.5:
        return whole
    while excess != 0:  # mostly one turn, in which some numbers become smaller by one
        sign, at = np.sign(excess), np.flatnonzero(whole * np.sign(excess) >= 1)
        each = max(abs(excess) // at.size, 1.0)
        at = at[: int(abs(excess) // each)]
        whole[at] -= sign * np.minimum(each, np.abs(whole[at]))
        excess = whole.sum()
    return whole


def _balanced(scaled: Array, whole: Array) -> Array:
    """The rounded numbers (N,), a few of them changed by one, so that a sum of zero stays zero.

    The numbers with the largest remainder are changed.  Which these are does not depend on a label, which changes a
    number by a whole number.
    """
    excess = round(float(whole.sum()))
    if excess == 0 or abs(float(scaled.sum())) >= 0.5:
        return whole
    rest = (scaled - whole) * np.sign(excess)  # most negative where the number was rounded up the most
    last = np.partition(rest, abs(excess) - 1)[abs(excess) - 1]
    changed = np.flatnonzero(rest < last)
    equal = np.flatnonzero(rest == last)[: abs(excess) - changed.size]  # of equal ones the first: always the same
    whole[np.concatenate([changed, equal])] -= np.sign(excess)
    return whole


def encoding_error(columns: Columns, gradient_sum: float, exponent: int) -> Array:
    """A bound (d,) on the error of D_j^T g; `gradient_sum` is ||g||_1.

    ||g||_1 / (2 scale_j), 0 where E_j is exact, + 2^(exponent - 1) ||E_j||_1 / scale_j.
    """
    rounded = np.where(columns.exact, 0.0, gradient_sum / (2 * columns.scale))
    sums = np.asarray(abs(columns.values).sum(axis=0)).ravel()
    return rounded + np.ldexp(sums, exponent - 1) / columns.scale
