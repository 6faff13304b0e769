"""A party that makes out from D^T g alone where all scores are, and how they move.

Where the gradient is mu(z) - y, the first one shows D^T y, and so every later one shows D^T mu(z).  The party looks for
combinations a of its columns with

    D^T E mu(z) = D^T mu(z),      z ~ N(D a, what D a leaves of the variance),

the guess from which it takes the curvature.  Two gradients show D^T W (z' - z) of the scores' move.  What the columns
see of the move is therefore D H^-1 D^T (g' - g), and the size of what they do not see is in the products of moves that
the coordinator states.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast
from plait.methods.base import Block
from plait.methods.protected.calibration import calibrated
from plait.methods.protected.outlook import Outlook, moves_kept
from plait.methods.protected.sight import HiddenGradient
from plait.methods.subspace.aim import STALE, Aim, changed
from plait.methods.subspace.curvature import Curvature
from plait.methods.subspace.direction import Others
from plait.methods.subspace.messages import DIRECTION, StepProposal
from plait.methods.subspace.party import SubspaceParty
from plait.methods.subspace.party_state import SubspacePartyState, grown

_UNSEEN, _UNSEEN_SURE = 0.2, 1e-6
"""Of a move's square, what the own columns never see of it, as the curvature is but a guess; where it is none."""


class ProtectedParty(SubspaceParty):
    """The subspace method's party where the gradient is hidden."""

    def __init__(self, block: Block, centred: bool = True, weighted: bool = False) -> None:
        """Scores under random signs are not `centred`; rows may be `weighted` in a way that the party does not know."""
        super().__init__(block, GuessingAim(block, centred, weighted))

    def check(self, state: SubspacePartyState, broadcast: Broadcast) -> None:
        super().check(state, broadcast)
        orders = StepProposal.unpack(broadcast.scalars)
        if orders.asks == DIRECTION:
            raise ProtocolError("a protected run must ask for no direction. Found one asked for. Nothing was answered.")
        if broadcast.vector is not None:
            Outlook.unpack(orders.outlook).check()


class GuessingAim(Aim):
    """Aims by a guess of the scores, and by what the own columns see of how they moved."""

    stale_small: ClassVar[float] = 0.0  # moves are read with the factorisation: a stale one costs rounds

    def __init__(self, block: Block, centred: bool = True, weighted: bool = False) -> None:
        self.hidden = HiddenGradient(block, centred, weighted)
        super().__init__(block, self.hidden)
        self.others_kept = min(self.others_kept, moves_kept(block.features.rows))
        self._last_bent: tuple[Array, Array, Array] | None = None

    def weights(self, state: SubspacePartyState, orders: StepProposal, g: Array) -> Array:
        if not state.glimpse.scores.size:
            return super().weights(state, orders, g)
        return self._bent(orders, state.glimpse.scores)

    def _bent(self, orders: StepProposal, scores: Array) -> Array:
        """The loss's curvature (N,) at such a guess (d,) of the scores; the last one is remembered."""
        if self._last_bent is not None:
            of, outlook, bent = self._last_bent
            if of is scores and np.array_equal(outlook, orders.outlook):
                return bent
        away = self.hidden.away(self.block.features.forward(scores))
        bent = self.hidden.doubted(Outlook.unpack(orders.outlook), away, orders.stiffness)
        self._last_bent = (scores, orders.outlook, bent)
        return bent

    def watched(
        self, state: SubspacePartyState, orders: StepProposal, g: Array | None, own: Array
    ) -> SubspacePartyState:
        inverse = self.factor(state)
        assert state.last is not None
        if g is None or not inverse.shown:  # nothing but a diagonal is known of how the columns overlap
            return self._noted(super().watched(state, orders, g, own), orders, np.zeros_like(state.x), 0 * own)
        scores = self._calibrated(state, orders, inverse, g)
        seen = self._midway(state, orders, inverse, scores).solve(g - state.last)
        total = self.block.features.forward(seen)
        if orders.intercept:
            total = total - float(self.block.weights @ total)
        state = self._noted(state, orders, seen, total)
        others = np.vstack([state.others, total - own])[-self.others_kept :]
        return replace(state, glimpse=replace(state.glimpse, scores=scores), others=others)

    def _midway(self, state: SubspacePartyState, orders: StepProposal, inverse: Curvature, scores: Array) -> Curvature:
        """H halfway through a move that has changed the curvature much: D^T (g' - g) holds the mean on the way."""
        assert state.factored is not None
        before = state.factored[0]
        after = self._bent(orders, scores) if scores.size else before
        if changed(before, after) <= STALE:
            return inverse
        return Curvature(self.block.features, (before + after) / 2, inverse.h, self.block.penalty.ridge)

    def _noted(self, state: SubspacePartyState, orders: StepProposal, seen: Array, total: Array) -> SubspacePartyState:
        """With one more move, D seen = total (N,)."""
        old, kept = state.glimpse, self.others_kept
        moves = np.vstack([old.moves, seen] if len(old.moves) else [seen])[-kept:]
        row = moves @ self.block.features.adjoint(self.block.weights * total)
        stated = Outlook.unpack(orders.outlook).products[-len(moves) :]
        products = grown(old.products, stated)[-kept:, -kept:]
        explained = grown(old.explained, row)[-kept:, -kept:]
        return replace(state, glimpse=replace(old, moves=moves, products=products, explained=explained))

    def _calibrated(self, state: SubspacePartyState, orders: StepProposal, inverse: Curvature, g: Array) -> Array:
        """The combination of columns (d,) that explains D^T mu(z); empty where D^T g does not show that."""
        loss, weights, features = self.block.loss, self.block.weights, self.block.features
        told = Outlook.unpack(orders.outlook)
        begun = loss.expected_response(np.full(1, orders.start), 0.0)
        if begun is None:
            return state.glimpse.scores
        assert state.first is not None
        wanted = g - state.first + features.adjoint(weights * float(begun[0]))
        a = state.glimpse.scores if state.glimpse.scores.size else np.zeros_like(g)
        return calibrated(self.block, self.hidden, told, wanted, a, inverse)

    def others(self, state: SubspacePartyState, orders: StepProposal) -> Others:
        others, glimpse = super().others(state, orders), state.glimpse
        names = [name for name in others.names if name >= 0]
        if not names or not len(glimpse.moves):
            return others
        at = np.array(names) - state.rounds
        least = _UNSEEN_SURE if self.hidden.sure else _UNSEEN
        unseen = _unseen(glimpse.products[np.ix_(at, at)], glimpse.explained[np.ix_(at, at)], least)
        curvature = Outlook.unpack(orders.outlook).curvature
        return replace(others, total=others.total + curvature * unseen)


def _unseen(products: Array, explained: Array, least: float) -> Array:
    """Products (k, k) of what the columns do not see of the moves: positive, though both come with errors."""
    size = np.sqrt(np.maximum(np.diag(products), 1e-300))
    values, vectors = np.linalg.eigh((products - explained) / np.outer(size, size))
    return np.asarray((vectors * np.maximum(values, least)) @ vectors.T * np.outer(size, size))
