"""What an alignment will take: time, disk, traffic and memory, stated before it starts."""

import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from plait.alignment import group
from plait.alignment.group import ELEMENT_BYTES
from plait.errors import StorageError

_WORTH_A_PLAN = 100_000  # ids of all members together: fewer take less than a minute
_SAMPLE = 1024  # ids that are blinded to learn the rate: about 0.1 seconds on two cores
_ID_MEMORY = 165  # bytes that a party holds for each of its own ids: measured with 4,000,000 of 11 bytes, all common
_STEPS_KEPT = 2  # steps whose sets lie on the coordinator's disk at a time


@dataclass(frozen=True)
class AlignmentPlan:
    """How many ids each member brings, and how many are blinded in a second."""

    sizes: Mapping[str, int]
    rate: float

    @property
    def seconds(self) -> float:
        """Members times largest set / rate: there are as many steps as members, and each waits for the largest set."""
        return len(self.sizes) * max(self.sizes.values()) / self.rate

    @property
    def disk(self) -> int:
        """Bytes at the coordinator."""
        return _STEPS_KEPT * sum(self.sizes.values()) * ELEMENT_BYTES

    @property
    def traffic(self) -> int:
        """Bytes between the coordinator and all members: a set is received in each step, and sent in all but one."""
        return (2 * len(self.sizes) - 1) * sum(self.sizes.values()) * ELEMENT_BYTES

    @property
    def memory(self) -> int:
        """Bytes at the member with the most ids."""
        return _ID_MEMORY * max(self.sizes.values())

    def describe(self, free: int) -> str:
        """All of it in one sentence."""
        hours = self.seconds / 3600
        lasts = f"{hours:.1f} hours" if hours >= 1 else f"{self.seconds / 60:.0f} minutes"
        return (
            f"plan: about {lasts} at {self.rate:,.0f} ids a second, measured here; {self.disk / 1e9:.2f} GB of disk "
            f"here, of {free / 1e9:.1f} GB free; {self.traffic / 1e9:.2f} GB of traffic; about "
            f"{self.memory / 1e9:.2f} GB of memory at the party with the most ids"
        )


def plan(sizes: Mapping[str, int], folder: Path) -> str:
    """The plan of an alignment whose sets lie in `folder`, in words; empty for a small one.

    StorageError where the disk has too little room.
    """
    if sum(sizes.values()) < _WORTH_A_PLAN:
        return ""
    found = AlignmentPlan(sizes, measured_rate())
    free = shutil.disk_usage(next(place for place in (folder, *folder.parents) if place.exists())).free
    if found.disk > free:
        raise StorageError(
            f"{folder} must have room for {found.disk / 1e9:.2f} GB: all sets of ids, twice. Found "
            f"{free / 1e9:.2f} GB free. Make room, and start again."
        )
    return found.describe(free)


def measured_rate() -> float:
    """How many ids this machine blinds in a second."""
    exponent = group.new_exponent(bytes(range(group.HASH_BYTES)))  # not secret: no id of a party is blinded with it
    began = time.perf_counter()
    group.hash_and_blind([number.to_bytes(4, "little") for number in range(_SAMPLE)], exponent)
    return _SAMPLE / (time.perf_counter() - began)
