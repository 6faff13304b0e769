"""The step of a party whose penalty has kinks or walls, beside the Newton direction that both methods share."""

import numpy as np

from plait._types import Array
from plait.methods.certified.kinked_step import curved, kinked_step
from plait.methods.subspace.direction import INTERCEPT, SINGULAR, Others
from plait.problem.features import Features
from plait.problem.penalties import Penalty


def nobody(others: Others) -> Others:
    """Nobody's moves, but for the intercept's."""
    kept = [i for i, name in enumerate(others.names) if name == INTERCEPT]
    empty = np.zeros((len(kept), len(kept)))
    return Others(others.moves[kept], (INTERCEPT,) * len(kept), np.empty((0, 0)), empty, np.zeros(len(kept)))


def proximal_step(features: Features, penalty: Penalty, x: Array, pull: Array, w: Array, others: Others) -> Array:
    """y (d,): the same for a penalty with kinks or a constraint, kept whole:  ... + penalty(y)."""
    cross, inverse = np.zeros((x.size, 0)), np.zeros((0, 0))
    if len(others.moves):
        weighted = others.moves * w
        square = weighted @ others.moves.T
        inverse = _filtered_inverse(square, _scale(square))
        cross = features.adjoint(weighted.T)
    return kinked_step(penalty, x, pull, curved(features, w, cross, inverse))


def _scale(square: Array) -> Array:
    """The roots of a diagonal whose smallest entries rounding may have pushed below zero."""
    return np.sqrt(np.maximum(np.abs(np.diag(square)), 1e-300))


def _filtered_inverse(matrix: Array, scale: Array) -> Array:
    """The inverse of a symmetric matrix on its well-conditioned part, judged after scaling.

    What has no scale takes no part: cancellation leaves such entries where there are no other parties.
    """
    scale = np.where(scale > 0, scale, np.inf)
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    v = vectors[:, values > SINGULAR]
    return (v / values[values > SINGULAR]) @ v.T / np.outer(scale, scale)
