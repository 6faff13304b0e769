"""Many rows at once: their scores leave line by line while later ones are still asked for.

Batches give way to single requests: all of them together ask for a few thousand rows at a time, and one client has few
of them under way.
"""

import asyncio
import io
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from weakref import WeakSet

from plait.deployment.service.answers import HttpRefusal, Problem, RowScores, plain_answer
from plait.deployment.service.panel import Panel

_CHUNK = 500  # ids in one query: half of what fits, so that long ids fit, too
_AHEAD = 4  # queries of all batches under way at once: while one is written the next ones are answered
_MOST_ROWS = 1_000_000  # of one batch: each takes some hundred bytes until it is scored
_EACH = 4  # batches of one client at once: bodies and ids of many large ones would fill the memory


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One row to score."""

    id: str


class _UnderWay:
    """One batch, from its first byte until nobody holds it any more."""

    def __init__(self, client: str) -> None:
        self.client = client


class Batches:
    """The batches that are under way."""

    def __init__(self) -> None:
        self._all: WeakSet[_UnderWay] = WeakSet()
        self._turns = asyncio.Semaphore(_AHEAD)

    def begin(self, client: str) -> _UnderWay:
        """Count one more batch; HttpRefusal where the client has too many.  It ends when nobody holds the object."""
        if sum(batch.client == client for batch in self._all) >= _EACH:
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, f"at most {_EACH} batches of one client at once. Wait.")
        batch = _UnderWay(client)
        self._all.add(batch)
        return batch

    async def scores(self, panel: Panel, ids: list[str]) -> RowScores:
        """Scores of a few rows, when it is their turn."""
        async with self._turns:
            return await panel.scores(ids)


async def held(chunks: AsyncIterator[bytes], batch: _UnderWay) -> AsyncIterator[bytes]:
    """The same chunks; the batch is under way as long as they are."""
    async for chunk in chunks:
        yield chunk


def read_rows(body: bytes) -> list[BatchRow]:
    """One row per line of the body; lines are counted before any is read, or short ones would fill the memory."""
    rows = []
    if (lines := body.count(b"\n")) > _MOST_ROWS:
        raise HttpRefusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a batch has at most {_MOST_ROWS} lines. Found {lines}."
        )
    for number, line in enumerate(io.BytesIO(body), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)["id"]
        except (ValueError, KeyError, TypeError, RecursionError):
            found = None
        if not isinstance(found, str) or any("\ud800" <= c <= "\udfff" for c in found):
            raise HttpRefusal(HTTPStatus.BAD_REQUEST, f'line {number} must be {{"id": "..."}}. Found another text.')
        rows.append(BatchRow(found))
    if not rows:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, 'the body must hold one {"id": "..."} per line. Found none.')
    return rows


async def stream(batches: Batches, panel: Panel, ids: list[str]) -> AsyncIterator[bytes]:
    """The scores as lines of JSON, in the order of the ids; an error is the last line."""
    starts = iter(range(0, len(ids), _CHUNK))
    under_way: deque[asyncio.Task[RowScores]] = deque()
    try:
        for start in starts:
            under_way.append(asyncio.create_task(batches.scores(panel, ids[start : start + _CHUNK])))
            if len(under_way) == _AHEAD:
                yield _lines(await under_way.popleft())
        while under_way:
            yield _lines(await under_way.popleft())
    except HttpRefusal as refusal:
        yield (json.dumps(plain_answer(Problem(str(refusal), parties=refusal.parties))) + "\n").encode()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


def _lines(found: RowScores) -> bytes:
    return "".join(json.dumps(plain_answer(score)) + "\n" for score in found.scores).encode()
