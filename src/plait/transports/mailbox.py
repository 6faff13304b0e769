"""Where the coordinator leaves messages for one party and finds its answers, whether or not it is connected."""

import threading
import time
from collections import deque
from dataclasses import dataclass

from plait.errors import ProtocolError, StorageError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.handshake import Finished

Item = Broadcast | Parcel
Answer = Share | Parcel

_LOST = 5.0  # seconds without an answer after which a new connection of the party may replace the old one


@dataclass(frozen=True)
class Ask:
    """A numbered request, and the number of the one before it."""

    seq: int
    item: Item
    before: int


@dataclass(frozen=True)
class PeerStanding:
    """How a party stands with the coordinator now.

    connected   whether it is here
    away        for how many seconds it has not been here, else 0
    awaited     for how many seconds its answer has been waited for, else 0
    took        how many seconds its last answer took; None before the first
    """

    name: str
    connected: bool
    away: float = 0.0
    awaited: float = 0.0
    took: float | None = None


@dataclass(frozen=True)
class _Past:
    """A request that was answered, and its answer."""

    ask: Ask
    answer: Answer | None


class Mailbox:
    """One party's requests and answers.

    The last `kept` requests stay here: a party that lost power may need them again.  With `kept` = 0 requests do not
    build on one another, and it does not matter what the party has answered before.
    """

    def __init__(self, name: str, kept: int = 2) -> None:
        self.name = name
        self.changed = threading.Condition()
        self.seen = time.monotonic()
        self.failure: str | None = None
        self.told = False
        self._session: object | None = None
        self._kept = kept
        self._past: deque[_Past] = deque(maxlen=kept)
        self._pending: Ask | None = None
        self._answer: Answer | None = None
        self._said = 0
        self._last = 0
        self._asked = self._put = time.monotonic()
        self._took: float | None = None
        self._finished: Finished | None = None

    @property
    def connected(self) -> bool:
        return self._session is not None

    def put(self, seq: int, item: Item) -> None:
        """Leave a request."""
        with self.changed:
            if self._pending is not None:
                self._past.append(_Past(self._pending, self._answer))
            self._pending = Ask(seq, item, self._pending.seq if self._pending else 0)
            self._answer = None
            self._asked = self._put = time.monotonic()
            self.changed.notify_all()

    def remember(self, seq: int, item: Item, share: Share) -> None:
        """A request that was answered before a restart."""
        with self.changed:  # as one step: a party that has joined already must not be asked
            self.put(seq, item)
            self._answer = share

    def finish(self, finished: Finished) -> None:
        with self.changed:
            self._finished = finished
            self.changed.notify_all()

    def sit(self, session: object, last: int) -> None:
        """Begin a session with a party that has answered up to `last`."""
        with self.changed:
            self._last = last
            self._missed()
            self._session = session
            self.failure = None  # a party that is back can go on: a service outlives a party's full disk
            self.seen = self._asked = time.monotonic()
            self.changed.notify_all()

    @property
    def lost(self) -> bool:
        """Whether the party's connection may have broken unnoticed: it has owed an answer for long."""
        return self.connected and self.silent() > _LOST

    def _missed(self) -> Ask | None:
        """The oldest request that the party must be asked again, before the pending one, because it has forgotten it.

        Checked before every request: a coordinator that resumes replays its requests while the party is connected.
        """
        pending = self._pending
        if self._kept == 0 or pending is None:
            return None  # the party itself refuses what it has answered too long ago to repeat
        if self._last >= pending.before:
            forgotten = self._answer is not None and self._last < pending.seq
            return pending if forgotten else None  # also before the end: else it would keep weights of earlier rounds
        for past in self._past:
            if past.ask.before == self._last:
                return past.ask
        raise ProtocolError(
            f"party {self.name!r} must have answered exchange {pending.before}. Found {self._last} in its checkpoint. "
            "Its run folder was removed or replaced: restore it, or start over with `plait coordinator --fresh`."
        )

    def leave(self, session: object) -> None:
        """End a session, for whatever reason."""
        with self.changed:
            if self._session is session:
                self._session = None
                self.seen = time.monotonic()
            self.changed.notify_all()

    def next(self, session: object) -> Ask | Finished | None:
        """Wait for something to say in this session; None when the session is over."""
        with self.changed:
            while self._session is session:
                if (missed := self._missed()) is not None:
                    return missed
                if self._pending is not None and self._answer is None:
                    return self._pending
                if self._finished is not None:
                    return self._finished
                self.changed.wait()
            return None

    def said(self, seq: int) -> None:
        """A request has left."""
        with self.changed:
            self._said = seq
            self.changed.notify_all()

    def wait_said(self, seconds: float) -> None:
        """Wait until the pending request has left, as long as the party is there and has not answered it."""
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    not self.connected
                    or self._answer is not None
                    or self._pending is None
                    or self._said >= self._pending.seq
                ),
                seconds,
            )

    def deliver(self, seq: int, answer: Answer) -> None:
        """Leave the answer to the pending request, or one that was asked again: it must be what it was then."""
        with self.changed:
            self._last = max(self._last, seq)
            if self._pending is not None and self._pending.seq == seq and self._answer is None:
                self._answer = answer
                self._took = time.monotonic() - self._asked
            now = [] if self._pending is None else [_Past(self._pending, self._answer)]
            for past in (*self._past, *now):
                if past.ask.seq == seq and past.answer is not None and past.answer.digest != answer.digest:
                    raise StorageError(
                        f"party {self.name!r} must repeat what it answered to exchange {seq}. Found another "
                        "answer: its data or its run folder were replaced. Restore them, or start over with --fresh."
                    )
            self.changed.notify_all()

    def fail(self, reason: str) -> None:
        """The party says that it cannot go on."""
        with self.changed:
            self.failure = reason
            self.changed.notify_all()

    def take(self, seconds: float) -> Answer | None:
        """The answer to the pending request, if it comes within this time."""
        with self.changed:
            self.changed.wait_for(lambda: self._answer is not None or self.failure is not None, seconds)
            return self._answer

    def seats(self, session: object) -> bool:
        """Whether this session is the party's."""
        return self._session is session

    @property
    def asks_people(self) -> bool:
        """Whether the pending request waits for a decision of people."""
        pending = self._pending
        return pending is not None and isinstance(pending.item, Parcel) and pending.item.what == "propose"

    @property
    def standing(self) -> PeerStanding:
        """How the party stands, to be shown."""
        return PeerStanding(self.name, self.connected, self.missing(), self.silent(), self._took)

    def silent(self) -> float:
        """For how many seconds the party has been here without an answer to the pending request."""
        with self.changed:
            waits = self.connected and self._pending is not None and self._answer is None
            return time.monotonic() - self._asked if waits else 0.0

    def owed(self) -> float:
        """For how many seconds the pending request has had no answer, however often the party left and came back."""
        with self.changed:
            waits = self._pending is not None and self._answer is None
            return time.monotonic() - self._put if waits else 0.0

    def missing(self) -> float:
        """For how many seconds the party has been away."""
        return 0.0 if self.connected else time.monotonic() - self.seen
