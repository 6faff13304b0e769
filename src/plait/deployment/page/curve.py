"""The rounds of a run as points of a picture: never more than a screen can show, however many rounds there are."""

import math
import threading
from collections import deque
from collections.abc import Sequence

from plait.training.history import Round

_MOST = 2000  # points: more than a picture is wide; beyond, every second one is dropped
_RECENT = 512  # newest points that a page gets one by one; one that missed more gets the whole curve

Point = tuple[int, float, float | None, float | None]
"""A round's number, its second, its objective and its residual; None where that is not known."""


class Curve:
    """Points in order, thinned out evenly."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: list[Point] = []
        self._recent: deque[tuple[int, Point]] = deque(maxlen=_RECENT)
        self._every = 1
        self._added = 0

    def clear(self) -> None:
        """Forget all points; a page that shows some is sent the new curve."""
        with self._lock:
            self._points, self._every = [], 1
            self._recent.clear()
            self._added += 1

    def add(self, record: Round) -> None:
        """Take a round."""
        point = (record.round, record.seconds, _known(record.objective), _known(_residual(record)))
        with self._lock:
            self._added += 1
            self._recent.append((self._added, point))
            if record.round % self._every == 0 or not self._points:
                self._points.append(point)
            if len(self._points) > _MOST:
                self._every *= 2
                kept = (point for point in self._points[1:] if point[0] % self._every == 0)
                self._points = [self._points[0], *kept]

    def since(self, seen: int) -> tuple[int, bool, Sequence[Point]]:
        """A mark for the next time; whether the points are the whole curve; and the points after mark `seen`."""
        with self._lock:
            new = [point for number, point in self._recent if number > seen]
            if seen > 0 and self._added - seen == len(new):
                return self._added, False, new
            return self._added, True, list(self._points)


def _residual(record: Round) -> float:
    """The proved gap, else its estimate, else the larger residual."""
    for value in (record.gap, record.estimate, max(record.primal, record.dual)):
        if math.isfinite(value):
            return value
    return math.nan


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
