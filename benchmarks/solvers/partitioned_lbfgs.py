"""L-BFGS over the parties' columns: every evaluation is a round of N numbers up and N down for each party."""

import time
from contextlib import suppress
from itertools import pairwise

import numpy as np
import scipy.optimize
from scipy.special import expit

from benchmarks.objective import Judge, Problem
from benchmarks.solvers import Clock, Curve, Limits, Point, Solver, rest, timed

_MEMORY = 10
_SCALARS = 2 * _MEMORY + 1
"""Inner products that a vector-free L-BFGS exchanges beside the scores."""


class _Reached(Exception):
    """The goal is met: leave SciPy's loop."""


class PartitionedLbfgs(Solver):
    name = "partitioned L-BFGS"

    def refuses(self, problem: Problem) -> str | None:
        return None if problem.kind == "l2" else "L-BFGS needs a smooth penalty"

    def curve(self, problem: Problem, judge: Judge, limits: Limits) -> Curve:
        best = _minimise(problem, judge.goal(limits.finest), limits)
        per_round = 8 * len(problem.parts) * 2 * (problem.rows + _SCALARS)
        points = [Point(i, s, i * per_round, judge.suboptimality(v)) for i, (s, v) in enumerate(best, start=1)]

        def to(suboptimality: float) -> Clock | None:
            goal = judge.goal(suboptimality)
            found: list[tuple[float, float]] = []
            rest()
            spent = timed(lambda: found.extend(_minimise(problem, goal, limits)))
            return spent if found[-1][1] <= goal else None

        return Curve(points, f"maxcor={_MEMORY}", to)


def _minimise(problem: Problem, goal: float, limits: Limits) -> list[tuple[float, float]]:
    """For every evaluation, the seconds so far and the least objective so far."""
    began, busy = time.perf_counter(), time.process_time()
    ends = np.cumsum([0] + [p.shape[1] for p in problem.parts])
    y, n = problem.y, problem.rows
    seen: list[tuple[float, float]] = []

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        blocks = [x[a:b] for a, b in pairwise(ends)]
        z = np.sum([p @ b for p, b in zip(problem.parts, blocks, strict=True)], axis=0)
        value = float(np.logaddexp(0, -y * z).mean()) + problem.strength / 2 * float(x @ x)
        seen.append((time.perf_counter() - began, min(value, seen[-1][1] if seen else np.inf)))
        if value <= goal or len(seen) >= 10 * limits.rounds or time.process_time() - busy > limits.seconds:
            raise _Reached
        g = -y * expit(-y * z) / n
        return value, np.concatenate([p.T @ g for p in problem.parts]) + problem.strength * x

    options = {"maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0, "maxiter": 10**6, "maxfun": 10**6}
    with suppress(_Reached):
        scipy.optimize.minimize(evaluate, np.zeros(ends[-1]), jac=True, method="L-BFGS-B", options=options)
    return seen
