"""The subspace method for encrypted gradients: parties receive D_m^T g, see `plait.protection`.

The method itself knows no cryptography.  Its coordinator sends g, and its parties expect D_m^T g as the vector of a
broadcast; `plait.training.protected` stands between them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block, CoordinatorSide, Method, PartySide, Task
from plait.methods.protected.outlook import Outlook, moved
from plait.methods.protected.party import ProtectedParty
from plait.methods.protected.summed import SummedCoordinator, SummedParty
from plait.methods.subspace.augmented import Augmented, AugmentedCoordinator
from plait.methods.subspace.coordinator import SubspaceCoordinator
from plait.methods.subspace.coordinator_state import Groups, SubspaceState
from plait.methods.subspace.method import Subspace
from plait.methods.subspace.questions import Spans, Trial
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

_FINE = 1e-4  # of the objective: once a round gains no more than this, slopes must be exact where a bound depends on it


@dataclass(frozen=True)
class ProtectedSubspace(Method):
    """`Subspace`, or `Augmented`, whose parties never see the gradient.

    groups      parties whose shares the coordinator sees only as a sum; none where it sees every share
    disguised   whether it sees rows under random signs, so that their mean tells nothing
    weighted    whether rows have weights: parties do not know them, for they may tell the labels
    """

    inner: Subspace | Augmented
    groups: Groups = ()
    disguised: bool = False
    weighted: bool = False
    precisions: ClassVar[tuple[str, ...]] = ("float64",)

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        self.inner.check(loss, penalties)

    def exchanges(self, rounds: int, rows: int) -> int:
        return self.inner.exchanges(rounds, rows)

    def party_side(self, block: Block) -> PartySide:
        party = ProtectedParty(block, centred=not self.disguised, weighted=self.weighted)
        return SummedParty(party) if self.groups else party

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        if isinstance(self.inner, Augmented):
            inner: CoordinatorSide = AugmentedCoordinator(task, self.inner.rho, self.coordinator_of)
        else:
            inner = self.coordinator_of(task)
        return SummedCoordinator(inner, self.groups) if self.groups else inner

    def coordinator_of(self, task: Task, stiffness: float = 1.0, judge: Task | None = None) -> SubspaceCoordinator:
        """The coordinator's side for this loss, or for one that is rounded off."""
        subspace = self.inner.subspace if isinstance(self.inner, Augmented) else self.inner
        groups = self.groups or subspace.groups(task)
        return ProtectedCoordinator(task, subspace.span_length(task.rows, groups), groups, stiffness, judge)


class ProtectedCoordinator(SubspaceCoordinator):
    """Adds to each broadcast what a party can no longer read off the gradient."""

    def outlook(self, state: SubspaceState, i: int) -> Array:
        own = state.shares[i] if len(self.groups[i]) == 1 else None
        image = state.images[i].vectors[-1] if len(state.images[i]) else None
        return Outlook.of(self.task, state.z, own, image, state.moves).pack()

    def _lost(self, shares: Sequence[Share]) -> float:
        """As if all rows had one error: rows with equal columns have.

        Where vectors nearly cancel, little but errors is left of them.  Errors of a category's rows fit their labels
        better than errors that differ from row to row, by as many times as there are rows that share one.
        """
        return self.task.rows * super()._lost(shares)

    def _moved(self, state: SubspaceState, spans: Spans, best: Trial) -> SubspaceState:
        after = super()._moved(state, spans, best)
        kinked = any(span.kinks for span in spans.spans)
        return replace(after, moves=moved(self.task, state.moves, state.z, after.z), kinked=kinked)

    def _messages(self, state: SubspaceState, *given: Any, **more: Any) -> dict[str, Broadcast]:
        """The messages, with fine gradients where a coarse one could no longer prove or estimate anything.

        This is so beside kinks and walls of a penalty or a loss, and where no penalty holds back a weight.
        """
        fall = state.bounds.falls[-1] if state.bounds.falls else np.inf
        exact = state.kinked or state.bounds.open or self.judge is not self.task
        fine = exact and fall <= _FINE * state.bounds.scale(state.measured.objective)
        return {name: replace(says, fine=fine) for name, says in super()._messages(state, *given, **more).items()}
