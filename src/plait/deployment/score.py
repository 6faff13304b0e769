"""Joint prediction: every party adds its part D_m x_m of the scores of new rows, which are joined by their ids."""

import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from plait._names import check_run
from plait._version import __version__
from plait.alignment.aligner import Consent, agree
from plait.data.tables import keyed_digest
from plait.deployment.align import CoordinatorAlignment, missing_from
from plait.deployment.align_party import ALIGN, OpenAlignment, PartyAlignment
from plait.deployment.alignment_folder import choose_alignment
from plait.deployment.endpoints import Dial, Listen, link
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.joint_scores import JointScores
from plait.deployment.law import need_phase
from plait.deployment.local_data import NewRows, read_new_rows
from plait.deployment.party_privacy import discreet
from plait.deployment.progress import Progress
from plait.deployment.run_folder import COORDINATOR, RunFolder, find_run, new_run
from plait.deployment.scorer import PREDICT, SERVE, Scorer, Scorers
from plait.errors import ConfigError, InputError, MissingPartyError, PlaitError, StorageError, TransportError
from plait.messages import Broadcast, Form, Share
from plait.privacy.policy import check_covered
from plait.transports.admission import Terms
from plait.transports.conversation import Participant
from plait.transports.handshake import PROTOCOL, Finished, Hello, Query, Welcome
from plait.transports.queries import QueryDesk
from plait.transports.server import Hub

_CHUNK = 500  # ids in one query: half of what fits, so that long ids fit, too
_AHEAD = 4  # queries under way at once: while one is answered the next ones travel
_FAREWELL = 10.0  # seconds for telling the parties that all is scored


def trained(job: Job, file: PartyFile, run: str, progress: Progress) -> RunFolder:
    """The coordinator's folder of a finished run, the newest of this job or the one named; says which it is."""
    runs = file.path(file.runs)
    newest = find_run(runs, COORDINATOR, job.model_digest, ("finished",))
    found = RunFolder(runs / check_run(run) / COORDINATOR) if run else newest
    if found is None or not (found.path / "model.json").exists():
        raise StorageError(f"{runs} must hold a finished run of this job. Found none. Train first, or name one: --run.")
    status = found.status
    rows = found.model().get("rows", "?")
    progress.say(f"model of run {status.run}, trained {status.started[:16].replace('T', ' ')} UTC on {rows} rows")
    for path in sorted(runs.glob(f"*/{COORDINATOR}/run.json")):
        other = RunFolder(path.parent).status
        if other.run > status.run and other.job == job.model_digest and other.status != "finished":
            why = f": {other.reason}" if other.reason else ""
            progress.say(f"not of the newer run {other.run}: it is {other.status}{why}")
    return found


class _Prediction:
    """One prediction at the coordinator: the model, the new rows, and the parties in this process."""

    def __init__(
        self, job: Job, file: PartyFile, local: Sequence[PartyFile], listen: Listen | None, run: str, progress: Progress
    ) -> None:
        check_covered(job.policy.uncovered(job.parties))
        self.job, self.file, self.local, self.listen, self.progress = job, file, local, listen, progress
        self.folder = trained(job, file, run, progress)
        self.run, self.key = self.folder.status.run, new_run()[1]
        self.remote = missing_from(local, job)

    def rows_of(self, party: PartyFile, rows: str) -> str:
        """The file of a party's new rows; `rows` is the label party's own choice."""
        return _named(party, rows if party is self.file else "")

    @contextmanager
    def hub(self, terms: Terms) -> Iterator[Hub]:
        """The other parties, connected; told at the end that all is scored."""
        hub = Hub(terms, lambda what, **facts: self.progress.event(what, facts))
        try:
            if self.listen is not None and self.remote:
                hub.open(self.listen.address, self.listen.security)
                self.progress.say(f"waiting for {', '.join(self.remote)} on {self.listen.address}")
            yield hub
            hub.finish(Finished(True, "all rows are scored", {}), lambda _: None, _FAREWELL)
        except PlaitError as error:
            hub.finish(Finished(False, str(error)[:2000], {}), lambda _: None, _FAREWELL / 2)
            raise
        finally:
            hub.close()

    def terms(self, rows: int = 0, ids: str = "", alignment: str = "", by_id: bool = False) -> Terms:
        patience = self.job.coordinator.patience
        remote = self.remote if self.listen is not None else ()
        return Terms(
            remote, self.job.digest, PREDICT, self.run, self.key, rows, ids, patience,
            fingerprints=self.job.fingerprints, alignment=alignment, by_id=by_id, silence=patience,
        )  # fmt: skip

    def scores(
        self, written: Sequence[str], parts: dict[str, Share], known: NDArray[np.int64] | None = None
    ) -> JointScores:
        intercept = float(self.folder.model()["intercept"])
        return JointScores.of(self.job, written, intercept, parts, self.folder.path, known)


