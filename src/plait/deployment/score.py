"""Joint prediction: every party adds its part D_m x_m of the scores of new rows."""

import csv
import io
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plait._files import write_atomically
from plait._types import Array
from plait._version import __version__
from plait.data import preparation
from plait.data.tables import keyed_digest
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.local_data import Rows, prepare_rows, read_file
from plait.deployment.message_log import AuditLog
from plait.deployment.progress import Progress
from plait.deployment.run_folder import COORDINATOR, RunFolder, find_run, new_run
from plait.errors import InputError, ProtocolError, StorageError, TransportError
from plait.messages import Broadcast, Parcel, Share
from plait.problem.features import clip_rows
from plait.transports.client import Link
from plait.transports.handshake import PROTOCOL, Finished, Hello, Query, Ready, Welcome
from plait.transports.server import Hub, Terms

PREDICT, SERVE = "predict", "serve"
LIMIT_REACHED = -1.0  # stands where the places of unknown ids stand (0 and above): the party's quota is used up


class Scorer:
    """A party's trained part and some of its rows: answers with D_m x_m, never with D_m or x_m."""

    def __init__(self, job: Job, file: PartyFile, run: str, key: str, rows_file: str) -> None:
        folder = RunFolder(file.path(file.runs) / run / file.name)
        if not (folder.path / "weights.json").exists():
            raise StorageError(f"{folder.path} must hold what {file.name!r} trained. Found no weights. Train first.")
        columns, weights, clip = folder.weights()
        self.rows: Rows = prepare_rows(file, read_file(file, rows_file), preparation.load(folder.path))
        if self.rows.columns != columns:
            raise InputError(f"{file.name!r} must bring the columns it was trained on. Found others in {rows_file}.")
        self.part: Array = clip_rows(self.rows.matrix, clip) @ weights
        self._ids = keyed_digest(self.rows.ids, bytes.fromhex(key))
        self._place = {name: i for i, name in enumerate(self.rows.ids)}
        self._allowance = Allowance(file.trust.max_queries)
        self._audit = AuditLog(folder.path / "audit.jsonl")

    @property
    def ready(self) -> Ready:
        return Ready(len(self.rows.ids), self._ids, 0)

    @property
    def lengths(self) -> frozenset[int]:
        return frozenset({len(self.rows.ids)})

    def answer(self, seq: int, broadcast: Broadcast) -> Share:
        self._audit.note("scored", rows=len(self.rows.ids))
        return Share(broadcast.round, self.part)

    def look_up(self, query: Query) -> Share:
        """Parts for these ids; the scalars name the places of unknown ones, or say that the limit is reached."""
        if not self._allowance.take(len(query.ids)):
            self._audit.note("limit reached", rows=len(query.ids))
            return Share(0, np.zeros(len(query.ids)), np.array([LIMIT_REACHED]))
        self._audit.note("scored", rows=len(query.ids))
        at = [self._place.get(name, -1) for name in query.ids]
        unknown = np.flatnonzero(np.array(at) < 0).astype(np.float64)
        return Share(0, np.where(np.array(at) >= 0, self.part[at], 0.0), unknown)

    def receive(self, parcel: Parcel) -> Parcel:
        raise ProtocolError(f"this party is here to score. Found a parcel, {parcel.what!r}.")

    def rest(self) -> None:
        """Nothing waits."""

    def finish(self, finished: Finished) -> None:
        self._audit.note("finished", ok=finished.ok, reason=finished.reason)


class Allowance:
    """At most so many per minute; 0 for no limit."""

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._left = float(per_minute)
        self._seen = time.monotonic()
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        """Whether `count` more are allowed now; if so they are taken."""
        if self._per_minute == 0:
            return True
        with self._lock:
            now = time.monotonic()
            self._left = min(self._per_minute, self._left + (now - self._seen) * self._per_minute / 60)
            self._seen = now
            if count > self._left:
                return False
            self._left -= count
            return True


@dataclass(frozen=True)
class JointScores:
    """Ids and scores z (N,) of new rows."""

    ids: tuple[str, ...]
    values: Array
    folder: Path

    def write(self, path: Path, probabilities: Array | None, decimals: int | None) -> None:
        """A CSV file, rounded where that is wanted: exact scores tell more about the columns than a decision needs."""
        text = io.StringIO()
        out = csv.writer(text)
        out.writerow(["id", "score", *(["probability"] if probabilities is not None else [])])
        columns = [self.values] if probabilities is None else [self.values, probabilities]
        for i, name in enumerate(self.ids):
            out.writerow([name, *(_shown(float(column[i]), decimals) for column in columns)])
        write_atomically(path, text.getvalue().encode())


