"""The party's half of the subspace method."""

from dataclasses import dataclass, replace

import numpy as np

from plait.losses import Seen
from plait.messages import Broadcast, Share
from plait.methods.base import Block, PartySide
from plait.methods.direction import Curvature, Others, Preconditioner, newton_direction, proximal_direction
from plait.methods.subspace_messages import FAR, NO_BOUND, Model, Orders, Report
from plait.penalties import Parabola
from plait.types import Array

MODELS = 6
"""Parabolas of a penalty with kinks: centred at x and at x + d, kinks rounded more and less."""
_WIDTHS = (1.0, 0.1, 0.01)
_LEAST_WIDTH = 1e-4

_OTHERS, _OTHERS_BYTES = 40, 2**26
_CURVATURE_FLOOR, _KINK_FLOOR = 4e-3, 1e-4
_MOST_CROWDED = 20
_FAINT = 1e-12
_ROUNDING = 1e-6

_CHEAP_GRAM = 5e9


@dataclass(frozen=True)
class PartyState:
    """x (d,), its last steps (k, d) and direction (d,); the others' moves (k, N); the first and last gradient (N,)."""

    x: Array
    steps: Array
    direction: Array
    others: Array
    total_gram: Array
    first: Array | None = None
    last: Array | None = None
    factored: tuple[Array, Array] | None = None
    """The weights and the ridge that the preconditioner was made with."""
    rounds: int = 0


