"""Solvers that see the pooled table: run with growing effort until the judge is satisfied."""

import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.objective import Judge, Problem
from benchmarks.solvers import Clock, Curve, Limits, Point, Solver, rest, timed

_DENSE_BYTES = 2**30


class Pooled(Solver):
    """Effort is a limit on iterations, or the exponent of a tolerance: more of it comes closer."""

    pooled = True
    efforts: Sequence[int] = tuple(dict.fromkeys(int(np.ceil(1.5**k)) for k in range(21)))
    dense = False

    @abstractmethod
    def estimator(self, problem: Problem, effort: int) -> Any:
        """A scikit-learn estimator that will do so much and no more."""

    def table(self, problem: Problem) -> Any:
        return problem.pooled.toarray() if self.dense else problem.pooled

    def refuses(self, problem: Problem) -> str | None:
        if self.dense and not problem.sparse:
            return "the data are dense already"
        if self.dense and 8 * problem.rows * problem.columns > _DENSE_BYTES:
            return "the pooled table is too large when dense"
        return None

    def curve(self, problem: Problem, judge: Judge, limits: Limits) -> Curve:
        table = self.table(problem)

        def run(effort: int) -> tuple[Point, Clock]:
            estimator = self.estimator(problem, effort)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clock = timed(lambda: estimator.fit(table, problem.y))
            objective = judge.objective(np.ravel(estimator.coef_).astype(np.float64))
            return Point(effort, clock.wall, 0, judge.suboptimality(objective)), clock

        self.warm_up()
        began, points = time.process_time(), []
        for effort in self.efforts:
            points.append(run(effort)[0])
            stalled = len(points) > 3 and points[-1].suboptimality == points[-4].suboptimality
            if points[-1].suboptimality <= limits.finest or stalled or time.process_time() - began > limits.seconds:
                break
        least: dict[float, int] = {}

        def to(suboptimality: float) -> Clock | None:
            if suboptimality not in least:
                least[suboptimality] = self._least_effort(points, run, suboptimality)
            rest()  # finding out leaves caches warm
            return run(least[suboptimality])[1] if least[suboptimality] else None

        return Curve(points, self.options, to)

    options = "max_iter"

    def _least_effort(self, points: list[Point], run: Any, suboptimality: float) -> int:
        """Between an effort that fell short and the next that did not, by bisection; 0 if none did."""
        short, enough = 0, 0
        for point in points:
            if point.suboptimality <= suboptimality:
                enough = point.rounds
                break
            short = point.rounds
        while enough - short > 1:
            middle = (short + enough) // 2
            short, enough = (short, middle) if run(middle)[0].suboptimality <= suboptimality else (middle, enough)
        return enough

    def warm_up(self) -> None:
        """Compile, if the solver has something to compile: never timed."""
