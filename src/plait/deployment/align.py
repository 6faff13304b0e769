"""Alignment as the first phase of a run, or on its own: near and far parties, audit logs, what is kept."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plait._files import make_folder
from plait._names import check_run
from plait._version import __version__
from plait.alignment.aligner import Aligner, Consent
from plait.alignment.meeting import Meeting, Member
from plait.alignment.meter import Meter, Pace
from plait.alignment.order import Order
from plait.deployment.endpoints import Dial, Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import ALIGNMENT, Tally, need_phase
from plait.deployment.local_data import load_ids
from plait.deployment.message_log import AuditLog
from plait.deployment.progress import Progress
from plait.deployment.run_folder import ALIGNED, COORDINATOR, RESUMABLE, RunFolder, Status, find_run, new_run
from plait.errors import ConfigError, PlaitError, ProtocolError, StorageError, TransportError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.admission import Terms
from plait.transports.client import Link
from plait.transports.handshake import PROTOCOL, Finished, Hello, Query, Ready, Welcome
from plait.transports.server import Hub

ALIGN = "align"
_MORE_ALIGNMENTS = (
    "Every alignment lets the others test ids for membership (docs/threat-model.md). If that is wanted, raise "
    "trust.max_alignments in the party file."
)
_TELLING = 30.0  # seconds for which absent parties are waited for, to tell them that the alignment has ended


class AligningParty:
    """A party that answers parcels, and writes each of them into its audit log."""

    near = True

    def __init__(self, aligner: Aligner, audit: AuditLog) -> None:
        self.name = aligner.name
        self._aligner = aligner
        self._audit = audit

    @property
    def ready(self) -> Ready:
        return Ready(0, "", 0)

    agreement = ALIGNMENT

    def receive(self, parcel: Parcel) -> Parcel:
        self._note("received", parcel)
        answer = self._aligner.receive(parcel)
        self._note("sent", answer)
        return answer

    ask = receive

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        raise ProtocolError(f"this party is here to be aligned. Found exchange {seq} of a training.")

    def look_up(self, queries: Sequence[Query]) -> list[Share]:
        raise ProtocolError("this party is here to be aligned. Found a query for scores.")

    def load(self, run: str) -> None:
        raise ProtocolError(f"this party is here to be aligned. Found a request for run {run}.")

    def rest(self) -> None:
        """Nothing waits."""

    def finish(self, finished: Finished) -> None:
        self._audit.note("alignment ended", ok=finished.ok, reason=finished.reason)
        self._aligner.finish(finished.ok, bool(finished.details.get("resumable", False)))

    def _note(self, way: str, parcel: Parcel) -> None:
        self._audit.note(
            f"parcel {way}",
            parcel=parcel.what,
            owner=parcel.owner,
            start=parcel.start,
            count=parcel.count,
            bytes=len(parcel.data),
            digest=parcel.digest,
        )


class PartyAlignment:
    """How one party is aligned: its ids, whom to ask for consent, where it keeps the result, and who watches."""

    def __init__(self, job: Job, file: PartyFile, consent: Consent, progress: Progress, name: str = "") -> None:
        self._job = job
        self.file = file
        self._consent = consent
        self._progress = progress
        self.name = name or file.name
        self.ids = load_ids(job, file)
        progress.say(self.ids.report(self.name))

    def join(self, run: str, key: str, audit: AuditLog) -> AligningParty:
        """Take part in the alignment of a run, new or resumed."""
        return AligningParty(self._aligner(run, key), audit)

    def audit(self, run: str) -> AuditLog:
        """This party's log of the run."""
        return AuditLog(self.folder(run).parent / "audit.jsonl")

    def order(self, run: str, key: str) -> Order:
        """The common rows of a run; an alignment whose end this party has missed is completed first."""
        folder = self.folder(run)
        if not Order.exists(folder):
            self._aligner(run, key).finish(ok=True, resumable=False)
        return Order.load(folder, self.ids)

    def folder(self, run: str) -> Path:
        """Where this party keeps its alignment of a run."""
        return self.file.path(self.file.runs) / check_run(run) / self.name / "alignment"

    def count(self, run: str) -> None:
        """One more alignment with these ids, unless it goes on with one that was counted."""
        if not self.folder(run).exists():
            tally = Tally(self.file)
            tally.spend("alignments", 1, self.file.trust.max_alignments, _MORE_ALIGNMENTS, at_once=1)
            make_folder(self.folder(run))

    def _aligner(self, run: str, key: str) -> Aligner:
        assert self._job.alignment is not None
        meter = Meter(self._tell)
        folder = self.folder(run)
        members = frozenset({COORDINATOR, *self._job.parties})
        optional = frozenset({self._job.coordinator.name})  # where the coordinator brings the label party's columns
        return Aligner(
            self.name,
            self.ids,
            folder,
            self._job.alignment,
            bytes.fromhex(key),
            self._consent,
            meter,
            members,
            optional,
        )

    def _tell(self, pace: Pace) -> None:
        facts = {"party": self.name, "blinded": pace.done, "of": pace.total}
        self._progress.event("aligning", {**facts, "ids a second": round(pace.rate), "seconds left": round(pace.left)})


