"""Queries for scores: many under way at once, at the coordinator and at a party.

at the coordinator   QueryMailbox   what one party is asked and has not answered yet; whether it is there
at a party           QueryQueue     answers all waiting queries together
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from plait.errors import MissingPartyError, PlaitError
from plait.messages import Share
from plait.transports.handshake import Alive, Finished, Load, Meet, Query
from plait.transports.mailbox import Mailbox

BEAT = 0.2  # seconds between signs of life: four fit into the time after which a party counts as away
SILENCE = 0.9  # seconds without a sign after which a party counts as away: clients hear of it within a second
MOST_AT_ONCE = 64  # queries that a party answers in one transaction: more would make the first one wait
_FAREWELL = 5.0  # seconds that a party may take to say that it has kept its results
MOST_WAITING = 1024  # queries of one coordinator that a party lets wait


class QueryMailbox(Mailbox):
    """One party's queries: each has its own answer, and none survives the connection that it was asked on."""

    def __init__(self, name: str, silence: float = SILENCE) -> None:
        super().__init__(name, 0)
        self.problem = ""
        """What the party said when it left, where it said something."""
        self._silence = silence
        self._number = 0
        self._waiting: deque[tuple[int, Query | Load | Meet | Alive]] = deque()
        self._under_way: dict[int, Future[Share] | Future[Load] | Future[Meet]] = {}
        self.arrivals = 0
        """How often the party has connected: each time it may be another program, without the keys of the last one."""
        self._beat = 0.0

    @property
    def present(self) -> bool:
        """Whether the party is connected and has shown a sign of life lately."""
        return self._session is not None and time.monotonic() - self.seen < self._silence

    def ask(self, query: Query) -> "Future[Share]":
        """Send a query; MissingPartyError, at once or in the future, where the party is away."""
        future: Future[Share] = Future()
        self._send(query, future)
        return future

    def load(self, run: str, used: str) -> "Future[Load]":
        """Ask the party to have another run ready, and to keep the one that is used."""
        future: Future[Load] = Future()
        self._send(Load(run, used), future)
        return future

    def meet(self, keys: list[str]) -> "Future[Meet]":
        """Ask the party for a new masking key, or tell it the keys of all."""
        future: Future[Meet] = Future()
        self._send(Meet(keys), future)
        return future

    def _send(self, item: Query | Load | Meet, future: "Future[Share] | Future[Load] | Future[Meet]") -> None:
        with self.changed:
            if not self.present:
                raise self.away()
            self._number += 1
            self._under_way[self._number] = future
            self._waiting.append((self._number, item))
            self.changed.notify_all()

    def away(self) -> MissingPartyError:
        """The error that says so."""
        return MissingPartyError(f"party {self.name!r} must be here to answer. Found it away. It may come back.")

    def sit(self, session: object, last: int) -> None:
        super().sit(session, last)
        self.problem = ""
        self.arrivals += 1

    def leave(self, session: object) -> None:
        with self.changed:
            abandoned = list(self._under_way.values()) if self._session is session else []
            if abandoned:
                self._under_way.clear()
                self._waiting.clear()
            super().leave(session)
        for future in abandoned:
            with suppress(InvalidStateError):  # nobody waits for it any more
                future.set_exception(self.away())

    def fail(self, reason: str) -> None:
        """The party cannot go on; another program of it may."""
        self.problem = reason

    def next_question(self, session: object) -> tuple[int, Query | Load | Meet | Alive] | Finished | None:
        """Wait for something to say in this session; a sign of life is asked for between queries."""
        with self.changed:
            while self._session is session:
                if self._waiting:
                    return self._waiting.popleft()
                if self._finished is not None:
                    return self._finished
                left = self._beat - time.monotonic()
                if left <= 0:
                    self._beat = time.monotonic() + BEAT
                    self._number += 1
                    return self._number, Alive()
                self.changed.wait(left)
            return None

    def wait_left(self, session: object) -> None:
        """Wait until the party has left, once it was told how it ended."""
        with self.changed:
            self.changed.wait_for(lambda: self._session is not session, _FAREWELL)

    def hear(self, seq: int, answer: Share | Load | Meet | Alive) -> None:
        """An answer has come."""
        self.seen = time.monotonic()
        with self.changed:
            future = self._under_way.pop(seq, None)
        if future is not None:
            with suppress(InvalidStateError):
                future.set_result(answer)  # type: ignore[arg-type]  # the law has compared it with the question


class QueryQueue:
    """Answers queries on a thread of its own, all that wait together.

    Parameters
    ----------
    look_up : callable
        Gives the shares of several queries, in their order.
    """

    def __init__(self, look_up: Callable[[Sequence[Query]], list[Share]]) -> None:
        self._look_up = look_up
        self._queue: queue.Queue[tuple[Query, Future[Share]] | None] = queue.Queue(MOST_WAITING)
        self._thread = threading.Thread(target=self._work, name="plait-queries", daemon=True)
        self._thread.start()

    def ask(self, query: Query) -> "Future[Share]":
        """A future of the share; blocks while too many queries wait."""
        future: Future[Share] = Future()
        self._queue.put((query, future))
        return future

    def close(self) -> None:
        """Answer what waits, then end."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            waiting, ended = [first], False
            while len(waiting) < MOST_AT_ONCE and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    ended = True
                    break
                waiting.append(following)
            self._answer(waiting)
            if ended:
                return

    def _answer(self, waiting: list[tuple[Query, "Future[Share]"]]) -> None:
        try:
            shares = self._look_up([query for query, _ in waiting])
        except PlaitError as error:
            for _, future in waiting:
                with suppress(InvalidStateError):
                    future.set_exception(error)
            return
        for (_, future), share in zip(waiting, shares, strict=True):
            with suppress(InvalidStateError):
                future.set_result(share)
