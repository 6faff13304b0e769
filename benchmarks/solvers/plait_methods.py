"""plait's methods, each run through `plait.fit` with all parties in this process."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

import plait
from benchmarks.objective import Judge, Problem
from benchmarks.solvers import Clock, Curve, Limits, Point, Solver, timed

_AGREE = 1e-9


def penalty_of(problem: Problem) -> plait.Penalty:
    return plait.L2(problem.strength) if problem.kind == "l2" else plait.L1(problem.strength)


def train(
    problem: Problem, method: plait.Method, stopping: plait.Stopping, records: list[plait.Round] | None = None
) -> plait.Fit | None:
    """The trained model, or None where the run diverged; every round's record is appended to `records`."""
    callbacks = () if records is None else (records.append,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return plait.fit(
                problem.parts,
                problem.y,
                penalty=penalty_of(problem),
                method=method,
                stopping=stopping,
                callbacks=callbacks,
            )
        except plait.DivergedError:
            return None


class PlaitMethod(Solver):
    """One method with fixed options."""

    def __init__(self, name: str, method: plait.Method, rounds: int | None = None) -> None:
        self.name = name
        self.method = method
        self.rounds = rounds

    def refuses(self, problem: Problem) -> str | None:
        try:
            self.method.check(plait.Logistic(), {"party": penalty_of(problem)})
        except plait.SettingError as error:
            return str(error)
        return None

    def stopping(self, judge: Judge, limits: Limits, suboptimality: float) -> plait.Stopping:
        rounds = min(limits.rounds, self.rounds or limits.rounds)
        goal = judge.goal(suboptimality)
        return plait.Stopping(max_rounds=rounds, tol=0.0, max_seconds=limits.seconds, objective=goal)

    def curve(self, problem: Problem, judge: Judge, limits: Limits) -> Curve:
        records: list[plait.Round] = []
        fits: list[plait.Fit | None] = []
        stopping = self.stopping(judge, limits, limits.finest)
        whole = timed(lambda: fits.append(train(problem, self.method, stopping, records))).wall
        # What happens before the first exchange (reading, and whatever a party prepares) belongs to every point.
        setup = max(whole - records[-1].seconds, 0.0) if records else whole
        sent = np.cumsum([r.bytes_down + r.bytes_up for r in records])
        points = [
            Point(r.round, setup + r.seconds, int(b), judge.suboptimality(r.objective))
            for r, b in zip(records, sent, strict=True)
        ]

        def to(suboptimality: float) -> Clock | None:
            fits: list[plait.Fit | None] = []
            clock = timed(lambda: fits.append(train(problem, self.method, self.stopping(judge, limits, suboptimality))))
            reached = fits[0] is not None and fits[0].converged
            return clock if reached else None

        return Curve(points, repr(self.method), to, _remarks(fits[0], judge))


def _remarks(fit: plait.Fit | None, judge: Judge) -> list[str]:
    """What the judge says about a method's own account of its last objective."""
    if fit is None:
        return ["diverged"]
    objective = judge.objective(np.concatenate(list(fit.weights)))
    if abs(objective - fit.objective) > _AGREE * abs(objective):
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
        limits = replace(limits, seconds=limits.seconds / 2)
        curves = [PlaitMethod(self.name, self.make(v), self.rounds).curve(problem, judge, limits) for v in self.grid]
        diverged = sum("diverged" in c.remarks for c in curves)
        best = min(curves, key=_merit)
        remark = [f"best of {len(self.grid)} values" + (f"; {diverged} diverged" if diverged else "")]
        return replace(best, remarks=[*remark, *best.remarks], rivals=[c for c in curves if c is not best])


def _merit(curve: Curve) -> tuple[float, ...]:
    """Rounds to ever coarser goals, the finest first; unreached goals compare by where the curve ends."""
    least = min((p.suboptimality for p in curve.points if np.isfinite(p.suboptimality)), default=np.inf)
    reached = [curve.first(10.0**-k) for k in (6, 4, 3, 2, 1)]
    return (*(np.inf if p is None else p.rounds for p in reached), least)


SEPARATE = PlaitMethod("Subspace, separate", plait.Subspace())
SUMS = PlaitMethod("Subspace, sums only", plait.Subspace(sums_only=True))
PROXIMAL = PlaitMethod("Proximal", plait.Proximal())
RHO_GRID = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
JACOBI = BestOfGrid("Jacobi (the paper), best rho", lambda rho: plait.Jacobi(rho=rho), RHO_GRID, rounds=150)
PLAIN = BestOfGrid(
    "plain proximal ADMM, best rho",
    lambda rho: plait.Proximal(rho=rho, adaptive=False, acceleration=0),
    RHO_GRID,
    rounds=150,
)
GAUSS_SEIDEL = BestOfGrid("GaussSeidel, best rho", lambda rho: plait.GaussSeidel(rho=rho), (0.01, 0.1, 1.0), rounds=150)
SGD = BestOfGrid(
    "Sgd (FDML), best step",
    lambda step: plait.Sgd(step=step, batch=128, decay=0.1),
    (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    rounds=40,
)
