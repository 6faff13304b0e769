"""A party that survives being killed: it journals what it is asked, and answers a repeated question as before."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait._files import write_atomically
from plait.deployment import state
from plait.deployment.asked_before import Questions
from plait.deployment.disclosure import SHOWN, SHOWS
from plait.deployment.job_file import Job
from plait.deployment.journal import Journal, NoJournal, window
from plait.deployment.law import Tally, told_results, training_agreement
from plait.deployment.local_data import Rows
from plait.deployment.message_log import AuditLog, read_log
from plait.deployment.party_privacy import mechanism_of
from plait.deployment.party_settings import TrustOptions
from plait.deployment.registry import loss_name
from plait.deployment.run_folder import RunFolder, TrainedPart
from plait.deployment.share_limits import ShareLimits
from plait.errors import ProtocolError, StorageError
from plait.messages import NUMBER_BYTES, Broadcast, Share
from plait.problem.features import scores_of
from plait.training.party import Party
from plait.transports.handshake import Finished, Ready
from plait.transports.law import Agreement
from plait.transports.participant import AnswersNothing

_SMALLEST_JOURNAL = 1 << 20  # bytes: a shorter journal is read in no time, so no snapshot is worth its writing
_PEER = "coordinator"
_MOST_REPEATS = 4  # repeats per kept exchange between two new ones: enough for a few broken connections
_UNDER_WAY = 0.01
"""Seconds that gRPC still encrypts the end of a message after it was handed over."""


@dataclass(frozen=True)
class Answered:
    """An exchange and the share that answered it."""

    seq: int
    share: Share


@dataclass(frozen=True)
class Snapshot:
    """Everything that a party needs to go on after exchange `last`."""

    last: int
    recent: tuple[Answered, ...]
    state: Any


class StoredParty(AnswersNothing):
    """Answers broadcasts; its state is on disk before its answer leaves.

    The journal gets the new state or the broadcast that led to it, whichever is smaller; a snapshot replaces a journal
    that has outgrown it.  A party without a tally keeps no checkpoint: it takes part in a simulation, or shares a
    process with the coordinator, which asks it everything again after a restart.  An answer that has to be computed
    again must have the digest that the audit log has for what was sent.  Another answer to the same question never
    leaves.
    """

    def __init__(
        self,
        job: Job,
        party: Party,
        folder: RunFolder,
        rows: Rows,
        ids: str,
        tally: Tally | None,
        trust: TrustOptions,
    ) -> None:
        lasting = tally is not None  # a party that counts is a program of its own, and must survive a kill
        self._mechanism = mechanism_of(job, party.name)
        self._job, self._tally = job, tally
        self._limits = ShareLimits(job, party, (len(rows.ids), len(rows.columns)), tally, trust)
        self.agreement: Agreement = training_agreement(job, party, len(rows.ids))
        self._party = party
        self.folder = folder
        self._rows = rows
        self._ids = ids
        self._recent: tuple[Answered, ...] = ()
        self._repeats = 0
        self._last = 0
        self._before: dict[int, Any] = {}
        self._sent: dict[int, str] = {}
        self._audit = AuditLog(folder.path / "audit.jsonl")
        self._window = window(len(rows.ids))
        self._journal = (
            Journal(folder.checkpoint / "journal", self._window - 1, folder.owner) if lasting else NoJournal()
        )
        self._snapshot = folder.checkpoint / "state"
        self._snapshot_bytes = 0
        self._kept = folder.status.status == "finished"
        self._restore()

    @property
    def ready(self) -> Ready:
        """What the coordinator is told when the party joins."""
        return Ready(len(self._rows.ids), self._ids, self._last)

    @property
    def job(self) -> Job:
        """The job that this run trains."""
        return self._job

    @property
    def disclosure(self) -> list[str]:
        """What the run will show of this party, in words and numbers."""
        return self._limits.disclosure

    @property
    def disclosed(self) -> list[str]:
        """What the run has shown of this party, and told it, in words and numbers."""
        return self._limits.disclosed

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the party's table."""
        return len(self._rows.ids), len(self._rows.columns)

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        """Take one step after exchange `before`, or repeat the share of an exchange that has been answered."""
        if seq <= self._last:
            return self._repeated(seq, broadcast)
        if self._kept:
            raise ProtocolError(
                f"a run that has finished here is not continued. Found exchange {seq} asked for, after the last one, "
                f"{self._last}. Nothing was answered. Start over with `plait coordinator --fresh`."
            )
        if before is not None and before != self._last:
            raise ProtocolError(
                f"exchange {seq} follows {before} at the coordinator, and the last one here is "
                f"{self._last}. Found a gap: "
                "one of the two run folders lost its newest records, or is an older copy. Restore it, or start over "
                "with `plait coordinator --fresh`."
            )
        if seq in self._sent:
            self._questions.need_same(seq, broadcast)
            self._audit.note("repeated", peer=_PEER, seq=seq)
        else:
            self._party.check(broadcast)
            self._limits.count_answer(broadcast, len(self._sent))
            self._repeats = 0
            self._audit.message("received", _PEER, seq, broadcast)
        share = self._same(seq, self._step(seq, broadcast))
        self._limits.check_share(seq, share, seq in self._sent)
        self._journal.append(seq, self._record(broadcast))
        if seq not in self._sent:
            self._audit.message("sent", _PEER, seq, share)
            self._sent[seq] = ""  # its digest is in the audit log
        if self._journal.bytes > max(_SMALLEST_JOURNAL, 4 * self._snapshot_bytes):
            snapshot = Snapshot(self._last, self._recent, self._party.state)
            self._journal.replace_behind(lambda: self._write(snapshot))
        return share

    def _repeated(self, seq: int, broadcast: Broadcast) -> Share:
        """What was answered before, to the same question."""
        self._questions.need_same(seq, broadcast)
        self._repeats += 1
        if self._repeats > _MOST_REPEATS * self._window:
            raise ProtocolError(
                f"between two new exchanges at most {_MOST_REPEATS * self._window} are asked for again. Found more. "
                "The coordinator is faulty, or not honest."
            )
        for answered in self._recent:
            if answered.seq == seq:
                self._audit.note("repeated", peer=_PEER, seq=seq)
                return answered.share
        if seq in self._before:
            self._audit.note("repeated", peer=_PEER, seq=seq)
            return self._same(seq, self._party.answer_from(self._before[seq], broadcast))
        raise ProtocolError(
            f"exchange {self._last} has been answered. Found a stale request for {seq}: the coordinator's run folder "
            "lost its newest records, or is an older copy. Restore it, or start over with `plait coordinator --fresh`."
        )

    def repeat(self, seq: int, broadcast: Broadcast) -> Share:
        """Repeat a step that was taken before a restart, for a party that keeps no checkpoint."""
        if seq not in self._sent:
            self._audit.note("answered, line lost", peer=_PEER, seqs=[seq])
        return self._same(seq, self._step(seq, broadcast))

    def rest(self) -> None:
        """Write down in the audit log what was sent, now that it has left this machine."""
        self._audit.catch_up(_UNDER_WAY)

    def finish(self, finished: Finished) -> None:
        """Keep what was trained, and note how the run ended; nothing more is done after a run that ended well."""
        if self._kept:
            return
        for line in self.disclosed:
            self._audit.note(SHOWN, line=line)
        self._audit.note("finished", ok=finished.ok, reason=finished.reason)
        if finished.ok:
            weights = self._party.weights
            mechanism, clip = self._mechanism, self._mechanism.row_bound
            # The mean is a number about the rows, which no release pays for.
            mean = 0.0 if mechanism.guaranteed else float(np.mean(scores_of(self._rows.matrix, clip, weights)))
            self._rows.prepared.save(self.folder.path)
            self.folder.write_weights(
                TrainedPart(self._rows.columns, weights, clip, mean, mechanism.guaranteed, mechanism.covers_weights)
            )
            if self._job.blind is not None and self._party.name == self._job.label_party:
                about = {"rows": len(self._rows.ids)}
                self.folder.write_model(self._party.intercept, loss_name(self._job.loss), self._job.parties, about)
            self.folder.write_history(told_results(finished.details)["rounds"])
        self.folder.end("finished" if finished.ok else "interrupted", finished.reason)
        self._kept = finished.ok

    def close(self) -> None:
        self._journal.close()
        self._audit.close()
        if self._tally is not None:
            self._tally.close()
        self.folder.release()

    def _step(self, seq: int, broadcast: Broadcast) -> Share:
        share = self._party.handle(broadcast)
        if share.vector is not None:  # kept for a repeat, in memory or on disk
            share = replace(share, vector=self._party.block.workspace.kept(share.vector))
        self._last = seq
        if self._tally is not None:
            self._questions.keep(seq, broadcast)
        self._recent = (*self._recent, Answered(seq, share))[-self._window :]
        return share

    def _write(self, snapshot: Snapshot) -> None:
        parts = state.sealed(state.encode_parts(snapshot), self.folder.owner)
        write_atomically(self._snapshot, *parts)
        self._snapshot_bytes = sum(map(len, parts))

    def _record(self, broadcast: Broadcast) -> list[state.Buffer]:
        """What the journal gets: the state when it is smaller than the message that led to it."""
        if broadcast.vector is None:  # a question of a few numbers: no state is smaller
            return state.encode_parts(broadcast)
        parts = state.encode_parts(Snapshot(self._last, (), self._party.state))
        size = sum(map(len, parts))
        self._snapshot_bytes = max(self._snapshot_bytes, size)  # also before the first snapshot is written
        return parts if size < broadcast.bytes else state.encode_parts(broadcast)

    def _restore(self) -> None:
        entries = [entry.facts for entry in read_log(self.folder.path / "audit.jsonl")]
        self._sent = {facts["seq"]: facts["digest"] for facts in entries if facts["what"] == "sent"}
        least = NUMBER_BYTES * len(self._rows.ids)  # of a message with one number for each row
        vectors = {s["seq"] for s in entries if s["what"] == "sent" and s["bytes"] >= least}
        self._limits.vectors = {seq for seq in vectors if not self._party.agreeing(seq)}
        asked = {facts["seq"]: facts["digest"] for facts in entries if facts["what"] == "received"}
        self._questions = Questions(self._window, asked)
        if self._kept:
            self._last = max(self._sent, default=0)
            return
        if self._snapshot.exists():
            data = self._snapshot.read_bytes()
            snapshot = state.decode(state.unsealed(data, self._snapshot, self.folder.owner))
            if not isinstance(snapshot, Snapshot):
                raise StorageError(f"{self._snapshot} must hold a party's state. Found another. Restore the folder.")
            self._snapshot_bytes = len(data)
            self._last, self._recent = snapshot.last, snapshot.recent
            self._party.resume(snapshot.state)
        lost = []
        for record in self._journal.records():
            if record.seq > self._last:
                self._replay(record.seq, state.decode(record.payload))
                lost += [record.seq] if record.seq not in self._sent else []
        if lost:
            self._audit.note("answered, line lost", peer=_PEER, seqs=lost)
        self._audit.note("resumed" if self._last or self._sent else "started", last=self._last)
        for line in self.disclosure:
            self._audit.note(SHOWS, line=line)

    def _replay(self, seq: int, found: Snapshot | Broadcast) -> None:
        if isinstance(found, Snapshot):
            self._before[seq] = self._party.state
            self._party.resume(found.state)
            self._last = seq
        else:
            self._same(seq, self._step(seq, found))

    def _same(self, seq: int, share: Share) -> Share:
        """The share itself; StorageError unless it is the one that the audit log says was sent."""
        if self._sent.get(seq) and self._sent[seq] != share.digest:
            raise StorageError(
                f"resuming exchange {seq} must give the share that was sent. Found another. The data, the machine or "
                "the software has changed: restore it, or start over with --fresh."
            )
        return share
