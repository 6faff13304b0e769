"""Joint prediction: every party adds its part D_m x_m of the scores of new rows."""

import csv
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from plait._files import write_atomically
from plait._names import check_run
from plait._types import Array
from plait._version import __version__
from plait.data import preparation
from plait.data.tables import keyed_digest
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import PREDICTION, SERVICE, need_phase
from plait.deployment.local_data import Rows, prepare_rows, read_file, read_training_rows
from plait.deployment.message_log import AuditLog
from plait.deployment.party_privacy import discreet, guaranteed
from plait.deployment.progress import Progress
from plait.deployment.run_folder import COORDINATOR, RunFolder, find_run, new_run
from plait.deployment.score_limits import ScoreLimits
from plait.errors import InputError, PrivacyError, ProtocolError, StorageError, TransportError
from plait.messages import Broadcast, Form, Parcel, Share
from plait.privacy.policy import check_covered
from plait.problem.features import clip_rows
from plait.transports.admission import Terms
from plait.transports.client import Link
from plait.transports.handshake import PROTOCOL, Finished, Hello, Query, Ready, Welcome
from plait.transports.server import Hub

PREDICT, SERVE = "predict", "serve"
LIMIT_REACHED = -1.0  # stands where the places of unknown ids stand (0 and above): the party's quota is used up


class Scorer:
    """A party's trained part and the rows that it was given for scoring: answers with D_m x_m, never with D_m or x_m.

    Scores are releases.  A row that was trained on is scored only where the party's file says so, and never where a
    guarantee covers it.  The party rounds.  Each id and each run have a limit, which services and batches share.
    """

    def __init__(self, job: Job, file: PartyFile, run: str, key: str, rows_file: str, purpose: str = PREDICT) -> None:
        self.agreement = SERVICE if purpose == SERVE else PREDICTION
        check_covered([n for n in job.policy.uncovered(job.parties) if n == file.name])
        folder = RunFolder(file.path(file.runs) / check_run(run) / file.name)
        if not (folder.path / "weights.json").exists():
            raise StorageError(f"{folder.path} must hold what {file.name!r} trained. Found no weights. Train first.")
        columns, weights, clip = folder.weights()
        self.rows: Rows = prepare_rows(file, read_file(file, rows_file), preparation.load(folder.path))
        if self.rows.columns != columns:
            raise InputError(f"{file.name!r} must bring the columns it was trained on. Found others in {rows_file}.")
        part = clip_rows(self.rows.matrix, clip) @ weights
        self.part: Array = np.round(part, file.trust.score_decimals)
        self._given = ~self._trained(job, file, rows_file)
        self._run, self._purpose = run, purpose
        self._ids = keyed_digest(self.rows.ids, bytes.fromhex(key))
        self._place = {name: i for i, name in enumerate(self.rows.ids)}
        self._limits = ScoreLimits.of(file)
        self._folder = folder
        folder.lock()  # one process writes here: a second one would break the sealed log
        try:
            self._audit = AuditLog(folder.path / "audit.jsonl")
        except StorageError:
            folder.release()
            raise

    @property
    def ready(self) -> Ready:
        return Ready(len(self.rows.ids), self._ids, 0)

    @property
    def count(self) -> int:
        """How many rows there are to score."""
        return len(self.rows.ids)

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        """The parts of all rows, once the limits allow it and none of them was trained on."""
        if self._purpose != PREDICT:
            raise ProtocolError("a service asks for rows by id. Found a request for all rows. Nothing was scored.")
        if not self._given.all():
            raise PrivacyError(
                f"only rows that were not trained on are scored. Found {int((~self._given).sum())} that were. Nothing "
                "was scored. Take them out of the file, or set trust.score_training_rows = true in this party's file; "
                "a party with a guarantee never scores them."
            )
        (allowed,) = self._limits.take(self._run, self.rows.ids)
        if allowed is None or not allowed.all():
            self._audit.note("limit reached", rows=len(self.rows.ids))
            raise PrivacyError(
                f"{len(self.rows.ids)} scores must fit into this party's limits: trust.max_queries a minute, "
                "trust.scores_per_id of one id, trust.max_scores of one run. Found one exceeded. Nothing was scored."
            )
        self._audit.note("scored", rows=len(self.rows.ids))
        return Share(broadcast.round, self.part)

    def look_up(self, queries: Sequence[Query]) -> list[Share]:
        """For each query the parts of its ids, and one number for each: 1 when it has no score here, for any reason."""
        if self._purpose != SERVE:
            raise ProtocolError("a batch asks for all rows. Found a query by id. Nothing was scored.")
        masks = self._limits.take(self._run, *(query.ids for query in queries))
        shares = [self._looked_up(query.ids, allowed) for query, allowed in zip(queries, masks, strict=True)]
        given = sum(int((share.scalars == 0).sum()) for share in shares)
        self._audit.note("scored", rows=given, queries=len(queries), refused=sum(mask is None for mask in masks))
        return shares

    def _looked_up(self, ids: Sequence[str], allowed: NDArray[np.bool_] | None) -> Share:
        if allowed is None:
            return Share(0, np.zeros(len(ids)), np.full(len(ids), LIMIT_REACHED))
        at = np.array([self._place.get(name, -1) for name in ids])
        given = (at >= 0) & allowed & self._given[at]
        return Share(0, np.where(given, self.part[at], 0.0), np.where(given, 0.0, 1.0))

    def load(self, run: str) -> None:
        raise ProtocolError(f"a batch is of one run. Found a request for run {run}.")

    def _trained(self, job: Job, file: PartyFile, rows_file: str) -> NDArray[np.bool_]:
        """Which of the rows (N,) were there for training, by id, or by what they hold where there are no ids."""
        private = guaranteed(job, file.name)
        if file.trust.score_training_rows and not private:
            return np.zeros(len(self.rows.ids), dtype=np.bool_)
        table = read_training_rows(file)
        if file.data.id:
            known = {name.strip().casefold() for name in table.ids}
            return np.array([name.strip().casefold() in known for name in self.rows.ids], dtype=np.bool_)
        seen = {row.tobytes() for row in _dense_rows(prepare_rows(file, table, self.rows.prepared).matrix)}
        return np.array([row.tobytes() in seen for row in _dense_rows(self.rows.matrix)], dtype=np.bool_)

    def receive(self, parcel: Parcel) -> Parcel:
        raise ProtocolError(f"this party is here to score. Found a parcel, {parcel.what!r}.")

    def rest(self) -> None:
        """Nothing waits."""

    def finish(self, finished: Finished) -> None:
        self._audit.note("finished", ok=finished.ok, reason=finished.reason)

    def close(self) -> None:
        """Let another program use the folder."""
        self._limits.close()
        self._audit.close()
        self._folder.release()


