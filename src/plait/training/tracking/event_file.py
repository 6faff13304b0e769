"""Rounds as a TensorBoard event file, written by hand: TensorFlow and its libraries are not needed.

The file is a sequence of records, each of

    length (8 bytes) | masked CRC-32C of the length (4) | an Event message | masked CRC-32C of the message (4)

all little-endian.  An Event is a Protocol Buffers message with the fields 1 wall_time (double), 2 step (int64),
3 file_version (string) and 5 summary; a Summary has values (field 1), each with 1 tag (string) and 2 simple_value
(float).
"""

import os
import socket
import struct
import time
from functools import cache
from pathlib import Path
from typing import Any

from plait._checks import need_path
from plait._files import make_folder, open_private
from plait.training.history import Round
from plait.training.tracking.tracker import Ending, RunFacts, Tracker, known_fields

_POLYNOMIAL = 0x82F63B78  # of CRC-32C (Castagnoli), bits reversed
_MASK = 0xA282EAD8  # that TensorFlow adds to a rotated checksum
_BYTES, _FIXED64, _FIXED32, _VARINT = 2, 1, 5, 0  # wire types of Protocol Buffers


class EventFile(Tracker):
    """Write a TensorBoard event file: one scalar series per known field of a round.

    Look at it with `tensorboard --logdir FOLDER`.

    Parameters
    ----------
    folder : str or Path
        Where the file is made; every run gets a new one.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = need_path("EventFile(folder)", folder)
        self._file: Any = None

    def begin(self, facts: RunFacts) -> None:
        make_folder(self._folder)
        now = time.time()
        name = f"events.out.tfevents.{now:.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = open_private(self._folder / name, "wb")
        self._write(event(now, 0, _field(3, _BYTES, b"brain.Event:2")))

    def round(self, record: Round) -> None:
        if self._file is not None:
            values = b"".join(_field(1, _BYTES, _value(f"plait/{k}", v)) for k, v in known_fields(record).items())
            self._write(event(time.time(), record.round, _field(5, _BYTES, values)))

    def end(self, ending: Ending) -> None:
        self._file.close()
        self._file = None

    def _write(self, message: bytes) -> None:
        self._file.write(framed(message))
        self._file.flush()


def event(wall_time: float, step: int, content: bytes) -> bytes:
    """An Event message: the time, the step, and one more field that is encoded already."""
    return _field(1, _FIXED64, struct.pack("<d", wall_time)) + _field(2, _VARINT, _varint(step)) + content


def framed(message: bytes) -> bytes:
    """A record of the file: the length, the message, and a checksum of each."""
    length = struct.pack("<Q", len(message))
    return length + _checksum(length) + message + _checksum(message)


def crc32c(data: bytes) -> int:
    """The CRC-32C of some bytes."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + _MASK) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


def _value(tag: str, number: float) -> bytes:
    return _field(1, _BYTES, tag.encode()) + _field(2, _FIXED32, struct.pack("<f", number))


def _field(number: int, wire: int, content: bytes) -> bytes:
    length = _varint(len(content)) if wire == _BYTES else b""
    return _varint(number << 3 | wire) + length + content


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])
