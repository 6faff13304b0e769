"""FDML: mini-batch stochastic gradient descent over vertically partitioned columns (Hu et al. 2019).

For every mini-batch B of a random order of the rows, with z_B = sum_m D_m[B] x_m + b:

    party m -> coordinator :  D_m[B] x_m                              |B| numbers
    coordinator -> party m :  g_B = N w_B loss'(z_B) / |B|            |B| numbers
    x_m <- x_m - step (D_m[B]^T g_B + grad R_m(x_m)),   or a proximal step where R_m has kinks

A round is an epoch: one pass, N numbers each way and party.  The order follows from the seed, so no index is sent.  At
the end of an epoch every party also sends the scores of all rows, so that the history shows the objective itself.
These N numbers are counted.  With measure=False they are not sent: the history then shows the mean of the batches'
losses, which lags behind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from plait._checks import need_types
from plait._types import Array
from plait.errors import ProtocolError, SettingError
from plait.messages import Broadcast, Share
from plait.methods.base import Block, CoordinatorSide, Measured, Method, PartySide, Task, need_positive, vector_of
from plait.problem.features import Features
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Sgd(Method):
    """Mini-batch stochastic gradient descent, the paper's baseline; it runs to its limit of rounds, one per epoch.

    Parameters
    ----------
    step : float, default=0.1
        The learning rate; in epoch e it is step / (1 + decay (e - 1)).
    batch : int, default=256
        How many rows a mini-batch has; the last one of an epoch may have fewer.
    decay : float, default=0.0
        How fast the learning rate falls.
    momentum : float, default=0.0
        Heavy-ball momentum, from 0 to below 1.
    start : float, default=0.01
        The standard deviation of the random start; 0 starts at zero weights.
    seed : int, default=0
        The seed of the start and of the order of the rows.
    measure : bool, default=True
        Measure the objective at the end of every epoch, for N more numbers a party.
    """

    step: float = 0.1
    batch: int = 256
    decay: float = 0.0
    momentum: float = 0.0
    start: float = 0.01
    seed: int = 0
    measure: bool = True
    remedy = "Use a smaller Sgd(step), or method=plait.Proximal()."

    def __post_init__(self) -> None:
        need_types(self)
        need_positive("Sgd(step)", self.step)
        if self.batch < 1:
            raise SettingError(f"Sgd(batch) must be at least 1. Found {self.batch}.")
        for name, value in (("decay", self.decay), ("start", self.start)):
            if not (np.isfinite(value) and value >= 0):
                raise SettingError(f"Sgd({name}) must be finite and not negative. Found {value}.")
        if not 0 <= self.momentum < 1:
            raise SettingError(f"Sgd(momentum) must be from 0 to below 1. Found {self.momentum}.")
        if self.seed < 0:
            raise SettingError(f"Sgd(seed) must not be negative. Found {self.seed}.")

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        for name, penalty in penalties.items():
            if not penalty.smooth and not penalty.convex:
                raise SettingError(
                    f"Sgd needs penalties that are smooth or convex. Found {penalty!r} at party {name!r}. "
                    "Use method=plait.Proximal()."
                )

    def lengths(self, rows: int) -> frozenset[int]:
        return frozenset({rows, min(self.batch, rows), rows % self.batch or self.batch})

    def exchanges(self, rounds: int, rows: int) -> int:
        return (rounds + 1) * (-(-rows // self.batch) + 1) + 1

    def party_side(self, block: Block) -> PartySide:
        return SgdParty(self, block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return SgdCoordinator(self, task)


class MiniBatches:
    """The rows of batch `turn` of an epoch: turn = count stands for all rows, in their own order."""

    def __init__(self, method: Sgd, rows: int) -> None:
        self.seed, self.size, self.rows = method.seed, method.batch, rows
        self.count = -(-rows // method.batch)
        self._order: tuple[int, Rows] = (-1, np.empty(0, dtype=np.intp))

    def __getitem__(self, where: tuple[int, int]) -> Rows:
        epoch, turn = where
        if self._order[0] != epoch:
            self._order = (epoch, np.random.default_rng([self.seed, epoch]).permutation(self.rows))
        return self._order[1][turn * self.size : (turn + 1) * self.size]


@dataclass(frozen=True)
class SgdPartyState:
    """x and its velocity (d,), and the epoch and turn of the batch whose gradient is awaited, if any."""

    x: Array
    velocity: Array
    awaited: tuple[int, int] | None = None


class SgdParty(PartySide):
    """The x-update.  Broadcast scalars: the learning rate, the turn that comes, and whether to send all scores."""

    def __init__(self, method: Sgd, block: Block) -> None:
        self.method = method
        self.block = block
        self.batches = MiniBatches(method, block.features.rows)
        self._slice: tuple[tuple[int, int], Features] | None = None

    def start(self) -> SgdPartyState:
        d = self.block.features.columns
        x = self.method.start * np.random.default_rng([self.method.seed, d]).standard_normal(d)
        feasible = self.block.penalty.feasible
        return SgdPartyState(x if feasible is None else feasible.project(x), np.zeros(d))

    def check(self, state: SgdPartyState, broadcast: Broadcast) -> None:
        if broadcast.scalars.size != 3 or not 0 <= broadcast.scalars[1] <= self.batches.count:
            raise ProtocolError("a broadcast must say the learning rate, the turn, and whether to measure. Found less.")

    def respond(self, state: SgdPartyState, broadcast: Broadcast) -> tuple[SgdPartyState, Share]:
        step, turn, wanted = broadcast.scalars
        if broadcast.vector is not None:
            state = self._moved(state, broadcast.vector, float(step))
        if turn < self.batches.count:
            where = (broadcast.round, int(turn))
            return replace(state, awaited=where), Share(broadcast.round, self._features(where).forward(state.x))
        scores = self.block.features.forward(state.x) if wanted else None
        return state, Share(broadcast.round, scores, np.array([self.block.penalty.value(state.x)]))

    def _moved(self, state: SgdPartyState, g: Array, step: float) -> SgdPartyState:
        """One step against the gradient of the awaited batch."""
        if state.awaited is None or g.size != self.batches[state.awaited].size:
            raise ProtocolError(f"a gradient must follow the scores of its batch. Found one of {g.size} numbers.")
        penalty = self.block.penalty
        gradient = self._features(state.awaited).adjoint(g)
        if penalty.smooth:
            gradient = gradient + penalty.gradient(state.x)
        velocity = self.method.momentum * state.velocity + gradient
        x = state.x - step * velocity
        return SgdPartyState(x if penalty.smooth else penalty.prox(x, step), velocity)

    def _features(self, where: tuple[int, int]) -> Features:
        """D_m[B], kept between the scores that it gives and the gradient that comes back."""
        if self._slice is None or self._slice[0] != where:
            self._slice = (where, Features(self.block.features.matrix[self.batches[where]]))
        return self._slice[1]

    def weights(self, state: SgdPartyState) -> Array:
        return state.x


@dataclass(frozen=True)
class SgdState:
    """Which batch comes next, the gradient of the last one, b and its velocity, and what was measured on the way."""

    measured: Measured
    epoch: int = 0
    turn: int = 0
    gradient: Array | None = None
    intercept: float = 0.0
    velocity: float = 0.0
    met: float = 0.0
    """The losses of this epoch's batches as they were met, weighted."""


