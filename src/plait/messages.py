"""All that may leave a process: one vector and a few scalars each way in training, parcels of bytes before it."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from blake3 import blake3

from plait._types import Array

NUMBER_BYTES = 8  # bytes of a float64, the unit in which message sizes are counted
LARGEST = 1e100
"""No number of a vector is larger: its square, summed over all rows, must still be a number."""
NO_BOUND = 1e300
"""Stands for a bound that does not exist; the only scalars beyond LARGEST are near it."""
MOST_SCALARS = 1 << 16  # of a message: twice the largest sketch of a private run; half a megabyte of memory


@dataclass(frozen=True)
class Form:
    """What a message may be, known before it comes.

    lengths   how many numbers its vector may have; empty where it must have none
    scalars   how many scalars it may have; None where only MOST_SCALARS limits them
    vector    whether it must have a vector
    words     how many 64-bit words a vector of words may have: what is encrypted or masked; empty where none may come
    """

    lengths: frozenset[int] = frozenset()
    scalars: frozenset[int] | None = None
    vector: bool = False
    words: frozenset[int] = frozenset()

    @classmethod
    def of(cls, length: int | None, *scalars: int) -> "Form":
        """One length, which then must come, or none; and these numbers of scalars."""
        if length is None:
            return cls(frozenset(), frozenset(scalars))
        return cls(frozenset({length}), frozenset(scalars), vector=True)


def _none() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Message:
    """A round number, at most one number per row, and a few scalars whose meaning the method defines.

    On its way a vector may hold shorter numbers, as `plait.training.precision` says: float32, or int16 as multiples of
    `step`, which may be a `change` to the vector before it.
    """

    round: int
    vector: Array | None = None
    scalars: Array = field(default_factory=_none)
    step: float | None = field(default=None, kw_only=True)
    change: bool = field(default=False, kw_only=True)

    @property
    def numbers(self) -> int:
        """How many numbers cross the wire."""
        return self.scalars.size + (0 if self.vector is None else self.vector.size)

    @property
    def bytes(self) -> int:
        """Their size in bytes, without framing."""
        rest = 0 if self.vector is None else self.vector.nbytes
        return NUMBER_BYTES * (self.scalars.size + (self.step is not None)) + rest

    @cached_property
    def digest(self) -> str:
        """BLAKE3 of the round and the numbers, computed at most once; SHA-256 would take three times as long."""
        seal = blake3(self.round.to_bytes(8, "little"))
        if self.step is not None:
            seal.update(struct.pack("<d?", self.step, self.change))
        for values in (self.scalars, self.vector):
            if values is not None:
                seal.update(raw(values))
        return seal.hexdigest()


def raw(values: Array) -> memoryview:
    """The numbers of an array as they cross the wire: little-endian, in the array's own type."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


@dataclass(frozen=True)
class Broadcast(Message):
    """Coordinator to party.  A closing broadcast asks for a last measurement and moves nothing.

    Two fields stay at the coordinator.  `expects`: what the answer may be.  `fine`: whether an encrypted vector is to
    arrive with twice the digits.
    """

    closing: bool = False
    expects: Form | None = field(default=None, compare=False, kw_only=True, metadata={"cache": True})
    fine: bool = field(default=False, compare=False, kw_only=True, metadata={"cache": True})


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


class Transport(Protocol):
    """How messages travel between the coordinator and the parties: broadcasts out, shares back."""

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        """Deliver each broadcast to its party and return every party's answer."""
        ...
