"""What crosses the network: messages as frames of at most about 1 MiB, raw little-endian floats, a versioned header.

    frame    "PLT" version kind flags 0 0 | seq u64 | size u32 | payload of `size` bytes
    head     round u64 | exchange before u64 | vector length i64 (-1 for none) | scalars u32 | the scalars |
             the first numbers of the vector
    chunk    the next numbers of the vector
    parcel   start u64 | count u64 | lengths of the two texts u8 u8 | what it is | whose it is | raw bytes

A message is one head and as many chunks as its vector needs.  Numbers are float64 unless a flag in the head says
otherwise:

    1   this broadcast closes a run
    2   the vector is float32
    4   the vector is int16, in steps of the last scalar
    8   the vector is the change since the vector before
    16  the vector is of 64-bit words: bytes that are encrypted, or numbers that are masked

`seq` numbers the exchanges of a run, and a request names the exchange before it.  So a receiver can tell a repeated
message, a stale message and a gap from each other.  The decoder allocates only what it was told to expect.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import MOST_SCALARS, NUMBER_BYTES, Broadcast, Message, Parcel, Share, raw

VERSION = 2  # of the frame format; a receiver refuses any other
_LISTED = 5  # lengths that an error lists one by one
CHUNK_BYTES = 1 << 20  # bytes of payload in a frame: below gRPC's limit of 4 MiB, large enough to be sent at full speed
MAX_SCALARS = MOST_SCALARS
MAX_SEQ = 1 << 62  # sequence number: never reached, and sums of two still fit into a signed 64-bit integer

_HEADER = struct.Struct("<3sBBBHQI")
_HEAD = struct.Struct("<QQqI")
_PARCEL = struct.Struct("<QQBB")
_MAGIC = b"PLT"
_CLOSING, _SINGLE, _SHORT, _CHANGE, _WORDS = 1, 2, 4, 8, 16  # bits of the flags, as above
_TYPES = {0: "<f8", _SINGLE: "<f4", _SHORT: "<i2", _SHORT | _CHANGE: "<i2", _WORDS: "<u8"}
_LONGEST_STEP = np.finfo(np.float64).max / (1 << 16)  # a step times the largest int16 is still a finite number
HEADER_BYTES = _HEADER.size
MAX_FRAME_BYTES = HEADER_BYTES + CHUNK_BYTES


class Kind(IntEnum):
    """What a frame carries."""

    CONTROL = 1
    BROADCAST = 2
    SHARE = 3
    CHUNK = 4
    PARCEL = 5


@dataclass(frozen=True)
class Frame:
    """One frame, its header checked."""

    kind: Kind
    seq: int
    payload: memoryview
    flags: int = 0


@dataclass(frozen=True)
class Numbered:
    """A message and the number of the exchange that it belongs to."""

    seq: int
    message: Message
    before: int = 0
    """The exchange that the sender of a request had before this one; 0 for none."""


def pack(kind: Kind, seq: int, parts: list[bytes | memoryview], flags: int = 0) -> bytes:
    """One frame as bytes."""
    size = sum(len(part) for part in parts)
    return b"".join([_HEADER.pack(_MAGIC, VERSION, kind, flags, 0, seq, size), *parts])


def unpack(data: bytes) -> Frame:
    """Read one frame; ProtocolError unless its header is sound and it holds exactly what the header says."""
    if len(data) < HEADER_BYTES:
        raise ProtocolError(f"a frame must hold at least {HEADER_BYTES} bytes. Found {len(data)}.")
    magic, version, kind, flags, zero, seq, size = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ProtocolError("a frame must begin with 'PLT'. Found something else. Is the peer plait?")
    if version != VERSION:
        raise ProtocolError(f"frames must have version {VERSION}. Found {version}. Install the same plait everywhere.")
    if size != len(data) - HEADER_BYTES or size > CHUNK_BYTES:
        raise ProtocolError(f"a frame must hold the {size} bytes it announces. Found {len(data) - HEADER_BYTES}.")
    if zero != 0 or flags & ~_CLOSING not in _TYPES or seq > MAX_SEQ:
        raise ProtocolError("a frame must leave its reserved fields zero. Found other values.")
    try:
        return Frame(Kind(kind), seq, memoryview(data)[HEADER_BYTES:], flags)
    except ValueError:
        raise ProtocolError(f"a frame must be of kind 1 to {max(Kind)}. Found {kind}.") from None


def frames(message: Message, seq: int, before: int = 0) -> Iterator[bytes]:
    """The frames of a message, made one at a time; `before` is the exchange that a request follows."""
    kind = Kind.BROADCAST if isinstance(message, Broadcast) else Kind.SHARE
    flags = _form(message) | (_CLOSING if isinstance(message, Broadcast) and message.closing else 0)
    scalars = message.scalars if message.step is None else np.append(message.scalars, message.step)
    vector = memoryview(b"") if message.vector is None else raw(message.vector)
    length = -1 if message.vector is None else message.vector.size
    head = _HEAD.pack(message.round, before, length, scalars.size)
    first = _whole(CHUNK_BYTES - len(head) - scalars.nbytes)
    yield pack(kind, seq, [head, raw(scalars), vector[:first]], flags)
    for start in range(first, len(vector), CHUNK_BYTES):
        yield pack(Kind.CHUNK, seq, [vector[start : start + CHUNK_BYTES]])


def _form(message: Message) -> int:
    """The flags that say how the vector's numbers are written."""
    if message.step is not None:
        return _SHORT | (_CHANGE if message.change else 0)
    if message.vector is not None and message.vector.dtype == np.uint64:
        return _WORDS
    return _SINGLE if message.vector is not None and message.vector.dtype == np.float32 else 0


