"""The coordinator's end: one gRPC port, one bidirectional stream per party, parties dial in."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc

from plait._names import plain
from plait.errors import CertificateError, MissingPartyError, ProtocolError, StorageError, TransportError
from plait.messages import Broadcast, Parcel, Share
from plait.transports import handshake
from plait.transports.admission import Refusal, Terms
from plait.transports.channel import CONVERSE, SERVER_OPTIONS, SERVICE, Note
from plait.transports.deadline import Deadline
from plait.transports.frames import frames, pack_parcel
from plait.transports.handshake import Finished, Hello, Proof, Prove, Ready, proven
from plait.transports.law import AnswerLaw, QueryLaw
from plait.transports.mailbox import Answer, Ask, Desk, Item, PeerStanding
from plait.transports.queries import QueryDesk
from plait.transports.tls import Identity, PlainText, Security, peer_fingerprint, peer_name

_POLL = 0.5  # seconds between looks at a party's connection while its answer is awaited: Ctrl-C works as soon
_HEAD_START = 0.02
"""Seconds for which local parties let requests to the others go first."""
_REMINDER = 15.0  # seconds after which the coordinator says again who is missing
_GREETING = 20.0  # seconds from the first byte of a stream until a party has said who it is and what it brings
_CONSENT = 86_400.0  # seconds that people may take to agree to an alignment: a day
_STREAMS = 2  # open streams per party: one that works, one that takes its place after a broken connection
_RETURNS = 4  # times the patience for one answer in all: a party may leave, come back, and compute, more than once
_TOLD = 16  # refusals, arrivals and departures of a peer that are noted one by one
_UNNAMED = 8  # streams without a certificate that may be greeting at once


class Hub:
    """Serves the parties that the job names."""

    def __init__(self, terms: Terms, note: Note) -> None:
        self._terms = terms
        self._note = note
        self.by_id = {name: QueryDesk(name, terms.silence) for name in terms.parties if terms.by_id}
        """Where queries for scores are put, if that is what the parties are here for."""
        self._desks: dict[str, Desk] = {name: self.by_id.get(name) or Desk(name, terms.kept) for name in terms.parties}
        places = _STREAMS * len(self._desks) + _UNNAMED
        self._threads = ThreadPoolExecutor(places + 2, "plait-hub")
        self._streams: Counter[str | None] = Counter()
        self._counting = threading.Lock()
        self._noted: Counter[tuple[str, str]] = Counter()
        self._server: grpc.Server | None = None
        self._security: Identity | None = None
        self._closed = False

    def open(self, address: str, security: Security) -> int:
        """Listen; returns the port."""
        server = grpc.server(self._threads, options=SERVER_OPTIONS)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._converse)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {CONVERSE: handler}),))
        try:
            if isinstance(security, PlainText):
                security.check(address)
                port = server.add_insecure_port(address)
            else:
                self._security = security
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

    @property
    def parties(self) -> tuple[str, ...]:
        """Those who dial in."""
        return self._terms.parties

    def use_run(self, run: str) -> None:
        """Name another run to parties that join from now on."""
        self._terms = replace(self._terms, run=run)

    @property
    def standings(self) -> list[PeerStanding]:
        """How every party stands now."""
        return [desk.standing for desk in self._desks.values()]

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
            self._check(desk, _CONSENT if desk.asks_people else None)
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
            time.sleep(0.02)  # seconds: a party that joins waits no longer

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
            time.sleep(0.005)  # seconds: the last message of a run should cost little

    def skip(self, name: str) -> None:
        """This party has kept its results already."""
        self._desks[name].told = True

    def close(self) -> None:
        """Stop listening; parties will try again until somebody answers or their patience ends.

        No conversation goes on after this: the last thing that one does is to note that its party left.
        """
        self._closed = True
        if self._server is not None:
            self._server.stop(grace=0.2).wait()  # seconds for the last frames to leave
        self._threads.shutdown()

    def _check(self, desk: Desk, most_silent: float | None = None) -> None:
        if self._closed:
            raise TransportError("the coordinator has stopped listening.")
        if desk.failure is not None:
            raise TransportError(f"party {desk.name!r} cannot go on: {desk.failure}")
        if desk.missing() > self._terms.patience:
            raise MissingPartyError(
                f"party {desk.name!r} must not be away for more than {self._terms.patience:g} s. "
                f"Found it missing for longer. Start it again, then this coordinator: the run resumes."
            )
        if desk.silent() > (self._terms.patience if most_silent is None else most_silent):
            raise MissingPartyError(
                f"party {desk.name!r} must answer within {self._terms.patience:g} s (coordinator.patience). Found it "
                "connected and silent. Start it again, then this coordinator: the run resumes."
            )
        if most_silent is None and desk.owed() > _RETURNS * self._terms.patience:
            raise MissingPartyError(
                f"party {desk.name!r} must answer within {_RETURNS * self._terms.patience:g} s, however often it comes "
                "back. Found no answer. Start it again, then this coordinator: the run resumes."
            )

    def _converse(self, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One party's stream, from its greeting to its end; how many are open is limited before it may say a word."""
        name = self._known(context)
        with self._counting:
            self._streams[name] += 1
            crowded = self._streams[name] > (_UNNAMED if name is None else _STREAMS)
        try:
            if crowded:
                raise Refusal(f"{name!r} has too many streams.", retry=True)
            if name is not None:
                self._terms.need_known(name)
            yield from self._greeted(incoming, context)
        except Refusal as refusal:
            self._note_refusal(plain(str(name)), refusal)
            yield handshake.encode(refusal.answer)
        finally:
            with self._counting:
                self._streams[name] -= 1

    def _known(self, context: grpc.ServicerContext) -> str | None:
        try:
            return peer_name(context)
        except CertificateError:
            return ""  # a name that no job can have

    def _greeted(self, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        session = object()
        desk: Desk | None = None
        watch = Deadline(_GREETING, context.cancel)
        try:
            hello = handshake.expect(_next(incoming), Hello)
            assert isinstance(hello, Hello)
            desk = self._admit(hello, context)
            if self._terms.fingerprints:
                yield self._proof(_next(incoming), hello)
            yield handshake.encode(self._terms.welcome)
            watch.extend(max(_GREETING, self._terms.patience))  # a party reads its files now
            ready = handshake.expect(_next(incoming), Ready, Finished)
            if isinstance(ready, Finished):
                raise Refusal(f"party {desk.name!r} cannot join: {ready.reason}")
            assert isinstance(ready, Ready)
            watch.close()
            self._terms.check_rows(desk.name, ready)
            self._seat(desk, session, ready)
            if not context.add_callback(lambda: desk.leave(session)):
                raise _Gone
            known = {"fingerprint": mark} if (mark := peer_fingerprint(context)) else {}
            self._note_some("joined", desk.name, last=ready.last, address=context.peer(), **known)
            by_id = self.by_id.get(desk.name)
            yield from self._talk(desk, session, incoming) if by_id is None else _queries(by_id, session, incoming)
        except Refusal as refusal:
            self._note_refusal(desk.name if desk else context.peer(), refusal)
            yield handshake.encode(refusal.answer)
        except (ProtocolError, StorageError) as error:
            if desk is not None and desk.seats(session):
                desk.fail(str(error))
            wrong = Refusal(str(error))
            self._note_refusal(desk.name if desk else context.peer(), wrong)
            yield handshake.encode(wrong.answer)
        except _Gone:
            self._note_some("left", desk.name if desk else context.peer())
        finally:
            watch.close()
            if desk is not None:
                desk.leave(session)

    def _proof(self, data: bytes, hello: Hello) -> bytes:
        """Show the party that this coordinator has the key of its certificate."""
        asked = handshake.expect(data, Prove)
        assert isinstance(asked, Prove)
        if self._security is None:
            raise Refusal("the job pins fingerprints. Found plain text, without certificates. Use TLS.")
        content = proven(asked.nonce, hello.party, hello.job)
        return handshake.encode(Proof(self._security.certificate.decode(), self._security.sign(content)))

    def _admit(self, hello: Hello, context: grpc.ServicerContext) -> Desk:
        if self._security is not None and (why := self._security.revoked(context)):
            raise Refusal(why)
        self._terms.check_hello(hello, peer_name(context), peer_fingerprint(context))
        desk = self._desks[hello.party]
        self._terms.check_free(desk)
        return desk

    def _note_refusal(self, peer: str, refusal: Refusal) -> None:
        self._note_some(refusal.expected or "refused", peer, reason=plain(str(refusal), 500))

    def _note_some(self, what: str, peer: str, **facts: object) -> None:
        """The first ones of a peer, then each time when their number has doubled: a log must not grow with them."""
        key = (what, peer if peer in self._desks else "")
        with self._counting:
            self._noted[key] += 1
            count = self._noted[key]
        if count <= _TOLD or count & (count - 1) == 0:
            self._note(what, peer=plain(peer, 80), **facts, **({"times": count} if count > 1 else {}))

    def _seat(self, desk: Desk, session: object, ready: Ready) -> None:
        with desk.changed:
            if desk.connected and not desk.lost:
                raise Refusal(f"party {desk.name!r} is here already. Found a second one under its name.", retry=True)
            try:
                desk.sit(session, ready.last)
            except ProtocolError as error:
                desk.fail(str(error))
                raise

    def _talk(self, desk: Desk, session: object, incoming: Iterator[bytes]) -> Iterator[bytes]:
        law = AnswerLaw(desk.name, self._terms.form, self._terms.precision)
        while (item := desk.next(session)) is not None:
            if isinstance(item, Finished):
                yield handshake.encode(item)
                handshake.expect(_next(incoming), Finished)
                desk.told = True
                return
            law.expect(item)
            yield from _question(item)
            desk.said(item.seq)
            desk.deliver(item.seq, self._listen(desk, incoming, law))

    def _listen(self, desk: Desk, incoming: Iterator[bytes], law: AnswerLaw) -> Answer:
        """The answer to the exchange that is under way."""
        while True:
            answer = law.read(_next(incoming))
            if isinstance(answer, Finished):
                desk.fail(answer.reason)
                raise _Gone
            if answer is not None:
                return answer


class _Gone(Exception):
    """The stream has ended."""


def _next(incoming: Iterator[bytes]) -> bytes:
    """The next frame of a stream; the one place where gRPC's ways of ending one are translated."""
    try:
        return next(incoming)
    except (StopIteration, grpc.RpcError):
        raise _Gone from None


def _queries(desk: QueryDesk, session: object, incoming: Iterator[bytes]) -> Iterator[bytes]:
    """A conversation in which several questions are under way: this thread asks, another one reads the answers."""
    law = QueryLaw(desk.name)
    wrong: list[ProtocolError] = []

    def read() -> None:
        try:
            while not isinstance(answer := law.read(_next(incoming)), Finished):
                if answer is not None:
                    desk.hear(*answer)
            desk.told = answer.ok
            if not answer.ok:
                desk.fail(answer.reason)
        except ProtocolError as error:
            wrong.append(error)
        except _Gone:
            pass
        finally:
            desk.leave(session)

    threading.Thread(target=read, name="plait-answers", daemon=True).start()
    while (item := desk.next_question(session)) is not None:
        if isinstance(item, Finished):
            yield handshake.encode(item)
            desk.wait_left(session)
            break
        law.expect(*item)
        yield handshake.encode(item[1], item[0])
    if wrong:
        raise wrong[0]
    raise _Gone


def _question(ask: Ask) -> Iterator[bytes]:
    if isinstance(ask.item, Parcel):
        yield pack_parcel(ask.item, ask.seq)
    else:
        yield from frames(ask.item, ask.seq, ask.before)
