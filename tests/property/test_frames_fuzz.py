"""Mutated messages: the decoder refuses or returns a message, and never does anything else."""

import random
import tracemalloc

import numpy as np
import pytest

from plait.errors import ProtocolError
from plait.messages import Broadcast, Message, Parcel, Share
from plait.training.precision import Line
from plait.transports import handshake
from plait.transports.frames import Assembler, Kind, frames, pack_parcel, unpack, unpack_parcel

ROWS = 40


def seeds() -> list[bytes]:
    rng = np.random.default_rng(1)
    messages: list[Message] = [
        Share(3, rng.standard_normal(ROWS), rng.standard_normal(2)),
        Share(4, None, rng.standard_normal(5)),
        Broadcast(5, rng.standard_normal(ROWS), rng.standard_normal(12), closing=True),
        Line("float32").say(Share(6, rng.standard_normal(ROWS)))[1],
        Line("int16").say(Share(7, rng.standard_normal(ROWS), rng.standard_normal(3)))[1],
        Line("int16", said=np.ones(ROWS)).say(Broadcast(8, np.full(ROWS, 1.1)))[1],
    ]
    controls: list[handshake.Control] = [
        handshake.Hello(1, "0.1", "bank", "ab" * 32, "fit"),
        handshake.Ready(ROWS, "cd" * 32, 4),
        handshake.Query(["a", "b"], "20260101-120000-0a1b2c"),
        handshake.Query(["a", "b", "c"], "20260101-120000-0a1b2c", requests=[2, 1]),
        handshake.Load("20260101-120000-0a1b2c", "20260101-120000-0a1b2c"),
        handshake.Meet(["ab" * 40, "cd"]),
        handshake.Alive(),
        handshake.Prove("ab" * 32),
        handshake.Proof("PEM", "ab"),
    ]
    parcels = [pack_parcel(Parcel("take", "shop", 7, 3, rng.bytes(96)), 2), pack_parcel(Parcel("check"), 2)]
    return [f for m in messages for f in frames(m, 2)] + [handshake.encode(c) for c in controls] + parcels


def mutate(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        what = rng.randrange(4)
        at = rng.randrange(len(changed)) if changed else 0
        if what == 0 and changed:
            changed[at] = rng.randrange(256)
        elif what == 1:
            del changed[at : at + rng.randint(1, 16)]
        elif what == 2:
            changed[at:at] = rng.randbytes(rng.randint(1, 16))
        elif changed:
            changed[at : at + 4] = rng.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f"])
    return bytes(changed)


def is_sound(message: Message) -> bool:
    try:
        _, read = Line("int16", heard=np.zeros(ROWS)).hear(message)
    except ProtocolError:
        return True
    return read.vector is None or bool(np.isfinite(read.vector).all())


def fuzz(count: int) -> None:
    rng = random.Random(0)
    start = seeds()
    assemblers = {kind: Assembler(kind, ROWS) for kind in (Kind.SHARE, Kind.BROADCAST)}
    outcomes = {"refused": 0, "read": 0}
    tracemalloc.start()
    for _ in range(count):
        data = mutate(rng.choice(start), rng)
        kind = rng.choice(list(assemblers))
        try:
            frame = unpack(data)
            if frame.kind is Kind.CONTROL:
                handshake.decode(frame)
            elif frame.kind is Kind.PARCEL:
                unpack_parcel(frame)
            else:
                done = assemblers[kind].add(frame)
                assert done is None or is_sound(done.message)
            outcomes["read"] += 1
        except ProtocolError:
            assemblers[kind] = Assembler(kind, ROWS)
            outcomes["refused"] += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20
    assert min(outcomes.values()) > 0


def test_mutated_messages_are_read_or_refused() -> None:
    fuzz(5_000)


@pytest.mark.slow
def test_a_million_mutated_messages_are_read_or_refused() -> None:
    fuzz(1_000_000)
