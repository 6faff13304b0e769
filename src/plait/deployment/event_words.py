"""What happens in a program, in words: the same for its terminal and its page."""

import math
import time
from typing import Any

_SHORT_WAIT = 3.0  # seconds without a connection that are normal: between two phases, and while programs start
_LONG_PAUSE = 15.0  # seconds between two attempts that belong to different waits: thrice the longest pause of a party
_UNSHOWN = ("address", "fingerprint")  # facts that fill a line and help nobody who reads along
_UNSAID = ("early",)  # nobody has to know: a party that comes early tries again by itself
_SENTENCES = {
    "joined": "{peer} is connected",
    "left": "{peer} has left",
    "refused": "refused {peer}: {reason}",
    "aligning": "{party}: {blinded:,} of {of:,} ids blinded, {ids a second:,} a second, about {seconds left:,} s left",
    "request": "{method} {path} of {client}: {status} in {seconds} s, request {request}",
    "failed": "request {request} failed: {reason}",
    "http": "{text}",
}
"""Events in words; others are shown with their facts."""


class EventWords:
    """Turns events into sentences.  A short wait for the coordinator gets none."""

    def __init__(self) -> None:
        self._wait = _Wait()

    def of(self, what: str, facts: dict[str, Any]) -> str:
        """The sentence for an event, with how often it happened; empty where nobody has to know."""
        if what in _UNSAID:
            return ""
        if what == "disconnected":
            lasts = self._wait.lasts(facts["reason"], time.monotonic(), facts["again"])
            return f"waiting for the coordinator: {facts['reason']}" if lasts else ""
        if what not in _SENTENCES:
            return f"{what}: " + ", ".join(f"{key} {value}" for key, value in facts.items() if key not in _UNSHOWN)
        times = f" (time {facts['times']})" if "times" in facts else ""
        return _SENTENCES[what].format_map(facts) + times


class _Wait:
    """How long a party has had no connection, and what was said about it."""

    def __init__(self) -> None:
        self._began = self._last = -math.inf
        self._said = ""

    def lasts(self, reason: str, now: float, again: bool) -> bool:
        """Whether to say now that the party waits: not at once, and each reason once.

        `again` says that the attempt before this one failed, too.  Otherwise this is the first attempt, or a
        connection has ended: a new wait begins.
        """
        if not again or now - self._last > _LONG_PAUSE:
            self._began, self._said = now, ""
        self._last = now
        if now - self._began < _SHORT_WAIT or reason == self._said:
            return False
        self._said = reason
        return True
