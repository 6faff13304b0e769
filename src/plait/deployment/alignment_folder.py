"""Alignments on disk: alignments/NAME/MEMBER beside the party file, apart from the runs that use them.

run.json         which alignment, among which parties and by which rules (a digest), how it stands
order.npy        the common rows of the member's file, in the common order
alignment.json   sizes of all sets, number of common rows, checksum of the ids
audit.jsonl      every parcel sent and received, sealed

A job with other settings, but the same parties and id rules, uses the rows that were found before, and nobody is asked
again.  What an alignment holds is as private as the ids themselves.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from plait._names import check_run
from plait.alignment.ids import NOT_RULES, Ids
from plait.alignment.order import Order
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.run_folder import COORDINATOR, RESUMABLE, RunFolder, Status, new_run
from plait.errors import StorageError

TRAINING, SCORING = "training", "scoring"
"""What the rows of an alignment are for: those of data.file, or new ones."""


class Keeper(Protocol):
    """A member that keeps its part of alignments."""

    @property
    def name(self) -> str: ...

    @property
    def file(self) -> PartyFile: ...

    @property
    def ids(self) -> Ids: ...

    @property
    def digest(self) -> str: ...


def alignment_digest(job: Job, purpose: str = TRAINING) -> str:
    """SHA-256 of what makes two alignments the same: the parties, the label party, the id rules, and the purpose."""
    assert job.alignment is not None
    rules = {key: value for key, value in asdict(job.alignment).items() if key not in NOT_RULES}
    content = [job.pair_of or job.parties, job.coordinator.name, rules, purpose]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def alignment_path(file: PartyFile, member: str, alignment: str) -> Path:
    """Where a member keeps its part of an alignment."""
    return file.path("alignments") / check_run(alignment) / member


def is_usable(keeper: Keeper, alignment: str) -> bool:
    """Whether a member has completed this alignment, by the rules of the job and with the ids that it has now."""
    path = alignment_path(keeper.file, keeper.name, alignment)
    if not Order.exists(path) or RunFolder(path).status.job != keeper.digest:
        return False
    return Order.checksum(path) == keeper.ids.checksum


def load_order(keeper: Keeper, alignment: str) -> Order:
    """The common rows; StorageError unless this member has them, by the rules of the job, for the ids that it has."""
    path = alignment_path(keeper.file, keeper.name, alignment)
    if not Order.exists(path) or RunFolder(path).status.job != keeper.digest:
        raise StorageError(
            f"{keeper.name!r} must hold its part of alignment {alignment}, among these parties and by these id rules. "
            "Found none. Align again: `plait align --refresh` at every party."
        )
    return Order.load(path, keeper.ids)


def begin(keeper: Keeper, alignment: str, key: str) -> RunFolder:
    """The member's folder of an alignment, new or resumed."""
    folder = RunFolder(alignment_path(keeper.file, keeper.name, alignment))
    folder.begin(Status(alignment, keeper.digest, keeper.name, key, checksum=keeper.ids.checksum))
    return folder


def find_alignment(members: Sequence[Keeper], resume: bool) -> tuple[str, str] | None:
    """Name and key of the newest alignment that all these members can use, or (`resume`) go on with; None for none.

    The first member is the coordinator.  Remote parties are not asked here: each says later whether it can.
    """
    own = members[0]
    for path in sorted(own.file.path("alignments").glob(f"*/{COORDINATOR}/run.json"), reverse=True):
        status = RunFolder(path.parent).status
        if status.job != own.digest:
            continue
        done = all(is_usable(member, status.run) for member in members)
        begun = resume and status.status in RESUMABLE and status.checksum == own.ids.checksum
        if done or begun:
            return status.run, status.key
    return None


def has_aligned(job: Job, file: PartyFile, purpose: str = TRAINING) -> bool:
    """Whether a program of this party has completed an alignment by the rules of this job, whatever its ids are now."""
    wanted = alignment_digest(job, purpose)
    found = (path.parent for path in file.path("alignments").glob("*/*/run.json"))
    mine = (path for path in found if path.name in (file.name, COORDINATOR) and Order.exists(path))
    return any(RunFolder(path).status.job == wanted for path in mine)


def newest_usable(keeper: Keeper) -> str:
    """The name of the newest alignment that a member can use; empty for none."""
    found = keeper.file.path("alignments").glob(f"*/{keeper.name}/run.json")
    names = sorted((path.parent.parent.name for path in found), reverse=True)
    return next((name for name in names if is_usable(keeper, name)), "")


def choose_alignment(members: Sequence[Keeper], resume: bool) -> tuple[str, str]:
    """The alignment to use or to go on with; a new one where there is none."""
    return find_alignment(members, resume) or new_run()