class SgdCoordinator(CoordinatorSide):
    """One exchange per batch: the last batch's gradient down, the next batch's scores up; then one to measure."""

    def __init__(self, method: Sgd, task: Task) -> None:
        self.method = method
        self.task = task
        self.batches = MiniBatches(method, task.rows)

    def start(self) -> SgdState:
        zero = self.task.mean_loss(np.zeros(self.task.rows))
        return SgdState(Measured(0, zero, 0.0, np.nan), turn=self.batches.count)

    def requests(self, state: SgdState) -> dict[str, Broadcast]:
        wanted = self.method.measure or state.epoch == 0
        scalars = np.array([self._step(state.epoch), state.turn, wanted], dtype=np.float64)
        return dict.fromkeys(self.task.parties, Broadcast(state.epoch, state.gradient, scalars))

    def _step(self, epoch: int) -> float:
        return self.method.step / (1 + self.method.decay * max(epoch - 1, 0))

    def absorb(self, state: SgdState, shares: Mapping[str, Share]) -> tuple[SgdState, Measured | None]:
        if state.turn == self.batches.count:
            measured = Measured(state.epoch, self._objective(state, shares), 0.0, np.nan)
            after = replace(state, measured=measured, epoch=state.epoch + 1, turn=0, gradient=None, met=0.0)
            return after, measured if state.epoch == 0 else None
        return self._descended(state, shares), state.measured if state.turn == 0 else None

    def _descended(self, state: SgdState, shares: Mapping[str, Share]) -> SgdState:
        """The gradient of the batch, and the step of the intercept."""
        task, rows = self.task, self.batches[state.epoch, state.turn]
        z, y, w = self._total(state, shares), task.labels[rows], task.weights[rows]
        g = task.rows / rows.size * w * task.loss.gradient(z, y)
        velocity = self.method.momentum * state.velocity + float(g.sum()) * task.fit_intercept
        return replace(
            state,
            turn=state.turn + 1,
            gradient=g,
            intercept=state.intercept - self._step(state.epoch) * velocity,
            velocity=velocity,
            met=state.met + float(w @ task.loss.value(z, y)),
        )

    def _total(self, state: SgdState, shares: Mapping[str, Share]) -> Array:
        return np.sum([vector_of(shares[name]) for name in self.task.parties], axis=0) + state.intercept

    def _objective(self, state: SgdState, shares: Mapping[str, Share]) -> float:
        """At the parties' weights where they sent all their scores, else from the losses met."""
        exact = all(shares[name].vector is not None for name in self.task.parties)
        loss = self.task.mean_loss(self._total(state, shares)) if exact else state.met
        return loss + sum(float(shares[name].scalars[0]) for name in self.task.parties)

    def closing(self, state: SgdState) -> dict[str, Broadcast]:
        """Nothing is left to measure right after an epoch that was measured."""
        wanted = state.turn > 0 or not self.method.measure
        scalars = np.array([0.0, self.batches.count, wanted])
        return dict.fromkeys(self.task.parties, Broadcast(self._reached(state), None, scalars, closing=True))

    def closed(self, state: SgdState, shares: Mapping[str, Share]) -> Measured:
        known = state.turn == 0 and self.method.measure
        objective = state.measured.objective if known else self._objective(state, shares)
        return replace(state.measured, round=self._reached(state), objective=objective)

    def _reached(self, state: SgdState) -> int:
        """The newest epoch, even if it was broken off."""
        return state.epoch - (state.turn == 0)

    def current(self, state: SgdState) -> Measured:
        return state.measured

    def intercept(self, state: SgdState) -> float:
        return state.intercept
