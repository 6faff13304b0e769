"""A party's end: it dials the coordinator, answers, and dials again when the connection breaks."""

import contextlib
import queue
import random
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import grpc

from plait.errors import CertificateError, MissingPartyError, PlaitError, ProtocolError, TransportError
from plait.messages import Broadcast, Parcel, Share
from plait.transports import handshake
from plait.transports.frames import Assembler, Kind, frames, pack_parcel, unpack, unpack_parcel
from plait.transports.handshake import Finished, Hello, Query, Ready, Refused, Welcome
from plait.transports.server import CONVERSE, KEEPALIVE, SERVICE, Note
from plait.transports.tls import PlainText, Security

_FIRST_PAUSE = 0.05  # seconds before the first new attempt, then twice as long each time: a short break costs little
_LONGEST_PAUSE = 5.0  # seconds between attempts at most: a coordinator that comes back waits no longer for its parties
_CERTIFICATE_WORDS = ("certificate", "hostname verification", "peer name")
"""Marks of a TLS handshake that will fail however often it is tried."""


class Participant(Protocol):
    """What answers at the party."""

    @property
    def ready(self) -> Ready:
        """What the coordinator is told when the party joins."""
        ...

    @property
    def lengths(self) -> frozenset[int]:
        """How many numbers a broadcast may have."""
        ...

    def answer(self, seq: int, broadcast: Broadcast) -> Share:
        """The share for this exchange; the stored one when it has been answered before."""
        ...

    def look_up(self, query: Query) -> Share:
        """The party's part of the scores of these rows."""
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


class Link:
    """A party's connection to its coordinator."""

    def __init__(self, address: str, coordinator: str, security: Security, patience: float, note: Note) -> None:
        self._address = address
        self._coordinator = coordinator
        self._security = security
        self._patience = patience
        self._note = note
        if isinstance(security, PlainText):
            security.check(address)

    def serve(self, hello: Hello, join: Callable[[Welcome], Participant]) -> Finished:
        """Answer until the coordinator says how it ended; MissingPartyError when it stays away too long."""
        seen, pause = time.monotonic(), _FIRST_PAUSE
        while True:
            channel = self._channel()
            conversation = _Conversation(channel, hello, join)
            try:
                return conversation.run()
            except _Again as again:
                if conversation.joined:
                    seen, pause = time.monotonic(), _FIRST_PAUSE
                self._note("disconnected", reason=str(again))
                if time.monotonic() - seen > self._patience:
                    raise MissingPartyError(
                        f"the coordinator {self._coordinator!r} must be reachable at {self._address} within "
                        f"{self._patience:g} s. Found: {again}. Is it running? Try `plait doctor`."
                    ) from None
            finally:
                conversation.close()
                channel.close()
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def check(self, hello: Hello) -> str:
        """What the coordinator says to a party that only asks; TransportError when it cannot be reached."""
        channel = self._channel()
        conversation = _Conversation(channel, hello, _no_run)
        try:
            conversation.run()
        except _Again as again:
            return str(again)
        finally:
            conversation.close()
            channel.close()
        return "it answered"

    def _channel(self) -> grpc.Channel:
        if isinstance(self._security, PlainText):
            return grpc.insecure_channel(self._address, _CLIENT_OPTIONS)
        # The coordinator is known by the name in its certificate, wherever it runs.
        options = [*_CLIENT_OPTIONS, ("grpc.ssl_target_name_override", self._coordinator)]
        return grpc.secure_channel(self._address, self._security.client(), options)


def _no_run(welcome: Welcome) -> Participant:
    raise ProtocolError(f"a check must not join a run. Found {welcome.run}.")


class _Again(Exception):
    """The connection broke, or was refused for now."""


