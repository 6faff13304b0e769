"""Time to 1e-4 of plait's default method against the fastest solver that sees the pooled table, in one process.

    python -m benchmarks.speed [--only REGEX] [--repeats 9] [--docs docs/benchmarks.md]

Every solver runs to the goal and no further.  All of them run in turn, with a rest before each, and the best of the
repeats counts.  Ratios of processor time are what to look at on a busy machine.  The wall's clock favours whoever uses
more threads.
"""

import argparse
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes

from benchmarks.datasets import split, standardised, synthetic
from benchmarks.datasets.a9a import a9a
from benchmarks.datasets.credit import credit
from benchmarks.datasets.gisette import gisette
from benchmarks.datasets.small import breast_cancer, digits
from benchmarks.objective import Judge, Problem
from benchmarks.solvers import Clock, Curve, Limits, Solver
from benchmarks.solvers.plait_methods import SEPARATE
from benchmarks.solvers.skglm_pooled import CelerPooled, SkglmPooled
from benchmarks.solvers.sklearn_pooled import SKLEARN, SklearnSquared
from plait.errors import DatasetError

GOAL = 1e-4  # relative suboptimality
_LIMITS = Limits(rounds=200, seconds=30.0, finest=5e-5)
_SOLVERS: list[Solver] = [SEPARATE, *SKLEARN, SklearnSquared(), SkglmPooled(), CelerPooled()]
_SMALL = 0.1  # seconds of the fastest pooled solver: below it a table counts as small


@dataclass(frozen=True)
class Race:
    """A table, a penalty, and how many times as long as the fastest pooled solver plait may take.

    most is None where that depends on how long the fastest takes: twice as long on small tables, no longer on others.
    """

    name: str
    data: Callable[[], Any]
    kind: str
    strength: float
    most: float | None = None
    loss: str = "logistic"


@dataclass
class Ran:
    """What a race gave."""

    race: Race
    rounds: int | None = None
    clocks: dict[str, list[Clock]] = field(default_factory=dict)

    def best(self, name: str, clock: str) -> float:
        return min((getattr(c, clock) for c in self.clocks[name]), default=np.inf)

    def fastest(self, clock: str) -> str:
        """The pooled solver that took least."""
        return min((n for n in self.clocks if n != SEPARATE.name), key=lambda name: self.best(name, clock))

    def ratio(self, clock: str) -> float:
        return self.best(SEPARATE.name, clock) / self.best(self.fastest(clock), clock)

    @property
    def most(self) -> float:
        if self.race.most is not None:
            return self.race.most
        return 2.0 if self.best(self.fastest("wall"), "wall") < _SMALL else 1.0