def _shown(value: float, decimals: int | None) -> str:
    return repr(value) if decimals is None else f"{value:.{decimals}f}"


def trained(job: Job, file: PartyFile, run: str) -> RunFolder:
    """The coordinator's folder of a finished run: the newest of this job, or the one named."""
    runs = file.path(file.runs)
    found = RunFolder(runs / run / COORDINATOR) if run else find_run(runs, COORDINATOR, job.digest, ("finished",))
    if found is None or not (found.path / "model.json").exists():
        raise StorageError(f"{runs} must hold a finished run of this job. Found none. Train first, or name one: --run.")
    return found


def predict(
    job: Job,
    file: PartyFile,
    local: Sequence[PartyFile],
    listen: Listen | None,
    rows: str,
    run: str,
    progress: Progress,
) -> JointScores:
    """Scores of the coordinator's new rows by all parties together."""
    folder = trained(job, file, run)
    status = folder.status
    key = new_run()[1]
    table = read_file(file, rows or file.data.score)
    scorers = {f.name: Scorer(job, f, status.run, key, rows if f is file and rows else f.data.score) for f in local}
    digest = keyed_digest(table.ids, bytes.fromhex(key))
    for name, scorer in scorers.items():
        if scorer.ready.ids != digest:
            raise InputError(f"all parties must bring the same new rows in the same order. Found others at {name!r}.")
    parts = {name: scorer.answer(1, Broadcast(0)) for name, scorer in scorers.items()}
    remote = tuple(name for name in job.parties if name not in scorers)
    if listen is not None and remote:
        terms = Terms(remote, job.digest, PREDICT, status.run, key, table.rows, digest, job.coordinator.patience)
        parts |= _ask_everyone(terms, listen, progress)
    total = np.full(table.rows, float(folder.model()["intercept"]))
    for name in job.parties:
        vector = parts[name].vector
        assert vector is not None
        total += vector
    return JointScores(table.ids, total, folder.path)


def _ask_everyone(terms: Terms, listen: Listen, progress: Progress) -> dict[str, Share]:
    hub = Hub(terms, lambda what, **facts: progress.event(what, facts))
    hub.open(listen.address, listen.security)
    progress.say(f"waiting for {', '.join(terms.parties)} on {listen.address}")
    try:
        shares = hub.ask(1, dict.fromkeys(terms.parties, Broadcast(0)))
        hub.finish(Finished(True, f"{terms.rows} rows scored", {}), lambda _: None, 10.0)
        return shares
    finally:
        hub.close()


def help_score(job: Job, file: PartyFile, dial: Dial, rows: str, purpose: str, progress: Progress) -> None:
    """A party's part in `predict`, or in a prediction service until that ends."""
    opened: dict[str, Scorer] = {}

    def join(welcome: Welcome) -> Scorer:
        key = f"{welcome.run} {welcome.key}"
        if key not in opened:
            source = rows or file.data.score or file.data.file
            opened[key] = Scorer(job, file, welcome.run, welcome.key, source)
            progress.say(f"{file.name}: {len(opened[key].rows.ids)} rows ready, model of run {welcome.run}")
        return opened[key]

    link = Link(
        dial.address, job.coordinator.name, dial.security, job.coordinator.patience, lambda w, **f: progress.event(w, f)
    )
    finished = link.serve(Hello(PROTOCOL, __version__, file.name, job.digest, purpose), join)
    if not finished.ok:
        raise TransportError(f"the coordinator ended: {finished.reason}")
    progress.say(f"{file.name}: {finished.reason}")


def combine(job: Job, intercept: float, shares: dict[str, Share], count: int) -> tuple[Array, set[int], bool]:
    """Total scores, the places of ids that some party does not know, and whether a party's limit is reached."""
    total = np.full(count, intercept)
    unknown: set[int] = set()
    limited = False
    for name in job.parties:
        share = shares[name]
        if share.vector is None:
            raise ProtocolError(f"party {name!r} must answer with scores. Found none.")
        total += share.vector
        limited = limited or bool((share.scalars < 0).any())
        unknown |= {int(place) for place in share.scalars if place >= 0}
    return total, unknown, limited
