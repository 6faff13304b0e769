"""What answers the coordinator at a party, whatever the coordinator is there for."""

from collections.abc import Sequence
from typing import Protocol

from plait.errors import ProtocolError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.handshake import Finished, Query, Ready
from plait.transports.law import Agreement


class Participant(Protocol):
    """Answers broadcasts in training, parcels in an alignment, queries in a prediction."""

    @property
    def ready(self) -> Ready:
        """What the coordinator is told when the party joins."""
        ...

    @property
    def agreement(self) -> Agreement:
        """What this party has agreed to answer."""
        ...

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        """The share for this exchange, which follows `before`; the stored one when it has been answered before."""
        ...

    def look_up(self, queries: Sequence[Query]) -> list[Share]:
        """The party's parts of the scores of the rows that each query names."""
        ...

    def load(self, run: str, used: str) -> None:
        """Have the model of another run ready for queries that name it, and keep the one that is used."""
        ...

    def meet(self, keys: Sequence[str]) -> list[str]:
        """A new masking key where none are given; else use these, and answer with none."""
        ...

    def receive(self, parcel: Parcel) -> Parcel:
        """The answer to a parcel of the alignment."""
        ...

    def rest(self) -> None:
        """An answer has left; now is the time for what could wait."""
        ...

    def finish(self, finished: Finished) -> None:
        """Keep what there is to keep."""
        ...


class AnswersNothing:
    """Refuses every request: a participant inherits this, and overrides what it is here for.

    `PartyLaw` refuses such requests before; this is a second check.
    """

    def answer(self, seq: int, broadcast: Broadcast, before: int | None = None) -> Share:
        raise _unexpected(f"exchange {seq}")

    def look_up(self, queries: Sequence[Query]) -> list[Share]:
        raise _unexpected("a query for scores")

    def load(self, run: str, used: str) -> None:
        raise _unexpected(f"a request for run {run}")

    def meet(self, keys: Sequence[str]) -> list[str]:
        raise _unexpected("masking keys")

    def receive(self, parcel: Parcel) -> Parcel:
        raise _unexpected(f"a parcel, {parcel.what!r}")

    def rest(self) -> None:
        """Nothing waits."""


def _unexpected(found: str) -> ProtocolError:
    return ProtocolError(f"a party must be asked for what it is here for. Found {found}. Nothing was answered.")
