"""Where a party aims: a Newton step on its own block, from what it sees of the loss and of the others' moves."""

from typing import ClassVar

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Block
from plait.methods.subspace.curvature import SMALL, Curvature
from plait.methods.subspace.direction import Others, last, newton_direction, proximal_step, with_constant
from plait.methods.subspace.messages import StepProposal
from plait.methods.subspace.party_state import Stack, SubspacePartyState
from plait.methods.subspace.sight import OpenGradient, Sight
from plait.problem.row_blocks import by_parts

_OTHERS, _OTHERS_BYTES = 40, 2**26  # of the others' moves, how many are kept, and in how many bytes
_CROWDING, _MOST_CROWDING = 0.5, 8
"""The ridge is taken 1 + c times.  c grows by the first number a round, up to the second; then it is multiplied by the
number of all parties' columns per row, 1 at most."""
_SETTLED = 4
"""Rounds after which the sizes of the steps are right, so that it is worth asking who carries a constant."""
_EARLY = 7
"""Rounds in which the loss's curvature still changes much: Newton steps are worth more care there."""
_SAME_WORK, _SAME_WORK_CROWDED, _LEAN = 0.995, 0.4, 0.2
"""The part of the others' latest moves that this party could have made itself: above the first number, less the second
where there are as many columns as rows, Newton steps alone stall.  In every other step steepest descent, the
Newton step of a party that leaves all curvature to the others, then has the weight of the third number."""
_NO_WIDTH = 1e-150  # of a kink: a weight at it does not give way
_MOST_SHARED = 1e5  # times: below this part of the loss's curvature its own rounding shows
_FAINT = 1e-12  # of the strongest of the others' moves, squared: weaker ones are rounding
STALE = 0.3
"""By how much the loss's curvature, or the ridge, may change, relatively, before a factorisation is made anew."""


