"""A deadline for something that blocks: when it passes, a given function ends the wait."""

import threading
import time
from collections.abc import Callable


class Deadline:
    """Calls `end` once, `seconds` from now or from the last `extend`, unless it is closed before."""

    def __init__(self, seconds: float, end: Callable[[], object]) -> None:
        self._end = end
        self._closed = threading.Event()
        self._at = time.monotonic() + seconds
        self.passed = False
        threading.Thread(target=self._watch, name="plait-deadline", daemon=True).start()

    def extend(self, seconds: float) -> None:
        """Move the deadline to `seconds` from now; cheap enough for every frame."""
        self._at = time.monotonic() + seconds

    def close(self) -> None:
        self._closed.set()

    def _watch(self) -> None:
        while (left := self._at - time.monotonic()) > 0:
            if self._closed.wait(min(left, _LOOK)):
                return
        if not self._closed.is_set():
            self.passed = True
            self._end()


_LOOK = 1.0  # seconds between two looks: a deadline that is moved nearer is noticed by then
