"""The long-running program of one party."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from plait._version import __version__
from plait.config import Job, PartyFile
from plait.data.tables import keyed_digest
from plait.deployment.folder import RunFolder, Status
from plait.deployment.loading import Rows, load_rows, make_party
from plait.deployment.participant import StoredParty
from plait.deployment.progress import Progress
from plait.errors import TransportError
from plait.report.page import write_report
from plait.transports.control import PROTOCOL, Hello, Welcome
from plait.transports.link import Link
from plait.transports.tls import Security


@dataclass(frozen=True)
class Dial:
    """Where a party calls, and as whom."""

    address: str
    security: Security


def open_participant(job: Job, file: PartyFile, rows: Rows, run: str, key: str, lasting: bool = True) -> StoredParty:
    """The party's side of one run, new or resumed; one that is not `lasting` keeps no checkpoint."""
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


def take_part(job: Job, file: PartyFile, dial: Dial, progress: Progress) -> Path:
    """Train as one party until the coordinator says how it ended; returns the run folder."""
    with threadpool_limits(job.run.threads):
        rows = load_rows(job, file)
        progress.say(f"{file.name}: {len(rows.ids)} rows, {len(rows.columns)} columns; dialling {dial.address}")
        opened: dict[str, StoredParty] = {}

        def join(welcome: Welcome) -> StoredParty:
            if welcome.run not in opened:
                opened[welcome.run] = open_participant(job, file, rows, welcome.run, welcome.key)
                progress.say(f"run {welcome.run}: joined after exchange {opened[welcome.run].ready.last}")
            return opened[welcome.run]

        def note(what: str, **facts: Any) -> None:
            progress.event(what, facts)

        link = Link(dial.address, job.coordinator.name, dial.security, job.coordinator.patience, note)
        hello = Hello(PROTOCOL, __version__, file.name, job.digest, "fit")
        try:
            finished = link.serve(hello, join)
        finally:
            for participant in opened.values():
                participant.close()
    if not finished.ok:
        raise TransportError(f"the run ended at the coordinator: {finished.reason}")
    folder = next(reversed(opened.values())).folder
    write_report(folder.path, job, finished.details)
    progress.say(f"{file.name}: {finished.reason}; weights and report in {folder.path}")
    say_guarantees(job, [file.name], progress)
    return folder.path
