"""A party's search direction: a Newton step on its own block that knows how the others have moved.

    minimise over d, c:   g^T (D d + O c) + ||D d + O c||_W^2 / 2 + penalty's parabola at x + d, and the others' along c

O (N, k) holds the others' past moves.  The coordinator will re-optimise along past moves anyway, so a direction that
leaves them free does not repeat what they can do: without this, M parties all correct the same error M times.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.linalg

from plait.composite import CompositeProblem, Quadratic
from plait.local import conjugate_gradients
from plait.matrix import Features
from plait.penalties import Penalty
from plait.types import Array

_SINGULAR = 1e-8
_LIFT = 1e-10
"""How much of each column's own curvature is added to the diagonal, which may be singular."""
_LARGE, _SINGLE = 1e8, 1e-5
_CG_TOLERANCE = 1e-2
_COMPOSITE_TOLERANCE, _COMPOSITE_BURSTS = 1e-9, 30


@dataclass(frozen=True)
class Others:
    """The others' past moves as a party sees them, O (k, N).

    alive      which of the moves that are kept these are; the intercept's, if any, comes last and is not among them
    total      products of all parties' steps in the penalty's metric
    penalty    the Gram matrix (k, k) of the others' penalty along O
    gradient   the slope (k,) of the objective along O
    """

    moves: Array
    alive: npt.NDArray[np.bool_]
    total: Array
    penalty: Array
    gradient: Array


class Preconditioner:
    """An approximate inverse of  D^T diag(w) D + diag(h):  a Cholesky factor where it fits, else the diagonal."""

    def __init__(
        self, features: Features, w: Array, h: Array, ridge: float, last: "Preconditioner | None" = None
    ) -> None:
        self.dense = features.primal_fits
        self.w, self.h = w, h
        if not self.dense:
            self._diagonal = np.maximum(features.weighted_column_squares(w) + h, 1e-300)
            return
        self._gram: Array = last._gram if last is not None and last.w is w else _gram(features, w, ridge)
        own = np.diag(self._gram)
        matrix = self._gram.copy()
        matrix[np.diag_indices_from(matrix)] += np.maximum(h, _LIFT * np.where(own > 0, own, 1.0)).astype(matrix.dtype)
        self._factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)

    def solve(self, rhs: Array) -> Array:
        if self.dense:
            solved = scipy.linalg.cho_solve(self._factor, rhs.astype(self._gram.dtype, copy=False), check_finite=False)
            return solved.astype(np.float64, copy=False)
        return rhs / self._diagonal


def _gram(features: Features, w: Array, ridge: float) -> Array:
    """In single precision where that saves time and the ridge, which h never falls below, is far above rounding.

    All that this depends on is stored with a party: one that starts again forms the same matrix.
    """
    large = features.rows * features.columns**2 > _LARGE
    single = large and (ridge >= _SINGLE * float(w.max()) * features.column_squares).all()
    return features.weighted_gram(w, np.float32 if single else np.float64)


@dataclass(frozen=True)
class Curvature:
    """H = D^T diag(w) D + diag(h), with an approximate inverse and how many conjugate gradients improve on it."""

    features: Features
    w: Array
    h: Array
    inverse: Preconditioner
    steps: int

    def solve(self, rhs: Array, cross: Array, inner: Array, inverse: Callable[[Array], Array]) -> Array:
        """(H - cross inner cross^T)^{-1} rhs, roughly."""
        if self.steps == 0:
            return inverse(rhs)

        def apply(x: Array) -> Array:
            hx = self.features.adjoint(self.w * self.features.forward(x)) + self.h * x
            return hx - cross @ (inner @ (cross.T @ x))

        return conjugate_gradients(apply, rhs, np.zeros_like(rhs), inverse, _CG_TOLERANCE, self.steps)


def newton_direction(curvature: Curvature, gradient: Array, cross: Array, others: Others) -> Array:
    """d (d,): the part of the joint minimiser over (d, c) that is the party's own; cross = D^T W O^T (d, k)."""
    solve = curvature.inverse.solve
    if not len(others.moves):
        return -curvature.solve(gradient, cross, np.zeros((0, 0)), solve)
    square = (others.moves * curvature.w) @ others.moves.T + others.penalty
    inner = _filtered_inverse(square, _scale(square))
    rhs = cross @ (inner @ others.gradient) - gradient
    if not curvature.inverse.dense:
        return curvature.solve(rhs, cross, inner, solve)
    spread = solve(cross)
    schur = square - cross.T @ spread
    outer = _filtered_inverse((schur + schur.T) / 2, _scale(square))

    def reduced(r: Array) -> Array:
        return solve(r) + spread @ (outer @ (spread.T @ r))

    if curvature.steps == 0:  # the same as reduced(rhs), but for what the filters leave out
        newton = solve(gradient)
        return spread @ (outer @ (others.gradient - cross.T @ newton)) - newton
    return curvature.solve(rhs, cross, inner, reduced)


def proximal_direction(
    features: Features, penalty: Penalty, x: Array, gradient: Array, w: Array, cross: Array, others: Others
) -> Array:
    """d (d,): the same for a penalty with kinks or a constraint, kept whole:  ... + penalty(x + d)."""
    inverse, lifted = np.zeros((0, 0)), _LIFT
    if len(others.moves):
        lifted = 10 * np.finfo(np.float64).eps / _SINGULAR  # what rounding leaves of the subtraction below
        square = (others.moves * w) @ others.moves.T + others.penalty
        inverse = _filtered_inverse(square, _scale(square))
        gradient = gradient - cross @ (inverse @ others.gradient)
    if features.primal_fits:
        dense = features.weighted_gram(w)
        lift = lifted * np.diag(dense)
        dense -= cross @ inverse @ cross.T
        dense[np.diag_indices_from(dense)] += lift
        quadratic = Quadratic.of(dense)
    else:
        squares = features.weighted_column_squares(w)
        lift = lifted * squares
        diagonal = squares - np.einsum("dk,kl,dl->d", cross, inverse, cross) + lift
        quadratic = Quadratic(
            lambda v: features.adjoint(w * features.forward(v)) - cross @ (inverse @ (cross.T @ v)) + lift * v,
            diagonal,
            block=lambda on: np.empty((0, 0)),
            block_limit=0,
        )
    linear = quadratic.apply(x) - gradient
    return CompositeProblem(penalty, quadratic).solve(linear, 1.0, x, _COMPOSITE_TOLERANCE, _COMPOSITE_BURSTS) - x


def _scale(square: Array) -> Array:
    """The roots of a diagonal whose smallest entries rounding may have pushed below zero."""
    return np.sqrt(np.maximum(np.abs(np.diag(square)), 1e-300))


def _filtered_inverse(matrix: Array, scale: Array) -> Array:
    """The inverse of a symmetric matrix on its well-conditioned part, judged after scaling.

    What has no scale takes no part: cancellation leaves such entries where there are no other parties.
    """
    scale = np.where(scale > 0, scale, np.inf)
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    v = vectors[:, values > _SINGULAR]
    return (v / values[values > _SINGULAR]) @ v.T / np.outer(scale, scale)