def predict(
    job: Job,
    file: PartyFile,
    local: Sequence[PartyFile],
    listen: Listen | None,
    rows: str,
    run: str,
    progress: Progress,
    consent: Consent = agree,
    asked: Sequence[str] = (),
) -> JointScores:
    """Scores of new rows by all parties together: those of the coordinator's file, or those `asked` for by id."""
    prediction = _Prediction(job, file, local, listen, run, progress)
    if not job.joins_privately:
        return _by_list(prediction, rows, asked)
    if asked:
        raise InputError("a private join scores the rows of a file. Found a list of ids. Leave out --ids.")
    return _by_alignment(prediction, rows, consent)


def _by_list(prediction: _Prediction, rows: str, asked: Sequence[str]) -> JointScores:
    """Every party is shown the ids, and looks them up by the rules of the job."""
    job, file = prediction.job, prediction.file
    new = None if asked else read_new_rows(job, file, prediction.rows_of(file, rows))
    written = list(asked) if new is None else list(new.written)
    where = "named by id" if new is None else f"of {prediction.rows_of(file, rows)}"
    prediction.progress.say(f"{len(written)} new rows {where}, joined by the label party's list")
    ids = written if new is None else list(new.table.ids)
    queries = [Query(list(ids[i : i + _CHUNK]), prediction.run) for i in range(0, len(ids), _CHUNK)]
    parts: dict[str, Share] = {}
    for party in prediction.local:
        scorer = _told(
            Scorer(job, party, prediction.run, prediction.key, prediction.rows_of(party, rows)),
            party.name,
            prediction.progress,
        )
        try:
            parts[party.name] = _joined([scorer.look_up([query])[0] for query in queries])
        finally:
            scorer.close()
    with prediction.hub(prediction.terms(by_id=True)) as hub:
        for name, desk in hub.by_id.items():
            with ThreadPoolExecutor(_AHEAD) as pool:
                parts[name] = _joined(list(pool.map(lambda query, desk=desk: _ask(hub, desk, query), queries)))
    return prediction.scores(written, parts)


def _ask(hub: Hub, desk: QueryDesk, query: Query) -> Share:
    """One party's answer; it is asked again when it was away, until the job's patience ends."""
    while True:
        hub.wait_for_all(lambda absent, again: None)
        try:
            return desk.ask(query).result()
        except MissingPartyError:
            continue


def _joined(shares: Sequence[Share]) -> Share:
    vectors = [share.vector for share in shares if share.vector is not None]
    return Share(0, np.concatenate(vectors), np.concatenate([share.scalars for share in shares]))


def _by_alignment(prediction: _Prediction, rows: str, consent: Consent) -> JointScores:
    """The rows that all parties hold are found first, privately; then every party scores them in the common order."""
    job, file, progress = prediction.job, prediction.file, prediction.progress
    new: NewRows = read_new_rows(job, file, prediction.rows_of(file, rows))
    progress.say(f"{len(new.written)} new rows of {prediction.rows_of(file, rows)}, joined privately")
    others = [party for party in prediction.local if party.name != file.name]
    here = [
        PartyAlignment(job, file, consent, progress, COORDINATOR, prediction.rows_of(file, rows)),
        *(PartyAlignment(job, party, consent, progress, rows=prediction.rows_of(party, rows)) for party in others),
    ]
    name, key = choose_alignment(here, resume=prediction.listen is not None)
    orders = CoordinatorAlignment(job, here, name, key, progress).meet(PREDICT, prediction.listen, prediction.remote)
    common = orders[file.name].ids
    parts: dict[str, Share] = {}
    for party in prediction.local:
        at = prediction.rows_of(party, rows)
        scorer = _told(
            Scorer(job, party, prediction.run, prediction.key, at, order=orders[party.name]), party.name, progress
        )
        try:
            parts[party.name] = scorer.answer(1, Broadcast(0))
        finally:
            scorer.close()
    digest = keyed_digest(common, bytes.fromhex(prediction.key))
    with prediction.hub(prediction.terms(len(common), digest, name)) as hub:
        asked = dict.fromkeys(hub.parties, Broadcast(0, expects=Form.of(len(common), 0)))
        parts |= hub.ask(1, asked)
    place = {text: i for i, text in enumerate(common)}
    known = np.array([place.get(text, -1) for text in new.table.ids])
    return prediction.scores(list(new.written), parts, known)


