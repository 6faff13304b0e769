"""The long-running program of one party."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plait._threads import blas_threads
from plait._version import __version__
from plait.alignment.aligner import Consent, agree
from plait.data.tables import keyed_digest
from plait.deployment.align import ALIGN, AligningParty, Guest, Visits
from plait.deployment.assembly import Rows, load_rows, make_party
from plait.deployment.endpoints import Dial
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.progress import Progress
from plait.deployment.report.page import write_report
from plait.deployment.run_folder import RunFolder, Status
from plait.deployment.stored_party import StoredParty
from plait.errors import TransportError
from plait.transports.client import Link
from plait.transports.handshake import PROTOCOL, Hello, Welcome


def open_participant(job: Job, file: PartyFile, rows: Rows, run: str, key: str, lasting: bool = True) -> StoredParty:
    """The party's side of one run, new or resumed; see `StoredParty` for one that is not `lasting`."""
    folder = RunFolder(file.path(file.runs) / run / file.name)
    folder.begin(Status(run, job.digest, file.name, key="", checksum=rows.checksum))
    ids = keyed_digest(rows.ids, bytes.fromhex(key))
    clip = job.policy.clips(job.parties).get(file.name)
    return StoredParty(make_party(job, file, rows), folder, rows, ids, clip, lasting)


def say_guarantees(job: Job, names: Sequence[str], progress: Progress) -> None:
    """What the run protects, in words, where anyone protects anything."""
    if job.policy.private:
        lines = dict(zip(job.parties, job.policy.guarantee(job.parties).splitlines(), strict=True))
        for name in names:
            progress.say(lines[name])


def take_part(job: Job, file: PartyFile, dial: Dial, progress: Progress, consent: Consent = agree) -> Path:
    """Align and train as one party until the coordinator says how it ended; returns the run folder."""
    with blas_threads(job.run.threads):
        visit = _Visit(job, file, progress, consent)
        progress.say(f"{file.name}: dialling {dial.address}")

        def note(what: str, **facts: Any) -> None:
            progress.event(what, facts)

        link = Link(dial.address, job.coordinator.name, dial.security, job.coordinator.patience, note)
        hello = Hello(PROTOCOL, __version__, file.name, job.digest, "fit")
        try:
            finished = link.serve(hello, visit.join)
            while finished.ok and finished.details.get("phase") == ALIGN:
                finished = link.serve(hello, visit.join)
        finally:
            visit.close()
    if not finished.ok:
        raise TransportError(f"the run ended at the coordinator: {finished.reason}")
    folder = next(reversed(visit.opened.values())).folder
    write_report(folder.path, job, finished.details)
    progress.say(f"{file.name}: {finished.reason}; weights and report in {folder.path}")
    say_guarantees(job, [file.name], progress)
    return folder.path


class _Visit:
    """A party's rows, and its side of the runs that it is asked to join."""

    def __init__(self, job: Job, file: PartyFile, progress: Progress, consent: Consent) -> None:
        self._job = job
        self._file = file
        self._progress = progress
        self._guest = None if job.alignment is None else Guest(job, file, consent, progress)
        self._rows = load_rows(job, file) if self._guest is None else None  # bad input ends before anyone is called
        self._alignments = None if self._guest is None else Visits(self._guest)
        self.opened: dict[str, StoredParty] = {}

    def join(self, welcome: Welcome) -> AligningParty | StoredParty:
        """The side of a run that the coordinator asks for: to be aligned, or to train."""
        if self._alignments is not None and welcome.phase == ALIGN:
            return self._alignments.join(welcome)
        if welcome.run not in self.opened:
            self._end_alignment()
            rows = self._rows
            if rows is None:
                assert self._guest is not None
                rows = load_rows(self._job, self._file, self._guest.order(welcome.run, welcome.key))
            party = open_participant(self._job, self._file, rows, welcome.run, welcome.key)
            self.opened[welcome.run] = party
            self._progress.say(
                f"run {welcome.run}: {len(rows.ids)} rows, {len(rows.columns)} columns; joined after exchange "
                f"{party.ready.last}"
            )
        return self.opened[welcome.run]

    def close(self) -> None:
        self._end_alignment()
        for participant in self.opened.values():
            participant.close()

    def _end_alignment(self) -> None:
        if self._alignments is not None:
            self._alignments.close()