class Scorers:
    """A party's models in a service: the one that is used, and the one before it until nobody asks for it."""

    agreement = SERVICE

    def __init__(self, make: Callable[[str], Scorer], run: str) -> None:
        self._make = make
        self._run = run
        self._scorers = {run: make(run)}
        self._changing = threading.Lock()

    @property
    def ready(self) -> Ready:
        return self._scorers[self._run].ready

    @property
    def count(self) -> int:
        """How many rows there are to score."""
        return len(self._scorers[self._run].rows.ids)

    def look_up(self, queries: Sequence[Query]) -> list[Share]:
        """The shares of several queries, each by the model that it names."""
        shares: dict[int, Share] = {}
        for run in {query.run or self._run for query in queries}:
            scorer = self._scorers.get(run)
            if scorer is None:
                raise ProtocolError(f"a query must name a run that was asked for before. Found {run}.")
            places = [i for i, query in enumerate(queries) if (query.run or self._run) == run]
            shares |= dict(zip(places, scorer.look_up([queries[i] for i in places]), strict=True))
        return [shares[i] for i in range(len(queries))]

    def load(self, run: str) -> None:
        """Have another model ready, for queries that name it or none; let go of the one before the last."""
        with self._changing:
            if run not in self._scorers:
                self._scorers[run] = self._make(run)
            for old in [name for name in self._scorers if name not in (run, self._run)]:
                self._scorers.pop(old).close()
            self._run = run

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        raise ProtocolError("a service asks for rows by id. Found a request for all rows. Nothing was scored.")

    def receive(self, parcel: Parcel) -> Parcel:
        raise ProtocolError(f"this party is here to score. Found a parcel, {parcel.what!r}.")

    def rest(self) -> None:
        """Nothing waits."""

    def finish(self, finished: Finished) -> None:
        for scorer in self._scorers.values():
            scorer.finish(finished)

    def close(self) -> None:
        """Let other programs use the folders."""
        with self._changing:
            for scorer in self._scorers.values():
                scorer.close()
            self._scorers.clear()


