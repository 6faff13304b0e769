"""A party's conversation in full, recorded for an audit: every number that came in and every number that went out.

transcript.jsonl in the run folder: a heading with the shape of the party's table, then one line per exchange.  Its
owner asks for it (trust.record); it holds what the others hold too, and must be kept as safe as the labels.
"""

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plait._files import open_private
from plait._names import plain
from plait._types import Array
from plait.errors import StorageError
from plait.messages import Broadcast, Message, Share, raw

NAME = "transcript.jsonl"
_FORMAT = 2  # changes whenever an older plait could misread the file
_TYPES = ("<f8", "<f4", "<i2", "<u8")  # of vectors: float64, float32, int16, and words that are encrypted or masked


class Recorded:
    """A party's side that writes down each exchange; everything else is the side's own."""

    def __init__(self, participant: Any, folder: Path, shape: tuple[int, int]) -> None:
        self._participant = participant
        self._path = folder / NAME
        self._drop_torn_line()
        if not (self._path.exists() and self._path.stat().st_size):
            self._write({"format": _FORMAT, "rows": shape[0], "width": shape[1]})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._participant, name)

    def answer(self, seq: int, broadcast: Broadcast, *more: Any) -> Share:
        share: Share = self._participant.answer(seq, broadcast, *more)
        self._write({"seq": seq, "received": _encode(broadcast), "sent": _encode(share)})
        return share

    def _drop_torn_line(self) -> None:
        """A line that a crash cut short: its exchange is repeated."""
        if self._path.exists():
            with open_private(self._path, "r+b") as file:
                file.truncate(file.read().rfind(b"\n") + 1)

    def _write(self, line: dict[str, Any]) -> None:
        try:
            with open_private(self._path, "ab") as file:
                file.write((json.dumps(line) + "\n").encode())
        except OSError as error:
            raise StorageError(
                f"the transcript {self._path} must be writable. Found: {error}. Make room, or correct it, and start "
                "again: the run resumes."
            ) from error


@dataclass(frozen=True)
class RecordedExchange:
    """One question and its answer."""

    seq: int
    received: Broadcast
    sent: Share


@dataclass(frozen=True)
class Transcript:
    """The shape (N, d) of the party's table and its exchanges in order; one that was repeated as it was stands once."""

    shape: tuple[int, int]
    exchanges: tuple[RecordedExchange, ...]


def read_transcript(folder: Path) -> Transcript:
    """What a party recorded in a run folder; StorageError when there is none."""
    try:
        heading, *lines = [json.loads(text) for text in (folder / NAME).read_text(encoding="utf-8").splitlines()]
        if heading["format"] != _FORMAT:
            raise ValueError(f"format {heading['format']} of another version of plait")
        found = {json.dumps(line): line for line in lines}  # another answer to the same question is none of them
        exchanges = tuple(map(_exchange, sorted(found.values(), key=lambda line: int(line["seq"]))))
        return Transcript((int(heading["rows"]), int(heading["width"])), exchanges)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"a transcript must be at {folder / NAME}. Found none that can be read: {error}. Set trust.record = true "
            "in the party's file before the run."
        ) from error


def _exchange(line: dict[str, Any]) -> RecordedExchange:
    asked = Broadcast(**_decoded(line["received"]), closing=line["received"]["closing"])
    return RecordedExchange(line["seq"], asked, Share(**_decoded(line["sent"])))


def _encode(message: Message) -> dict[str, Any]:
    """Every number in the type in which it crosses the wire."""
    vector = message.vector
    kind = None if vector is None else vector.dtype.newbyteorder("<").str
    return {
        "round": message.round,
        "closing": isinstance(message, Broadcast) and message.closing,
        "type": kind,
        "vector": None if vector is None else _text(vector),
        "scalars": _text(message.scalars),
        "step": message.step,
        "change": message.change,
    }


def _decoded(line: dict[str, Any]) -> dict[str, Any]:
    vector = None if line["vector"] is None else _array(line["vector"], line["type"])
    same = {name: line[name] for name in ("round", "step", "change")}
    return {**same, "vector": vector, "scalars": _array(line["scalars"], "<f8")}


def _text(values: Array) -> str:
    return base64.b64encode(raw(values)).decode()


def _array(text: str, kind: str) -> Array:
    if kind not in _TYPES:
        raise ValueError(f"numbers of type {plain(str(kind), 20)}")
    return np.frombuffer(base64.b64decode(text), kind).astype(np.dtype(kind).newbyteorder("="))
