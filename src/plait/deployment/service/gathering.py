"""Requests that wait at the same time, asked together: each party gets one query for all of them.

A query costs a party one write to its disk, and every program a few messages between threads, however many rows it
asks for.  So under load a request waits until the parties have answered the queries before it, together with all that
came meanwhile.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from plait.messages import Share
from plait.transports.handshake import MOST_IDS, MOST_QUERY_BYTES, Query

_AT_ONCE = 2  # queries under way: while one is written to disks, the answers to the other are sent to clients


@dataclass(frozen=True)
class Asked:
    """What is asked for at the same time, by one request or by several.

    own     the query for the parties in this process
    sent    the one for all others
    since   when the first request came, on the monotonic clock
    """

    own: Query
    sent: Query
    since: float = field(default_factory=time.monotonic)

    @property
    def both(self) -> tuple[Query, Query]:
        """The query for the parties in this process and the one for all others."""
        return self.own, self.sent


Ask = Callable[[Asked], Awaitable[dict[str, Share]]]
"""Asks all parties; gives their shares by name."""


@dataclass(frozen=True)
class _Waiting:
    asked: Asked
    shares: "asyncio.Future[dict[str, Share]]"


class Gathering:
    """Joins requests.

    Parameters
    ----------
    local : collection of str
        The parties in this process.
    ask : callable
        Asks all parties.
    """

    def __init__(self, local: Sequence[str], ask: Ask) -> None:
        self._local = frozenset(local)
        self._ask = ask
        self._waiting: deque[_Waiting] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._called = False

    async def ask(self, own: Query, sent: Query) -> dict[str, Share]:
        """The shares of one request."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(Asked(own, sent), loop.create_future())
        self._waiting.append(waiting)
        if not self._called:  # requests that were read in this turn of the loop come along
            self._called = True
            loop.call_soon(self._begin)
        return await waiting.shares

    def _begin(self) -> None:
        self._called = False
        while len(self._under_way) < _AT_ONCE and (group := self._next()):
            task = asyncio.get_running_loop().create_task(self._answer(group))
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._begin()

    def _next(self) -> list[_Waiting]:
        """Those who have waited longest, as many as fit into one query."""
        group: list[_Waiting] = []
        ids, sizes = [0, 0], [0, 0]
        while self._waiting:
            first = self._waiting[0]
            if not first.shares.done():  # else the client has gone
                both = first.asked.both
                ids = [count + len(query.ids) for count, query in zip(ids, both, strict=True)]
                sizes = [size + query.size for size, query in zip(sizes, both, strict=True)]
                fits = max(ids) <= MOST_IDS and max(sizes) <= MOST_QUERY_BYTES
                if group and not (fits and first.asked.own.run == group[0].asked.own.run):
                    break
                group.append(first)
            self._waiting.popleft()
        return group

    async def _answer(self, group: Sequence[_Waiting]) -> None:
        asked = [waiting.asked for waiting in group]
        try:
            shares = await self._ask(_joined(asked))
        except Exception as error:  # whatever it is, it is each request's own
            for waiting in group:
                if not waiting.shares.done():
                    waiting.shares.set_exception(error)
            return
        for waiting, own in zip(group, self._apart(asked, shares), strict=True):
            if not waiting.shares.done():
                waiting.shares.set_result(own)

    def _apart(self, asked: Sequence[Asked], shares: Mapping[str, Share]) -> Iterator[dict[str, Share]]:
        """Each request's piece of every share."""
        at = [0, 0]
        for each in asked:
            end = [start + len(query.ids) for start, query in zip(at, each.both, strict=True)]
            here, there = (slice(*ends) for ends in zip(at, end, strict=True))
            yield {name: _piece(share, here if name in self._local else there) for name, share in shares.items()}
            at = end


def _joined(asked: Sequence[Asked]) -> Asked:
    """One question for all."""
    if len(asked) == 1:
        return asked[0]
    own, sent = (
        Query([text for query in queries for text in query.ids], queries[0].run, requests=[len(q.ids) for q in queries])
        for queries in zip(*(each.both for each in asked), strict=True)
    )
    return Asked(own, sent, asked[0].since)


def _piece(share: Share, place: slice) -> Share:
    assert share.vector is not None
    return Share(share.round, share.vector[place], share.scalars[place])
