"""What a party says beside its vector: its penalty, its parabola along the span, its part of the lower bound."""

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Block
from plait.methods.subspace.messages import Description, Model, StepProposal
from plait.methods.subspace.party_state import SubspacePartyState
from plait.methods.subspace.penalty_span import Basis, Rounding, described
from plait.problem.conjugates import conjugate, reach

_SUPPOSED = 10.0  # times the largest weight: how large weights are supposed to be where nothing bounds them


class PartyReporter:
    """Describes a party's state in a few numbers, none of which is a weight."""

    def __init__(self, block: Block, sizes: Array, free: bool) -> None:
        """sizes (d,): the norms of the columns.  free: whether the weights have no penalty."""
        self.block, self.sizes, self.free = block, sizes, free

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
        report = self.measured(state, g, pull, state.target, missing)
        model, rounding = described(penalty, basis, pull, together=orders.counted < orders.memory)
        if penalty.smooth:
            # The coordinator takes a smooth penalty for its parabola.
            report = replace(report, reached=model.value(np.append(np.zeros(model.r.size - 1), 1.0)))
            gain = abs(float(pull @ d) + float(model.r[-1]))
            h = penalty.majoriser(state.x, np.zeros_like(state.x)).curvature
            along = state.steps[-orders.memory :] @ (h * d)
        else:
            gain = abs(float(pull @ d) + report.reached - report.penalty)
            along = np.empty(0)
        return rounding, replace(report, gain=gain, model=model, along=along)

    def measured(
        self, state: SubspacePartyState, g: Array, pull: Array, y: Array, missing: Array | None
    ) -> Description:
        """The party's part of the objective and of the lower bound at x, and its penalty at y (d,); no parabola yet."""
        penalty, x = self.block.penalty, state.x
        stationarity = self.block.stationarity(x, pull)
        proof = (0.0, 0.0, 0.0, 1.0)
        if penalty.convex and self.block.loss.convex:
            largest = _SUPPOSED * float((np.maximum(np.abs(x), np.abs(y)) * self.sizes).max(initial=0.0))
            part = reach(penalty, -pull)
            whole = conjugate(penalty, -part * pull) if part > 0 else 0.0
            proof = (part, whole, conjugate(penalty, -pull, largest / self.sizes), float(part == 0))
        drift = (0.0, 0.0) if missing is None else (float(g @ missing), float(np.linalg.norm(missing)))
        here = penalty.value(x)
        free = float(x.size * self.free)
        numbers = (here, penalty.value(y), stationarity, 0.0, float(x.size), free, float(not penalty.smooth))
        return Description(*numbers, *proof, *drift, Model.none(), np.empty(0))
