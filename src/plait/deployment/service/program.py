"""`plait serve` at the coordinator: listen for parties and for clients, change to new runs, end in order."""

import asyncio
import contextlib
import signal
import time

from plait.alignment.proposal import Consent, agree
from plait.deployment.common_rows import CommonRows, find_common_rows
from plait.deployment.endpoints import Listen
from plait.deployment.http_server import Crowd, HttpServer, Listener
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.local_data import read_new_rows
from plait.deployment.progress import PHASE, REPORT, Progress
from plait.deployment.run_folder import RunFolder, find_run, new_run
from plait.deployment.score import trained
from plait.deployment.score_party import new_rows_file, say_remarks
from plait.deployment.scorer import SERVE, Scorer
from plait.deployment.scorers import Scorers
from plait.deployment.service.handlers import Door, Handlers
from plait.deployment.service.panel import Panel, ServedModel
from plait.deployment.service.serve_options import ServeOptions
from plait.deployment.service.tokens import Tokens, tokens_file
from plait.errors import ConfigError, PlaitError
from plait.privacy.policy import check_covered
from plait.transports.admission import Terms
from plait.transports.handshake import Finished
from plait.transports.server import Hub

_LOOK = 2.0  # seconds between two looks for a newer run
_AGAIN = 20.0  # seconds after which a run that a party could not use is tried again: it may have it by then
_CROWD = Crowd(512, 800)  # connections of all clients: files that a process may open are 1024 on many machines
_GRACE = 10  # seconds that requests which are under way have when the service ends
_FAREWELL = 2.0  # seconds for telling the parties that the service ends


def serve(
    job: Job,
    file: PartyFile,
    listen: Listen,
    options: ServeOptions,
    run: str,
    rows: str,
    progress: Progress,
    consent: Consent = agree,
    refresh: bool = False,
) -> None:
    """Answer HTTP requests until interrupted; a newer finished run takes over, unless `run` names one.

    Where the job joins new rows privately they are aligned first; `refresh` does so once more.
    """
    check_covered(job.policy.uncovered(job.parties))
    tokens = Tokens(tokens_file(file))
    options.check_reach(tokens.needed)
    folder = trained(job, file, run, progress)
    model, key = ServedModel.of(folder), new_run()[1]
    remote = tuple(name for name in job.parties if name != file.name)
    common = None
    if job.joins_privately:
        here, new = [file], new_rows_file(file, rows)
        common = find_common_rows(job, file, here, lambda _: new, listen, SERVE, progress, consent, refresh)
    progress.say(_shown(common))
    terms = Terms(
        remote, job.digest, SERVE, model.run, key, 0, "", job.coordinator.patience, fingerprints=job.fingerprints,
        alignment="" if common is None else common.alignment, by_id=True, silence=options.answer_within,
    )  # fmt: skip
    local = {}
    if file.name in job.parties:
        local[file.name] = _own_rows(job, file, new_rows_file(file, rows), key, model.run, progress)
    hub = Hub(terms, lambda what, **facts: progress.event(what, facts))
    panel = Panel(job, model, local, hub, options.decimals, options.answer_within, common)
    try:
        hub.open(listen.address, listen.security)
        progress.peers(lambda: hub.standings)
        progress.event(PHASE, {"phase": "waiting", "run": model.run})
        progress.event(REPORT, {"path": str(folder.path / "report.html")})
        service = _Service(job, file, panel, Handlers(panel, options, tokens), progress, pinned=bool(run))
        asyncio.run(service.run(listen.address))
    finally:
        hub.finish(Finished(True, "the service was ended", {}), lambda _: None, _FAREWELL)
        hub.close()
        panel.close()


def _own_rows(job: Job, file: PartyFile, new: str, key: str, run: str, progress: Progress) -> Scorers:
    """The label party's own part: all of its new rows, whether others have them or not."""

    def scorer(name: str) -> Scorer:
        own = tuple(read_new_rows(job, file, new).table.ids) if job.joins_privately else None
        made = Scorer(job, file, name, key, new, SERVE, own)
        say_remarks(made, file.name, progress)
        return made

    scorers = Scorers(scorer, run)
    progress.say(f"{scorers.count} rows of {new} can be asked for")
    return scorers


