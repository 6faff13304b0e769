"""What a running program tells whoever watches it."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from plait.training.history import Round
from plait.training.tracking.tracker import Ending, RunFacts, Tracker
from plait.transports.mailbox import PeerStanding

Look = Callable[[], Sequence[PeerStanding]]
"""Tells how the other parties stand now."""
PHASE, REPORT = "phase", "report"
"""Events for pages and logs: which part of the program has begun, and where its report is."""
COMPARING = "comparing"
"""The part in which the label party trains with one partner after another, for its report."""


class Progress(Protocol):
    """A listener: sentences for people, events for logs, and a run from its beginning over its rounds to its end."""

    def say(self, text: str) -> None: ...

    def event(self, what: str, facts: dict[str, Any]) -> None: ...

    def peers(self, look: Look) -> None:
        """Take a function that tells how the others stand, to be called at any time."""
        ...

    def begin(self, facts: RunFacts) -> None: ...

    def round(self, record: Round) -> None: ...

    def end(self, ending: Ending) -> None: ...


class Silent(Tracker):
    """Listens to nothing."""

    def peers(self, look: Look) -> None:
        return

    def say(self, text: str) -> None:
        return

    def event(self, what: str, facts: dict[str, Any]) -> None:
        return


class Watchers:
    """Tells several listeners and trackers.

    A tracker that fails is told nothing more, and people are told why: a full disk at the tracker must not end a run.
    """

    def __init__(self, listeners: Sequence[Progress], trackers: Sequence[Tracker] = ()) -> None:
        self._listeners = listeners
        self._trackers = list(trackers)
        self._begun = self._ended = False

    def say(self, text: str) -> None:
        for each in self._listeners:
            each.say(text)

    def event(self, what: str, facts: dict[str, Any]) -> None:
        for each in self._listeners:
            each.event(what, facts)

    def peers(self, look: Look) -> None:
        for each in self._listeners:
            each.peers(look)

    def begin(self, facts: RunFacts) -> None:
        self._begun, self._ended = True, False
        for each in self._listeners:
            each.begin(facts)
        self._track(lambda tracker: tracker.begin(facts))

    def round(self, record: Round) -> None:
        for each in self._listeners:
            each.round(record)
        self._track(lambda tracker: tracker.round(record))

    def end(self, ending: Ending) -> None:
        for each in self._listeners:
            each.end(ending)
        if self._begun:
            self._track(lambda tracker: tracker.end(ending))
        self._begun, self._ended = False, True

    def fail(self, reason: str) -> None:
        """Tell that the program has failed, unless its end was told before."""
        if not self._ended:
            self.end(Ending(reason, converged=False, failed=True))

    def _track(self, tell: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            try:
                tell(tracker)
            except Exception as error:  # whatever a tracking library raises: it is not the run's business
                self._trackers.remove(tracker)
                self.say(f"{type(tracker).__name__} tracks no more: {error}")
