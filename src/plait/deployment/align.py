"""Alignment as the first phase of a run, or on its own: near and far parties, audit logs, what is kept."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plait._files import mark
from plait._version import __version__
from plait.alignment.aligner import Aligner, Consent
from plait.alignment.meeting import Meeting, Member
from plait.alignment.meter import Meter, Pace
from plait.alignment.order import Order
from plait.deployment.alignment_folder import (
    SCORING,
    TRAINING,
    alignment_digest,
    alignment_path,
    begin,
    find_alignment,
    load_order,
    newest_usable,
)
from plait.deployment.endpoints import Dial, Listen, link
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import ALIGNMENT, Tally, need_phase
from plait.deployment.local_data import load_ids
from plait.deployment.message_log import AuditLog
from plait.deployment.progress import Progress
from plait.deployment.run_folder import ALIGNED, COORDINATOR, RunFolder, new_run
from plait.errors import ConfigError, PlaitError, ProtocolError, StorageError, TransportError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.admission import Terms
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
        self._parcels = 0

    @property
    def ready(self) -> Ready:
        return Ready(0, "", 0)

    agreement = ALIGNMENT

    def receive(self, parcel: Parcel) -> Parcel:
        self._parcels += 1
        if self._parcels > self._aligner.most_parcels:
            raise ProtocolError(
                f"an alignment of these sets takes at most {self._aligner.most_parcels} questions. Found one more. The "
                "coordinator is faulty, or not honest."
            )
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
    """How one party is aligned: its ids, whom to ask for consent, where it keeps the result, and who watches.

    Parameters
    ----------
    job, file : Job, PartyFile
    consent : callable
        Agrees to use the common rows, or declines.
    progress : Progress
    name : str, default=""
        The member's name; that of the party where it is empty.
    rows : str, default=""
        The file whose ids are aligned; the training file where it is empty.
    """

    def __init__(
        self, job: Job, file: PartyFile, consent: Consent, progress: Progress, name: str = "", rows: str = ""
    ) -> None:
        self._job = job
        self.file = file
        self._consent = consent
        self._progress = progress
        self.name = name or file.name
        self.ids = load_ids(job, file, rows)
        self.digest = alignment_digest(job, SCORING if rows else TRAINING)
        progress.say(self.ids.report(self.name))

    def join(self, alignment: str, key: str, audit: AuditLog) -> AligningParty:
        """Take part in an alignment, new or resumed."""
        return AligningParty(self._aligner(alignment, key), audit)

    def audit(self, alignment: str) -> AuditLog:
        """This party's log of an alignment."""
        return AuditLog(self.folder(alignment) / "audit.jsonl")

    def order(self, alignment: str) -> Order:
        """The common rows; an alignment whose end this party has missed is completed first."""
        folder = self.folder(alignment)
        if not Order.exists(folder) and (folder / "work").exists():
            self._aligner(alignment, "").finish(ok=True, resumable=False)
        return load_order(self, alignment)

    def folder(self, alignment: str) -> Path:
        """Where this party keeps its part of an alignment."""
        return alignment_path(self.file, self.name, alignment)

    def begin(self, alignment: str, key: str) -> RunFolder:
        """Open its folder; one more alignment with these ids, unless it goes on with one that was counted."""
        if not self.folder(alignment).exists():
            tally = Tally(self.file)
            tally.spend("alignments", 1, self.file.trust.max_alignments, _MORE_ALIGNMENTS, at_once=1)
        return begin(self, alignment, key)

    def _aligner(self, alignment: str, key: str) -> Aligner:
        assert self._job.alignment is not None
        meter = Meter(self._tell)
        folder = self.folder(alignment)
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
        self.name = ""
        self._alignment = alignment
        self._folder: RunFolder | None = None
        self._audit: AuditLog | None = None
        self._party: AligningParty | None = None

    def join(self, welcome: Welcome) -> AligningParty:
        need_phase(welcome, ALIGN)
        if self._party is None or welcome.run != self.name:
            self.close()
            self._folder = self._alignment.begin(welcome.run, welcome.key)
            self.name, self._audit = welcome.run, self._alignment.audit(welcome.run)
            self._party = self._alignment.join(welcome.run, welcome.key, self._audit)
        return self._party

    def close(self) -> None:
        if self._audit is not None:
            self._audit.close()
        if self._folder is not None:
            if Order.exists(self._folder.path):
                self._folder.end(ALIGNED, "aligned")
            self._folder.release()
        self._party = self._audit = self._folder = None


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
    """An alignment at the coordinator, among parties in this process (itself first) and those that dial in."""

    def __init__(self, job: Job, here: Sequence[PartyAlignment], name: str, key: str, progress: Progress) -> None:
        self._job = job
        self._here = here
        self._name, self._key = name, key
        self._progress = progress
        self._path = here[0].folder(name)
        self._settled = self._path / "settled"
        self._logs: list[AuditLog] = []

    def meet(self, purpose: str, listen: Listen | None, remote: tuple[str, ...]) -> dict[str, Order]:
        """Align, or go on with it, unless it is done; `purpose` is what the coordinator's program is there for.

        Returns the common rows of every party in this process, by the name of its file.
        """
        if not Order.exists(self._path):
            folders = [party.begin(self._name, self._key) for party in self._here]
            try:
                self._meet(purpose, listen, remote)
                for folder in folders:
                    folder.end(ALIGNED, "aligned")
            except PlaitError as error:
                folders[0].end("interrupted" if _resumable(error) else "failed", str(error))
                raise
            except KeyboardInterrupt:
                folders[0].end("interrupted", "interrupted")
                raise
            finally:
                for folder in folders:
                    folder.release()
        return {party.file.name: party.order(self._name) for party in self._here}

    def _meet(self, purpose: str, listen: Listen | None, remote: tuple[str, ...]) -> None:
        patience = self._job.coordinator.patience
        terms = Terms(
            remote, self._job.digest, purpose, self._name, self._key, 0, "", patience, kept=0, phase=ALIGN,
            fingerprints=self._job.fingerprints,
        )  # fmt: skip
        hub = Hub(terms, self._note)
        self._logs = [party.audit(self._name) for party in self._here]
        near = [party.join(self._name, self._key, log) for party, log in zip(self._here, self._logs, strict=True)]
        try:
            if listen is not None and remote:
                port = hub.open(listen.address, listen.security)
                self._progress.peers(lambda: hub.standings)
                self._progress.say(f"alignment {self._name}: listening on {listen.address} (port {port})")
            if not self._settled.exists():
                self._hold(hub, [*near, *(_RemoteMember(name, hub) for name in remote)])
            self._end(hub, near, Finished(True, "aligned", {"phase": ALIGN}), min(patience, _TELLING))
        except PlaitError as error:
            resumable = _resumable(error)
            self._end(hub, near, Finished(False, str(error)[:4000], {"resumable": resumable}), min(patience, 5.0))
            if not resumable:
                shutil.rmtree(self._path / "relay", ignore_errors=True)
            raise
        finally:
            hub.close()
            for log in self._logs:
                log.close()

    def _note(self, what: str, **facts: Any) -> None:
        self._logs[0].note(what, **facts)
        self._progress.event(what, facts)

    def _hold(self, hub: Hub, members: list[Member]) -> None:
        assert self._job.alignment is not None
        hub.wait_for_all(lambda absent, _: self._progress.say(f"waiting for {', '.join(absent)}"))
        relay = self._path / "relay"
        Meeting(members, self._job.alignment, relay).run(self._progress.say)
        mark(self._settled)
        shutil.rmtree(relay, ignore_errors=True)

    def _end(self, hub: Hub, near: list[AligningParty], finished: Finished, patience: float) -> None:
        """Tell the far ones first and the coordinator last: when its order is there, all is done."""
        hub.finish(finished, lambda _: None, patience)
        for member in reversed(near):
            member.finish(finished)


