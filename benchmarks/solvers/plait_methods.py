"""plait's methods, each run through `plait.fit` with all parties in this process."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import plait
from benchmarks.objective import Judge, Problem
from benchmarks.solvers import Clock, Curve, Limits, Point, Solver, rest, timed

_AGREE = {"float64": 1e-9, "int16": 1e-7}


def penalty_of(problem: Problem) -> plait.Penalty:
    return plait.L2(problem.strength) if problem.kind == "l2" else plait.L1(problem.strength)


class OutOfTime(Exception):
    """A run has used up its processor time."""


@dataclass
class Trained:
    """A run: every round's record, the model if the run came to its end, and the reason if it did not."""

    records: list[plait.Round] = field(default_factory=list)
    fit: plait.Fit | None = None
    trouble: str | None = None


def train(
    problem: Problem, method: plait.Method, stopping: plait.Stopping, seconds: float, precision: str = "float64"
) -> Trained:
    """Train within so many seconds of processor time; without a limit nothing is recorded: it would cost time."""
    result, began = Trained(), time.process_time()

    def record(row: plait.Round) -> None:
        result.records.append(row)
        if time.process_time() - began > seconds:
            raise OutOfTime

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result.fit = plait.fit(
                problem.parts,
                problem.y,
                loss=problem.loss,
                penalty=penalty_of(problem),
                method=method,
                stopping=stopping,
                callbacks=() if np.isinf(seconds) else (record,),
                precision=precision,
                fit_intercept=False,
            )
        except plait.DivergedError:
            result.trouble = "diverged"
        except OutOfTime:
            result.trouble = "ran out of time"
    return result


class PlaitMethod(Solver):
    """One method with fixed options."""

    def __init__(self, name: str, method: plait.Method, rounds: int | None = None, precision: str = "float64") -> None:
        self.name = name
        self.method = method
        self.rounds = rounds
        self.precision = precision

    def refuses(self, problem: Problem) -> str | None:
        try:
            self.method.check(plait.Logistic(), {"party": penalty_of(problem)})
        except plait.SettingError as error:
            return str(error)
        return None

    def train(
        self, problem: Problem, judge: Judge, limits: Limits, suboptimality: float, seconds: float
    ) -> tuple[Trained, Clock]:
        rounds = min(limits.rounds, self.rounds or limits.rounds)
        stopping = plait.Stopping(max_rounds=rounds, tol=0.0, objective=judge.goal(suboptimality))
        results: list[Trained] = []
        clock = timed(lambda: results.append(train(problem, self.method, stopping, seconds, self.precision)))
        return results[0], clock

    def curve(self, problem: Problem, judge: Judge, limits: Limits) -> Curve:
        trained, clock = self.train(problem, judge, limits, limits.finest, limits.seconds)
        records = trained.records
        # What happens before the first exchange (reading, and whatever a party prepares) belongs to every point.
        setup = max(clock.wall - records[-1].seconds, 0.0) if trained.fit else 0.0
        sent = np.cumsum([r.bytes_down + r.bytes_up for r in records])
        points = [
            Point(r.round, setup + r.seconds, int(b), judge.suboptimality(r.objective))
            for r, b in zip(records, sent, strict=True)
        ]

        def to(suboptimality: float) -> Clock | None:
            rest()
            again, clock = self.train(problem, judge, limits, suboptimality, np.inf)
            return clock if again.fit is not None and again.fit.converged else None

        return Curve(points, repr(self.method), to, _remarks(trained, judge, _AGREE[self.precision]))


def _remarks(trained: Trained, judge: Judge, agree: float) -> list[str]:
    """What went wrong, and what the judge says about a method's own account of its last objective."""
    fit = trained.fit
    if fit is None:
        return [str(trained.trouble)]
    objective = judge.objective(np.concatenate(list(fit.weights)))
    if abs(objective - fit.objective) > agree * abs(objective):
        return [f"reports the objective {fit.objective:.12g}, but the judge finds {objective:.12g}"]
    return []


class BestOfGrid(Solver):
    """A method at the option that serves it best, found by trying: what its user would have to do.

    Rounds are those of the best value for each goal; seconds and pictures are those of the best value for the finest.
    """

    def __init__(self, name: str, make: Callable[[float], plait.Method], grid: Sequence[float], rounds: int) -> None:
        self.name = name
        self.make = make
        self.grid = grid
        self.rounds = rounds

    def refuses(self, problem: Problem) -> str | None:
        return PlaitMethod(self.name, self.make(self.grid[0])).refuses(problem)

    def curve(self, problem: Problem, judge: Judge, limits: Limits) -> Curve:
        curves = [PlaitMethod(self.name, self.make(v), self.rounds).curve(problem, judge, limits) for v in self.grid]
        diverged = sum("diverged" in c.remarks for c in curves)
        best = min(curves, key=_merit)
        remark = [f"best of {len(self.grid)} values" + (f"; {diverged} diverged" if diverged else "")]
        if best is curves[0] or best is curves[-1]:
            remark.append("AT THE END OF THE GRID: a value beyond it may be better")
        return replace(best, remarks=[*remark, *best.remarks], rivals=[c for c in curves if c is not best])


def _merit(curve: Curve) -> tuple[float, ...]:
    """Rounds to ever coarser goals, the finest first; unreached goals compare by where the curve ends."""
    least = min((p.suboptimality for p in curve.points if np.isfinite(p.suboptimality)), default=np.inf)
    reached = [curve.first(10.0**-k) for k in (6, 4, 3, 2, 1)]
    return (*(np.inf if p is None else p.rounds for p in reached), least)


SEPARATE = PlaitMethod("Subspace, separate", plait.Subspace())
SUMS = PlaitMethod("Subspace, sums only", plait.Subspace(sums_only=True))
SHORT = PlaitMethod("Subspace, separate, int16", plait.Subspace(), precision="int16")
PROXIMAL = PlaitMethod("Proximal", plait.Proximal())
RHO_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
JACOBI = BestOfGrid("Jacobi (the paper), best rho", lambda rho: plait.Jacobi(rho=rho), RHO_GRID, rounds=150)
PLAIN = BestOfGrid(
    "plain proximal ADMM, best rho",
    lambda rho: plait.Proximal(rho=rho, adaptive=False, acceleration=0),
    RHO_GRID,
    rounds=150,
)
GAUSS_SEIDEL = BestOfGrid(
    "GaussSeidel, best rho",
    lambda rho: plait.GaussSeidel(rho=rho),
    (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0),
    rounds=150,
)
SGD = BestOfGrid(
    "Sgd (FDML), best step",
    lambda step: plait.Sgd(step=step, batch=128, decay=0.1),
    (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 3.0, 10.0, 30.0),
    rounds=40,
)
