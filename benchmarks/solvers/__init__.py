"""Solvers: each file has one or more; `solve` is what is timed, the judge alone says how good the result is."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.objective import Judge, Problem


@dataclass(frozen=True)
class Limits:
    """Where a solver gives up: rounds, and seconds of processor time, which a busy machine does not change."""

    rounds: int = 300
    seconds: float = 60.0
    finest: float = 1e-7
    """The relative suboptimality at which a curve ends."""


@dataclass(frozen=True)
class Clock:
    """Seconds by the clock on the wall, and seconds of processor time over all threads: steadier on a busy machine."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Point:
    """After so many rounds (or iterations), seconds and bytes: the relative suboptimality."""

    rounds: int
    seconds: float
    bytes: int
    suboptimality: float


@dataclass(frozen=True)
class Curve:
    """How a solver came down, its choice of options, and a call that goes just as far as a given suboptimality."""

    points: list[Point]
    options: str
    to: Callable[[float], Clock | None]
    """The time of one run, after a rest, from nothing to a relative suboptimality; None if it is not reached."""
    remarks: list[str] = field(default_factory=list)
    rivals: "list[Curve]" = field(default_factory=list)
    """The same solver with other options, where it was given a choice."""

    def first(self, suboptimality: float) -> Point | None:
        """Where the goal is first met, with the options that meet it in the fewest rounds."""
        found = [next((p for p in c.points if p.suboptimality <= suboptimality), None) for c in (self, *self.rivals)]
        return min((p for p in found if p is not None), key=lambda p: p.rounds, default=None)


class Solver(ABC):
    """One way to solve a problem.  A pooled solver sees all columns; the others exchange messages."""

    name: str
    pooled: bool = False

    def refuses(self, problem: Problem) -> str | None:
        """Why this solver does not apply, if it does not."""
        return None

    @abstractmethod
    def curve(self, problem: Problem, judge: Judge, limits: Limits) -> Curve:
        """Solve, as far as the limits allow."""


_REST = 0.2


def rest() -> None:
    """Wait until the threads of whatever ran before have come to rest: BLAS lets them spin on."""
    time.sleep(_REST)


def timed(call: Callable[[], object]) -> Clock:
    """How long a call takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Clock(time.perf_counter() - wall, time.process_time() - cpu)