def pack_parcel(parcel: Parcel, seq: int) -> bytes:
    """One frame; the sender keeps a parcel small enough."""
    what, owner = parcel.what.encode(), parcel.owner.encode()
    head = _PARCEL.pack(parcel.start, parcel.count, len(what), len(owner))
    return pack(Kind.PARCEL, seq, [head, what, owner, parcel.data])


def unpack_parcel(frame: Frame) -> Parcel:
    """Read a parcel; ProtocolError unless its texts are whole."""
    payload = frame.payload
    if frame.kind is not Kind.PARCEL or len(payload) < _PARCEL.size:
        raise ProtocolError(f"a parcel must come here. Found a {frame.kind.name.lower()} of {len(payload)} bytes.")
    start, count, *lengths = _PARCEL.unpack_from(payload)
    middle = _PARCEL.size + lengths[0]
    end = middle + lengths[1]
    if end > len(payload) or frame.flags or max(start, count) > MAX_SEQ:
        raise ProtocolError("a parcel must hold what its head announces. Found less, or impossible numbers.")
    try:
        what, owner = str(payload[_PARCEL.size : middle], "ascii"), str(payload[middle:end], "ascii")
    except UnicodeDecodeError:
        raise ProtocolError("the texts of a parcel must be ASCII. Found other bytes.") from None
    return Parcel(what, owner, start, count, bytes(payload[end:]))


def _whole(size: int) -> int:
    return size - size % NUMBER_BYTES


