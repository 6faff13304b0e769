"""The subspace method for encrypted gradients: parties receive D_m^T g, see `plait.protection`.

The method itself knows no cryptography.  Its coordinator says g, and its parties expect D_m^T g as the vector of a
broadcast; `plait.training.protected` stands between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block, CoordinatorSide, Measured, Method, PartySide, Task
from plait.methods.protected.coordinator import BoundedCoordinator, BoundedState
from plait.methods.protected.messages import Orders, ProtectedOrders
from plait.methods.protected.protected_party import ProtectedParty
from plait.methods.subspace.method import Subspace
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

_SPAN_VECTORS, _SPAN_BYTES = 128, 2**30  # the longest span, and its bytes: more takes longer than a round
_LONGEST, _LONGEST_SUMS = 30, 40  # past steps of a party, or of their sum: more gain no rounds


@dataclass(frozen=True)
class ProtectedSubspace(Method):
    """`Subspace` whose parties never see the gradient.

    groups   parties whose shares the coordinator sees only as a sum; none where it sees them all, or one sum
    """

    inner: Subspace
    groups: tuple[tuple[str, ...], ...] = ()

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        self.inner.check(loss, penalties)

    def party_side(self, block: Block) -> PartySide:
        return ProtectedParty(block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        if not self.groups:
            return ProtectedCoordinator(task, self._coordinator(task))
        inner = self._coordinator(replace(task, parties=tuple(group[0] for group in self.groups)))
        inner.task, inner.groups = task, self.groups  # as much memory as for one party a group
        return ProtectedCoordinator(task, inner)

    def _coordinator(self, task: Task) -> BoundedCoordinator:
        vectors = 1 if self.inner.sums_only else len(task.parties)
        longest = _LONGEST_SUMS if self.inner.sums_only else _LONGEST
        fitting = _SPAN_BYTES // (8 * task.rows * vectors)
        memory = self.inner.memory or int(max(3, min(longest, _SPAN_VECTORS // vectors, fitting)))
        return BoundedCoordinator(task, memory, self.inner.sums_only)


@dataclass(frozen=True)
class ProtectedCoordinatorState:
    """The subspace method's state, and each group's part of the scores (groups, N)."""

    inner: BoundedState
    owns: Array


class ProtectedCoordinator(CoordinatorSide):
    """Adds to each broadcast what a party can no longer read off the gradient."""

    def __init__(self, task: Task, inner: BoundedCoordinator) -> None:
        self.task, self.inner = task, inner

    def start(self) -> ProtectedCoordinatorState:
        return ProtectedCoordinatorState(self.inner.start(), np.zeros((len(self.inner.groups), self.task.rows)))

    def requests(self, state: ProtectedCoordinatorState) -> dict[str, Broadcast]:
        return self._told(state, self.inner.requests(state.inner))

    def closing(self, state: ProtectedCoordinatorState) -> dict[str, Broadcast]:
        return self._told(state, self.inner.closing(state.inner))

    def _told(self, state: ProtectedCoordinatorState, requests: dict[str, Broadcast]) -> dict[str, Broadcast]:
        z = state.inner.z
        curvature = float(self.task.weights @ self.task.loss.hessian(z, self.task.labels))
        said = {}
        for group, own in zip(self.inner.groups, state.owns, strict=True):
            covariance = float(np.mean((own - own.mean()) * (z - z.mean()))) if len(group) == 1 else np.nan
            for name in group:
                orders = Orders.unpack(requests[name].scalars)
                told = ProtectedOrders(orders, float(z.mean()), float(z.var()), covariance, curvature)
                said[name] = replace(requests[name], scalars=told.pack())
        return said

    def absorb(
        self, state: ProtectedCoordinatorState, shares: Mapping[str, Share]
    ) -> tuple[ProtectedCoordinatorState, Measured | None]:
        inner, measured = self.inner.absorb(state.inner, shares)
        owns = state.owns + np.stack([images[-1] for images in inner.images])
        return ProtectedCoordinatorState(inner, owns), measured

    def closed(self, state: ProtectedCoordinatorState, shares: Mapping[str, Share]) -> Measured:
        return self.inner.closed(state.inner, shares)

    def current(self, state: ProtectedCoordinatorState) -> Measured:
        return self.inner.current(state.inner)

    def intercept(self, state: ProtectedCoordinatorState) -> float:
        return self.inner.intercept(state.inner)

    def known_scores(self, state: ProtectedCoordinatorState) -> Array | None:
        return self.inner.known_scores(state.inner)
