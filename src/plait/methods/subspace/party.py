"""The party's half of the subspace method."""

from dataclasses import dataclass, field

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block, PartySide
from plait.methods.subspace.checks import check_order, check_proposal, check_question
from plait.methods.subspace.curvature import SMALL, Curvature
from plait.methods.subspace.direction import Others, last, newton_direction, proximal_step, with_constant
from plait.methods.subspace.least_norm import asks_any_vector
from plait.methods.subspace.messages import DIRECTION, QUESTION, Answer, Description, Model, StepProposal
from plait.methods.subspace.penalty_span import Basis, Rounding, answer, described
from plait.methods.subspace.sight import Glimpse, OpenGradient, Sight
from plait.problem.conjugates import conjugate, reach
from plait.problem.row_blocks import by_parts

_OTHERS, _OTHERS_BYTES = 40, 2**26  # of the others' moves, how many are kept, and in how many bytes
_CROWDING, _MOST_CROWDING = 0.5, 8
"""By how many times the ridge grows each round, and at the most, for others with as many features as samples."""
_SETTLED = 4
"""Rounds after which the sizes of the steps are right, so that it is worth asking who carries a constant."""
_EARLY = 7
"""Rounds in which the samples' weights still change much: Newton steps are worth more care there."""
_SAME_WORK, _SAME_WORK_CROWDED, _LEAN = 0.995, 0.4, 0.2
"""Where others can do the same work as this party, up to so much of it, every other step leans to steepest descent:
that is the Newton step of a party that leaves all curvature to the others.  Newton steps alone would stall."""
_MOST_KEPT = 2**20  # rows: with more a party keeps no images, and takes its scores at the coordinator for exact
_FAINT = 1e-12  # of the strongest of the others' moves, squared: weaker ones are rounding
_SMALL_WEIGHT = 1e-2  # of the largest weight or step, in units of its column: a model may be closed without such ones
_NO_WEIGHT = 1e-15  # of the same: what is left of a weight that went to zero
_INVISIBLE = 1e-15  # of the largest column's curvature: a ridge below it changes no digit, and counts as none
_DRIFT = 1e-13  # of the scores: what the coordinator may lack of them without being told
_SUPPOSED = 10.0  # times the largest weight: how large weights are supposed to be where nothing bounds them

_STALE = 0.3
"""By how much the samples' weights, or the ridge, may change, relatively, before a factorisation is made anew."""


@dataclass(frozen=True)
class SubspacePartyState:
    """x (d,), the directions sent (k, d) with their images (k, N) as the coordinator has them, and the newest.

    steps (k, d) and the others' moves (k, N) in the last rounds; the first and the last gradient (N,).
    """

    x: Array
    directions: Array
    images: Array
    direction: Array
    target: Array
    """y = x + direction, where weights at rest are exactly at rest."""
    image: Array
    steps: Array
    others: Array
    total_gram: Array
    known: Array
    """The party's scores as the coordinator has them (N,)."""
    dropped: bool = False
    """Whether directions have been forgotten, so that x itself joins the basis."""
    first: Array | None = None
    last: Array | None = None
    factored: tuple[Array, Array] | None = None
    """The weights and the ridge that the preconditioner was made with."""
    rounds: int = 0
    pull: Array | None = None
    """D^T g (d,) of the last round, where the penalty has kinks."""
    corrected: Array | None = None
    """What the coordinator's scores lacked at a closing (N,)."""
    asked: int = 0
    """The round of the last gradient."""
    questions: int = 0
    """How many questions have been answered since."""
    closings: int = 0
    again: bool = False
    """Whether the run has been closed since, so that the round may begin anew."""
    drifted: bool = False
    """Whether the coordinator's scores may differ from D x: vectors are rounded on their way, or weights were."""
    rounding: Rounding | None = None
    """Which kinks and walls the coordinator's questions have come upon in this round."""
    glimpse: Glimpse = field(default_factory=Glimpse)
    """Where the gradient is hidden: what D^T g has told of all scores."""
    pulled: tuple[Array, ...] = ()
    """D^T p (d,) of every direction p that the coordinator has sent in search of the least weights."""
    answered: tuple[Array, ...] = ()
    """D D^T p (N,) of each, as the coordinator has it."""


