"""A party's side of an alignment: it answers parcels, logs each of them, and keeps what it learns."""

from pathlib import Path

from plait.alignment.aligner import Aligner
from plait.alignment.meter import Meter, Pace
from plait.alignment.order import Order
from plait.alignment.proposal import Consent
from plait.deployment.alignment_folder import (
    SCORING,
    TRAINING,
    alignment_digest,
    alignment_path,
    begin,
    load_order,
)
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import ALIGNMENT, Tally, need_phase
from plait.deployment.local_data import load_ids
from plait.deployment.message_log import AuditLog
from plait.deployment.progress import Progress
from plait.deployment.run_folder import ALIGNED, COORDINATOR, RunFolder
from plait.errors import ProtocolError
from plait.messages import Parcel
from plait.transports.handshake import Finished, Ready, Welcome
from plait.transports.participant import AnswersNothing

ALIGN = "align"
_MORE_ALIGNMENTS = (
    "Every alignment lets the others test ids for membership (docs/threat-model.md). If that is wanted, raise "
    "trust.max_alignments in the party file."
)


class AligningParty(AnswersNothing):
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
        """Open the folder of an alignment; a new one counts against trust.max_alignments, a resumed one does not."""
        if not self.folder(alignment).exists():
            tally = Tally(self.file)
            tally.spend("alignments", 1, self.file.trust.max_alignments, _MORE_ALIGNMENTS, at_once=1)
        return begin(self, alignment, key)

    def _aligner(self, alignment: str, key: str) -> Aligner:
        assert self._job.alignment is not None
        meter = Meter(self._tell)
        folder = self.folder(alignment)
        members = frozenset({COORDINATOR, *self._job.parties})
        optional = frozenset({self._job.coordinator.name})  # its columns come with the coordinator's ids
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
