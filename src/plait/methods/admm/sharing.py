"""ADMM sharing: the paper's parallel algorithm, and what all its forms have in common.

In units where rho stands for rho / N, with S = sum_m D_m x_m + b and the scaled dual u = y N / rho:

    x_m <- argmin  R_m(x) + (rho/2N) ||D_m (x - x_m) + v||^2 + (tau/2N) ||D_m (x - x_m)||^2,     v = S - z + u
    z, b <- argmin  l(z) + (rho/2N) ||S + u - z||^2
    u   <- u + S - z

The paper pulls two vectors, S - z and y; the x-update needs only v, one vector.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from plait._checks import need_types
from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast, Form, Share
from plait.methods.admm import anderson
from plait.methods.admm.iterate import Iterate, combine, mix
from plait.methods.admm.x_update import LocalSolver, choose_solver
from plait.methods.admm.z_update import update_scores_and_intercept
from plait.methods.base import Block, CoordinatorSide, Measured, Method, PartySide, Task, need_positive, vector_of

_LEAST_WEIGHT, _MOST_WEIGHT = 1e-50, 1e50  # of rho and tau: their squares and products are numbers
_BALANCE = 10.0  # ratio of primal and dual residual beyond which rho changes: Boyd et al. 2011, section 3.4.1
_RHO_FACTOR = 2.0  # by which rho is multiplied or divided then: the same place
_RHO_PATIENCE = 10.0  # rounds before the first change: the first residuals say little about the last ones
_PATIENCE_GROWTH = 1.5  # each wait is so many times the one before: changes die out, so that convergence holds


@dataclass(frozen=True)
class Sharing(Method):
    """Options that all forms of ADMM sharing have; rho=None takes the loss's own stiffness as the unit."""

    rho: float | None = None

    def __post_init__(self) -> None:
        need_types(self)
        need_positive(f"{type(self).__name__}(rho)", self.rho)

    def proximity(self, parties: int) -> float:
        """tau / rho."""
        return 0.0

    @property
    def adapts(self) -> bool:
        """Whether rho follows the residuals."""
        return False

    @property
    def memory(self) -> int:
        """How many past images Anderson acceleration combines; 0 for none."""
        return 0

    def start_rho(self, task: Task) -> float:
        return task.loss.stiffness(task.labels, task.weights, task.fit_intercept) if self.rho is None else self.rho

    def party_side(self, block: Block) -> PartySide:
        return SharingParty(block, self.memory)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return SharingCoordinator(self, task)


@dataclass(frozen=True)
class SharingPartyState:
    """x (d,), and the past images of x that acceleration may combine, newest last."""

    x: Array
    images: tuple[Array, ...]


def need_weights(broadcast: Broadcast, images: int) -> None:
    """Raise ProtocolError unless a broadcast has v, rho > 0, tau >= 0, and coefficients of images that there are."""
    scalars = broadcast.scalars
    if broadcast.vector is None or not 2 <= scalars.size <= 2 + images:
        raise ProtocolError(
            f"a broadcast must have a vector, rho, tau and at most {images} coefficients. Found {scalars.size} scalars."
        )
    if not (_LEAST_WEIGHT <= scalars[0] <= _MOST_WEIGHT and 0 <= scalars[1] <= _MOST_WEIGHT):
        raise ProtocolError(f"rho must be positive and tau not negative. Found {scalars[0]:g} and {scalars[1]:g}.")


class SharingParty(PartySide):
    """The x-update.  Broadcast scalars: rho, tau, then the coefficients of past images that make the centre."""

    def __init__(self, block: Block, memory: int) -> None:
        self.block = block
        self.memory = memory
        self.solver: LocalSolver = choose_solver(block.features, block.penalty)

    def start(self) -> SharingPartyState:
        x = np.zeros(self.block.features.columns)
        return SharingPartyState(x, (x,))

    def check(self, state: SharingPartyState, broadcast: Broadcast) -> None:
        need_weights(broadcast, len(state.images))

    def respond(self, state: SharingPartyState, broadcast: Broadcast) -> tuple[SharingPartyState, Share]:
        assert broadcast.vector is not None
        rho, tau, *coefficients = broadcast.scalars
        centre = combine(state.images[-len(coefficients) :], coefficients) if coefficients else state.images[-1]
        features, penalty = self.block.features, self.block.penalty
        adjoint = features.adjoint(broadcast.vector)
        stationarity = self.block.stationarity(centre, rho / features.rows * adjoint)
        if broadcast.closing:
            return state, Share(broadcast.round, None, np.array([penalty.value(state.x), stationarity]))
        slope = rho / (rho + tau)
        x = self.solver.solve((rho + tau) / features.rows, centre, slope * broadcast.vector, slope * adjoint)
        share = Share(broadcast.round, features.forward(x), np.array([penalty.value(x), stationarity]))
        return SharingPartyState(x, (*state.images, x)[-max(self.memory, 1) :]), share

    def weights(self, state: SharingPartyState) -> Array:
        return state.x