class SubspaceParty(PartySide):
    """Applies the step it is told, then sends the image of a direction that knows how the others have moved."""

    def __init__(self, block: Block, sight: Sight | None = None) -> None:
        self.block = block
        kept = int(min(_OTHERS, _OTHERS_BYTES // (8 * block.features.rows)))
        self.sight: Sight = OpenGradient(block, remembers=kept > 0) if sight is None else sight
        self.others_kept = kept if self.sight.shows_moves else 0
        self.keeps = block.features.rows <= _MOST_KEPT
        squares = block.features.weighted_column_squares(block.weights)
        self.sizes = np.sqrt(np.where(squares > 0, squares, 1.0))
        self._inverse: Curvature | None = None
        self._known_basis: Basis | None = None
        unpenalised = block.penalty.quadratic and block.penalty.ridge <= _INVISIBLE * float(squares.max(initial=0.0))
        self.free = unpenalised and self.sight.shows_moves and asks_any_vector(block.loss)
        """Whether several weights may be equally good, of which the coordinator may look for the least."""

    def start(self) -> SubspacePartyState:
        d, n = self.block.features.columns, self.block.features.rows
        none, zero = np.empty((0, n)), np.zeros(n if self.keeps else 0)
        return SubspacePartyState(
            np.zeros(d),
            np.empty((0, d)),
            none,
            np.zeros(d),
            np.zeros(d),
            zero,
            np.empty((0, d)),
            none,
            np.empty((0, 0)),
            zero,
        )

    def weights(self, state: SubspacePartyState) -> Array:
        """x (d,), within its bounds."""
        feasible = self.block.penalty.feasible
        return state.x if feasible is None else feasible.project(state.x)

    def _cleaned(self, state: SubspacePartyState, orders: StepProposal, w: Array, pull: Array) -> Array:
        """x (d,) within its bounds, without the small weights that the party's own exact step does without."""
        penalty, x = self.block.penalty, state.x
        if penalty.l1 > 0 or penalty.grouped is not None:
            others = last(self._others(state, orders), 0)
            y = proximal_step(self.block.features, penalty, x, pull, w, others)
            size = np.abs(x) * self.sizes
            largest = float((np.abs(np.vstack([x, state.steps])) * self.sizes).max(initial=0.0))
            x = np.where(((y == 0) & (size <= _SMALL_WEIGHT * largest)) | (size <= _NO_WEIGHT * largest), 0.0, x)
        return x if penalty.feasible is None else penalty.feasible.project(x)

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
            state, reply = self._asked(state, orders.coefficients)
            state = replace(state, questions=state.questions + 1)
            return state, Share(broadcast.round, None, reply.pack())
        g = self.sight.read(broadcast, orders)
        state = self._applied(state, orders, g)
        pull = self.sight.pull(g)
        if broadcast.closing:
            state = replace(state, closings=state.closings + 1, again=True)
            return self._closed(state, orders, broadcast.round, g, pull)
        state, y = self._aimed(state, orders, self._weights(state, orders, g), pull)
        if state.rounds == 0 and self.block.start is not None:
            y = self.block.penalty.prox(self.block.start, 0.0)  # an earlier model, within bounds, is the first step
        forward = self.block.features.forward
        # What rounding left out of earlier vectors is stated, not sent: a vector may be taken many times over.
        missing = forward(state.x) - state.known if state.drifted else None
        image = forward(y - state.x)
        first = self.block.workspace.kept(g) if state.first is None else state.first
        held = image if self.keeps else state.image
        shown = g if self.others_kept else first  # only what is looked at again is kept
        state = replace(state, direction=y - state.x, target=y, image=held, first=first, last=shown)
        pulled = None if self.block.penalty.smooth else pull
        state = replace(state, rounds=state.rounds + 1, asked=broadcast.round, again=False, questions=0, pull=pulled)
        state, report = self._report(state, orders, g, pull, y, missing)
        return state, Share(broadcast.round, image, report.pack())

    def _asked(self, state: SubspacePartyState, c: Array) -> tuple[SubspacePartyState, Answer]:
        """What the penalty would be after the step c, and a parabola seen from there."""
        penalty, basis = self.block.penalty, self._basis(state)
        if penalty.smooth:  # asked together with others, because of their kinks
            model, _ = described(penalty, basis, np.zeros_like(state.x))
            return state, Answer(1.0, 1.0, model.value(c), model)
        assert state.pull is not None
        assert state.rounding is not None
        reply, rounding = answer(penalty, basis, c, state.pull, state.rounding)
        return replace(state, rounding=rounding), reply

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
            state = replace(state, x=self._cleaned(state, orders, self._weights(state, orders, g), pull))
        report = self._measured(state, g, pull, state.x, None)
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
        """The last one is remembered: it serves for all questions of a round."""
        known = self._known_basis
        if known is not None and known.y is state.target and known.x is state.x:
            return known
        newest = state.direction[None]
        rows = np.vstack([state.x[None], state.directions, newest] if state.dropped else [state.directions, newest])
        self._known_basis = Basis(state.x, state.target, rows, self.sizes)
        return self._known_basis

    def _report(
        self, state: SubspacePartyState, orders: StepProposal, g: Array, pull: Array, y: Array, missing: Array | None
    ) -> tuple[SubspacePartyState, Description]:
        penalty, d = self.block.penalty, state.direction
        report = self._measured(state, g, pull, y, missing)
        model, rounding = described(penalty, self._basis(state), pull)
        if penalty.smooth:
            # The coordinator takes a smooth penalty for its parabola.
            report = replace(report, reached=model.value(np.append(np.zeros(model.r.size - 1), 1.0)))
            gain = abs(float(pull @ d) + float(model.r[-1]))
            h = penalty.majoriser(state.x, np.zeros_like(state.x)).curvature
            along = state.steps[-orders.memory :] @ (h * d)
        else:
            gain = abs(float(pull @ d) + report.reached - report.penalty)
            along = np.empty(0)
        return replace(state, rounding=rounding), replace(report, gain=gain, model=model, along=along)

    def _measured(
        self, state: SubspacePartyState, g: Array, pull: Array, y: Array, missing: Array | None
    ) -> Description:
        """The party's part of the objective and of its bounds at x; no slopes yet."""
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

    def _weights(self, state: SubspacePartyState, orders: StepProposal, g: Array) -> Array:
        """The loss's curvature at every sample (N,), weighted."""
        return self.sight.curvature(state.x, orders, g, g if state.first is None else state.first)

    def _aimed(
        self, state: SubspacePartyState, orders: StepProposal, w: Array, pull: Array
    ) -> tuple[SubspacePartyState, Array]:
        """y (d,): x and a Newton step on the own block, or a proximal Newton step where the penalty has kinks."""
        features, penalty = self.block.features, self.block.penalty
        others = self._others(state, orders)
        if not penalty.smooth:
            return state, proximal_step(features, penalty, state.x, pull, w, last(others, int(orders.counted)))
        gradient = pull + penalty.gradient(state.x)
        ridge = penalty.majoriser(state.x, np.zeros_like(state.x)).curvature
        crowding = min(1.0, orders.width / features.rows)
        # The others' unexplored features look like one more ridge; they matter where features are as many as samples.
        h = (1 + min(_CROWDING * state.rounds, _MOST_CROWDING) * crowding) * ridge
        state, curvature = self._curvature(state, w, h)
        # Along every total step the objective is already flat, so the others' slope is the opposite of one's own.
        own = state.steps[[name - state.rounds for name in others.names if name >= 0]]
        k, free = len(own), len(others.moves) - len(own)
        penalty_gram = np.pad(others.total - (own * ridge) @ own.T, (0, free)) if k else np.zeros((free, free))
        slope = np.append(-(own @ gradient), np.zeros(free))
        others = replace(others, penalty=penalty_gram, gradient=slope)
        if state.rounds >= _SETTLED:
            others = with_constant(curvature, others)
        found = newton_direction(curvature, w, h, gradient, others, state.rounds >= _EARLY)
        same_work = found.overlap > _SAME_WORK - _SAME_WORK_CROWDED * crowding
        if same_work and state.rounds >= _EARLY and state.rounds % 2 and ridge.min() > 0:
            return state, state.x + (1 - _LEAN) * found.step - _LEAN * gradient / h
        return state, state.x + found.step

    def _applied(self, state: SubspacePartyState, orders: StepProposal, g: Array | None) -> SubspacePartyState:
        """Take the step that the coordinator chose, and note how the others moved meanwhile, where g (N,) shows it."""
        if state.pulled:
            return self._chosen(state, orders.coefficients) if g is not None else state
        if state.first is None or state.last is None or not orders.coefficients.size:
            return replace(state, corrected=None)
        basis, c = self._basis(state), orders.coefficients
        x = orders.scale * basis.point(c)
        images, known = state.images, state.known
        own = self._own_move(state, orders, x)
        if self.keeps:
            images, known = np.vstack([images, state.image])[-orders.memory :], known + own
        if self.others_kept:
            state = self._watched(state, orders, g, own)
        keep = max(self.others_kept, orders.memory)
        return replace(
            state,
            x=x,
            directions=np.vstack([state.directions, state.direction])[-orders.memory :],
            images=images,
            dropped=state.dropped or len(state.directions) >= orders.memory,
            steps=np.vstack([state.steps, x - state.x])[-keep:],
            total_gram=grown(state.total_gram, orders.gram_row)[-keep:, -keep:],
            known=known,
            rounding=None,
        )

    def _watched(
        self, state: SubspacePartyState, orders: StepProposal, g: Array | None, own: Array
    ) -> SubspacePartyState:
        """With the others' last move as g shows it, the party having moved its scores by own (N,)."""
        assert state.first is not None
        assert state.last is not None
        shown = np.zeros_like(own) if g is None else self.sight.others_move(orders, state.first, state.last, g, own)
        return replace(state, others=np.vstack([state.others, shown])[-self.others_kept :])

    def _own_move(self, state: SubspacePartyState, orders: StepProposal, x: Array) -> Array:
        """By how much the party's scores change (N,) with the step to x, as the coordinator has it."""
        if not self.keeps:
            return self.block.features.forward(x - state.x) if self.others_kept else np.empty(0)
        c = orders.coefficients
        own = c[-len(state.images) - 1 : -1] @ state.images + c[-1] * state.image
        own += (c[0] if state.dropped else 0.0) * state.known
        return np.asarray(orders.scale * (state.known + own) - state.known)

    def _curvature(self, state: SubspacePartyState, w: Array, h: Array) -> tuple[SubspacePartyState, Curvature]:
        """H at these weights, factorised again once the samples' weights have changed enough to matter."""
        f = self.block.features
        cheap = f.rows * f.columns**2 <= SMALL
        if state.factored is None or cheap or _changed(state.factored[0], w) > _STALE:
            state = replace(state, factored=(self.block.workspace.kept(w), h))
        elif _changed(state.factored[1], h) > _STALE:
            state = replace(state, factored=(state.factored[0], h))
        return state, self._factor(state)

    def _factor(self, state: SubspacePartyState) -> Curvature:
        """H as it was last factorised."""
        assert state.factored is not None
        if self._inverse is None or self._inverse.h is not state.factored[1]:
            self._inverse = Curvature(self.block.features, *state.factored, self.block.penalty.ridge, self._inverse)
        return self._inverse

    def _others(self, state: SubspacePartyState, orders: StepProposal) -> Others:
        """The others' moves that amount to something; last, the intercept."""
        k = len(state.others)
        energy = np.einsum("kn,kn->k", state.others, state.others)
        alive = np.flatnonzero(energy > _FAINT * float(energy.max(initial=0.0)))
        moves, names = state.others[alive], tuple(int(name) for name in alive + state.rounds - k)
        total = state.total_gram[np.ix_(alive - k, alive - k)]
        others = Others(moves, names, total, np.zeros((len(moves),) * 2), np.zeros(len(moves)))
        return others.and_constant() if orders.intercept else others


def _changed(old: Array, new: Array) -> float:
    differs = sum(by_parts(lambda rows: float(np.abs(new[rows] - old[rows]).sum()), new.size))
    return differs / max(float(old.sum()), 1e-300)


def grown(gram: Array, row: Array) -> Array:
    """A Gram matrix with one more row, whose products with the oldest vectors are not known and taken as 0."""
    n = len(gram) + 1
    grown = np.zeros((n, n))
    grown[:-1, :-1] = gram
    grown[-1, n - row.size :] = row
    grown[n - row.size :, -1] = row
    return grown
