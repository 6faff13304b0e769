"""The party's half of the subspace method."""

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block, PartySide
from plait.methods.subspace.aim import Aim
from plait.methods.subspace.checks import check_order, check_proposal, check_question
from plait.methods.subspace.direction import last, proximal_step
from plait.methods.subspace.idle_moves import may_be_idle
from plait.methods.subspace.least_norm import asks_any_vector
from plait.methods.subspace.messages import DIRECTION, QUESTION, Answer, StepProposal
from plait.methods.subspace.party_report import PartyReporter
from plait.methods.subspace.party_state import Stack, SubspacePartyState, grown
from plait.methods.subspace.penalty_span import Rounding, answer, described, narrows
from plait.methods.subspace.span_basis import Basis

_MOST_KEPT = 2**20  # rows: with more a party keeps no images, and takes its scores at the coordinator for exact
_SMALL_WEIGHT = 1e-2  # of the largest weight or step, in units of its column: a model may be closed without such ones
_HARMLESS = 1e-8  # of the penalty: what the model without them may cost more, by the party's own parabola
_NO_WEIGHT = 1e-15  # of the same: what is left of a weight that went to zero
_INVISIBLE = 1e-15  # of the largest column's curvature: a ridge below it changes no digit, and counts as none
_NO_MOVE = 1e-30
"""Of scores: a direction that moves them less is none.  Its image may become 0 on the way, and a coefficient that makes
up for its size would then move weights unseen."""
_DRIFT = 1e-13  # of the scores: what the coordinator may lack of them without being told


