"""What clients have asked a prediction service, for its page; its size is bounded however many they are."""

from collections import deque
from statistics import median
from typing import Any

_RECENT = 1000  # newest answers whose times are kept: enough for a middle and a longest one
_SCORES = "/scores"  # paths that begin so give scores; others, as of watchdogs, show nobody anything
_REFUSED = 400  # status from which on nothing was given


class Requests:
    """Requests for scores: how many were answered or refused, and how long the newest took."""

    def __init__(self) -> None:
        self.answered = self.refused = 0
        self._seconds: deque[float] = deque(maxlen=_RECENT)

    def add(self, facts: dict[str, Any]) -> None:
        """Take a request of any kind, as the service tells it."""
        if not str(facts["path"]).startswith(_SCORES):
            return
        if int(facts["status"]) >= _REFUSED:
            self.refused += 1
            return
        self.answered += 1
        self._seconds.append(float(facts["seconds"]))

    def fields(self) -> dict[str, float | int | None]:
        """As JSON knows it."""
        recent = list(self._seconds)
        return {
            "answered": self.answered,
            "refused": self.refused,
            "middle": median(recent) if recent else None,
            "longest": max(recent, default=None),
        }
