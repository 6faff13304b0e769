"""How fast rounds come, how many there will be, and how long that takes."""

import math
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from plait.training.history import Round
from plait.training.stopping import Stopping

_WINDOW = 8  # rounds that the rate and the trend are taken from: enough to smooth, few enough to follow a change
_FEWEST = 3  # rounds before anything is said of the end: two points always lie on a line


@dataclass(frozen=True)
class Forecast:
    """What can be said of the rest of a run.

    Parameters
    ----------
    rate : float or None, default=None
        Rounds a second; None before the second round.
    rounds_expected : int or None, default=None
        How many rounds there will be in all, where the residuals fall steadily; None where that cannot be told.
    seconds_left : float or None, default=None
        How long they take.
    """

    rate: float | None = None
    rounds_expected: int | None = None
    seconds_left: float | None = None

    def fields(self) -> dict[str, Any]:
        """As JSON knows it."""
        return asdict(self)

    def __str__(self) -> str:
        """For people: "4.2 rounds/s, about 12 s left"; empty where nothing can be said."""
        rate = (
            ""
            if self.rate is None
            else f"{self.rate:.3g} rounds/s"
            if self.rate >= 1
            else f"{1 / self.rate:.3g} s a round"
        )
        left = "" if self.seconds_left is None else f"about {duration(self.seconds_left)} left"
        return ", ".join(part for part in (rate, left) if part)


class Forecaster:
    """Looks at the last rounds: their times give the rate; the fall of what the tolerance is about gives the end.

    log(measure) is taken as a line over the last 8 rounds, and followed to log(tol).

    Parameters
    ----------
    max_rounds : int, default=200
        The run ends there at the latest.
    tol : float, default=1e-6
        The run ends when its measure is at or below this.
    """

    def __init__(self, max_rounds: int = Stopping().max_rounds, tol: float = Stopping().tol) -> None:
        self._max_rounds = max_rounds
        self._tol = tol
        self._last: deque[Round] = deque(maxlen=_WINDOW)

    def add(self, record: Round) -> Forecast:
        """Take a round; returns what can be said now."""
        self._last.append(record)
        rate, expected = self._rate(), self._expected()
        left = None if rate is None or expected is None else max(0, expected - record.round) / rate
        return Forecast(rate, expected, left)

    def _rate(self) -> float | None:
        first, last = self._last[0], self._last[-1]
        seconds = last.seconds - first.seconds
        return (last.round - first.round) / seconds if seconds > 0 else None

    def _expected(self) -> int | None:
        if not self._tol > 0:
            return self._max_rounds
        points = [(r.round, math.log(m)) for r in self._last if (m := _measure(r)) > 0]
        if len(points) < _FEWEST:
            return None
        xs, ys = [x for x, _ in points], [y for _, y in points]
        x, y = sum(xs) / len(xs), sum(ys) / len(ys)
        slope = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a in xs)
        if slope >= 0:
            return self._max_rounds
        end = x + (math.log(self._tol) - y) / slope
        return int(min(self._max_rounds, max(math.ceil(end), self._last[-1].round + 1)))


def _measure(record: Round) -> float:
    """What the tolerance is compared with: the proved gap, else its estimate, else the larger residual; nan if none."""
    for value in (record.gap, record.estimate, max(record.primal, record.dual)):
        if math.isfinite(value):
            return value
    return math.nan


def duration(seconds: float) -> str:
    """In words of at most two units: "3 s", "4 min 10 s", "2 h 5 min"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
