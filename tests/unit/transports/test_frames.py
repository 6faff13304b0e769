"""The wire format against struct and NumPy, and everything that the decoder must refuse."""

import struct
import tracemalloc

import numpy as np
import pytest

from plait.errors import ProtocolError
from plait.messages import Broadcast, Message, Parcel, Share
from plait.transports.frames import (
    CHUNK_BYTES,
    MAX_FRAME_BYTES,
    Assembler,
    Kind,
    Numbered,
    frames,
    pack_parcel,
    unpack,
    unpack_parcel,
)

ROWS = 300_000


def assemble(data: list[bytes], kind: Kind = Kind.SHARE, rows: int = ROWS) -> Numbered | None:
    return feed(Assembler(kind, rows), data)


def feed(assembler: Assembler, data: list[bytes]) -> Numbered | None:
    done = None
    for frame in data:
        done = assembler.add(unpack(frame))
    return done


def share(rows: int = ROWS) -> Share:
    rng = np.random.default_rng(0)
    return Share(7, rng.standard_normal(rows), rng.standard_normal(3))


@pytest.mark.parametrize(
    "message",
    [
        share(),
        Share(1, None, np.array([1.5])),
        Share(2, np.linspace(0, 1, ROWS)),
        Broadcast(3, np.full(ROWS, 5e-324), np.array([-0.0, 1e308]), closing=True),
    ],
)
def test_message_returns_bit_for_bit(message: Message) -> None:
    kind = Kind.BROADCAST if isinstance(message, Broadcast) else Kind.SHARE
    got = assemble(list(frames(message, 9)), kind)
    assert got is not None
    assert got.seq == 9
    assert type(got.message) is type(message)
    assert got.message.round == message.round
    assert got.message.scalars.tobytes() == message.scalars.tobytes()
    assert getattr(got.message, "closing", None) == getattr(message, "closing", None)
    if message.vector is None:
        assert got.message.vector is None
    else:
        assert got.message.vector is not None
        assert got.message.vector.tobytes() == message.vector.tobytes()


def test_layout_is_the_documented_one() -> None:
    (data,) = frames(Share(5, np.array([1.0, 2.0]), np.array([3.0])), 4)
    assert data == b"PLT\x02\x03\x00\x00\x00" + struct.pack("<QIQQqI", 4, 28 + 24, 5, 0, 2, 1) + struct.pack(
        "<3d", 3, 1, 2
    )


def test_frames_stay_below_their_limit() -> None:
    sizes = [len(f) for f in frames(share(), 1)]
    assert len(sizes) == 3
    assert max(sizes) <= MAX_FRAME_BYTES


def test_encoding_a_large_message_needs_memory_for_one_chunk() -> None:
    message = Share(1, np.zeros(20_000_000))
    tracemalloc.start()
    for _ in frames(message, 1):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * CHUNK_BYTES


def test_announced_length_allocates_nothing() -> None:
    head = b"PLT\x02\x03\x00\x00\x00" + struct.pack("<QIQQqI", 1, 36, 1, 0, 1 << 50, 0) + bytes(8)
    tracemalloc.start()
    with pytest.raises(ProtocolError, match="one number for each of 300000 rows"):
        assemble([head])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_refused(bad: float) -> None:
    vector = np.zeros(ROWS)
    vector[-1] = bad
    with pytest.raises(ProtocolError, match="finite"):
        assemble(list(frames(Share(1, vector), 1)))
    with pytest.raises(ProtocolError, match="finite"):
        assemble(list(frames(Share(1, None, np.array([bad])), 1)))


STEPS = np.ones(2, np.int16)


@pytest.mark.parametrize("step", [-1.0, np.nan, np.inf, 1e305])
def test_steps_of_no_use_are_refused(step: float) -> None:
    (data,) = frames(Share(1, STEPS, step=step), 1)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="finite" if not np.isfinite(step) else "must come with their size"):
        assemble([data], rows=2)


def test_steps_without_their_size_or_vector_are_refused() -> None:
    for message in (Share(1, np.ones(2)), Share(1, None, np.ones(1))):
        data = bytearray(next(frames(message, 1)))
        data[5] = 4  # "these are steps"
        with pytest.raises(ProtocolError, match="must come with their size"):
            assemble([bytes(data)], rows=2)


@pytest.mark.parametrize("flags", [6, 8, 10, 14, 18, 20, 32, 255])
def test_flags_that_contradict_each_other_are_refused(flags: int) -> None:
    data = bytearray(next(frames(Share(1, STEPS, step=1.0), 1)))  # type: ignore[arg-type]
    data[5] = flags
    with pytest.raises(ProtocolError, match="reserved"):
        unpack(bytes(data))


def test_layout_of_steps_is_the_documented_one() -> None:
    message = Share(5, np.array([1, -2], np.int16), np.array([3.0]), step=0.5, change=True)  # type: ignore[arg-type]
    (data,) = frames(message, 4)
    head = struct.pack("<QIQQqI", 4, 28 + 16 + 4, 5, 0, 2, 2)
    assert data == b"PLT\x02\x03\x0c\x00\x00" + head + struct.pack("<2d2h", 3, 0.5, 1, -2)


def test_wrong_length_kind_and_order_are_refused() -> None:
    head, *chunks = frames(share(), 1)
    for data, what in [
        (list(frames(share(10), 1)), "rows"),
        ([head, head], "complete before"),
        (chunks, "follow the head"),
        ([head, *chunks, chunks[0]], "follow the head"),
        ([head, next(iter(list(frames(share(), 2))[1:]))], "follow the head"),
        (list(frames(Broadcast(1, np.zeros(ROWS)), 1)), "a share must come here"),
    ]:
        with pytest.raises(ProtocolError, match=what):
            feed(Assembler(Kind.SHARE, ROWS), data)


@pytest.mark.parametrize("cut", [0, 1, 19, 20, 30, 1000])
def test_truncated_frames_are_refused(cut: int) -> None:
    data = next(frames(share(), 1))
    with pytest.raises(ProtocolError):
        unpack(data[:cut])


def test_oversized_frames_are_refused() -> None:
    data = b"PLT\x02\x04\x00\x00\x00" + struct.pack("<QI", 1, CHUNK_BYTES + 8) + bytes(CHUNK_BYTES + 8)
    with pytest.raises(ProtocolError):
        unpack(data)


def test_other_version_says_what_to_do() -> None:
    data = bytearray(next(frames(share(), 1)))
    data[3] = 1
    with pytest.raises(ProtocolError, match="Install the same plait everywhere"):
        unpack(bytes(data))


@pytest.mark.parametrize("parcel", [Parcel("take", "shop", 1 << 40, 3, b"\0" * 96), Parcel("check"), Parcel("", "x")])
def test_a_parcel_arrives_as_it_was_sent(parcel: Parcel) -> None:
    frame = unpack(pack_parcel(parcel, 9))
    assert (frame.seq, unpack_parcel(frame)) == (9, parcel)


def test_parcels_that_do_not_hold_what_they_announce_are_refused() -> None:
    whole = bytearray(pack_parcel(Parcel("take", "shop"), 1))
    for at, value in [(36, 200), (37, 5), (27, 0xFF)]:
        changed = bytearray(whole)
        changed[at] = value
        with pytest.raises(ProtocolError, match="a parcel must hold"):
            unpack_parcel(unpack(bytes(changed)))
    whole[-1] = 0xE4
    with pytest.raises(ProtocolError, match="ASCII"):
        unpack_parcel(unpack(bytes(whole)))
    with pytest.raises(ProtocolError, match="a parcel must come here"):
        unpack_parcel(unpack(next(frames(share(), 1))))
