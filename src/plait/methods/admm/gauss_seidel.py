"""Sequential ADMM sharing: within a round the parties move one after another."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.admm.iterate import Iterate
from plait.methods.admm.sharing import Sharing, SharingCoordinator, SharingState
from plait.methods.base import CoordinatorSide, Measured, Task, vector_of


@dataclass(frozen=True)
class GaussSeidel(Sharing):
    """The parties one after another, each seeing what the ones before it did (Hong et al. 2016).

    Parameters
    ----------
    rho : float, default=None
        The penalty parameter of ADMM; None takes the loss's own stiffness.
    """

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return SequentialCoordinator(self, task)


@dataclass(frozen=True)
class Sweep:
    """A round under way: the state it began in, whose turn it is, the shares so far, and what each party saw."""

    base: SharingState
    turn: int = 0
    shares: Array = field(default_factory=lambda: np.empty((0, 0)))
    seen: tuple[Array, ...] = ()
    penalty: float = 0.0


class SequentialCoordinator(CoordinatorSide):
    """One exchange per party and round, and one more in which all parties measure the state that the round reached."""

    def __init__(self, method: GaussSeidel, task: Task) -> None:
        self.task = task
        self.parallel = SharingCoordinator(method, task)

    def start(self) -> Sweep:
        base = self.parallel.start()
        return Sweep(base, shares=base.start.shares)

    def requests(self, state: Sweep) -> dict[str, Broadcast]:
        if state.turn == len(self.task.parties):
            return self.closing(state)
        here = state.base.start
        where = Iterate(state.shares, here.z, here.u, here.intercept)
        name = self.task.parties[state.turn]
        return {name: self.parallel.to_all(state.base, where, np.empty(0), closing=False)[name]}

    def absorb(self, state: Sweep, shares: Mapping[str, Share]) -> tuple[Sweep, Measured | None]:
        if state.turn == len(self.task.parties):
            return Sweep(state.base, shares=state.base.end.shares), self.closed(state, shares)
        share = shares[self.task.parties[state.turn]]
        moved = state.shares.copy()
        moved[state.turn] = vector_of(share)
        seen = (*state.seen, moved.sum(axis=0) + state.base.start.intercept)
        after = Sweep(state.base, state.turn + 1, moved, seen, state.penalty + float(share.scalars[0]))
        if after.turn == len(self.task.parties):
            done = self.parallel.finish_round(state.base, moved, after.penalty, seen)
            after = replace(after, base=self.parallel.advance(done))
        return after, None

    def closing(self, state: Sweep) -> dict[str, Broadcast]:
        return self.parallel.closing(state.base)

    def closed(self, state: Sweep, shares: Mapping[str, Share]) -> Measured:
        return self.parallel.closed(state.base, shares)

    def current(self, state: Sweep) -> Measured:
        return self.parallel.current(state.base)

    def intercept(self, state: Sweep) -> float:
        return self.parallel.intercept(state.base)

    def known_scores(self, state: Sweep) -> Array:
        return self.parallel.known_scores(state.base)
