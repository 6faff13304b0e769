"""The subspace method: parties send exact steps on their own blocks, the coordinator minimises over their span.

A round.  The coordinator sends g = w loss'(z) and the coefficients of the last step.  Party m applies the step, solves
its own block exactly (see direction.py and kinked_step.py) and sends D_m d_m with a parabola for its penalty along its
directions.  The coordinator minimises the objective over the span of all directions, of every party separately or of
their sums only.  Where penalties have kinks or walls it asks the parties what a step would cost, scalars only, before
it is taken (questions.py).  So the objective never grows, and bounds.py proves how far from the optimum it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from plait._checks import need_types
from plait.errors import SettingError
from plait.methods.base import Block, CoordinatorSide, Method, PartySide, Task
from plait.methods.subspace.coordinator import SubspaceCoordinator
from plait.methods.subspace.coordinator_state import Groups
from plait.methods.subspace.party import SubspaceParty
from plait.methods.subspace.questions import QUESTIONS
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

_SPAN_WORK, _SPAN_VECTORS, _SPAN_BYTES = 2e8, (128, 240), 2**30
"""Multiplications for a Gram matrix of the span; the fewest and the most vectors that these may give; bytes of them."""
_LONGEST, _LONGEST_SUMS = 60, 80  # past directions: more gain no rounds


@dataclass(frozen=True)
class Subspace(Method):
    """Smooth losses with any convex penalty or constraint, in a tenth of the rounds of ADMM, and proved at the end.

    Parameters
    ----------
    sums_only : bool, default=False
        Let the coordinator use only sums over the parties.
    memory : int, default=None
        How many past directions of each party the coordinator minimises over; None chooses by N and M.
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

    def exchanges(self, rounds: int, rows: int) -> int:
        """A gradient, some questions and a measurement a round, and the closing one."""
        return (rounds + 1) * (QUESTIONS + 2)

    def party_side(self, block: Block) -> PartySide:
        return SubspaceParty(block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.coordinator_of(task)

    def coordinator_of(self, task: Task, stiffness: float = 1.0, judge: Task | None = None) -> SubspaceCoordinator:
        """The coordinator's side, for a loss whose gradient shows its curvature up to a factor."""
        groups = self.groups(task)
        return SubspaceCoordinator(task, self.span_length(task.rows, groups), groups, stiffness, judge)

    def groups(self, task: Task) -> Groups:
        """The parties that take a common step."""
        return (task.parties,) if self.sums_only else tuple((name,) for name in task.parties)

    def span_length(self, rows: int, groups: Groups) -> int:
        """How many past directions of each group the coordinator minimises over."""
        if self.memory is not None:
            return self.memory
        vectors = len(groups)
        most = np.clip(np.sqrt(_SPAN_WORK / rows), *_SPAN_VECTORS) / vectors
        fitting = _SPAN_BYTES // (8 * rows * vectors)
        longest = _LONGEST_SUMS if any(len(group) > 1 for group in groups) else _LONGEST
        return int(max(3, min(longest, most, fitting)))
