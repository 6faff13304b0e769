"""A party's search direction: a Newton step on its own block that knows how the others have moved.

    minimise over d, c:   g^T (D d + O c) + ||D d + O c||_W^2 / 2 + penalty's parabola at x + d, and the others' along c

O (N, k) holds the others' past moves.  The coordinator will re-optimise along past moves anyway, so a direction that
leaves them free does not repeat what they can do: without this, M parties all correct the same error M times.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from plait.composite import CompositeProblem, Quadratic
from plait.local import conjugate_gradients
from plait.matrix import Features
from plait.penalties import Penalty
from plait.types import Array

_SINGULAR = 1e-8
_COMPOSITE_TOLERANCE, _COMPOSITE_BURSTS = 1e-9, 30
_CG_TOLERANCE, _CG_STEPS = 1e-2, 60


@dataclass(frozen=True)
class Others:
    """The others' past moves as a party sees them: O (k, N), the penalty's Gram (k, k) and gradient (k,) along them."""

    moves: Array
    penalty: Array
    gradient: Array


class Preconditioner:
    """An approximate inverse of  D^T diag(w) D + diag(h):  a Cholesky factor where it fits, else the diagonal."""

    def __init__(self, features: Features, w: Array, h: Array) -> None:
        self.dense = features.primal_fits
        if self.dense:
            matrix = features.weighted_gram(w)
            matrix[np.diag_indices_from(matrix)] += np.maximum(h, 1e-10 * float(np.trace(matrix)) / h.size + 1e-300)
            self._factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        else:
            self._diagonal = np.maximum(features.weighted_column_squares(w) + h, 1e-300)

    def solve(self, rhs: Array) -> Array:
        if self.dense:
            return scipy.linalg.cho_solve(self._factor, rhs, check_finite=False)
        return rhs / self._diagonal


@dataclass(frozen=True)
class Curvature:
    """H = D^T diag(w) D + diag(h), with an inverse: exact if the factor is fresh, else a start for iteration."""

    features: Features
    w: Array
    h: Array
    inverse: Preconditioner
    exact: bool

    def solve(self, rhs: Array, without: Callable[[Array], Array]) -> Array:
        """(H - without)^{-1} rhs, roughly, by preconditioned conjugate gradients."""

        def apply(x: Array) -> Array:
            return self.features.adjoint(self.w * self.features.forward(x)) + self.h * x - without(x)

        return conjugate_gradients(apply, rhs, np.zeros_like(rhs), self.inverse.solve, _CG_TOLERANCE, _CG_STEPS)


def newton_direction(curvature: Curvature, gradient: Array, others: Others | None) -> Array:
    """d (d,): the part of the joint minimiser over (d, c) that is the party's own."""
    if others is None:
        return -curvature.inverse.solve(gradient) if curvature.exact else -curvature.solve(gradient, np.zeros_like)
    weighted = others.moves * curvature.w
    square = weighted @ others.moves.T + others.penalty
    cross = curvature.features.adjoint(weighted.T)
    if not curvature.exact:
        inverse = _filtered_inverse(square, _scale(square))
        rhs = cross @ (inverse @ others.gradient) - gradient
        return curvature.solve(rhs, lambda x: cross @ (inverse @ (cross.T @ x)))
    solved = curvature.inverse.solve(np.column_stack([gradient, cross]))
    newton, spread = solved[:, 0], solved[:, 1:]
    schur = square - cross.T @ spread
    c = -_filtered_inverse((schur + schur.T) / 2, _scale(square)) @ (others.gradient - cross.T @ newton)
    return -newton - spread @ c


def proximal_direction(
    features: Features, penalty: Penalty, x: Array, gradient: Array, w: Array, others: Others | None
) -> Array:
    """d (d,): the same for a penalty with kinks or a constraint, kept whole:  ... + penalty(x + d)."""
    cross, inverse = np.zeros((x.size, 0)), np.zeros((0, 0))
    if others is not None:
        weighted = others.moves * w
        cross = features.adjoint(weighted.T)
        square = weighted @ others.moves.T + others.penalty
        inverse = _filtered_inverse(square, _scale(square))
        gradient = gradient - cross @ (inverse @ others.gradient)
    lift = 1e-10 * float(features.weighted_column_squares(w).mean())
    if features.primal_fits:
        dense = features.weighted_gram(w) - cross @ inverse @ cross.T
        dense[np.diag_indices_from(dense)] += lift
        quadratic = Quadratic.of(dense)
    else:
        diagonal = features.weighted_column_squares(w) - np.einsum("dk,kl,dl->d", cross, inverse, cross) + lift
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
