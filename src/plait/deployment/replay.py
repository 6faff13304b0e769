"""A transport for the coordinator that journals every exchange and replays those from before a restart.

The loop, its history and its stopping rules store nothing.  After a restart they run again from the start, and every
exchange that took place is answered from the journal, without communication.  Parties in this process store nothing
either: they compute their answers again, bit for bit the same.  The time is the recorded one, so that a limit on it
ends the run where it ended before.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from plait.deployment import state
from plait.deployment.journal import Journal, NoJournal
from plait.deployment.message_log import AuditLog
from plait.errors import StorageError
from plait.messages import Broadcast, Share


class Channel(Protocol):
    """How numbered requests reach the parties."""

    def ask(self, seq: int, requests: Mapping[str, Broadcast], meanwhile: Callable[[], None]) -> dict[str, Share]:
        """Deliver every request and wait for every answer; once they have left, call `meanwhile`."""
        ...

    def replay(self, seq: int, requests: Mapping[str, Broadcast], told: Mapping[str, Share]) -> dict[str, Share]:
        """Repeat an exchange from before a restart; `told` holds what remote parties answered then."""
        ...


@dataclass(frozen=True)
class Exchange:
    """What was asked, as digests, what remote parties answered, and how many seconds the run had taken by then."""

    asked: dict[str, str]
    shares: dict[str, Share]
    seconds: float


class Journaled:
    """A transport over a channel, with a journal and an audit log."""

    def __init__(
        self, channel: Channel, journal: Journal | NoJournal, audit: AuditLog, local: frozenset[str] = frozenset()
    ) -> None:
        self._channel = channel
        self._local = local
        self._journal = journal
        self._audit = audit
        self._replay = journal.records()
        self._seq = 0
        self._unsettled: tuple[int, Callable[[], list[state.Buffer]]] | None = None
        self._began = time.perf_counter()
        self.seconds = 0.0
        """How long the run had taken at the end of the last exchange, without the time between a kill and a restart."""

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        before = self._recorded(requests)
        if before is not None:
            return before
        self._seq += 1
        for name, broadcast in requests.items():
            self._audit.message("sent", name, self._seq, broadcast)
        shares = self._channel.ask(self._seq, requests, self.settle)
        self.seconds = seconds = time.perf_counter() - self._began
        for name, share in shares.items():
            self._audit.message("received", name, self._seq, share)
        self._audit.catch_up()
        told = {name: share for name, share in shares.items() if name not in self._local}
        self._unsettled = (self._seq, lambda: _record(requests, told, seconds))
        return shares

    def settle(self) -> None:
        """Write the last exchange: the loop has computed with its shares, so a restart can, too.

        This is done while the parties compute the next answers.  Shares that nothing can be computed with never reach
        the journal: a restart asks again.
        """
        if self._unsettled is not None:
            self._journal.append_behind(*self._unsettled)
            self._unsettled = None

    def _recorded(self, requests: Mapping[str, Broadcast]) -> dict[str, Share] | None:
        """The answers from before a restart, if this exchange took place then."""
        record = next(self._replay, None)
        if record is None:
            return None
        exchange = state.decode(record.payload)
        if not isinstance(exchange, Exchange) or record.seq != self._seq + 1:
            raise StorageError(
                f"the journal must hold exchange {self._seq + 1} next. Found {record.seq}, or "
                "something else. It is damaged: restore the run folder, or start over with --fresh."
            )
        self._seq, self.seconds = record.seq, exchange.seconds
        self._began = time.perf_counter() - exchange.seconds
        if exchange.asked != _digests(requests):
            raise StorageError(
                f"exchange {record.seq} must ask what it asked before the restart. Found other numbers. The "
                "labels, the machine or the software has changed: restore it, or start over with --fresh."
            )
        return self._channel.replay(record.seq, requests, exchange.shares)


def _record(requests: Mapping[str, Broadcast], shares: dict[str, Share], seconds: float) -> list[state.Buffer]:
    return state.encode_parts(Exchange(_digests(requests), shares, seconds))


def _digests(requests: Mapping[str, Broadcast]) -> dict[str, str]:
    return {name: broadcast.digest for name, broadcast in requests.items()}
