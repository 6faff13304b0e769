"""How fast an alignment goes, and how long it will take."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """Ids blinded so far, ids to blind in all, ids per second, seconds left."""

    done: int
    total: int
    rate: float
    left: float


class Meter:
    """Tells the pace, at most once per `every` seconds."""

    def __init__(self, tell: Callable[[Pace], None], every: float = 2.0) -> None:
        self.total = 0
        self._tell = tell
        self._every = every
        self._done = 0
        self._here = 0
        self._began = self._told = time.monotonic()

    def start(self, total: int, done: int) -> None:
        """There are `total` ids to blind, and `done` of them were blinded before a restart."""
        self.total, self._done = total, done

    def skip(self, count: int) -> None:
        """So many more turn out to have been blinded before a restart."""
        self._done += count

    def add(self, count: int) -> None:
        """So many more are blinded."""
        self._done += count
        self._here += count
        now = time.monotonic()
        if now - self._told >= self._every:
            self._told = now
            rate = self._here / (now - self._began)
            self._tell(Pace(self._done, self.total, rate, max(0, self.total - self._done) / rate))
