"""The queue of a party's messages that gRPC has not sent yet."""

import contextlib
import queue
import time
from collections.abc import Iterable, Iterator

_MOST_QUEUED = 4  # messages on their way out: one answer, an end, and what a closing stream adds
_LOOK = 0.5  # seconds between two looks whether the stream has ended meanwhile
_UNREAD = 60.0  # seconds that an answer may wait because nobody reads the ones before it


class Again(Exception):
    """The connection broke, or was refused for now."""


class Outgoing:
    """What gRPC pulls from us: frames of one message after another, made when they are sent.

    Few messages wait: the party leaves a coordinator that asks and never reads, before its memory fills.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[Iterable[bytes] | None] = queue.Queue(_MOST_QUEUED)
        self._ended = False

    def put(self, message: Iterable[bytes]) -> None:
        """Send these frames next; `Again` where the stream has ended, or nobody reads."""
        deadline = time.monotonic() + _UNREAD
        while not self._ended and time.monotonic() < deadline:
            with contextlib.suppress(queue.Full):
                self._queue.put(message, timeout=_LOOK)
                return
        if self._ended:
            raise Again("the stream has ended")
        raise Again(f"the coordinator asks and has read nothing for {_UNREAD:g} s")

    def end(self) -> None:
        """End the stream after what was said."""
        self._ended = True
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)

    def __iter__(self) -> Iterator[bytes]:
        while not (self._ended and self._queue.empty()):
            if (message := self._queue.get()) is None:
                return
            yield from message
