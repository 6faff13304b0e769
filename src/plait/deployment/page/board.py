"""What the live page shows, collected while a program runs; its size is bounded however long that is."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from plait._names import plain
from plait._version import __version__
from plait.deployment.consent import protected, revealed, revealed_by_scores
from plait.deployment.event_words import EventWords
from plait.deployment.job_file import Job
from plait.deployment.page.curve import Curve
from plait.deployment.page.requests import Requests
from plait.deployment.progress import PHASE, REPORT, Look
from plait.deployment.scorer import SERVE
from plait.training.history import Round
from plait.training.tracking.forecast import Forecast, Forecaster
from plait.training.tracking.prometheus import RunGauges
from plait.training.tracking.tracker import Ending, RunFacts
from plait.transports.mailbox import PeerStanding

_LINES = 200  # of the log that are kept: more than anybody scrolls back
_WARNINGS = 20  # that are kept: the newest
_LATE = 5.0  # seconds of waiting for one answer, or of being away, after which a party is called late
_ALARMING = ("refused", "failed", "limit reached")


@dataclass
class _Peer:
    """What is known of another party from the events."""

    name: str
    here: bool = False
    since: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Viewer:
    """Whose page this is: the program, the job, and the name of the party that runs it.

    local   the parties whose columns are read in this process
    """

    program: str
    job: Job
    name: str
    local: tuple[str, ...] = ()

    @property
    def coordinates(self) -> bool:
        """Whether this program is the coordinator, which sees all parties and what is about the labels."""
        return self.name == self.job.coordinator.name

    @property
    def role(self) -> str:
        """What this program's owner is in the job, in words."""
        if self.name == self.job.label_party:
            return "Label party"
        return "Blind machine" if self.coordinates else "Feature party"

    @property
    def others(self) -> tuple[str, ...]:
        """The parties that this program talks to."""
        if not self.coordinates:
            return (self.job.coordinator.name,)
        return tuple(name for name in self.job.parties if name not in self.local)


