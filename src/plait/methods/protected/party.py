"""The party's half of the subspace method."""

from dataclasses import dataclass, replace

import numpy as np

from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block, PartySide
from plait.methods.protected.checks import check_orders
from plait.methods.protected.messages import FAR, NO_BOUND, Bound, Orders, Report
from plait.methods.subspace.checks import check_gradient
from plait.methods.subspace.curvature import SMALL, Curvature
from plait.methods.subspace.direction import Others, newton_direction, proximal_step, with_constant
from plait.problem.losses import Seen
from plait.problem.penalties import Parabola

MODELS = 6
"""Parabolas of a penalty with kinks: centred at x and at x + d, kinks rounded more and less."""
_WIDTHS = (1.0, 0.1, 0.01)
_LEAST_WIDTH = 1e-4

_OTHERS, _OTHERS_BYTES = 40, 2**26
_CURVATURE_FLOOR, _KINK_FLOOR = 4e-3, 1e-4
_CROWDING, _MOST_CROWDING = 0.5, 8
"""By how many times the ridge grows each round, and at the most, for others with as many features as samples."""
_SETTLED = 4
"""Rounds after which the sizes of the steps are right, so that it is worth asking who carries a constant."""
_EARLY = 7
"""Rounds in which the samples' weights still change much: Newton steps are worth more care there."""
_SAME_WORK, _SAME_WORK_CROWDED, _LEAN = 0.995, 0.4, 0.2
"""Where others can do the same work as this party, up to so much of it, every other step leans to steepest descent:
that is the Newton step of a party that leaves all curvature to the others.  Newton steps alone would stall."""
_FAINT = 1e-12
_ROUNDING = 1e-6

_STALE = 0.3
"""By how much the samples' weights, or the ridge, may change, relatively, before a factorisation is made anew."""


@dataclass(frozen=True)
class BoundedPartyState:
    """x (d,), its last steps (k, d) and direction (d,), their images, the others' moves (k, N); two gradients (N,).

    Images are as the coordinator has them.
    """

    x: Array
    steps: Array
    direction: Array
    image: Array
    others: Array
    owns: Array
    total_gram: Array
    first: Array | None = None
    last: Array | None = None
    factored: tuple[Array, Array] | None = None
    """The weights and the ridge that the preconditioner was made with."""
    rounds: int = 0
    known: Array | None = None
    """The party's scores as the coordinator has them (N,), where images are rounded on their way."""


