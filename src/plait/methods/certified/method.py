"""The subspace method with a certificate: exact steps at kinks and walls, and an end that is proved.

Experimental.  See docs/methods/certified.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plait._checks import need_types
from plait.errors import SettingError
from plait.methods.base import Block, CoordinatorSide, Method, PartySide, Task
from plait.methods.certified.coordinator import CertifiedCoordinator
from plait.methods.certified.party import CertifiedParty
from plait.methods.certified.questions import QUESTIONS
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

_SPAN_VECTORS, _SPAN_BYTES = 128, 2**30  # the longest span, and its bytes: more takes longer than a round
_LONGEST, _LONGEST_SUMS = 30, 40  # past directions: more gain no rounds


@dataclass(frozen=True)
class Certified(Method):
    """Smooth losses with any convex penalty or constraint; the gap to the optimum is proved (experimental).

    Vectors are sent in float64 only.

    Parameters
    ----------
    sums_only : bool, default=False
        Let the coordinator use only sums over the parties.
    memory : int, default=None
        How many past directions of each party the coordinator minimises over; None chooses by N and M.
    """

    precisions: ClassVar[tuple[str, ...]] = ("float64",)

    sums_only: bool = False
    memory: int | None = None

    def __post_init__(self) -> None:
        need_types(self)
        if self.memory is not None and self.memory < 1:
            raise SettingError(f"Certified(memory) must be at least 1. Found {self.memory}.")

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        if not loss.smooth:
            raise SettingError(f"Certified needs a smooth loss. Found {loss!r}, which has kinks. {self.remedy}")
        self.check_penalties(penalties)

    def check_penalties(self, penalties: Mapping[str, Penalty]) -> None:
        """Raise SettingError unless every penalty is smooth or convex, and allows zero weights."""
        for name, penalty in penalties.items():
            if not penalty.smooth and not penalty.convex:
                raise SettingError(
                    f"Certified needs penalties that are smooth or convex. Found {penalty!r} at party {name!r}. "
                    f"{self.remedy}"
                )
            zero = np.zeros(1)
            if penalty.feasible is not None and not np.array_equal(penalty.feasible.project(zero), zero):
                raise SettingError(
                    f"Certified starts from zero weights. Found {penalty!r} at party {name!r}, which excludes them. "
                    f"{self.remedy}"
                )

    def exchanges(self, rounds: int, rows: int) -> int:
        """A gradient, some questions and a measurement a round, and the closing one."""
        return (rounds + 1) * (QUESTIONS + 2)

    def party_side(self, block: Block) -> PartySide:
        return CertifiedParty(block)

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.coordinator_of(task)

    def coordinator_of(self, task: Task, stiffness: float = 1.0, judge: Task | None = None) -> CertifiedCoordinator:
        """The coordinator's side, for a loss whose gradient shows its curvature up to a factor."""
        return CertifiedCoordinator(task, self._memory(task), self.sums_only, stiffness, judge)

    def _memory(self, task: Task) -> int:
        if self.memory is not None:
            return self.memory
        vectors = 1 if self.sums_only else len(task.parties)
        fitting = _SPAN_BYTES // (8 * task.rows * vectors)
        longest = _LONGEST_SUMS if self.sums_only else _LONGEST
        return int(max(3, min(longest, _SPAN_VECTORS // vectors, fitting)))
