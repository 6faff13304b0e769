"""The long-running program of one party."""

from pathlib import Path
from typing import Any, cast

from plait._threads import blas_threads
from plait._version import __version__
from plait.alignment.proposal import Consent, agree
from plait.deployment.align_party import ALIGN, AligningParty, OpenAlignment, PartyAlignment
from plait.deployment.consent import check_consent
from plait.deployment.endpoints import Dial, link
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import MOST_RUNS, need_phase, told_results
from plait.deployment.local_data import load_rows
from plait.deployment.pairs import A_DAY, PAIR, more_follows, pair_job, partners
from plait.deployment.party_opening import need_preparable, open_party
from plait.deployment.party_privacy import discreet, run_facts, say_guarantees
from plait.deployment.progress import COMPARING, PHASE, REPORT, Progress, Silent
from plait.deployment.report.page import write_report
from plait.deployment.stored_party import StoredParty
from plait.deployment.transcript import Recorded
from plait.deployment.watched_party import WatchedParty
from plait.errors import ProtocolError, TransportError
from plait.protection.leverage import check_width
from plait.training.tracking.tracker import Ending
from plait.transports.handshake import PROTOCOL, Finished, Hello, Welcome
from plait.transports.tls import Security


def take_part(job: Job, file: PartyFile, dial: Dial, progress: Progress, consent: Consent = agree) -> Path:
    """Align and train as one party until the coordinator says how it ended; returns the run folder."""
    with blas_threads(job.run.threads):
        check_consent(job, file, progress.say)
        runs = _PartyRuns(job, file, progress, consent, dial.security)
        progress.say(f"{file.name}: dialling {dial.address}")
        progress.event(PHASE, {"phase": "waiting"})

        def note(what: str, **facts: Any) -> None:
            progress.event(what, facts)

        connection = link(job, dial, note)
        connection.discreet = discreet(job, file)
        hello = Hello(PROTOCOL, __version__, file.name, job.digest, "fit")
        try:
            finished = connection.serve(hello, runs.join)
            while finished.ok and finished.details.get("phase") == ALIGN:
                finished = connection.serve(hello, runs.join)
            folder = runs.end(finished)
            if more_follows(finished):  # a run with the label party alone, for its report
                connection.longest_wait = max(A_DAY, job.coordinator.patience)
                progress.event(PHASE, {"phase": COMPARING})
                runs.end(connection.serve(hello, runs.join))
        finally:
            runs.close()
    return folder


class _PartyRuns:
    """A party's rows, and its side of the runs that it is asked to join."""

    def __init__(self, job: Job, file: PartyFile, progress: Progress, consent: Consent, security: Security) -> None:
        self._job = job
        self._security = security
        self._file = file
        self._progress = progress
        need_preparable(job, file)
        self._alignment = None if job.alignment is None else PartyAlignment(job, file, consent, progress)
        self._rows = load_rows(job, file) if self._alignment is None else None  # bad input ends before a call
        if self._rows is not None and job.protection is not None:
            check_width(*self._rows.matrix.shape)
        self._joined = None if self._alignment is None else OpenAlignment(self._alignment)
        self.opened: dict[str, StoredParty] = {}
        self._runs: set[str] = set()
        self._watched: WatchedParty | None = None

    def join(self, welcome: Welcome) -> AligningParty | StoredParty:
        """What the coordinator asks this party to join: an alignment, or training."""
        pairs = [PAIR] if self._file.name in partners(self._job) else []
        need_phase(welcome, "fit", *pairs, *([] if self._joined is None else [ALIGN]))
        if len({*self._runs, welcome.run}) > MOST_RUNS:
            raise ProtocolError(f"one start of this program joins {MOST_RUNS} runs. Found another. Start it again.")
        self._runs.add(welcome.run)
        if self._joined is not None and welcome.phase == ALIGN:
            self._progress.event(PHASE, {"phase": "aligning", "run": welcome.run})
            return self._joined.join(welcome)
        if welcome.run not in self.opened:
            self._end_alignment()
            self._close_opened()
            job = pair_job(self._job, self._file.name) if welcome.phase == PAIR else self._job
            rows = self._rows
            if rows is None:
                assert self._alignment is not None
                rows = load_rows(job, self._file, self._alignment.order(welcome.alignment))
            self._close_opened()
            party = open_party(job, self._file, rows, welcome.run, welcome.key, security=self._security)
            self.opened[welcome.run] = party
            self._progress.say(
                f"run {welcome.run}: {len(rows.ids)} rows, {len(rows.columns)} columns; joined after exchange "
                f"{party.ready.last}"
            )
            self._progress.say(rows.lies)
            for line in party.disclosure:
                self._progress.say(f"{self._file.name}: {line}")
            watch: Progress = Silent() if job.pair_of else self._progress  # pages and trackers show the run of all
            watch.event(PHASE, {"phase": "training", "run": welcome.run, "rows": len(rows.ids)})
            watch.begin(run_facts(job, self._file.name, welcome.run, len(rows.ids)))
            self._watched = WatchedParty(party, watch)
        party = self.opened[welcome.run]
        if not self._file.trust.record:
            return cast(StoredParty, self._watched)
        return cast(StoredParty, Recorded(self._watched, party.folder.path, party.shape))

    def end(self, finished: Finished) -> Path:
        """Tell how the run that was joined has ended, and write its report; returns its folder."""
        progress, file = self._progress, self._file
        if not finished.ok or not self.opened:
            progress.end(Ending(finished.reason, converged=False, failed=True))
            raise TransportError(f"the run ended at the coordinator: {finished.reason}")
        party = next(iter(self.opened.values()))
        for line in party.disclosed:
            progress.say(f"{file.name}: {line}")
        folder = party.folder
        report = write_report(folder, party.job, file, {**told_results(finished.details), "rows": party.shape[0]})
        progress.say(f"{file.name}: {finished.reason}; weights and report in {folder.path}")
        if party.job.pair_of:
            progress.event(PHASE, {"phase": "done"})
        else:
            progress.event(REPORT, {"path": str(report)})
            progress.end(Ending(finished.reason, converged=finished.details.get("converged") is True))
            say_guarantees(party.job, [file.name], progress)
        return folder.path

    def close(self) -> None:
        self._end_alignment()
        self._close_opened()

    def _close_opened(self) -> None:
        """A coordinator that begins a new run has left the one before."""
        for participant in self.opened.values():
            participant.close()
        self.opened = {}

    def _end_alignment(self) -> None:
        if self._joined is not None:
            self._joined.close()
