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

from plait._files import private_opener
from plait._types import Array
from plait.errors import StorageError
from plait.messages import Broadcast, Message, Share

NAME = "transcript.jsonl"


class Recorded:
    """A party's side that writes down each exchange; everything else is the side's own."""

    def __init__(self, participant: Any, folder: Path, shape: tuple[int, int]) -> None:
        self._participant = participant
        self._path = folder / NAME
        if not self._path.exists():
            self._write({"format": 1, "rows": shape[0], "width": shape[1]})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._participant, name)

    def answer(self, seq: int, broadcast: Broadcast, *more: Any) -> Share:
        share: Share = self._participant.answer(seq, broadcast, *more)
        self._write({"seq": seq, "received": _encode(broadcast), "sent": _encode(share)})
        return share

    def _write(self, line: dict[str, Any]) -> None:
        with open(self._path, "a", encoding="utf-8", opener=private_opener) as file:
            file.write(json.dumps(line) + "\n")


@dataclass(frozen=True)
class RecordedExchange:
    """One question and its answer."""

    seq: int
    received: Broadcast
    sent: Share


@dataclass(frozen=True)
class Transcript:
    """The shape (N, d) of the party's table and its exchanges in order, repeated ones left out."""

    shape: tuple[int, int]
    exchanges: tuple[RecordedExchange, ...]


def read_transcript(folder: Path) -> Transcript:
    """What a party recorded in a run folder; StorageError when there is none."""
    try:
        heading, *lines = [json.loads(text) for text in (folder / NAME).read_text(encoding="utf-8").splitlines()]
        found = {line["seq"]: line for line in lines}
        exchanges = tuple(_exchange(found[seq]) for seq in sorted(found))
        return Transcript((int(heading["rows"]), int(heading["width"])), exchanges)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"a transcript must be at {folder / NAME}. Found none that can be read: {error}. Set trust.record = true "
            "in the party's file before the run."
        ) from error


def _exchange(line: dict[str, Any]) -> RecordedExchange:
    received, sent = line["received"], line["sent"]
    asked = Broadcast(received["round"], _array(received["vector"]), _scalars(received), closing=received["closing"])
    return RecordedExchange(line["seq"], asked, Share(sent["round"], _array(sent["vector"]), _scalars(sent)))


def _encode(message: Message) -> dict[str, Any]:
    vector = None if message.vector is None else _text(message.vector)
    closing = isinstance(message, Broadcast) and message.closing
    return {"round": message.round, "closing": closing, "vector": vector, "scalars": _text(message.scalars)}


def _text(values: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def _array(text: str | None) -> Array | None:
    return None if text is None else np.frombuffer(base64.b64decode(text), dtype="<f8").astype(np.float64)


def _scalars(message: dict[str, Any]) -> Array:
    found = _array(message["scalars"])
    assert found is not None
    return found
