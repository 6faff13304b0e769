"""A party's search direction: a Newton step on its own block that knows how the others have moved.

    minimise over d, c:   g^T (D d + O c) + ||D d + O c||_W^2 / 2 + penalty's parabola at x + d, and the others' along c

O (N, k) holds the others' past moves.  The coordinator will re-optimise along past moves anyway, so a direction that
leaves them free does not repeat what they can do: without this, M parties all correct the same error M times.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from plait._types import Array
from plait.methods.admm.x_update import conjugate_gradients
from plait.methods.subspace.curvature import Curvature, weighted
from plait.methods.subspace.kinked_step import Curved, kinked_step
from plait.problem.features import Features
from plait.problem.penalties import Penalty

SINGULAR = 1e-8  # of the largest eigenvalue, scaled: moves that differ by less from others are left out
INTERCEPT = -1  # stands for a shift of all scores among the names of moves
_RECENT = 3
"""How many of the others' moves count as their latest."""
_CONSTANT = 0.95
"""How much of a constant score the own columns must explain before the others are taken to be able to shift scores."""
_CG_TOLERANCE = 1e-2  # relative residual: the coordinator corrects the length of a direction anyway


@dataclass(frozen=True)
class Others:
    """The others' past moves as a party sees them, O (k, N), and perhaps a shift of all scores behind them.

    names      one number for each that it keeps for the whole run; the shift's, if any, is -1
    total      products of all parties' steps in the penalty's metric
    penalty    the Gram matrix (k, k) of the others' penalty along O
    gradient   the slope (k,) of the objective along O
    """

    moves: Array
    names: tuple[int, ...]
    total: Array
    penalty: Array
    gradient: Array

    @property
    def shift(self) -> bool:
        """Whether they can shift all scores."""
        return len(self.names) > len(self.moves)

    def and_constant(self) -> "Others":
        """With a shift of all scores, which costs nothing and along which the objective is flat."""
        k = len(self.moves)
        penalty, gradient = np.zeros((k + 1, k + 1)), np.zeros(k + 1)
        penalty[:k, :k], gradient[:k] = self.penalty, self.gradient
        return Others(self.moves, (*self.names, INTERCEPT), self.total, penalty, gradient)

    def weighted(self, w: Array) -> tuple[Array, Array]:
        """O diag(w), and O diag(w) O^T."""
        found = weighted(self.moves, w, self.shift)
        square = found @ self.moves.T
        return found, np.column_stack([square, np.add.reduce(found, axis=1)]) if self.shift else square


@dataclass(frozen=True)
class Direction:
    """d (d,), and how much of the others' latest moves the party could have made itself, from 0 to 1."""

    step: Array
    overlap: float


def with_constant(curvature: Curvature, others: Others) -> Others:
    """The others' moves and a constant, where the own columns almost contain one, as full sets of indicators do.

    Others have such sets as well, then.  What one party's set adds to all scores another's may take away, at no loss:
    long before their moves show it, the parties settle how to share that constant so that the penalty is least.
    """
    if not curvature.shown or curvature.early or INTERCEPT in others.names:  # a thin sample would explain anything
        return others
    none = others.moves[:0]
    cross, square = curvature.cross(none, (INTERCEPT,)), curvature.square(none, ones=True)
    if float((cross * curvature.solve(cross)).sum()) < _CONSTANT * float(square[0, 0]):
        return others
    return others.and_constant()


def newton_direction(
    curvature: Curvature, w: Array, h: Array, gradient: Array, others: Others, late: bool
) -> Direction:
    """The party's own part of the joint minimiser over (d, c); w and h may be newer than the curvature's."""
    refinements = curvature.late if late else curvature.early
    if not (curvature.shown and others.names):
        return Direction(-_refined(curvature, w, h, gradient, others, curvature.solve, refinements), 0.0)
    cross = curvature.cross(others.moves, others.names)
    square = curvature.square(others.moves, others.shift) + others.penalty
    spread = curvature.solve(cross)
    schur = square - cross.T @ spread
    outer = _filtered_inverse((schur + schur.T) / 2, _scale(square))
    unexplained = schur.diagonal() / np.maximum(square.diagonal(), 1e-300)
    latest = [part for part, name in zip(unexplained.tolist(), others.names, strict=True) if name >= 0][-_RECENT:]
    overlap = 1 - min([1.0, *latest])
    if refinements == 0:
        newton = curvature.solve(gradient)
        step = spread @ (outer @ (others.gradient - cross.T @ newton)) - newton
    else:

        def reduced(r: Array) -> Array:
            return curvature.solve(r) + spread @ (outer @ (spread.T @ r))

        step = -_refined(curvature, w, h, gradient, others, reduced, refinements)
    return Direction(step, overlap)


def _refined(
    curvature: Curvature,
    w: Array,
    h: Array,
    gradient: Array,
    others: Others,
    inverse: Callable[[Array], Array],
    steps: int,
) -> Array:
    """The same by conjugate gradients on H, from which the others' moves are eliminated; over all rows."""
    if steps == 0:
        return inverse(gradient)
    features = curvature.features
    pulls, square = others.weighted(w)
    square = square + others.penalty
    inner = _filtered_inverse(square, _scale(square))

    def apply(x: Array) -> Array:
        image = features.forward(x)
        pulled = w * image - (inner @ (pulls @ image)) @ pulls
        return features.adjoint(pulled) + h * x

    rhs = gradient - features.adjoint((inner @ others.gradient) @ pulls)
    return conjugate_gradients(apply, rhs, np.zeros_like(rhs), inverse, _CG_TOLERANCE, steps)


def last(others: Others, count: int) -> Others:
    """The last few of the others' moves, and the intercept's."""
    if count >= len(others.names):
        return others
    first = max(0, len(others.moves) - count)
    names = others.names[first:]
    empty = np.zeros((len(names), len(names)))
    return Others(others.moves[first:], names, empty, empty, np.zeros(len(names)))


def proximal_step(features: Features, penalty: Penalty, x: Array, pull: Array, w: Array, others: Others) -> Array:
    """y (d,): the same for a penalty with kinks or a constraint, kept whole:  ... + penalty(y)."""
    cross, inverse = np.zeros((x.size, 0)), np.zeros((0, 0))
    if others.names:
        pulls, square = others.weighted(w)
        inverse = _filtered_inverse(square, _scale(square))
        cross = features.adjoint(pulls.T)
    return kinked_step(penalty, x, pull, Curved(features, w, cross, inverse))


def _scale(square: Array) -> Array:
    """The roots of a diagonal whose smallest entries rounding may have pushed below zero."""
    return np.sqrt(np.maximum(np.abs(square.diagonal()), 1e-300))


def _filtered_inverse(matrix: Array, scale: Array) -> Array:
    """The inverse of a symmetric matrix on its well-conditioned part, judged after scaling.

    What has no scale takes no part: cancellation leaves such entries where there are no other parties.
    """
    if not scale.size:
        return matrix
    scale = np.where(scale > 0, scale, np.inf)
    unit = scale[:, None] * scale
    values, vectors, _ = scipy.linalg.lapack.dsyevd(matrix / unit)
    if not values[0] > SINGULAR:
        clear = values > SINGULAR
        values, vectors = values[clear], vectors[:, clear]
    return np.asarray((vectors / values) @ vectors.T / unit)
