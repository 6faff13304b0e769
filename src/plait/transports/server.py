"""The coordinator's end: one gRPC port, one bidirectional stream per party, parties dial in."""

import hmac
import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import grpc

from plait._version import __version__
from plait.errors import MissingPartyError, ProtocolError, TransportError
from plait.messages import Broadcast, Parcel, Share
from plait.transports import handshake
from plait.transports.frames import MAX_FRAME_BYTES, Assembler, Kind, frames, pack_parcel, unpack, unpack_parcel
from plait.transports.handshake import Finished, Hello, Query, Ready, Refused, Welcome
from plait.transports.mailbox import Answer, Ask, Desk, Item
from plait.transports.tls import PlainText, Security, peer_name

SERVICE, CONVERSE = "plait.Parties", "Converse"
_POLL = 0.5  # seconds between looks at a party's connection while its answer is awaited: Ctrl-C works as soon
_HEAD_START = 0.02
"""Seconds for which local parties let requests to the others go first."""
_REMINDER = 15.0  # seconds after which the coordinator says again who is missing

CHECK, CHECKED = "check", "identity, versions and job agree"
"""The purpose of a party that only wants to know whether it would be let in, and the answer if so."""

Note = Callable[..., None]
"""Where the hub reports what happens: note(what, **facts)."""


@dataclass(frozen=True)
class Terms:
    """What the coordinator demands of every party."""

    parties: tuple[str, ...]
    job: str
    purpose: str
    run: str
    key: str
    rows: int
    ids: str
    patience: float
    kept: int = 2
    lengths: frozenset[int] = frozenset()
    """How many numbers a share may have; as many as there are rows where nothing else is said."""
    phase: str = ""

    @property
    def aligned(self) -> bool:
        """Whether all parties must hold the same rows; a service asks for rows by id instead."""
        return bool(self.ids)


class _Refusal(Exception):
    def __init__(self, reason: str, retry: bool = False) -> None:
        super().__init__(reason)
        self.answer = Refused(reason, retry)


