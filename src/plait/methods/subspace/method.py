"""The subspace method: parties send preconditioned directions, the coordinator minimises exactly over their span.

A round.  The coordinator sends g = w loss'(z) and the coefficients of the last step.  Party m applies the step,
computes a direction d_m (a Newton step on its block, see direction.py) and sends D_m d_m with parabolas that lie above
its penalty along its last steps and d_m.  The coordinator minimises the objective, or that upper bound of it, over the
span of the last steps and the new directions, of every party separately or of their sums only, at no communication.
So the objective never grows.  The curvature costs no message: these losses show it in their gradient.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plait._checks import need_types
from plait.errors import SettingError
from plait.methods.base import Block, CoordinatorSide, Method, PartySide, Task
from plait.methods.subspace.coordinator import SubspaceCoordinator
from plait.methods.subspace.party import SubspaceParty
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

_SPAN_VECTORS, _SPAN_BYTES = 128, 2**30
_LONGEST, _LONGEST_SUMS = 30, 40


@dataclass(frozen=True)
class Subspace(Method):
    """Smooth losses, in a tenth of the rounds of ADMM.

    Parameters
    ----------
    sums_only : bool, default=False
        Let the coordinator use only sums over the parties, as secure aggregation will show it.
    memory : int, default=None
        How many past steps (per party) the coordinator minimises over; None chooses by N and M.
    """

    sums_only: bool = False
    memory: int | None = None

    def __post_init__(self) -> None:
        need_types(self)
        if self.memory is not None and self.memory < 1:
            raise SettingError(f"Subspace(memory) must be at least 1. Found {self.memory}.")

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        if not loss.smooth:
            raise SettingError(f"Subspace needs a smooth loss. Found {loss!r}, which has kinks. {self.remedy}")
        self.check_penalties(penalties)

    def check_penalties(self, penalties: Mapping[str, Penalty]) -> None:
        """Raise SettingError unless every penalty is smooth or convex, and allows zero weights."""
        for name, penalty in penalties.items():
            if not penalty.smooth and not penalty.convex:
                raise SettingError(
                    f"Subspace needs penalties that are smooth or convex. Found {penalty!r} at party {name!r}. "
                    f"{self.remedy}"
                )
            zero = np.zeros(1)
            if penalty.feasible is not None and not np.array_equal(penalty.feasible.project(zero), zero):
                raise SettingError(
                    f"Subspace starts from zero weights. Found {penalty!r} at party {name!r}, which excludes them. "
                    f"{self.remedy}"
                )

    def party_side(self, block: Block) -> PartySide:
        return SubspaceParty(block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.coordinator_of(task)

    def coordinator_of(self, task: Task, stiffness: float = 1.0) -> SubspaceCoordinator:
        """The coordinator's side, for a loss whose gradient shows its curvature up to a factor."""
        return SubspaceCoordinator(task, self._memory(task), self.sums_only, stiffness)

    def _memory(self, task: Task) -> int:
        if self.memory is not None:
            return self.memory
        vectors = 1 if self.sums_only else len(task.parties)
        fitting = _SPAN_BYTES // (8 * task.rows * vectors)
        longest = _LONGEST_SUMS if self.sums_only else _LONGEST
        return int(max(3, min(longest, _SPAN_VECTORS // vectors, fitting)))