def _shown(common: CommonRows | None) -> str:
    """What a service shows to the other parties, in one sentence."""
    if common is None:
        return "every id that is asked for is shown to all parties (a join by list)"
    return (
        f"{len(common.ids)} rows are common. The other parties see which of these are asked for, and when; other ids "
        "are not shown to them"
    )


class _Service:
    """The HTTP server and what goes on beside it."""

    def __init__(
        self, job: Job, file: PartyFile, panel: Panel, handlers: Handlers, progress: Progress, pinned: bool
    ) -> None:
        self._job = job
        self._file = file
        self._panel = panel
        self._handlers = handlers
        self._progress = progress
        self._pinned = pinned
        self._refused: dict[str, tuple[float, str]] = {}
        """Runs that could not be used: when to try again, and why."""

    async def run(self, address: str) -> None:
        options, progress = self._handlers.options, self._progress
        app = Door(self._handlers, progress).app()
        with _listen(options) as listening:
            server = HttpServer(
                app, listening, _CROWD, _GRACE, lambda text: progress.event("http", {"text": text}),
                options.certificate, options.key,
            )  # fmt: skip
            host, port = listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            where = f"{'https' if options.encrypted else 'http'}://{shown}:{port}/"
            beside = [asyncio.create_task(self._announce(where, address)), asyncio.create_task(self._renew())]
            try:
                await server.answer()
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
        progress.say("stopped: every request that was under way is answered")

    async def _announce(self, where: str, address: str) -> None:
        """Say who is missing, and when all are here."""
        self._progress.say(f"listening on {where}")
        told: list[str] = []
        while absent := self._panel.absent:
            if absent != told:
                told = absent
                self._progress.say(f"waiting for {', '.join(absent)} on {address}")
            await asyncio.sleep(0.05)
        self._progress.event(PHASE, {"phase": "serving", "run": self._panel.model.run})
        self._progress.say(f"serving scores on {where}")

    async def _renew(self) -> None:
        """Change to the newest finished run of the job, now and then; at SIGHUP at once, and read the rows again."""
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, told.set)
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), _LOOK)
            if told.is_set():
                self._refused.clear()
                told.clear()
                await self._read_again()
            newest = None if self._pinned else await asyncio.to_thread(self._newest)
            if newest is not None and not self._panel.absent:
                await self._load(newest)

    async def _read_again(self) -> None:
        """Read this party's own rows again; the other parties are told in the same way where they run."""
        try:
            await asyncio.to_thread(self._panel.refresh)
        except PlaitError as error:
            self._progress.say(f"still the rows of before: {error}")

    def _newest(self) -> RunFolder | None:
        """A finished run that is newer than the one in use, and was not refused just now."""
        try:
            found = find_run(self._file.path(self._file.runs), self._job.keeper, self._job.model_digest, ("finished",))
        except PlaitError:
            return None  # a run folder that is being written, or that somebody is removing
        if found is None or found.status.run <= self._panel.model.run:
            return None
        again, _ = self._refused.get(found.status.run, (0.0, ""))
        return found if time.monotonic() >= again else None

    async def _load(self, folder: RunFolder) -> None:
        run, before = folder.status.run, self._panel.model.run
        try:
            await self._panel.load(folder)
            self._progress.event(PHASE, {"phase": "serving", "run": run})
            self._progress.event(REPORT, {"path": str(folder.path / "report.html")})
            self._progress.say(f"model of run {run} instead of {before}")
        except (PlaitError, TimeoutError) as error:
            told, why = self._refused.get(run, (0.0, ""))[1], str(error) or "a party took too long"
            self._refused[run] = time.monotonic() + _AGAIN, why
            if why != told:
                self._progress.say(f"still the model of run {before}: run {run} cannot be used: {why}")


def _listen(options: ServeOptions) -> Listener:
    """A socket that listens where the options say."""
    try:
        return Listener(options.host, options.port)
    except OSError as error:
        raise ConfigError(f"--http must be an address of this machine that is free. Found: {error}.") from error