class OpenAlignment:
    """The alignment that a party is asked to join; it stays the same when the connection breaks."""

    def __init__(self, alignment: PartyAlignment) -> None:
        self.run = ""
        self._alignment = alignment
        self._audit: AuditLog | None = None
        self._party: AligningParty | None = None

    def join(self, welcome: Welcome) -> AligningParty:
        need_phase(welcome, ALIGN)
        if self._party is None or welcome.run != self.run:
            self.close()
            self._alignment.count(welcome.run)
            self.run, self._audit = welcome.run, self._alignment.audit(welcome.run)
            self._party = self._alignment.join(welcome.run, welcome.key, self._audit)
        return self._party

    def close(self) -> None:
        if self._audit is not None:
            self._audit.close()
        self._party = self._audit = None


class _RemoteMember:
    """A member of the meeting that has dialled in."""

    near = False

    def __init__(self, name: str, hub: Hub) -> None:
        self.name = name
        self._hub = hub
        self._numbers = itertools.count(1)

    def ask(self, parcel: Parcel) -> Parcel:
        return self._hub.send(self.name, next(self._numbers), parcel)


class CoordinatorAlignment:
    """The alignment of a run at the coordinator, among parties in this process and those that dial in."""

    def __init__(
        self, job: Job, here: Sequence[PartyAlignment], run: str, key: str, audit: AuditLog, progress: Progress
    ) -> None:
        self._job = job
        self._own = here[0]
        self._here = here
        self._run, self._key = run, key
        self._audit = audit
        self._progress = progress
        self._folder = self._own.folder(run)
        self._settled = self._folder / "settled"

    def meet(self, purpose: str, listen: Listen | None, remote: tuple[str, ...]) -> None:
        """Align, or go on with it, unless it is done; `purpose` is what the coordinator's program is there for."""
        if Order.exists(self._folder):
            return
        patience = self._job.coordinator.patience
        terms = Terms(remote, self._job.digest, purpose, self._run, self._key, 0, "", patience, kept=0, phase=ALIGN)
        hub = Hub(terms, self._note)
        logs = [self._audit, *(party.audit(self._run) for party in self._here[1:])]
        near = [party.join(self._run, self._key, log) for party, log in zip(self._here, logs, strict=True)]
        try:
            if listen is not None and remote:
                port = hub.open(listen.address, listen.security)
                self._progress.say(f"run {self._run}: aligning; listening on {listen.address} (port {port})")
            if not self._settled.exists():
                self._hold(hub, [*near, *(_RemoteMember(name, hub) for name in remote)])
            self._end(hub, near, Finished(True, "aligned", {"phase": ALIGN}), min(patience, _TELLING))
        except PlaitError as error:
            resumable = isinstance(error, TransportError | StorageError)
            self._end(hub, near, Finished(False, str(error)[:4000], {"resumable": resumable}), min(patience, 5.0))
            raise
        finally:
            hub.close()
            for log in logs[1:]:
                log.close()

    def _note(self, what: str, **facts: Any) -> None:
        self._audit.note(what, **facts)
        self._progress.event(what, facts)

    def _hold(self, hub: Hub, members: list[Member]) -> None:
        assert self._job.alignment is not None
        hub.wait_for_all(lambda absent, _: self._progress.say(f"waiting for {', '.join(absent)}"))
        relay = self._folder / "relay"
        Meeting(members, self._job.alignment, relay).run(self._progress.say)
        self._settled.touch()
        shutil.rmtree(relay, ignore_errors=True)

    def _end(self, hub: Hub, near: list[AligningParty], finished: Finished, patience: float) -> None:
        """Tell the far ones first and the coordinator last: when its order is there, all is done."""
        hub.finish(finished, lambda _: None, patience)
        for member in reversed(near):
            member.finish(finished)