class Aim:
    """Chooses the point y that a party would go to if it were alone, but for what the others' past moves can do."""

    stale_small: ClassVar[float] = 0.03
    """The same for small tables, where that is cheap: with more the last digits of the weights come later."""

    def __init__(self, block: Block, sight: Sight | None = None) -> None:
        self.block = block
        kept = int(min(_OTHERS, _OTHERS_BYTES // (8 * block.features.rows)))
        self.sight: Sight = OpenGradient(block, remembers=kept > 0) if sight is None else sight
        self.others_kept = kept if self.sight.shows_moves else 0
        self._inverse: Curvature | None = None
        self._moves = Stack()

    def weights(self, state: SubspacePartyState, orders: StepProposal, g: Array) -> Array:
        """The loss's curvature at every row (N,), weighted."""
        return self.sight.curvature(state.x, orders, g, g if state.first is None else state.first)

    def taken(
        self, state: SubspacePartyState, orders: StepProposal, w: Array, pull: Array
    ) -> tuple[SubspacePartyState, Array]:
        """y (d,): x and a Newton step on the own block, or a proximal Newton step where the penalty has kinks."""
        features, penalty = self.block.features, self.block.penalty
        others = self.others(state, orders)
        if not penalty.smooth:
            w = self._shared(w, state.x, orders.width)
            return state, proximal_step(features, penalty, state.x, pull, w, last(others, int(orders.counted)))
        gradient = pull + penalty.gradient(state.x)
        if penalty.quadratic:
            ridge = np.full(state.x.size, penalty.ridge)
        else:
            ridge = penalty.majoriser(state.x, np.zeros_like(state.x)).curvature
        crowding = min(1.0, orders.width / features.rows)
        # The others' unexplored columns look like one more ridge; they matter where columns are as many as rows.
        h = (1 + min(_CROWDING * state.rounds, _MOST_CROWDING) * crowding) * ridge
        state, curvature = self._curvature(state, w, h)
        others = self._sloped(others, state, ridge, gradient)
        if state.rounds >= _SETTLED:
            others = with_constant(curvature, others)
        found = newton_direction(curvature, w, h, gradient, others, state.rounds >= _EARLY)
        same_work = found.overlap > _SAME_WORK - _SAME_WORK_CROWDED * crowding
        if same_work and state.rounds >= _EARLY and state.rounds % 2 and ridge.min() > 0:
            return state, state.x + (1 - _LEAN) * found.step - _LEAN * gradient / h
        return state, state.x + found.step

    def _shared(self, w: Array, x: Array, width: float) -> Array:
        """The loss's curvatures (N,) where others answer every move:  1 / (1/w + S).

        S is how far their scores give way to a slope, sum_j D_ij^2 / h_j for their columns j, with h_j the curvature of
        the penalty: as the party's own do at x (d,), in proportion to their columns.  Where there are as many columns
        as rows, others can follow every move, and without this each party would keep all that it has.
        """
        features, penalty = self.block.features, self.block.penalty
        if width < features.rows:
            return w
        low, high = penalty.bounds(x.size)
        free = (x > low) & (x < high)
        with np.errstate(over="ignore"):
            h = penalty.majoriser(x, np.full(x.size, _NO_WIDTH)).curvature
        gives = float((features.column_squares * free / np.maximum(h, _NO_WIDTH)).sum()) / features.rows
        return w / np.minimum(1 + w * gives * (width - x.size) / x.size, _MOST_SHARED)

    def _sloped(self, others: Others, state: SubspacePartyState, ridge: Array, gradient: Array) -> Others:
        """The others' moves with their penalty and slope along them, as far as the party can tell."""
        kept = [name - state.rounds for name in others.names if name >= 0]
        k, size = len(kept), len(others.names)
        if not k:
            return others
        own = state.steps[-k:] if kept == list(range(-k, 0)) else state.steps[kept]
        penalty, slope = np.zeros((size, size)), np.zeros(size)
        penalty[:k, :k] = others.total - (own * ridge) @ own.T
        # Along every total step the objective is already flat, so the others' slope is the opposite of one's own.
        slope[:k] = -(own @ gradient)
        return Others(others.moves, others.names, others.total, penalty, slope)

    def watched(
        self, state: SubspacePartyState, orders: StepProposal, g: Array | None, own: Array
    ) -> SubspacePartyState:
        """The state with the others' last move, as g (N,) shows it; the party itself moved the scores by own (N,)."""
        assert state.first is not None
        assert state.last is not None
        shown = np.zeros_like(own) if g is None else self.sight.others_move(orders, state.first, state.last, g, own)
        return replace(state, others=self._moves.put(state.others, shown, self.others_kept))

    def _curvature(self, state: SubspacePartyState, w: Array, h: Array) -> tuple[SubspacePartyState, Curvature]:
        """H at curvatures w (N,) and ridge h (d,), factorised again once either has changed enough to matter."""
        f = self.block.features
        stale = self.stale_small if f.rows * f.columns**2 <= SMALL else STALE
        if state.factored is None or changed(state.factored[0], w) > stale:
            state = replace(state, factored=(self.block.workspace.kept(w), h))
        elif changed(state.factored[1], h) > stale:
            state = replace(state, factored=(state.factored[0], h))
        return state, self.factor(state)

    def factor(self, state: SubspacePartyState) -> Curvature:
        """H as it was last factorised."""
        assert state.factored is not None
        if self._inverse is None or self._inverse.h is not state.factored[1]:
            self._inverse = Curvature(self.block.features, *state.factored, self.block.penalty.ridge, self._inverse)
        return self._inverse

    def others(self, state: SubspacePartyState, orders: StepProposal) -> Others:
        """The others' moves that amount to something; last, the intercept."""
        k = len(state.others)
        energy = np.matmul(state.others[:, None], state.others[:, :, None]).ravel()
        if k and float(energy.min()) > _FAINT * float(energy.max()):
            moves, names = state.others, tuple(range(state.rounds - k, state.rounds))
            total = state.total_gram[-k:, -k:]
        else:
            alive = np.flatnonzero(energy > _FAINT * float(energy.max(initial=0.0)))
            moves, names = state.others[alive], tuple((alive + (state.rounds - k)).tolist())
            total = state.total_gram[(alive - k)[:, None], alive - k]
        found = Others(moves, names, total, np.zeros((len(moves),) * 2), np.zeros(len(moves)))
        return found.and_constant() if orders.intercept else found


def changed(old: Array, new: Array) -> float:
    """By how much curvatures, or a ridge, differ, of their sum."""
    differs = sum(by_parts(lambda rows: float(np.abs(new[rows] - old[rows]).sum()), new.size))
    return differs / max(float(old.sum()), 1e-300)