def _dense_rows(matrix: Any) -> Iterator[Array]:
    """The rows of a matrix (N, d), dense or CSR, one after another."""
    for i in range(matrix.shape[0]):
        yield np.asarray(matrix[[i]].todense() if sp.issparse(matrix) else matrix[i]).ravel()


@dataclass(frozen=True)
class JointScores:
    """Ids and scores z (N,) of new rows."""

    ids: Sequence[str]
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
    found = (
        RunFolder(runs / check_run(run) / COORDINATOR)
        if run
        else find_run(runs, COORDINATOR, job.digest, ("finished",))
    )
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
    check_covered(job.policy.uncovered(job.parties))
    folder = trained(job, file, run)
    status = folder.status
    key = new_run()[1]
    table = read_file(file, rows or file.data.score)
    scorers: dict[str, Scorer] = {}
    digest = keyed_digest(table.ids, bytes.fromhex(key))
    try:
        for f in local:
            new_rows = rows if f is file and rows else f.data.score
            scorers[f.name] = _told(Scorer(job, f, status.run, key, new_rows), f.name, progress)
        for name, scorer in scorers.items():
            if scorer.ready.ids != digest:
                raise InputError(
                    f"all parties must bring the same new rows in the same order. Found others at {name!r}."
                )
        parts = {name: scorer.answer(1, Broadcast(0)) for name, scorer in scorers.items()}
    finally:
        for scorer in scorers.values():
            scorer.close()
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
        shares = hub.ask(1, dict.fromkeys(terms.parties, Broadcast(0, expects=Form.of(terms.rows, 0))))
        hub.finish(Finished(True, f"{terms.rows} rows scored", {}), lambda _: None, 10.0)
        return shares
    finally:
        hub.close()


def help_score(job: Job, file: PartyFile, dial: Dial, rows: str, purpose: str, progress: Progress) -> None:
    """A party's part in `predict`, or in a prediction service until that ends."""
    opened: dict[str, Scorer | Scorers] = {}

    def join(welcome: Welcome) -> Scorer | Scorers:
        need_phase(welcome, purpose)
        key = SERVE if purpose == SERVE else f"{welcome.run} {welcome.key}"
        if key not in opened:
            for before in opened.values():
                before.close()
            opened.clear()
            opened[key] = _opened(job, file, welcome, rows or file.data.score, purpose, progress)
            progress.say(f"{file.name}: {opened[key].count} rows ready, model of run {welcome.run}")
        if purpose == SERVE:
            opened[key].load(welcome.run)
        return opened[key]

    check_covered(job.policy.uncovered(job.parties))
    link = Link(
        dial.address, job.coordinator.name, dial.security, job.coordinator.patience, lambda w, **f: progress.event(w, f)
    )
    link.discreet = discreet(job, file.name)
    try:
        finished = link.serve(Hello(PROTOCOL, __version__, file.name, job.digest, purpose), join)
    finally:
        for scorer in opened.values():
            scorer.close()
    if not finished.ok:
        raise TransportError(f"the coordinator ended: {finished.reason}")
    progress.say(f"{file.name}: {finished.reason}")


def _opened(
    job: Job, file: PartyFile, welcome: Welcome, rows: str, purpose: str, progress: Progress
) -> Scorer | Scorers:
    def scorer(run: str) -> Scorer:
        return _told(Scorer(job, file, run, welcome.key, rows, purpose), file.name, progress)

    return Scorers(scorer, welcome.run) if purpose == SERVE else scorer(welcome.run)


def _told(scorer: Scorer, party: str, progress: Progress) -> Scorer:
    """The same scorer, once the party's owner has read what is remarkable about its rows."""
    for remark in scorer.rows.remarks:
        progress.say(f"{party}: {remark}")
    return scorer