def help_score(
    job: Job, file: PartyFile, dial: Dial, rows: str, purpose: str, progress: Progress, consent: Consent = agree
) -> None:
    """A party's part in `predict`, or in a prediction service until that ends."""
    check_covered(job.policy.uncovered(job.parties))
    side = _PartySide(job, file, _named(file, rows), purpose, progress, consent)
    connection = link(job, dial, lambda w, **f: progress.event(w, f))
    connection.discreet = discreet(job, file.name)
    hello = Hello(PROTOCOL, __version__, file.name, job.digest, purpose)
    if purpose == SERVE:
        side.refresh_when_told()
    try:
        finished = connection.serve(hello, side.join)
        while finished.ok and finished.details.get("phase") == ALIGN:
            finished = connection.serve(hello, side.join)
    finally:
        side.close()
    if not finished.ok:
        raise TransportError(f"the coordinator ended: {finished.reason}")
    progress.say(f"{file.name}: {finished.reason}")


class _PartySide:
    """What a party opens while it scores: an alignment of its new rows, and its models."""

    def __init__(
        self, job: Job, file: PartyFile, rows: str, purpose: str, progress: Progress, consent: Consent
    ) -> None:
        self._job, self._file, self._rows, self._purpose, self._progress = job, file, rows, purpose, progress
        self._opened: dict[str, Scorer | Scorers] = {}
        self._alignment: PartyAlignment | None = None
        self._joined: OpenAlignment | None = None
        if purpose == PREDICT and job.joins_privately:
            self._alignment = PartyAlignment(job, file, consent, progress, rows=rows)
            self._joined = OpenAlignment(self._alignment)

    def join(self, welcome: Welcome) -> Participant:
        """What the coordinator asks for: to be aligned, or to score."""
        need_phase(welcome, self._purpose, *([] if self._joined is None else [ALIGN]))
        if self._joined is not None and welcome.phase == ALIGN:
            return self._joined.join(welcome)
        key = SERVE if self._purpose == SERVE else f"{welcome.run} {welcome.key}"
        if key not in self._opened:
            self.close()
            self._opened[key] = self._open(welcome)
            self._progress.say(
                f"{self._file.name}: {self._opened[key].count} rows of {self._rows} ready, model of run {welcome.run}"
            )
        if self._purpose == SERVE:
            self._opened[key].load(welcome.run)
        return self._opened[key]

    def _open(self, welcome: Welcome) -> Scorer | Scorers:
        order = None if self._alignment is None else self._alignment.order(welcome.alignment)

        def scorer(run: str) -> Scorer:
            made = Scorer(self._job, self._file, run, welcome.key, self._rows, self._purpose, order)
            return _told(made, self._file.name, self._progress)

        return Scorers(scorer, welcome.run) if self._purpose == SERVE else scorer(welcome.run)

    def refresh_when_told(self) -> None:
        """Read the rows again at SIGHUP, on a thread of its own; the old ones are used until then."""
        told = threading.Event()
        signal.signal(signal.SIGHUP, lambda number, frame: told.set())

        def work() -> None:
            while told.wait():
                told.clear()
                for scorer in list(self._opened.values()):
                    try:
                        scorer.refresh()
                        self._progress.say(f"{self._file.name}: {scorer.count} rows of {self._rows} read again")
                    except PlaitError as error:
                        self._progress.say(f"{self._file.name}: still the rows of before: {error}")

        threading.Thread(target=work, name="plait-refresh", daemon=True).start()

    def close(self) -> None:
        """Let other programs use the folders."""
        if self._joined is not None:
            self._joined.close()
        for scorer in self._opened.values():
            scorer.close()
        self._opened.clear()


def _named(party: PartyFile, rows: str) -> str:
    """The file of a party's new rows."""
    if not (rows or party.data.score):
        raise ConfigError(
            f"{party.name}.toml must name the file of new rows. Found none: set data.score, or give --rows."
        )
    return rows or party.data.score


def _told(scorer: Scorer, party: str, progress: Progress) -> Scorer:
    """The same scorer, once the party's owner has read what is remarkable about its rows."""
    for remark in scorer.rows.remarks:
        progress.say(f"{party}: {remark}")
    return scorer
