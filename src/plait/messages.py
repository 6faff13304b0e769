"""All that may leave a process: one vector and a few scalars each way in training, parcels of bytes before it."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
from blake3 import blake3

from plait.errors import SettingError
from plait.types import Array

NUMBER_BYTES, SINGLE_BYTES = 8, 4


def _none() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Message:
    """A round number, at most one number per sample, and a few scalars whose meaning the method defines.

    The vector of a `single` message holds numbers of single precision, and takes half the bytes.
    """

    round: int
    vector: Array | None = None
    scalars: Array = field(default_factory=_none)
    single: bool = field(default=False, kw_only=True)

    @property
    def numbers(self) -> int:
        """How many numbers cross the wire."""
        return self.scalars.size + (0 if self.vector is None else self.vector.size)

    @property
    def bytes(self) -> int:
        """Their size in bytes, without framing."""
        each = SINGLE_BYTES if self.single else NUMBER_BYTES
        return NUMBER_BYTES * self.scalars.size + each * (0 if self.vector is None else self.vector.size)

    @cached_property
    def digest(self) -> str:
        """BLAKE3 of the round and the numbers, computed at most once; SHA-256 would take three times as long."""
        seal = blake3(self.round.to_bytes(8, "little"))
        for values in (self.scalars, self.vector):
            if values is not None:
                seal.update(np.ascontiguousarray(values, dtype="<f8").reshape(-1).view(np.uint8).data)
        return seal.hexdigest()


WIRES = ("float64", "float32")


def is_single(wire: str) -> bool:
    """Whether vectors travel in single precision; SettingError for a precision that there is not."""
    if wire not in WIRES:
        raise SettingError(f"wire must be one of {', '.join(WIRES)}. Found {wire!r}.")
    return wire == "float32"


M = TypeVar("M", bound=Message)


def rounded(message: M) -> M:
    """The message with its vector rounded to single precision."""
    if message.vector is None:
        return message
    return replace(message, vector=message.vector.astype(np.float32).astype(np.float64), single=True)


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
        """BLAKE3 of all of it."""
        heading = f"{self.what} {self.owner} {self.start} {self.count} ".encode()
        return blake3(heading + self.data).hexdigest()