@dataclass(frozen=True)
class SharingState:
    """Where the last round ended, where the next one starts, and what was measured on the way."""

    end: Iterate
    start: Iterate
    rho: float
    measured: Measured
    coefficients: Array = field(default_factory=lambda: np.empty(0))
    past: tuple[Iterate, ...] = ()
    memory: anderson.Memory = field(default_factory=anderson.Memory)
    reach: float = anderson.FIRST_REACH
    since_rho: int = 0
    patience: float = _RHO_PATIENCE


S = TypeVar("S", bound=SharingState)


class SharingCoordinator(CoordinatorSide):
    """The z-update and the dual update."""

    def __init__(self, method: Sharing, task: Task) -> None:
        self.method = method
        self.task = task
        self.proximity = method.proximity(len(task.parties))

    def start(self) -> SharingState:
        task = self.task
        zeros = np.zeros(task.rows)
        origin = Iterate(np.zeros((len(task.parties), task.rows)), zeros, zeros, 0.0)
        measured = Measured(0, task.mean_loss(zeros), np.inf, np.inf)
        return SharingState(origin, origin, self.method.start_rho(task), measured)

    def requests(self, state: SharingState) -> dict[str, Broadcast]:
        return self.to_all(state, state.start, state.coefficients, closing=False)

    def to_all(self, state: SharingState, where: Iterate, coefficients: Array, closing: bool) -> dict[str, Broadcast]:
        scalars = np.concatenate([[state.rho, self.proximity * state.rho], coefficients])
        form = Form.of(None if closing else self.task.rows, 2)
        message = Broadcast(state.measured.round + (not closing), where.v, scalars, closing, expects=form)
        return dict.fromkeys(self.task.parties, message)

    def absorb(self, state: SharingState, shares: Mapping[str, Share]) -> tuple[SharingState, Measured | None]:
        before = self.completed(state, state.start, shares)
        moved = np.stack([vector_of(shares[name]) for name in self.task.parties])
        # What party m took the total to be: everybody else where they were, itself moved (1 + tau/rho) times.
        here, reach = state.start, 1 + self.proximity
        seen = (here.total + reach * (new - old) for new, old in zip(moved, here.shares, strict=True))
        after = self.finish_round(state, moved, sum(float(shares[n].scalars[0]) for n in self.task.parties), seen)
        return self.advance(after), before

    def finish_round(self, state: SharingState, moved: Array, penalty: float, seen: Iterable[Array]) -> SharingState:
        """The z-, b- and u-update, and what they show; `seen` is the total (N,) that each party assumed."""
        task, start = self.task, state.start
        total = moved.sum(axis=0)
        z, b = self.scores_and_intercept(total + start.u, state.rho, start.intercept)
        total += b
        gap = total - z
        end = Iterate(moved, z, start.u + gap, b)
        vars(end).update(total=total, gap=gap)  # so that they are not computed again
        drift = max(float(np.linalg.norm(gap + start.z - assumed)) for assumed in seen)
        size_z, size_u = float(np.linalg.norm(z)), float(np.linalg.norm(end.u))
        # The dual as a distance between scores, whatever rho: it sets the scale where the scores themselves vanish.
        dual = state.rho / task.loss.stiffness(task.labels, task.weights, task.fit_intercept) * size_u
        size = max(float(np.linalg.norm(total)), size_z, dual, 1e-300)
        measured = Measured(
            round=state.measured.round + 1,
            objective=task.mean_loss(total) + penalty,
            primal=float(np.linalg.norm(gap)) / size,
            dual=drift / max(size_u, 1e-6 * size_z, 1e-300),  # a dual that is 0 so far counts as a millionth of z
            rho=state.rho,
        )
        return replace(state, end=end, measured=measured)

    def scores(self, pull: Array, rho: float) -> Array:
        """The z-update."""
        return self.task.loss.prox(pull, self.task.rows * self.task.weights / rho, self.task.labels)

    def scores_and_intercept(self, target: Array, rho: float, start: float) -> tuple[Array, float]:
        """The z- and b-update; target is everything in the pull but the intercept."""
        task = self.task
        if not task.fit_intercept:
            return self.scores(target, rho), 0.0
        return update_scores_and_intercept(task.loss, target, task.rows * task.weights / rho, task.labels, start)

    def advance(self, state: SharingState) -> SharingState:
        """Choose rho and the start of the next round."""
        return self._accelerated(self._balanced(state))

    def _balanced(self, state: SharingState) -> SharingState:
        """Adaptive rho: keep the primal and the dual residual within a factor of each other, ever more patiently."""
        if not self.method.adapts or state.since_rho < state.patience:
            return replace(state, since_rho=state.since_rho + 1)
        ratio = state.measured.primal / max(state.measured.dual, 1e-300)
        factor = _RHO_FACTOR if ratio > _BALANCE else 1 / _RHO_FACTOR if ratio < 1 / _BALANCE else 1.0
        if factor == 1.0:
            return state
        grown = replace(state, patience=_PATIENCE_GROWTH * state.patience)
        return self.with_rho(grown, factor)

    def with_rho(self, state: S, factor: float) -> S:
        """The same point with rho multiplied by `factor`; acceleration starts anew."""
        return replace(
            state,
            rho=state.rho * factor,
            start=state.start.rescaled(factor),
            end=state.end.rescaled(factor),
            past=(),
            memory=anderson.Memory(),
            since_rho=0,
        )

    def _accelerated(self, state: SharingState) -> SharingState:
        """Start the next round where this one ended, or at Anderson's combination of the last ends."""
        keep = self.method.memory
        if keep == 0:
            return replace(state, start=state.end)
        here = state.end.flat()
        step = here - state.start.flat()
        if state.memory.regrets(step):
            return self.back(state)
        memory = state.memory.push(step, keep)
        past = (*state.past, state.end)[-len(memory.residuals) :]
        c = memory.coefficients()
        mixed = mix(past, c)
        far = float(np.linalg.norm(mixed.flat() - here))
        part = anderson.part_within(state.reach * float(np.linalg.norm(step)), far)
        start = mix((mixed, state.end), [part, 1 - part])
        z = self.scores(start.pull, state.rho)
        return replace(
            state,
            start=replace(start, z=z, u=start.pull - z),
            memory=memory,
            past=past,
            coefficients=part * c + (1 - part) * anderson.newest(c.size),
            reach=anderson.next_reach(state.reach, good=True) if far > 0 else state.reach,
        )

    def back(self, state: S) -> S:
        """Undo a round that acceleration led astray: the next one starts where the one before it ended."""
        return replace(
            state,
            start=state.past[-1],
            coefficients=np.array([1.0, 0.0]),
            past=(),
            memory=state.memory.cleared(),
            reach=anderson.next_reach(state.reach, good=False),
        )

    def completed(self, state: SharingState, where: Iterate, shares: Mapping[str, Share]) -> Measured:
        """What was measured of `state`, with the Lyapunov value V at `where`, to which every party adds its part."""
        task, rho = self.task, state.rho / self.task.rows
        gap = where.gap
        # Where the loss has kinks, the z-update makes y itself a subgradient at z.
        slope = task.gradient(where.z) - rho * where.u if task.loss.smooth else np.zeros_like(gap)
        grad_z = slope - rho * gap
        parties = sum(float(shares[name].scalars[1]) for name in task.parties)
        return replace(state.measured, lyapunov=parties + float(grad_z @ grad_z) + float(gap @ gap))

    def closing(self, state: SharingState) -> dict[str, Broadcast]:
        return self.to_all(state, state.end, np.empty(0), closing=True)

    def closed(self, state: SharingState, shares: Mapping[str, Share]) -> Measured:
        return self.completed(state, state.end, shares)

    def current(self, state: SharingState) -> Measured:
        return state.measured

    def intercept(self, state: SharingState) -> float:
        return state.end.intercept

    def known_scores(self, state: SharingState) -> Array:
        return state.end.total
