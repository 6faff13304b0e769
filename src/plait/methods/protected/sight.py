"""What a party knows of the loss where the gradient is encrypted: it receives D^T g (d,) and never g.

The gradient also showed the curvature of the loss at every row, and how the others moved.  The curvature is guessed:

    w_i E loss''(z_i),   z_i ~ N(a guess of the score, what it leaves of the variance),   scaled to the true sum

from a few numbers that the coordinator sends with every gradient.  `plait.methods.protected.party` makes the guess.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast
from plait.methods.base import Block
from plait.methods.protected.outlook import LARGEST, Outlook
from plait.methods.subspace.messages import StepProposal
from plait.problem.losses import Squared

_CURVATURE_FLOOR = 4e-3  # of the mean curvature: a row that seems certain may not be
_DOUBT = 0.5  # of the variance that the guess explains: rows of small curvature seem surer than they are
_ROUNDING = 1e-4  # of a column's largest slope: what encoding and rounding may add


class HiddenGradient:
    """The vector is D^T g (d,)."""

    outlook = Outlook.size

    def __init__(self, block: Block, centred: bool = True, weighted: bool = False) -> None:
        """Scores under random signs are not `centred`: their mean is 0 whatever they are.

        Where rows are `weighted`, the party does not know how, and counts them alike.
        """
        self.block = block
        self._centred = centred
        self.sure = isinstance(block.loss, Squared) and not weighted
        """Whether the curvature is known and no guess."""
        if weighted:  # weights sum to 1, so that no weighted mean of a column exceeds its largest number
            self._sizes = _largest(block.features.matrix)
        else:
            self._sizes = np.sqrt(block.features.weighted_column_squares(block.weights))

    @property
    def shows_moves(self) -> bool:
        """Differences of D^T g show them, but where kinks are rounded off anew between two gradients."""
        return self.block.loss.smooth and self.block.penalty.smooth

    def check(self, vector: Array, first: Array | None, step: float | None) -> None:
        """|D_j^T g| is at most the loss's steepest slope times the size of the column."""
        steepest = self.block.loss.slope()
        if not float(np.abs(vector).max(initial=0.0)) <= LARGEST:
            raise ProtocolError(f"slopes must be at most {LARGEST:g}. Found larger ones. Nothing was answered.")
        if steepest is not None and (np.abs(vector) > (1 + _ROUNDING) * steepest * self._sizes).any():
            raise ProtocolError(
                f"a gradient of {type(self.block.loss).__name__} is at most {steepest:g} per row, times its weight. "
                "Found a larger one. The coordinator does not minimise the job's loss. Nothing was answered."
            )

    def read(self, broadcast: Broadcast, orders: StepProposal) -> Array:
        assert broadcast.vector is not None
        return broadcast.vector

    def pull(self, vector: Array) -> Array:
        return vector

    def curvature(self, x: Array, orders: StepProposal, vector: Array, first: Array) -> Array:
        """From the line of all scores over the party's own."""
        told = Outlook.unpack(orders.outlook)
        line = told.slope * self.away(self.block.features.forward(x))
        return self._guessed(told, line, max(told.variance - spread(line), 0.0), orders.stiffness)

    def away(self, scores: Array) -> Array:
        """Scores (N,) as they lie about their mean."""
        return scores - float(scores.mean()) if self._centred else scores

    def centre(self, told: Outlook) -> float:
        """The mean of all scores."""
        return told.mean if self._centred else 0.0

    def doubted(self, told: Outlook, away: Array, stiffness: float) -> Array:
        """From a guess (N,) of all scores about their mean."""
        left = max(told.variance - spread(away), 0.0) + _DOUBT * spread(away)
        return self._guessed(told, away, left, stiffness)

    def _guessed(self, told: Outlook, away: Array, variance: float, stiffness: float) -> Array:
        """The curvature (N,), weighted, where scores lie so far from their mean, give or take a variance."""
        guess = self.block.loss.expected_curvature(self.centre(told) + away, variance)
        w = self.block.weights * self.floored(guess)
        total = told.curvature if told.curvature > 0 else stiffness  # flat everywhere: keep the step finite
        return np.asarray(w * (total / float(w.sum())))

    @staticmethod
    def floored(curvature: Array) -> Array:
        """Curvature (N,) that leaves no row out."""
        return np.maximum(curvature, max(_CURVATURE_FLOOR * float(curvature.mean()), 1e-300))

    def others_move(self, orders: StepProposal, first: Array, last: Array, now: Array, own: Array) -> Array:
        return np.zeros_like(own)  # D^T g does not show it; a party guesses it with its curvature


def _largest(matrix: Any) -> Array:
    """The largest absolute number (d,) of each column, dense or sparse."""
    ends = [matrix.max(axis=0), -matrix.min(axis=0)]
    return np.asarray(np.maximum(*[end.toarray().ravel() if sp.issparse(end) else end for end in ends]))


def spread(away: Array) -> float:
    """The mean square (N,) of scores about their mean."""
    return float(np.mean(np.square(away)))
