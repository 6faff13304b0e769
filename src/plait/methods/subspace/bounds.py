"""What is proved about the optimum: a lower bound from a dual point that the parties judge with a few numbers.

For every g with sum g = 0 (where there is an intercept) and every t in [0, 1],

    optimum >= - sum_i w_i loss*(t g_i / w_i) - sum_m penalty_m*(-t D_m^T g),

with equality at the optimum's own gradient.  Party m states the largest t for which its conjugate is finite, and the
conjugate there; for a smaller t a conjugate is no more than in proportion, as it is convex and zero at zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Task
from plait.methods.subspace.messages import Description
from plait.problem.conjugates import loss_conjugate
from plait.problem.row_blocks import by_parts

_LEAST_OBJECTIVE = 1e-10  # of the objective before round 1: below it a run counts as an exact fit
_SHRINKAGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
"""By how much a dual point is made smaller where rounding has led it out of the slopes that a loss can have."""
_ROUNDED_OFF = 2 * float(np.finfo(np.float64).eps)  # of a slope times its label: what rounding may add to a bound
_STUCK, _WAIT = 1e-12, 5
"""Of the objective, and rounds: one that has fallen by no more than this for so long is as low as rounding lets it be.
Where a penalty is so weak that rounding alone keeps the lower bound away, the run then ends on an estimate."""
_PLAUSIBLE = 1e-5
"""Of the objective: where slopes leave more to gain than this, parties that see no gain have overlooked it."""
_PAUSE, _LITTLE = 2, 2e-7  # rounds, and of the objective: what they gain where steps of int16 hide the way on
_LOOK_BACK = 3  # rounds: where nothing is proved, the objective must have fallen by little in each of them


@dataclass(frozen=True)
class Bounds:
    """The objective before round 1, the best lower bound, the best one supposing that weights are not huge."""

    start: float = np.inf
    lower: float = -np.inf
    supposed: float = -np.inf
    open: bool = True
    falls: tuple[float, ...] = ()

    def with_dual(self, task: Task, g: Array, reports: Sequence[Description]) -> "Bounds":
        """The same with the bound that the dual point g (N,) gives."""
        part = min(r.reach for r in reports)
        closed = sum(r.conjugate * (part / r.reach if r.reach > 0 else 0.0) for r in reports)
        lower = supposed = -np.inf
        for shrinkage in _SHRINKAGES:
            t = part * (1 - shrinkage)
            conjugate = loss_conjugate(task.loss, g, task.labels, task.weights, t)
            if np.isfinite(conjugate):
                lower = -conjugate - closed * (1 - shrinkage)
                break
        for again in _SHRINKAGES:
            if part < 1 or again != shrinkage:
                conjugate = loss_conjugate(task.loss, g, task.labels, task.weights, 1 - again)
            if np.isfinite(conjugate):
                supposed = -conjugate - (1 - again) * sum(r.supposed for r in reports)
                break
        found = any(r.open > 0 for r in reports)
        # Labels far from zero cancel in the bound, and scores far from zero in the objective.
        lost = _ROUNDED_OFF * sum(by_parts(lambda rows: float(np.abs(g[rows]) @ np.abs(task.labels[rows])), g.size))
        lower, supposed = lower - lost, supposed - lost
        return replace(self, lower=max(self.lower, lower), supposed=max(lower, supposed), open=found)

    def fallen(self, by: float) -> "Bounds":
        """The same after a round in which the objective fell."""
        return replace(self, falls=(*self.falls, by)[-_WAIT:])

    def scale(self, objective: float) -> float:
        """What gaps are relative to."""
        return max(abs(objective), _LEAST_OBJECTIVE * abs(self.start), 1e-300)

    def counted(self, rounding: float) -> float:
        """The rounding of an objective; none where it is less than an exact fit may leave, or no model is needed."""
        return rounding if rounding > _LEAST_OBJECTIVE * abs(self.start) > 0 else 0.0

    def gap(self, objective: float) -> float:
        """By how much the objective can still fall at most, relative: proved."""
        return max(objective - self.lower, 0.0) / self.scale(objective)

    def paused(self, objective: float, hidden: float) -> bool:
        """Whether rounds in steps of int16 gain nothing more, or less than what their rounding hides."""
        recent = self.falls[-_PAUSE:]
        return len(recent) == _PAUSE and max(recent) <= max(_LITTLE * self.scale(objective), hidden)

    def estimate(self, objective: float, hoped: float, convex: bool, silent: bool = False) -> float:
        """An estimate of that gap where nothing can be proved; nan where a proof can still be expected.

        It supposes that no weight of the optimum is much larger than the largest found.  It is at least what the best
        of the last rounds gained.  silent: whether some party's penalty is not convex, so that it says nothing of this.
        """
        scale = self.scale(objective)
        stuck = len(self.falls) == _WAIT and max(self.falls) <= _STUCK * scale
        if convex and not self.open and not stuck:
            return np.nan
        gained = max(self.falls[-_LOOK_BACK:]) if len(self.falls) >= _LOOK_BACK else np.inf
        left = objective - self.supposed if convex else hoped
        if stuck and (silent or left <= _PLAUSIBLE * scale):
            left = min(left, hoped)
        return max(left, gained, 0.0) / scale
