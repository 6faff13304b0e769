"""The long-running program of one party."""

from pathlib import Path
from typing import Any

from plait._threads import blas_threads
from plait._version import __version__
from plait.alignment.aligner import Consent, agree
from plait.deployment.align import ALIGN, AligningParty, OpenAlignment, PartyAlignment
from plait.deployment.endpoints import Dial
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.local_data import load_rows
from plait.deployment.party_privacy import say_guarantees
from plait.deployment.progress import Progress
from plait.deployment.report.page import write_report
from plait.deployment.stored_party import StoredParty, open_party
from plait.errors import TransportError
from plait.transports.client import Link
from plait.transports.handshake import PROTOCOL, Hello, Welcome


def take_part(job: Job, file: PartyFile, dial: Dial, progress: Progress, consent: Consent = agree) -> Path:
    """Align and train as one party until the coordinator says how it ended; returns the run folder."""
    with blas_threads(job.run.threads):
        runs = _PartyRuns(job, file, progress, consent)
        progress.say(f"{file.name}: dialling {dial.address}")

        def note(what: str, **facts: Any) -> None:
            progress.event(what, facts)

        link = Link(dial.address, job.coordinator.name, dial.security, job.coordinator.patience, note)
        hello = Hello(PROTOCOL, __version__, file.name, job.digest, "fit")
        try:
            finished = link.serve(hello, runs.join)
            while finished.ok and finished.details.get("phase") == ALIGN:
                finished = link.serve(hello, runs.join)
        finally:
            runs.close()
    if not finished.ok:
        raise TransportError(f"the run ended at the coordinator: {finished.reason}")
    folder = next(reversed(runs.opened.values())).folder
    write_report(folder.path, job, finished.details)
    progress.say(f"{file.name}: {finished.reason}; weights and report in {folder.path}")
    say_guarantees(job, [file.name], progress)
    return folder.path


class _PartyRuns:
    """A party's rows, and its side of the runs that it is asked to join."""

    def __init__(self, job: Job, file: PartyFile, progress: Progress, consent: Consent) -> None:
        self._job = job
        self._file = file
        self._progress = progress
        self._alignment = None if job.alignment is None else PartyAlignment(job, file, consent, progress)
        self._rows = load_rows(job, file) if self._alignment is None else None  # bad input ends before anyone is called
        self._joined = None if self._alignment is None else OpenAlignment(self._alignment)
        self.opened: dict[str, StoredParty] = {}

    def join(self, welcome: Welcome) -> AligningParty | StoredParty:
        """The side of a run that the coordinator asks for: to be aligned, or to train."""
        if self._joined is not None and welcome.phase == ALIGN:
            return self._joined.join(welcome)
        if welcome.run not in self.opened:
            self._end_alignment()
            rows = self._rows
            if rows is None:
                assert self._alignment is not None
                rows = load_rows(self._job, self._file, self._alignment.order(welcome.run, welcome.key))
            party = open_party(self._job, self._file, rows, welcome.run, welcome.key)
            self.opened[welcome.run] = party
            self._progress.say(
                f"run {welcome.run}: {len(rows.ids)} rows, {len(rows.columns)} columns; joined after exchange "
                f"{party.ready.last}"
            )
        return self.opened[welcome.run]

    def close(self) -> None:
        self._end_alignment()
        for party in self.opened.values():
            party.close()

    def _end_alignment(self) -> None:
        if self._joined is not None:
            self._joined.close()
