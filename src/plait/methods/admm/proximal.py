"""The safe form of ADMM sharing.

Losses that are not smooth or not convex need one thing more.  While u is held, the rounds minimise

    sum_m R_m(x_m) + e(S + u),     e(t) = min over z of  l(z) + (rho/2N) ||t - z||^2,

where e is smooth: acceleration works on it, and its value, which the coordinator knows, tells whether it did.  So u
moves only once the parties have settled (the method of multipliers); moved in every round, it would be plain ADMM,
which acceleration does not help where a loss has kinks or is not convex.
"""

from dataclasses import dataclass, replace

import numpy as np

from plait.errors import SettingError
from plait.methods.admm import anderson
from plait.methods.admm.iterate import Iterate, combine
from plait.methods.admm.sharing import Sharing, SharingCoordinator, SharingState
from plait.methods.base import CoordinatorSide, Task

_SETTLED = 0.3  # dual over primal residual below which a subproblem counts as solved well enough to move on
_LONGEST = 40  # rounds on one subproblem at most: more digits of it are wasted on the next
_QUICK = 8  # rounds: a subproblem solved as fast as this allows a larger rho
_SLOW = 25  # rounds: one that took as long asks for a smaller rho
_RHO_FACTOR = 1.5  # by which rho changes then: smaller than Boyd's 2, since every change restarts the acceleration
_NOISE = 1e-12  # relative: a rise of the value smaller than this is rounding


@dataclass(frozen=True)
class Proximal(Sharing):
    """Parallel ADMM sharing with tau = rho (parties - 1): converges for every rho > 0 when the loss is convex.

    Parameters
    ----------
    rho : float, default=None
        The penalty parameter of ADMM; None takes the loss's own stiffness.
    adaptive : bool, default=True
        Whether rho follows the residuals.
    acceleration : int, default=20
        How many past rounds Anderson acceleration combines; 0 for none.
    tau : float, default=None
        tau / rho, where another proximal weight is wanted.
    """

    adaptive: bool = True
    acceleration: int = 20
    tau: float | None = None
    remedy = "Scale the columns to similar sizes, give a larger rho, say Proximal(rho=10), or strengthen the penalty."

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau is not None and not (np.isfinite(self.tau) and self.tau >= 0):
            raise SettingError(f"Proximal(tau) must be finite and not negative. Found {self.tau}.")
        if self.acceleration < 0:
            raise SettingError(f"Proximal(acceleration) must be 0 or more. Found {self.acceleration}.")

    def proximity(self, parties: int) -> float:
        return float(parties - 1) if self.tau is None else self.tau

    @property
    def adapts(self) -> bool:
        return self.adaptive

    @property
    def memory(self) -> int:
        return self.acceleration

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        easy = task.loss.smooth and task.loss.convex
        side = SharingCoordinator if easy or self.acceleration < 2 else HoldingCoordinator
        return side(self, task)


@dataclass(frozen=True)
class HoldingState(SharingState):
    """Rounds since u moved, and the envelope's value after the last good one."""

    held: int = 0
    value: float = np.inf


class HoldingCoordinator(SharingCoordinator):
    """Holds u while the parties settle."""

    def start(self) -> HoldingState:
        plain = super().start()
        return HoldingState(plain.end, plain.start, plain.rho, plain.measured)

    def advance(self, state: SharingState) -> HoldingState:
        assert isinstance(state, HoldingState)
        state = replace(state, held=state.held + 1)
        if state.measured.dual <= _SETTLED * state.measured.primal or state.held >= _LONGEST:
            return self._release(state)
        value = self._envelope(state)
        if value > state.value + _NOISE * abs(state.value):
            return replace(self.back(state), value=np.inf)
        return self._onward(replace(state, value=value))

    def _envelope(self, state: HoldingState) -> float:
        """sum_m R_m(x_m) + e(S + u) where the round ended, u still held."""
        task, end = self.task, state.end
        penalty = state.measured.objective - task.mean_loss(end.total)
        # end.u has moved by S - z already, so that it is the distance S + u - z itself.
        return task.mean_loss(end.z) + state.rho / (2 * task.rows) * float(end.u @ end.u) + penalty

    def _release(self, state: HoldingState) -> HoldingState:
        """Move u; and rho, if the parties settled very quickly or slowly."""
        factor = _RHO_FACTOR if state.held <= _QUICK else 1 / _RHO_FACTOR if state.held >= _SLOW else 1.0
        # A non-convex loss has a smooth envelope only while rho exceeds its negative curvature: rho stays.
        moved = self.with_rho(state, factor if self.method.adapts and self.task.loss.convex else 1.0)
        return replace(moved, start=moved.end, coefficients=np.empty(0), held=0, value=np.inf)

    def _onward(self, state: HoldingState) -> HoldingState:
        """Start the next round at Anderson's combination of the last shares, within reach of the newest ones."""
        u = state.start.u
        here = replace(state.end, u=u)
        step = here.shares - state.start.shares
        memory = state.memory.push(step.ravel(), self.method.memory)
        past = (*state.past, here)[-len(memory.residuals) :]
        c = memory.coefficients()
        way = combine([p.shares for p in past], c) - here.shares
        far = float(np.linalg.norm(way))
        part = anderson.part_within(state.reach * float(np.linalg.norm(step)), far)
        shares = here.shares + part * way
        z, b = self.scores_and_intercept(shares.sum(axis=0) + u, state.rho, here.intercept)
        return replace(
            state,
            start=Iterate(shares, z, u, b),
            coefficients=part * c + (1 - part) * anderson.newest(c.size),
            past=past,
            memory=memory,
            reach=anderson.next_reach(state.reach, good=True) if far > 0 else state.reach,
        )