class _Conversation:
    """One stream, from greeting to end."""

    def __init__(self, channel: grpc.Channel, hello: Hello, join: Callable[[Welcome], Participant]) -> None:
        self.joined = False
        self._hello = hello
        self._join = join
        self._say = _Outgoing()
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/{CONVERSE}")
        self._incoming = call(iter(self._say))

    def run(self) -> Finished:
        self._say.put([handshake.encode(self._hello)])
        welcome = self._expect_welcome()
        try:
            participant = self._join(welcome)
        except PlaitError as error:
            self._give_up(str(error))
            raise
        self._say.put([handshake.encode(participant.ready)])
        assembler = Assembler(Kind.BROADCAST, *participant.lengths)
        while True:
            frame = unpack(self._next())
            self.joined = True
            if frame.kind is Kind.CONTROL:
                said = handshake.decode(frame)
                if isinstance(said, Finished):
                    participant.finish(said)
                    self._acknowledge()
                    return said
                self._react(said, frame.seq, participant)
                continue
            if frame.kind is Kind.PARCEL:
                self._answer(frame.seq, partial(participant.receive, unpack_parcel(frame)), participant)
                continue
            done = assembler.add(frame)
            if done is not None and isinstance(done.message, Broadcast):
                self._answer(done.seq, partial(participant.answer, done.seq, done.message), participant)

    def _acknowledge(self) -> None:
        """Say that the results are kept, and let the coordinator end the stream."""
        self._say.put([handshake.encode(Finished(True, "kept", {}))])
        with contextlib.suppress(_Again):
            self._next()

    def close(self) -> None:
        self._say.put(None)
        self._incoming.cancel()

    def _react(self, said: handshake.Control, seq: int, participant: Participant) -> None:
        if isinstance(said, Refused):
            _refused(said)
        elif isinstance(said, Query):
            self._answer(seq, partial(participant.look_up, said), participant)
        else:
            raise ProtocolError(f"the coordinator must ask or end here. Found {type(said).__name__}.")

    def _answer(self, seq: int, compute: Callable[[], Share | Parcel], participant: Participant) -> None:
        try:
            answer = compute()
        except PlaitError as error:
            self._give_up(str(error))
            raise
        said = [pack_parcel(answer, seq)] if isinstance(answer, Parcel) else frames(answer, seq)
        self._say.put(_and_then(said, participant.rest))

    def _give_up(self, reason: str) -> None:
        """Tell the coordinator why, so that the reason is seen on all sides."""
        self._say.put([handshake.encode(Finished(False, reason[:2000], {}))])
        self._say.put(None)
        time.sleep(0.2)

    def _expect_welcome(self) -> Welcome:
        said = handshake.expect(self._next(), Welcome, Refused)
        if isinstance(said, Refused):
            _refused(said)
        assert isinstance(said, Welcome)
        return said

    def _next(self) -> bytes:
        """The next frame; the one place where gRPC's errors are translated."""
        try:
            return next(self._incoming)
        except StopIteration:
            raise _Again("the coordinator closed the connection") from None
        except grpc.RpcError as error:
            details = getattr(error, "details", str)() or "the connection broke"
            if any(word in details.lower() for word in _CERTIFICATE_WORDS):
                raise CertificateError(
                    "this party and the coordinator must have certificates of the same authority, valid now, and the "
                    f"coordinator's must carry its name. Found that TLS refuses: {details}. Compare the fingerprints "
                    "of ca.crt with the label party: `plait cert show`."
                ) from None
            raise _Again(details) from None


def _and_then(said: Iterable[bytes], rest: Callable[[], None]) -> Iterator[bytes]:
    yield from said
    rest()


def _refused(said: Refused) -> None:
    if said.retry:
        raise _Again(said.reason)
    raise TransportError(f"the coordinator refused: {said.reason}")


class _Outgoing:
    """What gRPC pulls from us: frames of one message after another, made when they are sent."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Iterable[bytes] | None] = queue.SimpleQueue()

    def put(self, message: Iterable[bytes] | None) -> None:
        """Say these frames next; None ends the stream."""
        self._queue.put(message)

    def __iter__(self) -> Iterator[bytes]:
        while (message := self._queue.get()) is not None:
            yield from message


_CLIENT_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
]