class SubspaceParty(PartySide):
    """Applies the step it is told, then sends the image of a direction that knows how the others have moved."""

    def __init__(self, block: Block, aim: Aim | None = None) -> None:
        self.block = block
        self.aim = Aim(block) if aim is None else aim
        self.sight = self.aim.sight
        self.keeps = block.features.rows <= _MOST_KEPT
        squares = block.features.weighted_column_squares(block.weights)
        self.sizes = np.sqrt(np.where(squares > 0, squares, 1.0))
        penalty, f = block.penalty, block.features
        small = self.keeps and not f.elsewhere and may_be_idle(f.rows, f.columns)
        self.idles = small and not penalty.smooth and penalty.separable
        """Whether weights may move where scores stay as they are."""
        self._known_basis: Basis | None = None
        self._known_image: Array | None = None
        self._images, self._directions, self._steps = Stack(), Stack(), Stack()
        unpenalised = block.penalty.quadratic and block.penalty.ridge <= _INVISIBLE * float(squares.max(initial=0.0))
        self.free = unpenalised and self.sight.shows_moves and asks_any_vector(block.loss)
        """Whether several weights may be equally good, of which the coordinator may look for the least."""
        self.reporter = PartyReporter(block, self.sizes, self.free)

    def start(self) -> SubspacePartyState:
        return SubspacePartyState.start(self.block.features.rows, self.block.features.columns, self.keeps)

    def weights(self, state: SubspacePartyState) -> Array:
        """x (d,), within its bounds."""
        feasible = self.block.penalty.feasible
        return state.x if feasible is None else feasible.project(state.x)

    def _cleaned(self, state: SubspacePartyState, orders: StepProposal, w: Array, pull: Array) -> Array:
        """x (d,) within its bounds; what the party's own exact step rests at, a kink or a wall, is there exactly."""
        penalty, x = self.block.penalty, state.x
        others = last(self.aim.others(state, orders), 0)
        y = proximal_step(self.block.features, penalty, x, pull, w, others)
        low, high = penalty.bounds(x.size)
        resting = (y == 0) & (penalty.l1 > 0 or penalty.grouped is not None) | (y <= low) | (y >= high)
        there = np.where(resting, y, 0.0)
        size = np.abs(x - there) * self.sizes
        largest = float((np.abs(np.vstack([x, state.steps])) * self.sizes).max(initial=0.0))
        moved = size <= _NO_WEIGHT * largest
        for left_out in (resting, resting & (size <= _SMALL_WEIGHT * largest)):
            if self._costs(x, np.where(left_out, there, x), w, pull) <= _HARMLESS * penalty.value(x):
                moved = moved | left_out
                break
        x = np.where(moved, there, x)
        return x if penalty.feasible is None else penalty.feasible.project(x)

    def _costs(self, x: Array, other: Array, w: Array, pull: Array) -> float:
        """By how much the objective is larger at other weights (d,) than at x (d,), by the loss's parabola at x."""
        penalty, moved = self.block.penalty, self.block.features.forward(other - x)
        return float(pull @ (other - x)) + float(w @ moved**2) / 2 + penalty.value(other) - penalty.value(x)

    def shown(self, state: SubspacePartyState) -> int:
        # A smooth penalty leaves no column out: zeros in its direction are the rounding of a run that has arrived.
        return state.x.size if self.block.penalty.smooth else int(np.count_nonzero(state.direction))

    def check(self, state: SubspacePartyState, broadcast: Broadcast) -> None:
        begun = state.first is not None
        basis = len(self._basis(state).rows) if begun else 0
        grams = len(state.total_gram) + 1 if begun else 0
        asked = begun and (self.block.penalty.smooth or state.pull is not None)
        if state.pulled:
            basis, asked = len(state.pulled) if broadcast.closing else 0, False
        check_proposal(broadcast, basis, grams, asked, self.sight.outlook, begun and self.free)
        if broadcast.vector is None:
            check_question(broadcast, state.asked, state.questions)
            return
        check_order(broadcast, state.asked, state.closings, state.again)
        self.sight.check(broadcast.vector, state.first, broadcast.step)

    def respond(self, state: SubspacePartyState, broadcast: Broadcast) -> tuple[SubspacePartyState, Share]:
        orders = StepProposal.unpack(broadcast.scalars)
        if orders.asks == DIRECTION:
            return self._pulled(state, orders, broadcast)
        if orders.asks == QUESTION:
            rounding, reply = self._asked(state, orders.coefficients)
            state = replace(state, rounding=rounding, questions=state.questions + 1)
            return state, Share(broadcast.round, None, reply.pack())
        g = self.sight.read(broadcast, orders)
        state = self._applied(state, orders, g)
        pull = self.sight.pull(g)
        if broadcast.closing:
            state = replace(state, closings=state.closings + 1, again=True)
            return self._closed(state, orders, broadcast.round, g, pull)
        state, y = self.aim.taken(state, orders, self.aim.weights(state, orders, g), pull)
        if state.rounds == 0 and self.block.start is not None:
            y = self.block.penalty.prox(self.block.start, 0.0)  # an earlier model, within bounds, is the first step
        forward, direction = self.block.features.forward, y - state.x
        if float(np.abs(direction * self.sizes).max(initial=0.0)) <= _NO_MOVE:
            y, direction = state.x, np.zeros_like(direction)
        # What rounding left out of earlier vectors is stated, not sent: a vector may be taken many times over.
        missing = forward(state.x) - state.known if state.drifted else None
        image = forward(direction)
        first = self.block.workspace.kept(g) if state.first is None else state.first
        state = replace(
            state,
            direction=direction,
            target=y,
            image=image if self.keeps else state.image,
            first=first,
            last=g if self.aim.others_kept else first,  # only what is looked at again is kept
            rounds=state.rounds + 1,
            asked=broadcast.round,
            again=False,
            questions=0,
            pull=None if self.reporter.smooth else pull,
        )
        rounding, report = self.reporter.described(state, self._basis(state), orders, g, pull, missing)
        if rounding is not None:
            state = replace(state, rounding=rounding)
        return state, Share(broadcast.round, image, report.pack())

    def _asked(self, state: SubspacePartyState, c: Array) -> tuple[Rounding | None, Answer]:
        """What the penalty would be after the step c, and a parabola seen from there; how kinks are rounded off now."""
        penalty, basis = self.block.penalty, self._basis(state)
        if self.reporter.smooth:  # asked together with others, because of their kinks
            model, rounding = described(penalty, basis, np.zeros_like(state.x))
            return rounding, Answer(1.0, 1.0, model.value(c), 0.0, model)
        assert state.pull is not None
        assert state.rounding is not None
        reply, rounding = answer(penalty, basis, c, state.pull, state.rounding)
        return rounding, reply

    def _pulled(
        self, state: SubspacePartyState, orders: StepProposal, broadcast: Broadcast
    ) -> tuple[SubspacePartyState, Share]:
        """One step of the search for the least weights: D D^T p for a direction p (N,)."""
        assert broadcast.vector is not None
        state = self._applied(state, orders, None)
        pull = self.block.features.adjoint(broadcast.vector)
        image = self.block.features.forward(pull)
        held = (*state.answered, image) if self.keeps else ()
        state = replace(state, pulled=(*state.pulled, pull), answered=held, asked=broadcast.round, again=False)
        return state, Share(broadcast.round, image)

    def _chosen(self, state: SubspacePartyState, coefficients: Array) -> SubspacePartyState:
        """With the least weights that the search has found; with those before it where it has found none."""
        if coefficients.size:
            known = coefficients @ np.array(state.answered) if self.keeps else state.known
            state = replace(state, x=coefficients @ np.array(state.pulled), known=known)
        return replace(state, pulled=(), answered=(), corrected=None)

    def _closed(
        self, state: SubspacePartyState, orders: StepProposal, number: int, g: Array, pull: Array
    ) -> tuple[SubspacePartyState, Share]:
        """The last measurement; where the coordinator's scores have drifted, what they lack goes with it."""
        before = state.x
        if not self.block.penalty.smooth:
            state = replace(state, x=self._cleaned(state, orders, self.aim.weights(state, orders, g), pull))
        report = self.reporter.measured(state, g, pull, state.x, None)
        if not self.keeps and np.array_equal(before, state.x):
            return state, Share(number, None, report.pack())
        forward = self.block.features.forward
        missing = forward(state.x) - state.known if self.keeps else forward(state.x - before)
        if float(np.linalg.norm(missing)) <= _DRIFT * float(np.linalg.norm(state.known)):
            return state, Share(number, None, report.pack())
        if not self.keeps:
            return state, Share(number, missing, report.pack())
        state = replace(state, known=state.known + missing, corrected=missing)
        return state, Share(number, missing, report.pack())

    def arrived(self, state: SubspacePartyState, vector: Array) -> SubspacePartyState:
        if state.corrected is not None:
            return replace(state, known=state.known - state.corrected + vector, corrected=None)
        return replace(state, image=vector, drifted=True) if self.keeps else state

    def _basis(self, state: SubspacePartyState) -> Basis:
        """The directions of the next step, with x and y.  It is kept: it serves for all questions of a round."""
        known = self._known_basis
        if known is not None and known.y is state.target and known.x is state.x and self._known_image is state.image:
            return known
        rows = self._directions.put(state.directions, state.direction, len(state.directions) + 1)
        if state.dropped:
            rows = np.vstack([state.x[None], rows])
        basis = Basis(state.x, state.target, rows, self.sizes, narrows(self.block.penalty, state.x.size))
        if self.idles:
            images = np.vstack([*([state.known] if state.dropped else []), state.images, state.image])
            basis = basis.with_idle_moves(self.block.features.dense, state.known, images)
        self._known_basis, self._known_image = basis, state.image
        return basis

    def _applied(self, state: SubspacePartyState, orders: StepProposal, g: Array | None) -> SubspacePartyState:
        """Take the step that the coordinator chose, and note how the others moved meanwhile, where g (N,) shows it."""
        if state.pulled:
            return self._chosen(state, orders.coefficients) if g is not None else state
        if state.first is None or state.last is None or not orders.coefficients.size:
            return replace(state, corrected=None)
        basis, c = self._basis(state), orders.coefficients
        x = orders.scale * (basis.point(c) if state.rounding is None else state.rounding.weights(basis, c))
        images, known = state.images, state.known
        own = self._own_move(state, orders, x)
        if self.keeps:
            images, known = self._images.put(images, state.image, orders.memory), known + own
        if self.aim.others_kept:
            state = self.aim.watched(state, orders, g, own)
        keep = max(self.aim.others_kept, orders.memory)
        sent = basis.rows[1:] if state.dropped else basis.rows
        return replace(
            state,
            x=x,
            directions=sent if len(sent) <= orders.memory else sent[-orders.memory :],
            images=images,
            dropped=state.dropped or len(state.directions) >= orders.memory,
            steps=self._steps.put(state.steps, x - state.x, keep),
            total_gram=grown(state.total_gram, orders.gram_row)[-keep:, -keep:],
            known=known,
            rounding=None,
        )

    def _own_move(self, state: SubspacePartyState, orders: StepProposal, x: Array) -> Array:
        """By how much the party's scores change (N,) with the step to x, as the coordinator has it."""
        if not self.keeps:
            return self.block.features.forward(x - state.x) if self.aim.others_kept else np.empty(0)
        c = orders.coefficients
        own: Array = c[-len(state.images) - 1 : -1] @ state.images
        own += c[-1] * state.image
        if state.dropped:
            own += c[0] * state.known
        return own if orders.scale == 1 else np.asarray(orders.scale * (state.known + own) - state.known)
