"""How good the coordinator's state is: the objective with the parties' own account of it, and the proved gap."""

from collections.abc import Mapping

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Measured, Task
from plait.methods.subspace.bounds import Bounds
from plait.methods.subspace.coordinator_state import SubspaceState
from plait.methods.subspace.messages import Description
from plait.methods.subspace.point import Point
from plait.problem.row_blocks import by_parts

_ROUNDED_OFF = 16 * float(np.finfo(np.float64).eps)  # of scores, which are sums over all rounds


def bounded(judge: Task, state: SubspaceState, g: Array, said: Mapping[str, Description]) -> Bounds:
    """What is known about the optimum, with this round's dual point g (N,)."""
    if not judge.loss.convex:
        return state.bounds
    return state.bounds.with_dual(judge, g, list(said.values()))


def completed(task: Task, judge: Task, state: SubspaceState, here: Point, said: Mapping[str, Description]) -> Measured:
    """The state, whose bounds are this round's, with the parties' own account of it.

    judge: the task whose optimum is bounded from below.  here: the loss at the state's scores.
    """
    reports = list(said.values())
    missing = sum(r.drift_size for r in reports)
    curvature = float(np.max(here.curvature)) if missing else 0.0
    believed = here.value + sum(r.penalty for r in reports)
    objective = believed + sum(r.drift_slope for r in reports) + curvature * missing**2 / 2
    bounds = state.bounds
    hoped = len(task.parties) * sum(r.gain for r in reports) if judge is task else np.inf
    # What rounding left out is sent in the end; the last measurement then has the true objective.
    judged = believed
    if judge is not task:
        judged += judge.mean_loss(state.z) - here.value + bounds.counted(_hidden(judge, state.z))
    gap = bounds.gap(judged)
    silent = any(r.open > 0 and r.supposed == 0 for r in reports)
    estimate = np.inf if state.coarse else bounds.estimate(judged, hoped, task.loss.convex, silent)
    paused = state.coarse and bounds.paused(judged, abs(objective - believed))
    lyapunov = sum(r.stationarity for r in reports)
    before = replace(state.measured, objective=objective, lyapunov=lyapunov, paused=paused)
    return replace(before, gap=gap, estimate=estimate, dual=gap)


def _hidden(judge: Task, z: Array) -> float:
    """By how much the rounding of scores z (N,) far from zero may hide how large a loss with kinks is."""
    slope = judge.loss.slope()
    total = sum(by_parts(lambda rows: float(judge.weights[rows] @ np.abs(z[rows])), z.size))
    return _ROUNDED_OFF * (1.0 if slope is None else slope) * total
