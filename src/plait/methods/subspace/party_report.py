"""What a party says beside its vector: its penalty, its parabola along the span, its part of the lower bound."""

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Block
from plait.methods.subspace.messages import Description, Model, StepProposal
from plait.methods.subspace.party_state import SubspacePartyState
from plait.methods.subspace.penalty_span import Rounding, described
from plait.methods.subspace.span_basis import Basis
from plait.problem.conjugates import conjugate, reach

_SUPPOSED = 10.0  # times the largest weight: how large weights are supposed to be where nothing bounds them

_NONE, _NO_PRODUCTS = Model.none(), np.empty(0)


class PartyReporter:
    """Describes a party's state in a few numbers, none of which is a weight."""

    def __init__(self, block: Block, sizes: Array, free: bool) -> None:
        """sizes (d,): the norms of the columns.  free: whether the weights have no penalty."""
        self.block, self.sizes, self.free = block, sizes, free
        self.smooth = block.penalty.smooth
        self.proves = block.penalty.convex and block.loss.convex

    def described(
        self,
        state: SubspacePartyState,
        basis: Basis,
        orders: StepProposal,
        g: Array,
        pull: Array,
        missing: Array | None,
    ) -> tuple[Rounding | None, Description]:
        """In answer to a gradient: `measured`, with a parabola along the basis; and how it rounds off kinks, if any.

        Where a round gained far less than was promised, the next ones count on few of the others' moves, and kinks and
        walls stay together.
        """
        penalty, d = self.block.penalty, state.direction
        model, rounding = described(penalty, basis, pull, together=orders.counted < orders.memory)
        report = self.measured(state, g, pull, state.target, missing, model)
        if rounding is None:
            h = penalty.ridge if penalty.quadratic else penalty.majoriser(state.x, np.zeros_like(state.x)).curvature
            # The coordinator takes a smooth penalty for its parabola.
            reached = model.constant + float(model.r[-1]) + float(model.k[-1, -1]) / 2
            gain = abs(float(pull @ d) + float(model.r[-1]))
            return None, replace(report, reached=reached, gain=gain, along=state.steps[-orders.memory :] @ (h * d))
        return rounding, replace(report, gain=abs(float(pull @ d) + report.reached - report.penalty))

    def measured(
        self, state: SubspacePartyState, g: Array, pull: Array, y: Array, missing: Array | None, model: Model = _NONE
    ) -> Description:
        """The party's part of the objective and of the lower bound at x, and its penalty at y (d,)."""
        penalty, x, smooth = self.block.penalty, state.x, self.smooth
        stationarity = self.block.stationarity(x, pull)
        proof = (0.0, 0.0, 0.0, 1.0)
        if self.proves:
            v, sizes = -pull, np.abs(x) if y is x else np.maximum(np.abs(x), np.abs(y))
            largest = _SUPPOSED * float((sizes * self.sizes).max(initial=0.0))
            part = reach(penalty, v)
            whole = conjugate(penalty, v if part == 1 else part * v) if part > 0 else 0.0
            proof = (part, whole, conjugate(penalty, v, largest / self.sizes), float(part == 0))
        drift = (0.0, 0.0) if missing is None else (float(g @ missing), float(np.linalg.norm(missing)))
        here = penalty.value(x)
        there = here if smooth or y is x else penalty.value(y)
        numbers = (here, there, stationarity, 0.0, float(x.size), float(x.size * self.free), float(not smooth))
        return Description(*numbers, *proof, *drift, model, _NO_PRODUCTS)
