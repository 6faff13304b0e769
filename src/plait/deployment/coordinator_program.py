"""The long-running program of the coordinator; with every party local and no network it is a simulation."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from plait._files import mark
from plait._threads import blas_threads
from plait.alignment.order import Order
from plait.alignment.proposal import Consent, agree
from plait.data.texts import keyed_digest
from plait.deployment.align import CoordinatorAlignment, local_alignments, missing_from
from plait.deployment.align_party import PartyAlignment
from plait.deployment.all_parties import AllParties
from plait.deployment.consent import check_consent
from plait.deployment.coordinator_opening import open_run
from plait.deployment.disclosure import SHOWN, SHOWS, coordinator_after, coordinator_before
from plait.deployment.earlier_rows import note_rows
from plait.deployment.endpoints import Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.journal import Journal, NoJournal, disk_plan, window
from plait.deployment.ledger_note import note_ledger
from plait.deployment.local_data import Labels, load_labels, load_rows, whole_room
from plait.deployment.message_log import AuditLog
from plait.deployment.pairs import PAIR, partners, with_more
from plait.deployment.party_opening import need_preparable, open_party
from plait.deployment.party_privacy import discreet, run_facts, say_guarantees, spec_at
from plait.deployment.progress import PHASE, REPORT, Progress
from plait.deployment.receipts import add_receipts, read_receipts
from plait.deployment.replay import Journaled
from plait.deployment.report.page import write_report
from plait.deployment.results import Results
from plait.deployment.run_keys import run_secret
from plait.deployment.stored_party import StoredParty
from plait.errors import InputError, PlaitError, ProtocolError, StorageError, TransportError, unspecific
from plait.training.assembly import assemble_coordinator
from plait.training.private_pass import Conducted
from plait.training.run import conduct
from plait.training.tracking.tracker import Ending
from plait.transports.admission import Terms
from plait.transports.handshake import Finished
from plait.transports.server import Hub
from plait.transports.tls import Security


class _Run:
    """One run at the coordinator: its folder, its parties, and how it ends."""

    def __init__(
        self,
        job: Job,
        file: PartyFile,
        alignments: Sequence[PartyAlignment],
        fresh: bool,
        lasting: bool,
        progress: Progress,
    ) -> None:
        self.job = job
        self.file = file
        self.alignments = alignments
        self.lasting = lasting
        self.progress = progress
        if job.blind is not None:
            self.labels = Labels(("",) * job.blind.rows, np.zeros(job.blind.rows))  # the label party sends them later
        elif job.alignment is None:
            self.labels = load_labels(job, file)  # bad input stops the run before anything is written
        opened = open_run(job, file, alignments, fresh, lasting, progress.say)
        self.folder, self.name, self.key = opened.folder, opened.name, opened.key
        self.resumed, self.alignment = opened.resumed, opened.alignment
        self.audit = AuditLog(self.folder.path / "audit.jsonl")
        self.local: dict[str, StoredParty] = {}
        self.files: dict[str, PartyFile] = {}
        self.columns: dict[str, int] = {}
        """How many columns each party of a protected run has."""
        self.hub: Hub | None = None

    def align(self, listen: Listen | None, remote: tuple[str, ...]) -> None:
        """Find the common rows first, if the job says so and nobody has found them before."""
        self.orders: dict[str, Order] = {}
        if self.alignment:
            self.progress.event(PHASE, {"phase": "aligning", "run": self.name})
            alignment = CoordinatorAlignment(self.job, self.alignments, self.alignment, self.key, self.progress)
            self.orders = alignment.meet("fit", listen, remote)
            self.labels = load_labels(self.job, self.file, order=self.orders[self.file.name])
            self.progress.say(f"rows of alignment {self.alignment}: {len(self.labels.ids)}")
        # A blind machine knows no ids: the parties compare them.
        self.ids = "" if self.job.blind is not None else keyed_digest(self.labels.ids, bytes.fromhex(self.key))

    def admit_locally(self, files: Sequence[PartyFile], security: Security | None) -> None:
        """Let parties take part in this process."""
        for file in files:
            rows = load_rows(self.job, file, self.orders.get(file.name))
            party = open_party(self.job, file, rows, self.name, self.key, lasting=False, security=security)
            self.local[file.name], self.files[file.name] = party, file
            if self.job.blind is None:
                _need_same_rows(file.name, self.labels, self.ids, party)

    def open_hub(self, listen: Listen) -> None:
        """Let the other parties dial in."""
        remote = tuple(name for name in self.job.parties if name not in self.local)
        rows = len(self.labels.ids)
        lengths = self.job.method.lengths(rows) | {rows}
        terms = Terms(
            remote,
            self.job.digest,
            "fit",
            self.name,
            self.key,
            rows,
            self.ids,
            self._patience,
            window(rows),
            lengths,
            precision=self.job.run.precision,
            fingerprints=self.job.fingerprints,
            alignment=self.alignment,
            phase=PAIR if self.job.pair_of else "fit" if partners(self.job) else "",
            waiting=tuple(name for name in self.job.pair_of if name not in self.job.parties),
        )
        self.hub = Hub(terms, self._note)
        for name in remote:
            if self._told(name).exists():
                self.hub.skip(name)
        self.progress.event(PHASE, {"phase": "waiting", "run": self.name, "rows": rows})
        self.progress.peers(lambda: self.hub.standings if self.hub is not None else [])
        most, precision = self.job.stopping.max_rounds, self.job.run.precision
        self.progress.say(disk_plan(self.folder.checkpoint / "journal", rows, len(remote), precision, most))
        port = self.hub.open(listen.address, listen.security)
        self.progress.say(f"run {self.name}: {len(self.labels.ids)} rows; listening on {listen.address} (port {port})")
        if not self.resumed:  # a party whose part is done may never come back
            self.hub.wait_for_all(self._say_who_is_missing)

    def _say_who_is_missing(self, absent: list[str], lasting: bool) -> None:
        names = ", ".join(absent)
        if not lasting:
            self.progress.say(f"waiting for {names}")
            return
        self.progress.say(
            f"still waiting for {names}: no party of that name has come through TLS. If it runs, it says what stops "
            "it: an address, a firewall, or a certificate of another authority (compare `plait cert show`)."
        )

    def train(self) -> Conducted:
        # Parties can repeat `window` exchanges, and the newest is written one exchange later.
        lag = window(len(self.labels.ids)) - 2
        journal = Journal(self.folder.checkpoint / "journal", lag, self.folder.owner) if self.lasting else NoJournal()
        try:
            transport = Journaled(AllParties(self.local, self.hub), journal, self.audit, frozenset(self.local))
            spec = spec_at(self.job, self.file)
            if self.job.policy.labels is not None:
                note_ledger(self.file)
            if self.file.data.id:  # a label's noise is tied to its id, the same in every run
                spec = replace(spec, policy=replace(spec.policy, ids=self.labels.ids))
            workspace = whole_room(self.file).workspace(len(self.labels.ids))
            coordinator = assemble_coordinator(spec, self.labels.values, self.labels.weights, workspace)
            seconds, receipts = lambda: transport.seconds, read_receipts(self.file)
            self.progress.event(PHASE, {"phase": "training", "run": self.name})
            self.progress.begin(run_facts(self.job, self.file.name, self.name, len(self.labels.ids)))
            secret = b"" if spec.protection is None else run_secret(self.folder)
            done = conduct(
                spec,
                coordinator,
                transport,
                [self.progress.round],
                seconds,
                receipts,
                secret,
                encrypted=self._show,
            )
            transport.settle()
            return done
        except PlaitError:
            raise
        except (ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError) as error:
            raise ProtocolError(
                "every share must be of numbers that a step can be made of. Found shares that pass every rule and "
                f"still cannot be computed with: {error}. A party is faulty, or not honest. They were not kept."
            ) from error
        finally:
            journal.close()

    def _show(self, columns: Mapping[str, int]) -> None:
        """Check and say what the parties of a protected run will learn; nothing is encrypted for them before."""
        self.columns = dict(columns)
        if self.lasting and self.job.blind is None:  # beside a blind machine the label party is a party
            most = max(count for name, count in columns.items() if name != self.job.label_party)
            note_rows(self.job, self.file, self.labels.ids, self.labels.values, most)
        for line in coordinator_before(self.job, self.columns, len(self.labels.ids)):
            self.audit.note(SHOWS, line=line)
            self.progress.say(line)

    def keep(self, conducted: Conducted) -> None:
        """Write the results here, then at every party."""
        add_receipts(self.file, conducted.receipts)
        results = Results(self.job, self.labels, conducted)
        results.write(self.folder)
        if self.lasting:
            for line in coordinator_after(self.job, self.columns, len(conducted.outcome.history), len(self.labels.ids)):
                self.audit.note(SHOWN, line=line)
                self.progress.say(line)
        self.audit.settle()
        told = with_more(results.told) if self.lasting and partners(self.job) else results.told
        self.tell(Finished(True, results.sentence, told), self._patience)
        self.folder.end("finished", results.sentence)
        for name, party in self.local.items():
            if name != self.file.name:  # the label party's own columns stand in the coordinator's report
                write_report(party.folder, self.job, self.files[name], results.told)
        report = write_report(self.folder, self.job, self.file, results.told, results.evidence)
        self.progress.event(REPORT, {"path": str(report)})
        reason = conducted.outcome.reason
        self.progress.end(Ending(reason.text, reason.converged))
        self.progress.say(f"{results.sentence}; model and report in {self.folder.path}")
        say_guarantees(self.job, self.job.parties, self.progress)

    def fail(self, error: PlaitError) -> None:
        """End the run here and at every party; a discreet coordinator does not tell the parties what went wrong."""
        resumable = isinstance(error, TransportError | StorageError)
        self.progress.end(Ending(str(error), converged=False, failed=True))
        self.audit.note("failed", reason=str(error))
        self.folder.end("interrupted" if resumable else "failed", str(error))
        text = unspecific(error) if discreet(self.job, self.file) else str(error)[:4000]
        self.tell(Finished(False, text, {"resumable": resumable}), min(5.0, self._patience))

    def interrupt(self) -> None:
        self.folder.end("interrupted", "interrupted")
        self.progress.end(Ending("interrupted", converged=False, failed=True))

    def tell(self, finished: Finished, patience: float) -> None:
        for party in self.local.values():
            party.finish(finished)
        if self.hub is not None:
            self.hub.finish(finished, self._mark_told if finished.ok else lambda _: None, patience)

    def close(self) -> None:
        if self.hub is not None:
            self.hub.close()
        for party in self.local.values():
            party.close()
        self.audit.close()
        self.folder.release()

    @property
    def _patience(self) -> float:
        return self.job.coordinator.patience

    def _told(self, name: str) -> Path:
        return self.folder.checkpoint / f"told-{name}"

    def _mark_told(self, name: str) -> None:
        mark(self._told(name))

    def _note(self, what: str, **facts: Any) -> None:
        self.audit.note(what, **facts)
        self.progress.event(what, facts)


def coordinate(
    job: Job,
    file: PartyFile,
    local: Sequence[PartyFile],
    listen: Listen | None,
    progress: Progress,
    fresh: bool = False,
    consent: Consent = agree,
) -> Path:
    """Align and train the job, or resume it; returns the coordinator's run folder."""
    with blas_threads(job.run.threads):
        lasting = listen is not None
        if lasting:
            check_consent(job, file, progress.say)
        for party in local:
            need_preparable(job, party)
        alignments = [] if job.alignment is None else local_alignments(job, file, local, consent, progress)
        this = _Run(job, file, alignments, fresh, lasting, progress)
        try:
            this.align(listen, missing_from(local, job))
            this.admit_locally(local, None if listen is None else listen.security)
            if listen is not None:
                this.open_hub(listen)
            this.keep(this.train())
        except PlaitError as error:
            this.fail(error)
            raise
        except KeyboardInterrupt:
            this.interrupt()
            raise
        finally:
            this.close()
    return this.folder.path


def _need_same_rows(name: str, labels: Labels, ids: str, party: StoredParty) -> None:
    ready = party.ready
    if ready.rows != len(labels.ids) or not hmac.compare_digest(ready.ids, ids):
        raise InputError(
            f"all parties must hold the same rows in the same order. Found {len(labels.ids)} labels and {ready.rows} "
            f"rows at {name!r}, or other ids. Add [alignment] to the job file, or align the "
            "files first."
        )
