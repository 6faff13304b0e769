"""A clock of the seconds that this process has run: those for which it was stopped, or the machine slept, do not count.

The programs of a cell are stopped together with it then, so their time has not passed either.
"""

import threading
import time

_STEP, _LONGEST = 0.25, 2.0  # seconds between two looks; a longer gap was no time for this process


class _Clock:
    def __init__(self) -> None:
        self.seconds = 0.0
        threading.Thread(target=self._count, name="awake", daemon=True).start()

    def _count(self) -> None:
        last = time.monotonic()
        while True:
            time.sleep(_STEP)
            now = time.monotonic()
            self.seconds += min(now - last, _LONGEST)
            last = now


_CLOCK = _Clock()


def awake() -> float:
    """Seconds that this process has run since this module was imported."""
    return _CLOCK.seconds
