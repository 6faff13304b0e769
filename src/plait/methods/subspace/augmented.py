"""The augmented Lagrangian over the subspace method: for losses with kinks.

With a copy s of the scores z, the kinked loss is rounded off to its envelope,

    env(z + u) = min over s of   loss(s) + (rho/2) (z + u - s)^2,

which is smooth, and the subspace method minimises env plus penalties in few rounds.  Then u <- u + z - s, rho grows,
and again.  Parties notice nothing: they see gradients, as ever.  The minimum of env plus penalties, less
(rho/2)|u|^2, is a lower bound on the optimum, so that a run ends by its duality gap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from plait._checks import need_types
from plait._types import Array
from plait.errors import SettingError
from plait.messages import Broadcast, Share
from plait.methods.base import Block, CoordinatorSide, Measured, Method, PartySide, Task, need_positive
from plait.methods.subspace.coordinator import SubspaceCoordinator, SubspaceState
from plait.methods.subspace.method import Subspace
from plait.methods.subspace.party import SubspaceParty
from plait.problem.losses import Envelope, Loss
from plait.problem.penalties import Penalty

_GROWTH, _MOST_GROWTH = 3.0, 1e4
_INNER = 0.05
_LOOK_BACK, _CAUTION = 3, 100.0


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
        walled = [name for name, penalty in penalties.items() if penalty.feasible is not None]
        if walled:
            # Within walls the coordinator can only go back and forth on each party's step, and with kinks that stalls.
            raise SettingError(
                f"Augmented takes no constraints. Found {penalties[walled[0]]!r} at party {walled[0]!r}. {self.remedy}"
            )

    def party_side(self, block: Block) -> PartySide:
        return SubspaceParty(block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return AugmentedCoordinator(self, task)


@dataclass(frozen=True)
class AugmentedState:
    """The inner minimisation, the shift u (N,) and rho, the state as a whole, and its last decreases."""

    inner: SubspaceState
    u: Array
    rho: float
    measured: Measured
    decreases: tuple[float, ...] = ()


class AugmentedCoordinator(CoordinatorSide):
    """Runs the subspace method on the envelope, and moves the envelope when that is minimised well enough."""

    def __init__(self, method: Augmented, task: Task) -> None:
        self.method = method
        self.task = task
        self.first_rho = task.loss.stiffness(task.labels) if method.rho is None else method.rho

    def start(self) -> AugmentedState:
        u = np.zeros(self.task.rows)
        inner = self._side(u, self.first_rho).start()
        return self._measured(AugmentedState(inner, u, self.first_rho, inner.measured), inner.measured.objective)

    def _side(self, u: Array, rho: float) -> SubspaceCoordinator:
        task = replace(self.task, loss=Envelope(self.task.loss, rho, u))
        return self.method.subspace.coordinator_of(task, rho)

    def requests(self, state: AugmentedState) -> dict[str, Broadcast]:
        return self._side(state.u, state.rho).requests(state.inner)

    def closing(self, state: AugmentedState) -> dict[str, Broadcast]:
        return self._side(state.u, state.rho).closing(state.inner)

    def absorb(self, state: AugmentedState, shares: Mapping[str, Share]) -> tuple[AugmentedState, Measured | None]:
        side = self._side(state.u, state.rho)
        inner, before = side.absorb(state.inner, shares)
        assert before is not None
        measured = self._measured(state, before.objective).measured
        dual = before.dual
        if inner.models > 1:
            # On a loss that is nearly kinked, what parties hope for says too much or too little.
            dual = _CAUTION * max(state.decreases, default=np.inf) / max(abs(measured.objective), 1e-300)
        complete = replace(measured, lyapunov=before.lyapunov, dual=dual)
        decreases = (*state.decreases, inner.decreases[-1])[-_LOOK_BACK:]
        after = self._measured(replace(state, inner=inner, decreases=decreases), inner.measured.objective)
        gap = after.measured.primal * max(abs(after.measured.objective), 1e-300)
        return (self._moved(after, gap) if inner.decreases[-1] <= _INNER * gap else after), complete

    def _measured(self, state: AugmentedState, inner_objective: float) -> AugmentedState:
        """The objective itself, and in `primal` its distance from the lower bound, relative."""
        task, z = self.task, state.inner.z
        envelope = task.weights @ Envelope(task.loss, state.rho, state.u).value(z, task.labels)
        objective = inner_objective - float(envelope) + task.mean_loss(z)
        lower = inner_objective - state.rho / 2 * float(task.weights @ state.u**2)
        gap = max(objective - lower, 0.0) / max(abs(objective), 1e-300)
        round_ = state.inner.measured.round
        return replace(state, measured=Measured(round_, objective, gap, np.nan, rho=state.rho))

    def _moved(self, state: AugmentedState, gap: float) -> AugmentedState:
        """u <- u + z - s, with a larger rho.

        The new lower bound is no lower than the old one, so at most about `gap` is left to gain.
        """
        task, z = self.task, state.inner.z
        old = Envelope(task.loss, state.rho, state.u)
        rho = min(_GROWTH * state.rho, _MOST_GROWTH * self.first_rho)
        u = (state.u + z - old.copy(z, task.labels)) * (state.rho / rho)
        new = Envelope(task.loss, rho, u)
        change = float(task.weights @ (new.value(z, task.labels) - old.value(z, task.labels)))
        measured = replace(state.inner.measured, objective=state.inner.measured.objective + change)
        inner = replace(state.inner, measured=measured, gains=(gap,), decreases=())
        return replace(state, inner=inner, decreases=(2 * gap / _CAUTION,), u=u, rho=rho)

    def closed(self, state: AugmentedState, shares: Mapping[str, Share]) -> Measured:
        final = self._side(state.u, state.rho).closed(state.inner, shares)
        measured = self._measured(state, final.objective).measured
        return replace(measured, lyapunov=final.lyapunov, dual=final.dual)

    def current(self, state: AugmentedState) -> Measured:
        return state.measured

    def intercept(self, state: AugmentedState) -> float:
        return state.inner.intercept

    def known_scores(self, state: AugmentedState) -> Array:
        return state.inner.z
