"""All that may leave a process: one vector and a few scalars each way in training, parcels of bytes before it."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from plait.types import Array

NUMBER_BYTES = 8


def _none() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Message:
    """A round number, at most one number per sample, and a few scalars whose meaning the method defines."""

    round: int
    vector: Array | None = None
    scalars: Array = field(default_factory=_none)

    @property
    def numbers(self) -> int:
        """How many numbers cross the wire."""
        return self.scalars.size + (0 if self.vector is None else self.vector.size)

    @property
    def bytes(self) -> int:
        """Their size in bytes, without framing."""
        return NUMBER_BYTES * self.numbers

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the round and the numbers, computed at most once."""
        seal = hashlib.sha256(self.round.to_bytes(8, "little"))
        for values in (self.scalars, self.vector):
            if values is not None:
                seal.update(np.ascontiguousarray(values, dtype="<f8").reshape(-1).view(np.uint8).data)
        return seal.hexdigest()


@dataclass(frozen=True)
class Broadcast(Message):
    """Coordinator to party.  A closing broadcast asks for a last measurement and moves nothing."""

    closing: bool = False


@dataclass(frozen=True)
class Share(Message):
    """Party to coordinator."""


@dataclass(frozen=True)
class Parcel:
    """Alignment, both ways: what is asked or said, about whose set, from which place on, how many, and raw bytes."""

    what: str
    owner: str = ""
    start: int = 0
    count: int = 0
    data: bytes = b""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        heading = f"{self.what} {self.owner} {self.start} {self.count} ".encode()
        return hashlib.sha256(heading + self.data).hexdigest()