class SubspaceParty(PartySide):
    """Applies the step it is told, then sends the image of a direction that knows how the others have moved."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.others_kept = int(min(_OTHERS, _OTHERS_BYTES // (8 * block.features.rows)))
        self.per_sample = np.where(block.weights > 0, block.weights, 1.0)
        self._inverse: tuple[Array, Preconditioner] | None = None

    def start(self) -> PartyState:
        d, n = self.block.features.columns, self.block.features.rows
        return PartyState(np.zeros(d), np.empty((0, d)), np.zeros(d), np.empty((0, n)), np.empty((0, 0)))

    def weights(self, state: PartyState) -> Array:
        return state.x

    def respond(self, state: PartyState, broadcast: Broadcast) -> tuple[PartyState, Share]:
        g = broadcast.vector
        assert g is not None
        orders = Orders.unpack(broadcast.scalars)
        state = self._applied(state, orders, g)
        features, penalty = self.block.features, self.block.penalty
        gradient = features.adjoint(g)
        stationarity, here = self.block.stationarity(state.x, gradient), penalty.value(state.x)
        if broadcast.closing:
            report = Report(here, here, here, stationarity, 0.0, features.columns, not penalty.smooth)
            return state, Share(broadcast.round, None, report.pack())
        state, direction = self._direction(state, orders, g, gradient)
        there = penalty.value(state.x + direction)
        slope = float(penalty.gradient(state.x) @ direction) if penalty.smooth else there - here
        gain = -float(gradient @ direction) - slope
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
        state = replace(state, direction=direction, first=first, last=g, rounds=state.rounds + 1)
        return state, Share(broadcast.round, features.forward(direction), report.pack())

    def _beyond(self, x: Array) -> float:
        """The penalty at x, if x is allowed."""
        penalty = self.block.penalty
        allowed = penalty.feasible is None or np.array_equal(penalty.feasible.project(x), x)
        return penalty.value(x) if allowed else NO_BOUND

    def _direction(self, state: PartyState, orders: Orders, g: Array, gradient: Array) -> tuple[PartyState, Array]:
        """A Newton step on the own block, or a proximal Newton step where the penalty has kinks."""
        features, penalty = self.block.features, self.block.penalty
        seen = self._seen(g, state.first if state.first is not None else g, orders.start)
        floor = max(_CURVATURE_FLOOR * float(seen.curvature.mean()), 1e-300 if self.block.loss.smooth else _KINK_FLOOR)
        w = orders.stiffness * self.block.weights * np.maximum(seen.curvature, floor)
        if not penalty.smooth:
            others = self._others(state, orders, np.zeros(len(state.steps)), w, np.zeros_like(state.x))
            return state, proximal_direction(features, penalty, state.x, gradient, w, others)
        gradient = gradient + penalty.gradient(state.x)
        h = penalty.majoriser(state.x, np.zeros_like(state.x)).curvature
        # The others' unexplored features look like one more ridge; they matter where features are as many as samples.
        crowded = 1 + min(state.rounds, _MOST_CROWDED) * min(1.0, orders.width / features.rows)
        state, curvature = self._curvature(state, w, crowded * h)
        # Along every total step the objective is already flat, so the others' slope is the opposite of one's own.
        others = self._others(state, orders, -(state.steps @ gradient), w, h)
        return state, newton_direction(curvature, gradient, others)

    def _applied(self, state: PartyState, orders: Orders, g: Array) -> PartyState:
        """Take the step that the coordinator chose, and note how the others moved meanwhile."""
        if state.first is None or state.last is None:
            return state
        kept = orders.coefficients.size - 1
        step = orders.coefficients @ np.vstack([state.steps[len(state.steps) - kept :], state.direction])
        keep = max(self.others_kept, orders.memory)
        others = state.others
        if self.others_kept:
            before, after = (self._seen(v, state.first, orders.start) for v in (state.last, g))
            own = self.block.features.forward(step)
            moved = after.score - before.score - own
            # A move that shows on some samples only, or is mere rounding of the party's own, would mislead.
            clear = (before.known & after.known).all() and np.linalg.norm(moved) > _ROUNDING * np.linalg.norm(own)
            others = np.vstack([others, moved if clear else np.zeros_like(moved)])
        return replace(
            state,
            x=state.x + step,
            steps=np.vstack([state.steps, step])[-keep:],
            others=others[-self.others_kept :] if self.others_kept else others,
            total_gram=_grown(state.total_gram, orders.gram_row)[-keep:, -keep:],
        )

    def _seen(self, g: Array, first: Array, start: float) -> Seen:
        return self.block.loss.seen(g / self.per_sample, first / self.per_sample, start)

    def _curvature(self, state: PartyState, w: Array, h: Array) -> tuple[PartyState, Curvature]:
        """H at these weights; a large matrix is factorised again only in rounds 1, 2, 4, 8, ..."""
        f = self.block.features
        cheap = f.rows * f.columns**2 <= _CHEAP_GRAM
        fresh = state.factored is None or cheap or not f.primal_fits or state.rounds & (state.rounds - 1) == 0
        if fresh:
            state = replace(state, factored=(w, h))
        assert state.factored is not None
        if self._inverse is None or self._inverse[0] is not state.factored[0]:
            self._inverse = (state.factored[0], Preconditioner(f, *state.factored))
        return state, Curvature(f, w, h, self._inverse[1], exact=fresh and f.primal_fits)

    def _others(self, state: PartyState, orders: Orders, slope: Array, w: Array, h: Array) -> Others | None:
        """The others' moves that amount to something, with penalty and slope along them; last, the intercept."""
        k = len(state.others)
        moves = state.others
        energy = np.einsum("kn,kn,n->k", moves, moves, w)
        alive = energy > _FAINT * float(energy.max(initial=0.0))
        moves, slope = moves[alive], slope[len(slope) - k :][alive]
        own = state.steps[len(state.steps) - k :]
        penalty = np.zeros((len(moves),) * 2)
        if h.any():
            penalty = (state.total_gram[-k:, -k:] - (own * h) @ own.T)[np.ix_(alive, alive)] if k else penalty
        if orders.intercept:
            moves = np.vstack([moves, np.ones(w.size)])
            slope, penalty = np.append(slope, 0.0), np.pad(penalty, (0, 1))
        return Others(moves, penalty, slope) if len(moves) else None

    def _models(self, x: Array, direction: Array, basis: Array, wanted: int) -> tuple[Model, ...]:
        """Parabolas above the penalty along the basis; a smooth penalty has one, repeated where more are wanted."""
        penalty = self.block.penalty
        if penalty.smooth:
            return (self._model(x, basis, x, np.zeros_like(x)),) * max(wanted, 1)
        if wanted == 0:
            return ()
        reach = np.abs(direction) + _LEAST_WIDTH * float(np.abs(direction).max(initial=0.0)) + 1e-14
        return tuple(self._model(x, basis, centre, width * reach) for centre in (x + direction, x) for width in _WIDTHS)

    def _model(self, x: Array, basis: Array, centre: Array, width: Array) -> Model:
        over = self.block.penalty.majoriser(centre, width)
        h = over.curvature
        if self.block.penalty.feasible is not None:
            over = Parabola(NO_BOUND, h)  # no parabola lies above a wall
        return Model(over.constant + float(h @ (x * x)) / 2, basis @ (h * x), (basis * h) @ basis.T)


def _grown(gram: Array, row: Array) -> Array:
    """A Gram matrix with one more row, whose products with the oldest vectors are not known and taken as 0."""
    n = len(gram) + 1
    grown = np.zeros((n, n))
    grown[:-1, :-1] = gram
    grown[-1, n - row.size :] = row
    grown[n - row.size :, -1] = row
    return grown