class BoundedParty(PartySide):
    """Applies the step it is told, then sends the image of a direction that knows how the others have moved."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.others_kept = int(min(_OTHERS, _OTHERS_BYTES // (8 * block.features.rows)))
        self.per_sample = np.where(block.weights > 0, block.weights, 1.0)
        self._inverse: Curvature | None = None
        self._memo: list[tuple[Array, Seen]] = []

    def start(self) -> BoundedPartyState:
        d, n = self.block.features.columns, self.block.features.rows
        none = np.empty((0, n))
        return BoundedPartyState(np.zeros(d), np.empty((0, d)), np.zeros(d), np.zeros(n), none, none, np.empty((0, 0)))

    def weights(self, state: BoundedPartyState) -> Array:
        return state.x

    def shown(self, state: BoundedPartyState) -> int:
        return int(np.count_nonzero(state.direction))

    def check(self, state: BoundedPartyState, broadcast: Broadcast) -> None:
        begun = state.first is not None
        steps = len(state.steps) + 1 if begun else 0
        check_orders(self.block, broadcast, steps, len(state.total_gram) + 1 if begun else 0, MODELS)
        assert broadcast.vector is not None
        check_gradient(self.block, broadcast.vector, state.first, broadcast.step)

    def respond(self, state: BoundedPartyState, broadcast: Broadcast) -> tuple[BoundedPartyState, Share]:
        g = broadcast.vector
        assert g is not None
        orders = Orders.unpack(broadcast.scalars)
        state = self._applied(state, orders, g)
        features, penalty = self.block.features, self.block.penalty
        unknown = self._unknown(state, g)
        if broadcast.closing:
            gradient = features.adjoint(g)
            here = penalty.value(state.x)
            stationarity = self.block.stationarity(state.x, gradient)
            report = Report(here, here, here, stationarity, 0.0, features.columns, not penalty.smooth)
            return state, Share(broadcast.round, None, report.raised(unknown).pack())
        w = self._weights(state, orders, g)
        others = self._others(state, orders)
        gradient = features.adjoint(g)
        stationarity, here = self.block.stationarity(state.x, gradient), penalty.value(state.x)
        state, direction = self._direction(state, orders, w, gradient, others)
        there = penalty.value(state.x + direction)
        slope = float(penalty.gradient(state.x) @ direction) if penalty.smooth else there - here
        # Where the coordinator stopped short of the minimum, an own slope may point uphill: something is left to gain.
        gain = abs(-float(gradient @ direction) - slope)
        basis = np.vstack([state.steps[-orders.memory :], direction])
        models = self._models(state.x, direction, basis, orders.models)
        report = Report(
            here,
            there,
            self._beyond(state.x + FAR * direction),
            stationarity,
            gain,
            features.columns,
            not penalty.smooth,
            models,
        )
        first = g if state.first is None else state.first
        image = features.forward(direction)
        state = replace(state, direction=direction, image=image, first=first, last=g, rounds=state.rounds + 1)
        return state, Share(broadcast.round, image, report.raised(unknown).pack())

    def arrived(self, state: BoundedPartyState, vector: Array) -> BoundedPartyState:
        if not self.others_kept:
            return state  # so many samples that no images are kept, and rounding averages out
        return replace(state, image=vector, known=np.zeros_like(vector) if state.known is None else state.known)

    def _unknown(self, state: BoundedPartyState, g: Array) -> float:
        """By how much the loss is higher at the party's scores than at those that the coordinator has, to first order.

        What the party states as its penalty includes this, and so the objective is the true one.
        """
        return 0.0 if state.known is None else float(g @ (self.block.features.forward(state.x) - state.known))

    def _beyond(self, x: Array) -> float:
        """The penalty at x, if x is allowed."""
        penalty = self.block.penalty
        allowed = penalty.feasible is None or np.array_equal(penalty.feasible.project(x), x)
        return penalty.value(x) if allowed else NO_BOUND

    def _weights(self, state: BoundedPartyState, orders: Orders, g: Array) -> Array:
        """The loss's curvature at every sample (N,), weighted, as the gradient shows it."""
        curvature = self._seen(g, state.first if state.first is not None else g, orders.start).curvature
        floor = max(_CURVATURE_FLOOR * float(curvature.mean()), 1e-300 if self.block.loss.smooth else _KINK_FLOOR)
        return orders.stiffness * self.block.weights * np.maximum(curvature, floor)

    def _direction(
        self, state: BoundedPartyState, orders: Orders, w: Array, gradient: Array, others: Others
    ) -> tuple[BoundedPartyState, Array]:
        """A Newton step on the own block, or a proximal Newton step where the penalty has kinks."""
        features, penalty = self.block.features, self.block.penalty
        if not penalty.smooth:
            return state, proximal_step(features, penalty, state.x, gradient, w, others) - state.x
        gradient = gradient + penalty.gradient(state.x)
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
            return state, (1 - _LEAN) * found.step - _LEAN * gradient / h
        return state, found.step

    def _applied(self, state: BoundedPartyState, orders: Orders, g: Array) -> BoundedPartyState:
        """Take the step that the coordinator chose, and note how the others moved meanwhile."""
        if state.first is None or state.last is None:
            return state
        kept = orders.coefficients.size - 1
        step = orders.coefficients @ np.vstack([state.steps[len(state.steps) - kept :], state.direction])
        keep = max(self.others_kept, orders.memory)
        others, owns, known = state.others, state.owns, state.known
        if self.others_kept:
            before, after = (self._seen(v, state.first, orders.start) for v in (state.last, g))
            own = self._own_image(state, orders.coefficients, step)
            known = None if known is None else known + own
            moved = after.score - before.score - own
            # A move that shows on some samples only, or is mere rounding of the party's own, would mislead.
            clear = (before.known & after.known).all() and np.linalg.norm(moved) > _ROUNDING * np.linalg.norm(own)
            others = np.vstack([others, moved if clear else np.zeros_like(moved)])[-self.others_kept :]
            owns = np.vstack([owns, own])[-self.others_kept :]
        return replace(
            state,
            x=state.x + step,
            steps=np.vstack([state.steps, step])[-keep:],
            others=others,
            owns=owns,
            total_gram=_grown(state.total_gram, orders.gram_row)[-keep:, -keep:],
            known=known,
        )

    def _own_image(self, state: BoundedPartyState, coefficients: Array, step: Array) -> Array:
        """The step as it shows at the coordinator: from the images of the past steps where they are all kept."""
        past = coefficients.size - 1
        if past > len(state.owns):
            return self.block.features.forward(step)
        return coefficients[:-1] @ state.owns[len(state.owns) - past :] + coefficients[-1] * state.image

    def _seen(self, g: Array, first: Array, start: float) -> Seen:
        """What g shows; the last two are remembered, as each is asked for in two rounds."""
        for known, seen in self._memo:
            if known is g:
                return seen
        seen = self.block.loss.seen(g / self.per_sample, first / self.per_sample, start)
        self._memo = [*self._memo[-1:], (g, seen)]
        return seen

    def _curvature(self, state: BoundedPartyState, w: Array, h: Array) -> tuple[BoundedPartyState, Curvature]:
        """H at these weights, factorised again once the samples' weights have changed enough to matter."""
        f = self.block.features
        cheap = f.rows * f.columns**2 <= SMALL
        if state.factored is None or cheap or _changed(state.factored[0], w) > _STALE:
            state = replace(state, factored=(w, h))
        elif _changed(state.factored[1], h) > _STALE:
            state = replace(state, factored=(state.factored[0], h))
        assert state.factored is not None
        if self._inverse is None or self._inverse.h is not state.factored[1]:
            self._inverse = Curvature(f, *state.factored, self.block.penalty.ridge, self._inverse)
        return state, self._inverse

    def _others(self, state: BoundedPartyState, orders: Orders) -> Others:
        """The others' moves that amount to something; last, the intercept."""
        k = len(state.others)
        energy = np.einsum("kn,kn->k", state.others, state.others)
        alive = np.flatnonzero(energy > _FAINT * float(energy.max(initial=0.0)))
        moves, names = state.others[alive], tuple(int(name) for name in alive + state.rounds - k)
        total = state.total_gram[np.ix_(alive - k, alive - k)]
        others = Others(moves, names, total, np.zeros((len(moves),) * 2), np.zeros(len(moves)))
        return others.and_constant() if orders.intercept else others

    def _models(self, x: Array, direction: Array, basis: Array, wanted: int) -> tuple[Bound, ...]:
        """Parabolas above the penalty along the basis; a smooth penalty has one, repeated where more are wanted."""
        penalty = self.block.penalty
        if penalty.smooth:
            return (self._model(x, basis, x, np.zeros_like(x)),) * max(wanted, 1)
        if wanted == 0:
            return ()
        size = np.sqrt(np.where(self.block.features.column_squares > 0, self.block.features.column_squares, 1.0))
        reach = np.abs(direction) + (_LEAST_WIDTH * float((np.abs(direction) * size).max()) + 1e-14) / size
        return tuple(self._model(x, basis, centre, width * reach) for centre in (x + direction, x) for width in _WIDTHS)

    def _model(self, x: Array, basis: Array, centre: Array, width: Array) -> Bound:
        over = self.block.penalty.majoriser(centre, width)
        h = over.curvature
        if self.block.penalty.feasible is not None:
            over = Parabola(NO_BOUND, h)  # no parabola lies above a wall
        return Bound(over.constant + float(h @ (x * x)) / 2, basis @ (h * x), (basis * h) @ basis.T)


def _changed(old: Array, new: Array) -> float:
    return float(np.abs(new - old).sum() / max(float(old.sum()), 1e-300))


def _grown(gram: Array, row: Array) -> Array:
    """A Gram matrix with one more row, whose products with the oldest vectors are not known and taken as 0."""
    n = len(gram) + 1
    grown = np.zeros((n, n))
    grown[:-1, :-1] = gram
    grown[-1, n - row.size :] = row
    grown[n - row.size :, -1] = row
    return grown
