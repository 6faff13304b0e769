"""The coordinator's side of a joint prediction: every party adds its part D_m x_m; new rows are joined by their ids."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from plait._names import check_run
from plait._types import Array
from plait.alignment.proposal import Consent, agree
from plait.deployment.align import missing_from
from plait.deployment.common_rows import CommonRows, Question, find_common_rows
from plait.deployment.endpoints import Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.joint_scores import JointScores
from plait.deployment.local_data import read_new_rows
from plait.deployment.masked_scores import MaskedParties, is_over, limited, masks_scores, unmasked
from plait.deployment.pairs import pair_job, pair_runs, partners, with_more
from plait.deployment.progress import Progress
from plait.deployment.run_folder import RunFolder, find_run, new_run
from plait.deployment.score_party import new_rows_file, say_remarks
from plait.deployment.scorer import PREDICT, Scorer
from plait.errors import InputError, MissingPartyError, PlaitError, StorageError, TransportError
from plait.messages import Share
from plait.privacy.policy import check_covered
from plait.transports.admission import Terms
from plait.transports.handshake import Finished, Query
from plait.transports.queries import QueryMailbox
from plait.transports.server import RETURNS, Hub

_CHUNK = 500  # ids in one query: half of what fits, so that long ids fit, too
_AHEAD = 4  # queries under way at once: while one is answered the next ones travel
_MINUTE = 65.0  # seconds: a minute, after which a party's allowance is full again, and some more
_PAUSE = 5.0  # seconds between two tries to begin a batch
_TRY_AGAIN = 0.05  # seconds before a query is asked again: a party that comes and goes must not keep this program busy
_FAREWELL = 10.0  # seconds for telling the parties that nothing more is asked


def trained(job: Job, file: PartyFile, run: str, progress: Progress) -> RunFolder:
    """The coordinator's folder of a finished run, the newest of this job or the one named; says which it is."""
    runs = file.path(file.runs)
    newest = find_run(runs, job.keeper, job.model_digest, ("finished",))
    found = RunFolder(runs / check_run(run) / job.keeper) if run else newest
    if found is None or not (found.path / "model.json").exists():
        raise StorageError(f"{runs} must hold a finished run of this job. Found none. Train first, or name one: --run.")
    status = found.status
    rows = found.model().get("rows", "?")
    progress.say(f"model of run {status.run}, trained {status.started[:16].replace('T', ' ')} UTC on {rows} rows")
    for path in sorted(runs.glob(f"*/{job.keeper}/run.json")):
        other = RunFolder(path.parent).status
        if other.run > status.run and other.job == job.model_digest and other.status != "finished":
            why = f": {other.reason}" if other.reason else ""
            progress.say(f"not of the newer run {other.run}: it is {other.status}{why}")
    return found