def _resumable(error: PlaitError) -> bool:
    return isinstance(error, TransportError | StorageError)


def align(
    job: Job,
    file: PartyFile,
    local: Sequence[PartyFile],
    listen: Listen | None,
    consent: Consent,
    progress: Progress,
    refresh: bool = False,
) -> Path:
    """Align on its own, at the coordinator; any training of the same parties by the same id rules uses the result."""
    need_alignment(job)
    here = local_alignments(job, file, local, consent, progress)
    found = None if refresh else find_alignment(here, resume=listen is not None)
    name, key = found or new_run()
    if Order.exists(here[0].folder(name)):
        progress.say(f"alignment {name} is there already. --refresh, at every party, makes a new one.")
    orders = CoordinatorAlignment(job, here, name, key, progress).meet(ALIGN, listen, missing_from(local, job))
    progress.say(f"alignment {name}: {len(orders[file.name].ids)} common rows, ready to train")
    return here[0].folder(name)


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


def help_align(
    job: Job, file: PartyFile, dial: Dial, consent: Consent, progress: Progress, refresh: bool = False
) -> None:
    """A party's part in an alignment on its own."""
    need_alignment(job)
    alignment = PartyAlignment(job, file, consent, progress)
    if not refresh and (name := newest_usable(alignment)):
        progress.say(f"{file.name}: alignment {name} is there already. --refresh, at every party, makes a new one.")
        return
    joined = OpenAlignment(alignment)

    connection = link(job, dial, lambda w, **f: progress.event(w, f))
    try:
        finished = connection.serve(Hello(PROTOCOL, __version__, file.name, job.digest, ALIGN), joined.join)
    finally:
        joined.close()
    if not finished.ok:
        raise TransportError(f"the alignment ended at the coordinator: {finished.reason}")
    order = alignment.order(joined.name)
    progress.say(f"{file.name}: {len(order.ids)} common rows; the order is in {alignment.folder(joined.name)}")


def need_alignment(job: Job) -> None:
    """Raise ConfigError unless the job says how ids are compared."""
    if job.alignment is None:
        raise ConfigError("the job must have a section [alignment] to be aligned. Found none. See docs/alignment.md.")
