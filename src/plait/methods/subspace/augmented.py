"""The augmented Lagrangian over the subspace method: for losses with kinks.

With a copy s of the scores z, the kinked loss is rounded off to its envelope,

    env(z + u) = min over s of   loss(s) + (rho/2) (z + u - s)^2,

which is smooth, and the subspace method minimises env plus penalties in few rounds.  Then u <- u + z - s, rho grows,
and again.  Parties notice nothing: they see gradients, as ever.  The minimum of env plus penalties, less
(rho/2)|u|^2, is a lower bound on the optimum, so that a run ends by its duality gap.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from plait._checks import need_types
from plait._types import Array
from plait.errors import SettingError
from plait.messages import Broadcast, Share
from plait.methods.base import Block, CoordinatorSide, Measured, Method, PartySide, Task, need_positive
from plait.methods.subspace.coordinator import SubspaceCoordinator
from plait.methods.subspace.coordinator_state import SubspaceState
from plait.methods.subspace.method import Subspace
from plait.methods.subspace.party import SubspaceParty
from plait.problem.losses import Envelope, Loss
from plait.problem.penalties import Penalty
from plait.problem.row_blocks import by_parts

_GROWTH, _MOST_GROWTH = 3.0, 1e4  # times rho, whenever the envelope moves; times the first rho, in all
_MOST_CROWDED = 243.0
"""The same where there are as many columns as rows: many parties can then move every score, and the minimum of a
steeper envelope takes them hundreds of rounds."""
_INNER, _NO_MORE = 0.05, 3e-3
"""Of the gap that the envelope leaves: after a round that gains less the envelope moves.  The first number holds where
a dual point proves that the envelope is minimised well enough, the second where none does."""
_NO_GAP = 1e-7  # of the objective: where the envelope leaves no more, only rounding keeps the proof away
_IDLE = 1e-8  # of the objective: where vectors are rounded, a round that gains less leads nowhere
_EASED = 0.1  # times rho, then: slopes are rho times scores, and so is their rounding
_PROVED = 5.0  # times that gap: a dual point that proves so much shows that the envelope is minimised well enough


@dataclass(frozen=True)
class Augmented(Method):
    """Losses with kinks (hinge, quantile) in far fewer rounds than ADMM; rho=None takes the loss's own unit.

    Parameters
    ----------
    rho : float, default=None
        The first weight of the augmentation; None takes the loss's own unit.
    sums_only : bool, default=False
        As for `Subspace`.
    memory : int, default=None
        As for `Subspace`.
    """

    rho: float | None = None
    sums_only: bool = False
    memory: int | None = None

    def __post_init__(self) -> None:
        need_types(self)
        need_positive("Augmented(rho)", self.rho)

    @property
    def subspace(self) -> Subspace:
        return Subspace(self.sums_only, self.memory)

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        if loss.smooth:
            raise SettingError(
                f"Augmented is for losses with kinks. Found {loss!r}, which is smooth. Use plait.Subspace()."
            )
        self.subspace.check_penalties(penalties)

    def exchanges(self, rounds: int, rows: int) -> int:
        return self.subspace.exchanges(rounds, rows)

    def party_side(self, block: Block) -> PartySide:
        return SubspaceParty(block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return AugmentedCoordinator(task, self.rho, self.subspace.coordinator_of)


@dataclass(frozen=True)
class AugmentedState:
    """The inner minimisation, the shift u (N,) and rho, and the state as a whole."""

    inner: SubspaceState
    u: Array
    rho: float
    measured: Measured


class AugmentedCoordinator(CoordinatorSide):
    """Runs the subspace method on the envelope, and moves the envelope when that is minimised well enough."""

    def __init__(
        self, task: Task, rho: float | None, side_of: Callable[[Task, float, Task], SubspaceCoordinator]
    ) -> None:
        """side_of: the subspace method's coordinator for a rounded loss, its stiffness, and the task itself."""
        self.task = task
        self.first_rho = task.loss.stiffness(task.labels, task.weights, task.fit_intercept) if rho is None else rho
        self._side_of = side_of
        self._made: tuple[Array, float, SubspaceCoordinator] | None = None

    def start(self) -> AugmentedState:
        u = np.broadcast_to(np.float64(0.0), (self.task.rows,))  # one number that stands for all takes no memory
        inner = self._side(u, self.first_rho).start()
        return self._measured(AugmentedState(inner, u, self.first_rho, inner.measured), inner.measured)

    def _side(self, u: Array, rho: float) -> SubspaceCoordinator:
        """The subspace method's coordinator on this envelope; it remembers the loss where it was last asked."""
        if self._made is None or self._made[0] is not u or self._made[1] != rho:
            self._made = (u, rho, self._side_of(self._rounded_off(u, rho), rho, self.task))
        return self._made[2]

    def _rounded_off(self, u: Array, rho: float) -> Task:
        """The task with this envelope of its loss."""
        return replace(self.task, loss=Envelope(self.task.loss, rho, u))

    def _of(self, state: AugmentedState) -> SubspaceCoordinator:
        return self._side(state.u, state.rho)

    def requests(self, state: AugmentedState) -> dict[str, Broadcast]:
        return self._of(state).requests(state.inner)

    def told(self, state: AugmentedState, vector: Array) -> AugmentedState:
        return replace(state, inner=self._of(state).told(state.inner, vector))

    def closing(self, state: AugmentedState) -> dict[str, Broadcast]:
        return self._of(state).closing(state.inner)

    def absorb(self, state: AugmentedState, shares: Mapping[str, Share]) -> tuple[AugmentedState, Measured | None]:
        inner, before = self._of(state).absorb(state.inner, shares)
        complete = None if before is None else self._measured(replace(state, inner=state.inner), before).measured
        after = replace(state, inner=inner)
        if inner.spans is not None:
            return after, complete
        after = self._measured(after, inner.measured)
        # The least of the envelope and the penalties, less this, bounds the optimum from below.
        lower = inner.measured.objective - state.rho / 2 * self._shifted(state.u)
        left = after.measured.objective - lower
        # Moved too early, the envelope becomes ever steeper around a point that is not its minimum.
        proved = state.measured.objective - inner.bounds.supposed <= _PROVED * left
        # The slopes of short numbers prove little.
        enough = (_INNER if proved or inner.coarse else _NO_MORE) * left
        idle = _IDLE * abs(state.measured.objective) if inner.rounded else 0.0
        settled = inner.gained <= max(enough, idle)
        return (self._moved(after, left) if settled else after), complete

    def _shifted(self, u: Array) -> float:
        """|u|^2, weighted."""
        return sum(by_parts(lambda rows: float(self.task.weights[rows] @ u[rows] ** 2), u.size))

    def _measured(self, state: AugmentedState, inner: Measured) -> AugmentedState:
        """The objective itself, instead of that with the envelope."""
        z = state.inner.z
        objective = inner.objective - self._rounded_off(state.u, state.rho).mean_loss(z) + self.task.mean_loss(z)
        return replace(state, measured=replace(inner, objective=objective, rho=state.rho))

    def _moved(self, state: AugmentedState, left: float) -> AugmentedState:
        """u <- u + z - s.  rho grows while the envelope leaves a gap.

        Once only rounding is left it falls: slopes hold rho times the rounding of scores.
        """
        task, z = self.task, state.inner.z
        old = Envelope(task.loss, state.rho, state.u)
        growth = _EASED if left <= _NO_GAP * abs(state.measured.objective) else _GROWTH
        most = _MOST_CROWDED if state.inner.width >= task.rows else _MOST_GROWTH
        rho = float(np.clip(growth * state.rho, self.first_rho, most * self.first_rho))

        def shift(rows: slice) -> Array:
            copy = old.of_rows(rows).copy(z[rows], task.labels[rows])
            return np.asarray((state.u[rows] + z[rows] - copy) * (state.rho / rho))

        u = task.vector(shift)
        new = Envelope(task.loss, rho, u)

        def rise(rows: slice) -> float:
            before, after = (loss.of_rows(rows).value(z[rows], task.labels[rows]) for loss in (old, new))
            return float(task.weights[rows] @ (after - before))

        change = sum(by_parts(rise, z.size))
        measured = replace(state.inner.measured, objective=state.inner.measured.objective + change)
        confirmed = state.inner.confirmed + change
        return replace(state, inner=replace(state.inner, measured=measured, confirmed=confirmed), u=u, rho=rho)

    def closed(self, state: AugmentedState, shares: Mapping[str, Share]) -> Measured:
        corrected = replace(state, inner=self._of(state).reopened(state.inner, shares))
        return self._measured(corrected, self._of(state).closed(state.inner, shares)).measured

    def reopened(self, state: AugmentedState, shares: Mapping[str, Share]) -> AugmentedState:
        return replace(state, inner=self._of(state).reopened(state.inner, shares))

    def current(self, state: AugmentedState) -> Measured:
        return state.measured

    def intercept(self, state: AugmentedState) -> float:
        return state.inner.intercept

    def known_scores(self, state: AugmentedState) -> Array:
        return state.inner.z
