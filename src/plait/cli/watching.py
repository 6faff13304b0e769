"""Live progress on the terminal, as sentences or as one JSON object per line."""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import typer

from plait._names import plain
from plait.cli.tracking import tracker_of
from plait.deployment.page.board import Board, Viewer
from plait.deployment.progress import PHASE, REPORT, Look, Progress, Silent, Watchers
from plait.training.history import Round
from plait.training.tracking.forecast import Forecast, Forecaster
from plait.training.tracking.json_lines import json_line
from plait.training.tracking.tracker import Ending, RunFacts, fields_of

_ROUND_PAUSE = 0.2  # seconds between two rounds that are shown: as fast as an eye follows
_FIRST_ROUNDS = 3  # rounds that are always shown: a reader sees at once that something happens
_SHORT_WAIT = 3.0  # seconds without a connection that are normal: between two phases, and while programs start
_UNSHOWN = ("address", "fingerprint")  # facts that fill a line and help nobody who reads along
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
_UNSAID = ("early", PHASE, REPORT)
"""Events that sentences tell already, or that nobody has to know: an early party tries again by itself."""
_LONG_PAUSE = 15.0  # seconds between two attempts that belong to different waits: thrice the longest pause of a party


class Terminal(Silent):
    """Sentences for people.  The first and the last rounds are shown, and those between five times a second at most."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._kept: Round | None = None
        self._wait = _Wait()
        self._forecaster = Forecaster()
        self._forecast = Forecast()

    def begin(self, facts: RunFacts) -> None:
        self._forecaster = Forecaster(facts.max_rounds, facts.tol)

    def say(self, text: str) -> None:
        self._show_kept()
        typer.echo(plain(text))

    def event(self, what: str, facts: dict[str, Any]) -> None:
        if what == "disconnected":
            if self._wait.lasts(facts["reason"], time.monotonic(), facts["again"]):
                self.say(f"waiting for the coordinator: {facts['reason']}")
        elif what not in _UNSAID:
            self.say(_sentence(what, facts))

    def round(self, record: Round) -> None:
        now = time.monotonic()
        self._kept, self._forecast = record, self._forecaster.add(record)
        if record.round <= _FIRST_ROUNDS or now - self._shown >= _ROUND_PAUSE:
            self._shown = now
            self._show_kept()

    def _show_kept(self) -> None:
        """Show the newest round, if it was not shown: it is the last one before what is said next."""
        if (record := self._kept) is None:
            return
        self._kept = None
        known = math.isfinite(record.objective)  # nobody releases it in a private run
        state = f"objective {record.objective:.6g}  {_distance(record)}  " if known else ""
        rest = f"  {self._forecast}" if record.seconds >= _SHORT_WAIT else ""  # a short run needs no forecast
        typer.echo(f"round {record.round:4d}  {state}{record.seconds:.2f} s{rest}")


def _distance(record: Round) -> str:
    """How far the round was from the end: a proved gap where the method has one, else both residuals."""
    if math.isnan(record.gap):
        return f"residuals {record.primal:.1e} {record.dual:.1e}"
    return f"gap {record.gap:.1e}" if math.isfinite(record.gap) else "no bound yet"


def _sentence(what: str, facts: dict[str, Any]) -> str:
    """An event in words; how often it happened, where it was not the first time."""
    if what not in _SENTENCES:
        return f"{what}: " + ", ".join(f"{k} {v}" for k, v in facts.items() if k not in _UNSHOWN)
    times = f" (time {facts['times']})" if "times" in facts else ""
    return _SENTENCES[what].format_map(facts) + times


class _Wait:
    """How long a party has had no connection, and what was said about it."""

    def __init__(self) -> None:
        self._began = self._last = -math.inf
        self._said = ""

    def lasts(self, reason: str, now: float, again: bool) -> bool:
        """Whether to say now that the party waits: not at once, and each reason once.

        A wait begins anew when this is not `again` an attempt in vain, but the first one, or the end of a connection.
        """
        if not again or now - self._last > _LONG_PAUSE:
            self._began, self._said = now, ""
        self._last = now
        if now - self._began < _SHORT_WAIT or reason == self._said:
            return False
        self._said = reason
        return True


class JsonLog:
    """One JSON object per line, for log collectors: what `JsonLinesFile` writes, and all that happens besides."""

    def __init__(self) -> None:
        self._forecaster = Forecaster()

    def say(self, text: str) -> None:
        self.event("says", {"text": text})

    def event(self, what: str, facts: dict[str, Any]) -> None:
        typer.echo(json_line(what, facts))

    def peers(self, look: Look) -> None:
        return

    def begin(self, facts: RunFacts) -> None:
        self._forecaster = Forecaster(facts.max_rounds, facts.tol)
        self.event("begin", asdict(facts))

    def round(self, record: Round) -> None:
        self.event("round", fields_of(record) | self._forecaster.add(record).fields())

    def end(self, ending: Ending) -> None:
        self.event("end", asdict(ending))


@dataclass(frozen=True)
class Shown:
    """How a program shows what it does, as its command line says.

    log     text or json, on the terminal
    track   where rounds are written to besides
    page    host:port of a live page; empty for none
    stay    whether the page stays after the end, until the program is interrupted
    """

    log: str
    track: Sequence[str] = ()
    page: str = ""
    stay: bool = False

    @contextmanager
    def watch(self, viewer: Viewer) -> Iterator[Watchers]:
        """The listeners and trackers of a program; its page is served within this context."""
        shown, trackers = watcher(self.log), [tracker_of(each) for each in self.track]
        if not self.page:
            yield Watchers([shown], trackers)
            return
        from plait.deployment.page.web_server import PageAddress, PageServer

        board = Board(viewer)
        server = PageServer(board, PageAddress.of(self.page)).open()
        shown.say(f"live page: {server.url}")
        try:
            yield Watchers([shown, board], trackers)
            if self.stay:
                shown.say("the page stays: end it with Ctrl-C")
                threading.Event().wait()
        finally:
            server.close()


def watcher(log: str) -> Progress:
    """The listener for --log text or --log json."""
    return JsonLog() if log == "json" else Terminal()