class Assembler:
    """Puts messages together from frames: one kind of message, vectors of one of these lengths."""

    def __init__(self, kind: Kind, *lengths: int) -> None:
        self._kind = kind
        self._lengths = lengths
        self._open: _Open | None = None

    def add(self, frame: Frame) -> Numbered | None:
        """Take one frame; returns the message when it is complete."""
        if frame.kind is Kind.CHUNK:
            if self._open is None or frame.seq != self._open.seq or frame.flags:
                raise ProtocolError("a chunk must follow the head of its own message. Found one that does not.")
        elif frame.kind is self._kind:
            if self._open is not None:
                raise ProtocolError("a message must be complete before the next begins. Found a new head.")
            self._open = self._begin(frame)
        else:
            raise ProtocolError(f"a {self._kind.name.lower()} must come here. Found a {frame.kind.name.lower()}.")
        opened = self._open
        opened.fill(frame.payload if frame.kind is Kind.CHUNK else opened.rest)
        if opened.missing:
            return None
        self._open = None
        return Numbered(opened.seq, opened.message(self._kind), opened.before)

    def share(self, frame: Frame) -> Share | None:
        """Take one frame of a share; returns the share when it is complete."""
        done = self.add(frame)
        return done.message if done is not None and isinstance(done.message, Share) else None

    def _begin(self, frame: Frame) -> "_Open":
        payload = frame.payload
        if len(payload) < _HEAD.size:
            raise ProtocolError(f"the head of a message must hold {_HEAD.size} bytes. Found {len(payload)}.")
        round_number, before, length, count = _HEAD.unpack_from(payload)
        if max(round_number, before) > MAX_SEQ:
            raise ProtocolError("rounds and exchanges are counted one by one. Found an impossible number.")
        if length not in (-1, *self._lengths):
            known = sorted(self._lengths)
            rows = " or ".join(map(str, known)) if len(known) < _LISTED else f"{known[0]} to {known[-1]}"
            raise ProtocolError(f"a vector must hold one number for each of {rows} rows. Found {length}.")
        if count > MAX_SCALARS or _HEAD.size + count * NUMBER_BYTES > len(payload):
            raise ProtocolError(f"a head must hold its scalars, at most {MAX_SCALARS}. Found {count} announced.")
        if frame.flags & _CLOSING and self._kind is not Kind.BROADCAST:
            raise ProtocolError("only a broadcast can close a run. Found a share that does.")
        body = payload[_HEAD.size :]
        scalars = np.frombuffer(body[: count * NUMBER_BYTES], dtype="<f8").astype(np.float64)
        _need_finite(scalars)
        rest = body[count * NUMBER_BYTES :]
        step = None
        if frame.flags & _SHORT:
            scalars, step = scalars[:-1], _step(scalars, length)
        return _Open(frame.seq, before, round_number, scalars, step, length, frame.flags, rest)


class _Open:
    """A message of which some numbers are still to come."""

    def __init__(
        self,
        seq: int,
        before: int,
        round_number: int,
        scalars: Array,
        step: float | None,
        length: int,
        flags: int,
        rest: memoryview,
    ) -> None:
        self.seq = seq
        self.before = before
        self.rest = rest
        self._round = round_number
        self._scalars = scalars
        self._step = step
        self._flags = flags
        self._type = np.dtype(_TYPES[flags & ~_CLOSING])
        self._vector = None if length < 0 else np.empty(length, self._type.newbyteorder("="))
        self._filled = 0

    @property
    def missing(self) -> int:
        """How many numbers are still to come."""
        return 0 if self._vector is None else self._vector.size - self._filled

    def fill(self, payload: memoryview) -> None:
        """Copy the next numbers to their place."""
        count, odd = divmod(len(payload), self._type.itemsize)
        if odd or count > self.missing or (count == 0 and self.missing):
            raise ProtocolError(f"a frame must hold whole numbers, at most {self.missing}. Found {len(payload)} bytes.")
        if self._vector is None or count == 0:
            return
        place = self._vector[self._filled : self._filled + count]
        place[:] = np.frombuffer(payload, dtype=self._type)
        _need_finite(place)
        self._filled += count

    def message(self, kind: Kind) -> Message:
        step, change = self._step, bool(self._flags & _CHANGE)
        if kind is Kind.BROADCAST:
            closing = bool(self._flags & _CLOSING)
            return Broadcast(self._round, self._vector, self._scalars, closing, step=step, change=change)
        return Share(self._round, self._vector, self._scalars, step=step, change=change)


def _step(scalars: Array, length: int) -> float:
    """The last scalar; ProtocolError unless multiples of it can be numbers of a vector."""
    if length < 0 or not scalars.size or scalars[-1] < 0 or scalars[-1] > _LONGEST_STEP:
        raise ProtocolError("a vector of steps must come with their size, not negative. Found none that fits.")
    return float(scalars[-1])


def _need_finite(values: Array) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ProtocolError("a message must hold finite numbers. Found NaN or infinity.")