class Hub:
    """Serves the parties that the job names."""

    def __init__(self, terms: Terms, note: Note) -> None:
        self._terms = terms
        self._note = note
        self._desks = {name: Desk(name, terms.kept) for name in terms.parties}
        self._threads = ThreadPoolExecutor(2 * len(self._desks) + 8, "plait-hub")
        self._server: grpc.Server | None = None
        self._closed = False

    def open(self, address: str, security: Security) -> int:
        """Listen; returns the port."""
        server = grpc.server(self._threads, options=_SERVER_OPTIONS)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._converse)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {CONVERSE: handler}),))
        try:
            if isinstance(security, PlainText):
                security.check(address)
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, security.server())
        except RuntimeError as error:
            raise TransportError(f"the coordinator must be able to listen on {address}. Found: {error}.") from error
        server.start()
        self._server = server
        return port

    def ask(self, seq: int, requests: Mapping[str, Item]) -> dict[str, Share]:
        """Deliver every request and wait for every answer; a party may vanish and return meanwhile."""
        self.put(seq, requests)
        return {name: self.take(name) for name in requests}

    def put(self, seq: int, requests: Mapping[str, Item]) -> None:
        """Begin to deliver requests."""
        for name, item in requests.items():
            self._desks[name].put(seq, item)

    def give_head_start(self) -> None:
        """Wait until all requests have left, though not for long: sending takes the processor, too."""
        deadline = time.monotonic() + _HEAD_START
        for desk in self._desks.values():
            desk.wait_said(max(0.0, deadline - time.monotonic()))

    def take(self, name: str) -> Share:
        """Wait for one party's share."""
        share = self._take(name)
        assert isinstance(share, Share)
        return share

    def send(self, name: str, seq: int, parcel: Parcel) -> Parcel:
        """Deliver a parcel to one party and wait for the one that answers it."""
        self.put(seq, {name: parcel})
        answer = self._take(name)
        assert isinstance(answer, Parcel)
        return answer

    def _take(self, name: str) -> Answer:
        desk = self._desks[name]
        while (answer := desk.take(_POLL)) is None:
            self._check(desk)
        return answer

    def remember(self, seq: int, requests: Mapping[str, Broadcast], shares: Mapping[str, Share]) -> None:
        """An exchange that took place before a restart."""
        for name in requests.keys() & self._desks.keys():
            self._desks[name].remember(seq, requests[name], shares[name])

    def wait_for_all(self, waiting: Callable[[list[str], bool], None]) -> None:
        """Wait until every party has joined; `waiting` is told who is missing, when that changes and when it lasts."""
        told: list[str] | None = None
        remind = math.inf
        while absent := [d.name for d in self._desks.values() if not (d.connected or d.told)]:
            if absent != told or time.monotonic() > remind:
                waiting(absent, absent == told)
                remind = time.monotonic() + _REMINDER if absent != told else math.inf
                told = absent
            for desk in self._desks.values():
                self._check(desk)
            time.sleep(0.02)

    def finish(self, finished: Finished, told: Callable[[str], None], patience: float) -> None:
        """Tell every party how it ended; `told` hears who has kept its results; give up after `patience` seconds."""
        waiting = {desk.name: desk for desk in self._desks.values() if not desk.told}
        for desk in waiting.values():
            desk.finish(finished)
        deadline = time.monotonic() + patience
        while waiting and time.monotonic() < deadline:
            for name in [name for name, desk in waiting.items() if desk.told]:
                told(name)
                del waiting[name]
            time.sleep(0.005)

    def skip(self, name: str) -> None:
        """This party has kept its results already."""
        self._desks[name].told = True

    def close(self) -> None:
        """Stop listening; parties will try again until somebody answers or their patience ends.

        No conversation goes on after this: the last thing that one does is to note that its party left.
        """
        self._closed = True
        if self._server is not None:
            self._server.stop(grace=0.2).wait()
        self._threads.shutdown()

    def _check(self, desk: Desk) -> None:
        if self._closed:
            raise TransportError("the coordinator has stopped listening.")
        if desk.failure is not None:
            raise TransportError(f"party {desk.name!r} cannot go on: {desk.failure}")
        if desk.missing() > self._terms.patience:
            raise MissingPartyError(
                f"party {desk.name!r} must not be away for more than {self._terms.patience:g} s. "
                f"Found it missing for longer. Start it again, then this coordinator: the run resumes."
            )

    def _converse(self, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One party's stream, from its greeting to its end."""
        session = object()
        desk: Desk | None = None
        try:
            hello = handshake.expect(_next(incoming), Hello)
            assert isinstance(hello, Hello)
            desk = self._admit(hello, context)
            yield handshake.encode(Welcome(self._terms.run, self._terms.key, self._terms.phase or self._terms.purpose))
            ready = handshake.expect(_next(incoming), Ready, Finished)
            if isinstance(ready, Finished):
                raise _Refusal(f"party {desk.name!r} cannot join: {ready.reason}")
            assert isinstance(ready, Ready)
            self._compare(desk.name, ready)
            again = self._seat(desk, session, ready)
            if not context.add_callback(lambda: desk.leave(session)):
                raise _Gone
            self._note("joined", peer=desk.name, last=ready.last, address=context.peer())
            yield from self._talk(desk, session, incoming, again)
        except _Refusal as refusal:
            what = "checked" if refusal.answer.reason == CHECKED else "refused"
            self._note(what, peer=context.peer(), reason=str(refusal))
            yield handshake.encode(refusal.answer)
        except ProtocolError as error:
            self._note("refused", peer=desk.name if desk else context.peer(), reason=str(error))
            yield handshake.encode(Refused(str(error), retry=False))
        except _Gone:
            self._note("left", peer=desk.name if desk else context.peer())
        finally:
            if desk is not None:
                desk.leave(session)

    def _admit(self, hello: Hello, context: grpc.ServicerContext) -> Desk:
        terms, name = self._terms, hello.party
        certified = peer_name(context)
        if certified is not None and certified != name:
            raise _Refusal(f"the certificate of {certified!r} cannot speak for {name!r}.")
        if name not in self._desks:
            raise _Refusal(f"the job names the parties {', '.join(terms.parties)}. Found {name!r}.")
        if hello.protocol != handshake.PROTOCOL or hello.package != __version__:
            raise _Refusal(
                f"all parties must run the same plait. Found {__version__} (protocol {handshake.PROTOCOL}) at the "
                f"coordinator and {hello.package} (protocol {hello.protocol}) at {name!r}. Install the same version."
            )
        if not hmac.compare_digest(hello.job, terms.job):
            raise _Refusal(f"all parties must have the same job file. Found another at {name!r}. Send it again.")
        if hello.purpose == CHECK:
            raise _Refusal(CHECKED, retry=True)
        if hello.purpose != terms.purpose:
            raise _Refusal(
                f"the coordinator is here to {terms.purpose}. Found {name!r} ready to {hello.purpose}.", True
            )
        if self._desks[name].connected:
            raise _Refusal(f"party {name!r} is here already. Found a second one under its name.", retry=True)
        if self._desks[name].told and terms.phase:
            raise _Refusal(f"the {terms.phase} phase ends. Found {name!r} ready for what follows.", retry=True)
        return self._desks[name]

    def _compare(self, name: str, ready: Ready) -> None:
        if not self._terms.aligned:
            return
        if ready.rows != self._terms.rows:
            raise _Refusal(
                f"all parties must hold the same rows. Found {self._terms.rows} at the coordinator and {ready.rows} "
                f"at {name!r}. Align the files first."
            )
        if not hmac.compare_digest(ready.ids, self._terms.ids):
            raise _Refusal(
                f"all parties must hold the same rows in the same order. Found other ids, or another order, at "
                f"{name!r}. Sort the files by id, and keep only common ones."
            )

    def _seat(self, desk: Desk, session: object, ready: Ready) -> list[Ask]:
        with desk.changed:
            if desk.connected:
                raise _Refusal(f"party {desk.name!r} is here already. Found a second one under its name.", retry=True)
            return desk.sit(session, ready.last)

    def _talk(self, desk: Desk, session: object, incoming: Iterator[bytes], again: list[Ask]) -> Iterator[bytes]:
        assembler = Assembler(Kind.SHARE, *(self._terms.lengths or {self._terms.rows}))
        for ask in again:
            yield from _question(ask)
            self._listen(desk, incoming, assembler, ask.seq)
        while (item := desk.next(session)) is not None:
            if isinstance(item, Finished):
                yield handshake.encode(item)
                handshake.expect(_next(incoming), Finished)
                desk.told = True
                return
            yield from _question(item)
            desk.said(item.seq)
            desk.deliver(item.seq, self._listen(desk, incoming, _for(item, assembler), item.seq))

    def _listen(self, desk: Desk, incoming: Iterator[bytes], assembler: Assembler | None, seq: int) -> Answer:
        """The share, or without assembler the parcel, that answers exchange `seq`; stale ones are noted."""
        while True:
            frame = unpack(_next(incoming))
            if frame.kind is Kind.CONTROL:
                said = handshake.decode(frame)
                reason = said.reason if isinstance(said, Finished) else f"it said {type(said).__name__}"
                desk.fail(reason)
                raise _Gone
            found, answer = frame.seq, unpack_parcel(frame) if assembler is None else assembler.share(frame)
            if answer is None:
                continue
            if found == seq:
                return answer
            if found > seq:
                raise ProtocolError(f"exchange {seq} is under way. Found an answer to {found}.")
            self._note("stale", peer=desk.name, seq=found, wanted=seq)


class _Gone(Exception):
    """The stream has ended."""


def _next(incoming: Iterator[bytes]) -> bytes:
    """The next frame of a stream; the one place where gRPC's ways of ending one are translated."""
    try:
        return next(incoming)
    except (StopIteration, grpc.RpcError):
        raise _Gone from None


def _question(ask: Ask) -> Iterator[bytes]:
    if isinstance(ask.item, Query):
        yield handshake.encode(ask.item, ask.seq)
    elif isinstance(ask.item, Parcel):
        yield pack_parcel(ask.item, ask.seq)
    else:
        yield from frames(ask.item, ask.seq)


def _for(ask: Ask, assembler: Assembler) -> Assembler | None:
    """Answers to a query have one number per id asked for; a parcel needs no assembly."""
    if isinstance(ask.item, Parcel):
        return None
    return Assembler(Kind.SHARE, len(ask.item.ids)) if isinstance(ask.item, Query) else assembler


KEEPALIVE: list[tuple[str, Any]] = [
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.max_receive_message_length", MAX_FRAME_BYTES),
    ("grpc.max_send_message_length", MAX_FRAME_BYTES),
]
_SERVER_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.so_reuseport", 0),
]
