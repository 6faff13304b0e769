"""Run a set of jobs and write table, pictures and environment to benchmarks/results/<name>/.

Jobs that are not run again keep their place in the table with what they gave last time.
"""

import argparse
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.jobs import FULL, QUICK, Job
from benchmarks.memory import measure
from benchmarks.objective import Judge, Problem
from benchmarks.report import write_job, write_tables
from benchmarks.solvers import Clock, Curve, rest
from plait.errors import DatasetError

RESULTS = Path(__file__).parent / "results"


@dataclass
class Result:
    """What one job gave: a curve and the clock of each repeat for every solver that ran, a reason for the others."""

    job: Job
    problem: Problem | None = None
    judge: Judge | None = None
    curves: dict[str, Curve] = field(default_factory=dict)
    clocks: dict[str, list[Clock]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    memory: dict[str, Any] | None = None


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def run_job(job: Job, repeats: int, solvers: str = "") -> Result:
    """All solvers once for their curves, then all of them in turn for the clock, so that noise meets them alike."""
    say(f"\n{job.name}")
    try:
        parts, y = job.data()
    except DatasetError as absent:
        say(f"  skipped: {absent}")
        return Result(job, skipped={"": str(absent)})
    problem = Problem(job.name, tuple(parts), y, job.kind, job.strength)
    judge = Judge(problem)
    say(f"  optimum {judge.optimum.value:.10g}, proven to {judge.optimum.gap:.1e}")
    result = Result(job, problem, judge)
    for solver in (s for s in job.solvers if any(word in s.name for word in solvers.split(","))):
        reason = solver.refuses(problem)
        if reason is not None:
            result.skipped[solver.name] = reason
            continue
        rest()
        curve = solver.curve(problem, judge, job.limits)
        result.curves[solver.name] = curve
        rounds = [curve.first(goal) for goal in job.goals]
        say(f"  {solver.name:32}", " / ".join("-" if p is None else str(p.rounds) for p in rounds), *curve.remarks)
    if job.memory is not None:
        options = {"rounds": job.limits.rounds, "strength": job.strength, "goal": judge.goal(job.timed_to)}
        result.memory = measure(kind="sparse", **options, **job.memory)
        say(f"  {result.memory}")
    for _ in range(repeats):
        for name, curve in result.curves.items():
            clock = curve.to(job.timed_to) if curve.first(job.timed_to) else None
            if clock is not None:
                result.clocks.setdefault(name, []).append(clock)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", choices=["full", "quick"])
    parser.add_argument("--only", default="", help="run only the jobs whose name contains this")
    parser.add_argument(
        "--solvers",
        default="",
        help="let only the solvers take part whose name contains one of these words, separated by commas",
    )
    parser.add_argument("--name", help="the folder's name under benchmarks/results")
    parser.add_argument("--repeats", type=int, default=3, help="how often the clock is read")
    options = parser.parse_args()
    every = FULL if options.jobs == "full" else QUICK
    jobs = [job for job in every if options.only in job.name]
    folder = RESULTS / (options.name or options.jobs)
    for job in jobs:
        write_job(folder, run_job(job, options.repeats, options.solvers))
    config = {**vars(options), "PLAIT_DATA": "set" if os.environ.get("PLAIT_DATA") else "not set"}
    print(write_tables(folder, [job.name for job in every], config))
    say(f"written to {folder}")


if __name__ == "__main__":
    main()
