"""Runs an alignment, as the first phase of a run or on its own, with local parties and those that dial in."""

import itertools
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plait._files import mark
from plait._version import __version__
from plait.alignment.meeting import Meeting, Member
from plait.alignment.order import Order
from plait.alignment.proposal import Consent
from plait.deployment.align_party import ALIGN, AligningParty, OpenAlignment, PartyAlignment
from plait.deployment.alignment_folder import (
    find_alignment,
    newest_usable,
)
from plait.deployment.endpoints import Dial, Listen, link
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.message_log import AuditLog
from plait.deployment.progress import Progress
from plait.deployment.run_folder import ALIGNED, COORDINATOR, new_run
from plait.errors import ConfigError, PlaitError, StorageError, TransportError
from plait.messages import Parcel
from plait.transports.admission import Terms
from plait.transports.handshake import PROTOCOL, Finished, Hello
from plait.transports.server import Hub

_TELLING = 30.0  # seconds that the coordinator waits for absent parties, to tell them that the alignment has ended


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
        """Align, or resume the alignment; do nothing where it is complete.

        `purpose` is the command that the coordinator runs, such as "fit".  Returns the common rows of every party in
        this process, by the party's name.
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
        """Tell the remote parties first and the coordinator last: once it has its order, all others were told."""
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
    """Run an alignment without training, at the coordinator; returns its folder.

    Every later training of the same parties by the same id rules uses the result.
    """
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
    """The members in this process: the coordinator first, then the other local parties.

    The coordinator's ids are also those of the label party's columns: both are in one file.
    """
    others = [PartyAlignment(job, other, consent, progress) for other in local if other.name != file.name]
    return [PartyAlignment(job, file, consent, progress, COORDINATOR), *others]


def missing_from(local: Sequence[PartyFile], job: Job) -> tuple[str, ...]:
    """The parties that must dial in."""
    here = {file.name for file in local}
    return tuple(name for name in job.parties if name not in here)


def help_align(
    job: Job, file: PartyFile, dial: Dial, consent: Consent, progress: Progress, refresh: bool = False
) -> None:
    """Take part, as a party, in an alignment without training."""
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