def generated(rows: int, columns: int, parties: int) -> Any:
    """Independent columns of which a few matter, as a benchmark of genes or of clients has them."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((rows, columns))
    weights = np.where(np.arange(columns) % max(columns // 10, 1) == 0, rng.standard_normal(columns), 0.0)
    y = np.where(table @ weights + rng.logistic(size=rows) > 0, 1.0, -1.0)
    widths = [columns * (i + 1) // parties - columns * i // parties for i in range(parties)]
    return tuple(np.ascontiguousarray(part) for part in split(table, widths)), y


def diabetes() -> Any:
    table, y = load_diabetes(return_X_y=True)
    return split(standardised(table), [5, 5]), y - y.mean()


RACES = [
    Race("breast cancer, M=3, L1(1e-3)", breast_cancer, "l1", 1e-3, 4.0),
    Race("breast cancer, M=3, L1(1e-2)", breast_cancer, "l1", 1e-2, 4.0),
    Race("digits, M=2, L1(1e-3)", digits, "l1", 1e-3, 4.0),
    Race("1000 x 24, M=3, L1(1e-3)", partial(generated, 1000, 24, 3), "l1", 1e-3, 4.0),
    Race("diabetes, M=2, lasso(1)", diabetes, "l1", 1.0, 4.0, "squared"),
    Race("72 x 7129, M=3, L1(1e-2)", partial(generated, 72, 7129, 3), "l1", 1e-2, 20.0),
    Race("a9a, M=2, L1(1e-4)", partial(a9a, 2), "l1", 1e-4, 1.5),
    Race("a9a, M=10, L1(1e-4)", partial(a9a, 10), "l1", 1e-4, 3.0),
    Race("breast cancer, M=3, L2(1e-3)", breast_cancer, "l2", 1e-3),
    Race("digits, M=2, L2(1e-4)", digits, "l2", 1e-4),
    Race("1000 x 24, M=3, L2(1e-3)", partial(generated, 1000, 24, 3), "l2", 1e-3),
    Race("dense 5,000 x 60, M=3, L2(1e-4)", partial(synthetic.dense, 5_000, [10, 20, 30]), "l2", 1e-4),
    Race("credit, M=2, L2(1e-4)", credit, "l2", 1e-4),
    Race("a9a, M=2, L2(1e-4)", partial(a9a, 2), "l2", 1e-4),
    Race("a9a, M=10, L2(1e-4)", partial(a9a, 10), "l2", 1e-4),
    Race("dense 20,000 x 200, M=4, L2(1e-4)", partial(synthetic.dense, 20_000, [50] * 4), "l2", 1e-4),
    Race("gisette, M=3, L2(1e-3)", gisette, "l2", 1e-3),
]


def run(race: Race, repeats: int) -> Ran | None:
    """None where the table is not there."""
    try:
        parts, y = race.data()
    except DatasetError:
        return None
    problem = Problem(race.name, tuple(parts), y, race.kind, race.strength, race.loss)
    judge, found = Judge(problem), Ran(race)
    curves: dict[str, Curve] = {}
    for solver in _SOLVERS:
        if solver.refuses(problem) is None:
            curve = solver.curve(problem, judge, _LIMITS)
            reached = curve.first(GOAL)
            if reached is not None:
                curves[solver.name] = curve
                found.rounds = reached.rounds if solver is SEPARATE else found.rounds
    for _ in range(repeats):
        for name, curve in curves.items():
            clock = curve.to(GOAL)
            found.clocks.setdefault(name, []).extend([] if clock is None else [clock])
    return found


def row(ran: Ran) -> str:
    """A line of the table."""
    if SEPARATE.name not in ran.clocks:
        return f"| {ran.race.name} | not reached | | | | | |"
    fastest = ran.fastest("cpu")
    seconds = ran.best(fastest, "cpu"), ran.best(SEPARATE.name, "cpu")
    times = " | ".join(f"{1e3 * s:.1f}" for s in seconds)
    named = fastest.removeprefix("scikit-learn ")
    met = f"{ran.ratio('cpu'):.2f} | {ran.ratio('wall'):.2f} | {ran.most:g}"
    return f"| {ran.race.name} | {ran.rounds} | {named} | {times} | {met} |"


HEAD = """| table | rounds | fastest pooled | its CPU ms | plait's CPU ms | CPU ratio | wall ratio | wanted |
|---|---|---|---|---|---|---|---|"""
_MARKS = "<!-- speed -->", "<!-- /speed -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a regular expression that names of races must match")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--docs", type=Path, help="a page that has a place for the table")
    options = parser.parse_args()
    lines = [HEAD]
    print(HEAD, flush=True)
    for race in RACES:
        ran = run(race, options.repeats) if re.search(options.only, race.name) else None
        if ran is not None:
            lines.append(row(ran))
            print(lines[-1], flush=True)
    load = f"Load of the machine at the end: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores."
    print(load)
    if options.docs is not None:
        before, _, rest = options.docs.read_text().partition(_MARKS[0])
        _, _, after = rest.partition(_MARKS[1])
        table = "\n".join([_MARKS[0], *lines, "", load, _MARKS[1]])
        options.docs.write_text(before + table + after)


if __name__ == "__main__":
    main()