class _Prediction:
    """One prediction at the coordinator: the model, the new rows, and the parties in this process."""

    def __init__(
        self,
        job: Job,
        file: PartyFile,
        local: Sequence[PartyFile],
        listen: Listen | None,
        folder: RunFolder,
        progress: Progress,
        more: bool = False,
    ) -> None:
        """`more` says that parties are asked for something else afterwards."""
        check_covered(job.policy.uncovered(job.parties))
        self.job, self.file, self.listen, self.progress = job, file, listen, progress
        self.local = [party for party in local if party.name in job.parties]
        self._more = more
        self.folder = folder
        self.run, self.key = self.folder.status.run, new_run()[1]
        self.remote = missing_from(local, job)

    def rows_of(self, party: PartyFile, rows: str) -> str:
        """The file of a party's new rows; `rows` is the label party's own choice."""
        return new_rows_file(party, rows if party is self.file else "")

    @contextmanager
    def hub(self, terms: Terms) -> Iterator[Hub]:
        """The other parties, connected; told at the end that nothing more is asked."""
        hub = Hub(terms, lambda what, **facts: self.progress.event(what, facts))
        try:
            if self.listen is not None and self.remote:
                hub.open(self.listen.address, self.listen.security)
                self.progress.say(f"waiting for {', '.join(self.remote)} on {self.listen.address}")
            yield hub
            details = with_more({}) if self._more else {}
            hub.finish(Finished(True, "all that was asked for is answered", details), lambda _: None, _FAREWELL)
        except PlaitError as error:
            hub.finish(Finished(False, str(error)[:2000], {}), lambda _: None, _FAREWELL / 2)
            raise
        finally:
            hub.close()

    def terms(self, alignment: str) -> Terms:
        patience = self.job.coordinator.patience
        remote = self.remote if self.listen is not None else ()
        return Terms(
            remote, self.job.digest, PREDICT, self.run, self.key, 0, "", patience,
            fingerprints=self.job.fingerprints, alignment=alignment, by_id=True, silence=patience,
            phase=PREDICT if self._more else "",
            waiting=tuple(name for name in self.job.pair_of if name not in self.job.parties),
        )  # fmt: skip

    def scores(self, written: Sequence[str], parts: dict[str, Share], question: Question) -> JointScores:
        intercept = float(self.folder.model()["intercept"])
        return JointScores.of(self.job, written, intercept, parts, self.folder.path, question.absent)


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
    refresh: bool = False,
    compare: bool = False,
) -> JointScores:
    """Scores of new rows by all parties together: those of the coordinator's file, or those `asked` for by id.

    `refresh` joins new rows again that were joined privately before.  `compare` also scores them by the label party
    with each partner, where such pairs were trained.
    """
    trained_for = trained(job, file, run, progress)
    pairs = {name: pair for name, pair in pair_runs(trained_for).items() if compare and name in partners(job)}
    prediction = _Prediction(job, file, local, listen, trained_for, progress, more=bool(pairs))
    if asked and job.joins_privately:
        raise InputError("a private join scores the rows of a file. Found a list of ids. Leave out --ids.")
    where = prediction.rows_of(file, rows) if not asked else ""
    new = None if asked else read_new_rows(job, file, where)
    written = list(asked) if new is None else list(new.written)
    ids = written if new is None else list(new.table.ids)
    how = "privately" if job.joins_privately else "by the label party's list"
    progress.say(f"{len(ids)} new rows {f'of {where}' if where else 'named by id'}, joined {how}")
    common = None
    if job.joins_privately:
        common = find_common_rows(
            job, file, local, lambda party: prediction.rows_of(party, rows), listen, PREDICT, progress, consent, refresh
        )
    question = Question.by_list(ids) if common is None else common.question(ids)
    scores = prediction.scores(written, _parts(prediction, rows, ids, question, common), question)
    by_pair: dict[str, Array] = {}
    for partner, pair in pairs.items():
        folder = RunFolder(file.path(file.runs) / check_run(pair) / job.keeper)
        other = _Prediction(pair_job(job, partner), file, local, listen, folder, progress)
        try:
            by_pair[partner] = other.scores(written, _parts(other, rows, ids, question, common), question).values
        except PlaitError as error:  # what all parties score together is there
            progress.say(f"{file.name} with {partner}: not scored. {error}")
    return replace(scores, by_pair=by_pair)


def _parts(
    prediction: _Prediction, rows: str, ids: Sequence[str], question: Question, common: CommonRows | None
) -> dict[str, Share]:
    """Every party's part of each row: the label party's own of all its ids, the others' of the question's."""
    own, sent = _queries(ids, prediction.run), _queries(question.ids, prediction.run)
    parts: dict[str, Share] = {}
    for party in prediction.local:
        mine = party.name == prediction.file.name
        joined = None if common is None else tuple(ids) if mine else common.ids
        scorer = Scorer(
            prediction.job,
            party,
            prediction.run,
            prediction.key,
            prediction.rows_of(party, rows),
            common=joined,
            begun=bool(prediction.job.pair_of),
        )
        say_remarks(scorer, party.name, prediction.progress)
        try:
            found = _joined([_look_up(scorer, party, query, prediction.progress) for query in (own if mine else sent)])
        finally:
            scorer.close()
        parts[party.name] = found if mine else question.spread(found)
    with prediction.hub(prediction.terms("" if common is None else common.alignment)) as hub:
        if masks_scores(prediction.job) and hub.by_id:
            return parts | _totals(prediction, hub, sent, question)
        for name, mailbox in hub.by_id.items():
            with ThreadPoolExecutor(_AHEAD) as pool:
                answers = pool.map(lambda query, mailbox=mailbox: _ask(hub, mailbox, query, prediction.progress), sent)
                parts[name] = question.spread(_joined(list(answers)))
    return parts