def align(
    job: Job,
    file: PartyFile,
    local: Sequence[PartyFile],
    listen: Listen | None,
    consent: Consent,
    progress: Progress,
    fresh: bool = False,
) -> Path:
    """Align on its own, at the coordinator; a later training of the same job goes on from there."""
    need_alignment(job)
    found = None if fresh or listen is None else find_run(file.path(file.runs), COORDINATOR, job.digest, RESUMABLE)
    if found is None or Order.exists(found.path / "alignment"):
        name, key = new_run()
        found = RunFolder(file.path(file.runs) / name / COORDINATOR)
    else:
        name, key = found.status.run, found.status.key
        progress.say(f"resuming run {name}")
    here = local_alignments(job, file, local, consent, progress)
    found.begin(Status(name, job.digest, COORDINATOR, key, settings=dict(job.settings)))
    audit = here[0].audit(name)
    coordinator = CoordinatorAlignment(job, here, name, key, audit, progress)
    try:
        coordinator.meet(ALIGN, listen, missing_from(local, job))
        found.end(ALIGNED, "aligned")
    except PlaitError as error:
        resumable = isinstance(error, TransportError | StorageError)
        found.end("interrupted" if resumable else "failed", str(error))
        raise
    except KeyboardInterrupt:
        found.end("interrupted", "interrupted")
        raise
    finally:
        audit.close()
        found.release()
    order = here[0].order(name, key)
    progress.say(f"{len(order.ids)} common rows; orders in {found.path.parent}, ready to train")
    return found.path


def local_alignments(
    job: Job, file: PartyFile, local: Sequence[PartyFile], consent: Consent, progress: Progress
) -> list[PartyAlignment]:
    """Everyone in this process: the coordinator, whose ids are also those of the label party's columns, then others."""
    others = [PartyAlignment(job, other, consent, progress) for other in local if other.name != file.name]
    return [PartyAlignment(job, file, consent, progress, COORDINATOR), *others]


def missing_from(local: Sequence[PartyFile], job: Job) -> tuple[str, ...]:
    """The parties that must dial in."""
    here = {file.name for file in local}
    return tuple(name for name in job.parties if name not in here)


def help_align(job: Job, file: PartyFile, dial: Dial, consent: Consent, progress: Progress) -> None:
    """A party's part in an alignment on its own."""
    need_alignment(job)
    alignment = PartyAlignment(job, file, consent, progress)
    joined = OpenAlignment(alignment)

    link = Link(
        dial.address, job.coordinator.name, dial.security, job.coordinator.patience, lambda w, **f: progress.event(w, f)
    )
    try:
        finished = link.serve(Hello(PROTOCOL, __version__, file.name, job.digest, ALIGN), joined.join)
    finally:
        joined.close()
    if not finished.ok:
        raise TransportError(f"the alignment ended at the coordinator: {finished.reason}")
    order = Order.load(alignment.folder(joined.run), alignment.ids)
    progress.say(f"{file.name}: {len(order.ids)} common rows; the order is in {alignment.folder(joined.run)}")


def need_alignment(job: Job) -> None:
    """Raise ConfigError unless the job says how ids are compared."""
    if job.alignment is None:
        raise ConfigError("the job must have a section [alignment] to be aligned. Found none. See docs/alignment.md.")