class Board:
    """Listens to a program and tells the page how it stands; safe to ask from another thread.

    A feature party's program tells it no objective and nothing of the third parties, so its page cannot show them.
    """

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.curve = Curve()
        self.report = ""
        """The path of report.html, once there is one."""
        self._lock = threading.Lock()
        self._peers = {name: _Peer(name) for name in viewer.others}
        self._newest: Look = list
        self._before: dict[str, PeerStanding] = {}
        self._phase, self._phase_since = "starting", _now()
        self._alignment: dict[str, Any] = {}
        self._gauges = RunGauges()
        self._forecaster = Forecaster()
        self._log: deque[tuple[str, str]] = deque(maxlen=_LINES)
        self._warnings: deque[tuple[str, str]] = deque(maxlen=_WARNINGS)
        self._ending: Ending | None = None
        self._words = EventWords()
        self._run = ""
        self._requests = Requests()

    def say(self, text: str) -> None:
        with self._lock:
            self._log.append((_now(), plain(text, 1000)))

    def event(self, what: str, facts: dict[str, Any]) -> None:
        with self._lock:
            if what == PHASE:
                self._phase, self._phase_since = str(facts["phase"]), _now()
                self._run = str(facts.get("run", self._run))
                if self._phase == "serving":
                    self._link_up()
            elif what == REPORT:
                self.report = str(facts["path"])
            elif what == "aligning":
                self._alignment = dict(facts)
            elif what == "request":
                self._requests.add(facts)
            else:
                self._heard(what, facts)

    def _heard(self, what: str, facts: dict[str, Any]) -> None:
        """An event about another party, or one that somebody should know."""
        name = str(facts.get("peer", "" if self.viewer.coordinates else self.viewer.job.coordinator.name))
        if (peer := self._peers.get(name)) is not None and what in ("joined", "left", "disconnected"):
            peer.here, peer.since = what == "joined", _now()
            peer.fingerprint = str(facts.get("fingerprint", peer.fingerprint))
        if words := self._words.of(what, facts):
            line = (_now(), plain(words, 1000))
            self._log.append(line)
            if what in _ALARMING:
                self._warnings.append(line)

    def peers(self, look: Look) -> None:
        self._before = {standing.name: standing for standing in self._look()}
        self._newest = look

    def _look(self) -> list[PeerStanding]:
        """How every party stands now, or stood at the end of the last part of the program that it took part in."""
        now = {standing.name: standing for standing in self._newest()}
        return list({**self._before, **now}.values())

    def begin(self, facts: RunFacts) -> None:
        with self._lock:
            self._forecaster = Forecaster(facts.max_rounds, facts.tol)
            self._gauges = RunGauges(facts, running=True)
            self._ending = None
            self.curve.clear()
            self._link_up()

    def round(self, record: Round) -> None:
        with self._lock:
            self._gauges = self._gauges.after(record, self._forecaster.add(record))
            self.curve.add(record)
            self._link_up()

    def _link_up(self) -> None:
        """At a feature party, mark the coordinator as connected: it has just asked something."""
        if not self.viewer.coordinates:
            for peer in self._peers.values():
                if not peer.here:
                    peer.here, peer.since = True, _now()

    def end(self, ending: Ending) -> None:
        with self._lock:
            self._ending, self._gauges = ending, self._gauges.ended
            self._phase, self._phase_since = ("failed" if ending.failed else "done"), _now()
            if ending.failed:
                self._warnings.append((_now(), plain(ending.reason, 1000)))

    @property
    def ready(self) -> bool:
        """Whether everybody that this program talks to is here."""
        return all(peer["here"] for peer in self._standings(self._look()))

    def exposition(self) -> str:
        """The newest round, for Prometheus."""
        return self._gauges.exposition()

    def state(self) -> dict[str, Any]:
        """All but the curve, as JSON knows it."""
        peers = self._look()
        with self._lock:
            viewer, gauges = self.viewer, self._gauges
            facts, record = gauges.facts, gauges.record
            forecast: Forecast = gauges.forecast
            return {
                "plait": __version__,
                "program": viewer.program,
                "job": viewer.job.name,
                "name": viewer.name,
                "role": viewer.role,
                "coordinates": viewer.coordinates,
                "patience": viewer.job.coordinator.patience,
                "phase": self._phase,
                "phase_since": self._phase_since,
                "run": self._run,
                "rows": facts.rows or None,
                "method": facts.method,
                "round": record.round,
                "seconds": record.seconds,
                "objective": record.objective if record.objective == record.objective else None,
                **forecast.fields(),
                "max_rounds": facts.max_rounds if facts.rows else None,
                "bytes_down": gauges.bytes_down,
                "bytes_up": gauges.bytes_up,
                "local": list(viewer.local),
                "parties": self._standings(peers),
                "alignment": (self._alignment or None) if self._phase == "aligning" else None,
                "requests": self._requests.fields() if viewer.program == SERVE and viewer.coordinates else None,
                "revealed": revealed_by_scores(viewer.job, viewer.name, self._requests.answered)
                if viewer.program == SERVE
                else revealed(viewer.job, viewer.name, record.round, facts.rows),
                "guarantee": protected(viewer.job),
                "warnings": [*self._warnings],
                "log": [*self._log],
                "ending": None if self._ending is None else asdict(self._ending),
                "report": self.report,
            }

    def _standings(self, found: Sequence[PeerStanding]) -> list[dict[str, Any]]:
        live = {standing.name: standing for standing in found}
        return [_shown(peer, live.get(peer.name)) for peer in self._peers.values()]


def _shown(peer: _Peer, live: PeerStanding | None) -> dict[str, Any]:
    here = peer.here if live is None else live.connected
    awaited = 0.0 if live is None else live.awaited
    away = 0.0 if live is None else live.away
    return {
        "name": peer.name,
        "here": here,
        "since": peer.since,
        "fingerprint": peer.fingerprint,
        "awaited": round(awaited, 1),
        "away": round(away, 1),
        "took": None if live is None else live.took,
        "late": awaited > _LATE or (not here and away > _LATE),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
