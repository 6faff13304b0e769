"""Live progress on the terminal, as sentences or as one JSON object per line."""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

import typer

from plait._names import plain
from plait.cli.tracking import tracker_of
from plait.deployment.event_words import EventWords
from plait.deployment.page.board import Board, Viewer
from plait.deployment.progress import PHASE, REPORT, Look, Progress, Silent, Watchers
from plait.errors import PlaitError
from plait.training.history import Round
from plait.training.tracking.forecast import Forecast, Forecaster
from plait.training.tracking.json_lines import json_line
from plait.training.tracking.tracker import Ending, RunFacts, fields_of

_ROUND_PAUSE = 0.2  # seconds between two rounds that are shown: as fast as an eye follows
_FIRST_ROUNDS = 3  # rounds that are always shown: a reader sees at once that something happens
_SHORT_RUN = 3.0  # seconds: a shorter run needs no forecast
_UNSAID = (PHASE, REPORT)
"""Events that sentences tell already."""


class Terminal(Silent):
    """Sentences for people.  The first and the last rounds are shown, and those between five times a second at most."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._kept: Round | None = None
        self._words = EventWords()
        self._forecaster = Forecaster()
        self._forecast = Forecast()

    def begin(self, facts: RunFacts) -> None:
        self._forecaster = Forecaster(facts.max_rounds, facts.tol)

    def say(self, text: str) -> None:
        self._show_kept()
        typer.echo(plain(text))

    def event(self, what: str, facts: dict[str, Any]) -> None:
        if what not in _UNSAID and (words := self._words.of(what, facts)):
            self.say(words)

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
        rest = f"  {self._forecast}" if record.seconds >= _SHORT_RUN else ""
        typer.echo(f"round {record.round:4d}  {state}{record.seconds:.2f} s{rest}")


def _distance(record: Round) -> str:
    """How far the round was from the end: a proved gap where the method has one, else both residuals."""
    if math.isnan(record.gap):
        return f"residuals {record.primal:.1e} {record.dual:.1e}"
    return f"gap {record.gap:.1e}" if math.isfinite(record.gap) else "no bound yet"


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
            with _told(Watchers([shown], trackers)) as watchers:
                yield watchers
            return
        from plait.deployment.page.web_server import PageAddress, PageServer

        board = Board(viewer)
        server = PageServer(board, PageAddress.of(self.page)).open()
        shown.say(f"live page: {server.url}")
        try:
            with _told(Watchers([shown, board], trackers)) as watchers:
                yield watchers
            self._wait_for_readers(shown)
        except PlaitError as error:
            if self.stay:
                shown.say(f"failed: {error}")
                self._wait_for_readers(shown)
            raise
        finally:
            server.close()

    def _wait_for_readers(self, shown: Progress) -> None:
        if self.stay:
            shown.say("the page stays: end it with Ctrl-C")
            with suppress(KeyboardInterrupt):  # the run has ended: how it did so decides how the program ends
                threading.Event().wait()


@contextmanager
def _told(watchers: Watchers) -> Iterator[Watchers]:
    """Tell the watchers of a program that fails or is interrupted, whichever part of it that happens in."""
    try:
        yield watchers
    except (PlaitError, OSError, MemoryError) as error:  # a full disk, too
        watchers.fail(str(error))
        raise
    except KeyboardInterrupt:
        watchers.fail("interrupted")
        raise


def watcher(log: str) -> Progress:
    """The listener for --log text or --log json."""
    return JsonLog() if log == "json" else Terminal()
