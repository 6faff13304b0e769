"""The party's half of the subspace method where the gradient is encrypted: it receives D^T g and never g.

The gradient also showed the curvature of the loss at every sample, and how the others moved.  The curvature is guessed:

    w_i E loss''(z_i),   z_i ~ N(line over the own score, what the line leaves),   scaled to the true sum

from four numbers a round.  The others' moves are not known; only that somebody may shift all scores is.
"""

from dataclasses import replace

import numpy as np

from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block
from plait.methods.protected.messages import FAR, ProtectedOrders, Report
from plait.methods.protected.party import BoundedParty, BoundedPartyState

_CURVATURE_FLOOR = 4e-3  # of the mean curvature: a sample that seems certain may not be


class ProtectedParty(BoundedParty):
    """Applies the step it is told, then sends the image of a Newton direction; a broadcast's vector is D^T g (d,)."""

    def __init__(self, block: Block) -> None:
        super().__init__(block)
        self.others_kept = 0  # a gradient that is not seen shows no moves

    def respond(self, state: BoundedPartyState, broadcast: Broadcast) -> tuple[BoundedPartyState, Share]:
        gradient = broadcast.vector
        assert gradient is not None
        told = ProtectedOrders.unpack(broadcast.scalars)
        state = self._applied(state, told.orders, gradient)
        features, penalty = self.block.features, self.block.penalty
        here, stationarity = penalty.value(state.x), self.block.stationarity(state.x, gradient)
        if broadcast.closing:
            report = Report(here, here, here, stationarity, 0.0, features.columns, not penalty.smooth)
            return state, Share(broadcast.round, None, report.pack())
        w, others = self._guessed_weights(state.x, told), self._others(state, told.orders)
        state, direction = self._direction(state, told.orders, w, gradient, others)
        there = penalty.value(state.x + direction)
        slope = float(penalty.gradient(state.x) @ direction) if penalty.smooth else there - here
        gain = abs(-float(gradient @ direction) - slope)
        basis = np.vstack([state.steps[-told.orders.memory :], direction])
        report = Report(
            here,
            there,
            self._beyond(state.x + FAR * direction),
            stationarity,
            gain,
            features.columns,
            not penalty.smooth,
            self._models(state.x, direction, basis, told.orders.models),
        )
        image = features.forward(direction)
        state = replace(state, direction=direction, image=image, first=gradient, last=gradient, rounds=state.rounds + 1)
        return state, Share(broadcast.round, image, report.pack())

    def _guessed_weights(self, x: Array, told: ProtectedOrders) -> Array:
        """The expected curvature of the loss at every sample (N,), weighted; its sum is the true one."""
        own = self.block.features.forward(x)
        mean, variance = float(own.mean()), float(own.var())
        known = np.isfinite(told.covariance) and variance > 0
        slope = told.covariance / variance if known else 1.0
        left = max(told.variance - slope * (told.covariance if known else variance), 0.0)
        curvature = self.block.loss.expected_curvature(told.mean + slope * (own - mean), left)
        floor = max(_CURVATURE_FLOOR * float(curvature.mean()), 1e-300)
        w = self.block.weights * np.maximum(curvature, floor)
        return w * (told.orders.stiffness * told.curvature / float(w.sum()))