def _look_up(scorer: Scorer, party: PartyFile, query: Query, progress: Progress) -> Share:
    """The answer of a party in this process, which waits for its next minute as the others do."""
    give_up, told = time.monotonic() + _MINUTE, False
    while True:
        share = scorer.look_up([query])[0]
        if not limited(share) or time.monotonic() > give_up or len(query.ids) > party.trust.max_queries:
            return share
        told = told or _say_limited(party.name, progress)
        time.sleep(_PAUSE)


def _say_limited(name: str, progress: Progress) -> bool:
    progress.say(f"{name} has given all scores of this minute (trust.max_queries in its file): waiting")
    return True


def _totals(prediction: _Prediction, hub: Hub, sent: Sequence[Query], question: Question) -> dict[str, Share]:
    """What can be read of the other parties' masked parts: the totals, in the place of one of them."""
    masked = MaskedParties(hub.by_id)
    with ThreadPoolExecutor(_AHEAD) as pool:
        found = list(pool.map(lambda query: _ask_masked(hub, masked, query, prediction.progress), sent))
    return {name: question.spread(_joined([answer[name] for answer in found])) for name in hub.by_id}


def _ask_masked(hub: Hub, masked: MaskedParties, asked: Query, progress: Progress) -> dict[str, Share]:
    """All parties' answers to one query, under masks of its own; where one was away, all are asked again."""
    wait = _Wait(hub)
    while True:
        wait.for_all()
        try:
            query = masked.query(asked.ids, asked.run)
            waiting = {name: mailbox.ask(query) for name, mailbox in hub.by_id.items()}
            shares = {name: wait.answer(name, future) for name, future in waiting.items()}
            late = [name for name, share in shares.items() if limited(share)]  # they have masked nothing yet
            shares |= {name: _ask(hub, hub.by_id[name], query, progress, again=False) for name in late}
        except MissingPartyError:
            continue
        if is_over(shares):
            masked.forget(query)
        elif any(limited(share) for share in shares.values()):
            return {name: Share(0, np.zeros(len(asked.ids)), share.scalars) for name, share in shares.items()}
        else:
            return unmasked(shares)


def _queries(ids: Sequence[str], run: str) -> list[Query]:
    return [Query(list(ids[i : i + _CHUNK]), run) for i in range(0, len(ids), _CHUNK)]


def _ask(hub: Hub, mailbox: QueryMailbox, query: Query, progress: Progress, again: bool = True) -> Share:
    """One party's answer; with `again`, a party that was away is asked again until the job's patience ends.

    A batch that begins while the party's allowance of this minute is used up waits for the next one.
    """
    give_up, wait, told = time.monotonic() + _MINUTE, _Wait(hub), False
    while True:
        wait.for_all()
        try:
            share = wait.answer(mailbox.name, mailbox.ask(query))
        except MissingPartyError:
            if again:
                continue
            raise
        if not limited(share) or time.monotonic() > give_up:
            return share
        told = told or _say_limited(mailbox.name, progress)
        time.sleep(_PAUSE)
        wait = _Wait(hub)


class _Wait:
    """How long one query may take: the job's patience for an answer, and a few times that for all tries together."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._end = time.monotonic() + RETURNS * hub.patience
        self._tries = 0

    def for_all(self) -> None:
        """Wait until all parties are here; TransportError where they come and go, and the query stays unanswered."""
        if self._tries:
            time.sleep(_TRY_AGAIN)
        self._tries += 1
        self._hub.wait_for_all(lambda absent, again: None)
        if time.monotonic() > self._end:
            names = " and ".join(self._hub.parties)
            raise TransportError(
                f"{names} must answer within {RETURNS * self._hub.patience:g} s, however often a party comes back. "
                "Found a query without an answer. Nothing was written. Start the programs again."
            )

    def answer(self, name: str, future: "Future[Share]") -> Share:
        """The answer of a party; TransportError where it is here and does not give one."""
        try:
            return future.result(self._hub.patience)
        except TimeoutError:
            raise TransportError(
                f"party {name!r} must answer within {self._hub.patience:g} s (coordinator.patience). Found it "
                "connected and silent. Nothing was written. Start its program again, then this one."
            ) from None


def _joined(shares: Sequence[Share]) -> Share:
    vectors = [share.vector for share in shares if share.vector is not None]
    return Share(0, np.concatenate(vectors), np.concatenate([share.scalars for share in shares]))
