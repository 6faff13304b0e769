"""The streams of parties at the coordinator: each from its greeting to its end, between gRPC and a party's mailbox."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping

import grpc

from plait._names import plain
from plait.errors import CertificateError, ProtocolError, StorageError
from plait.messages import Parcel
from plait.transports import handshake
from plait.transports.admission import Refusal, Terms
from plait.transports.deadline import Deadline
from plait.transports.frames import frames, pack_parcel
from plait.transports.grpc_options import Note
from plait.transports.handshake import Finished, Hello, Proof, Prove, Ready, proven
from plait.transports.law import AnswerLaw, QueryLaw
from plait.transports.mailbox import Answer, Ask, Mailbox
from plait.transports.queries import QueryMailbox
from plait.transports.tls import Identity, peer_fingerprint, peer_name

_GREETING = 20.0  # seconds from the first byte of a stream until a party has said who it is and what it brings
_STREAMS = 2  # open streams per party: one that works, one that takes its place after a broken connection
_TOLD = 16  # refusals, arrivals and departures of a peer that are noted one by one
_UNNAMED = 8  # streams without a certificate that may be greeting at once


class PartyStreams:
    """Admits the parties that dial in, and lets each talk: what its mailbox holds goes out, what it answers goes in.

    Parameters
    ----------
    terms : Terms
        What is demanded of a party.
    mailboxes : mapping of str to Mailbox
        The mailbox of every party.
    note : callable
        Told what happens: note(what, **facts).
    """

    def __init__(self, terms: Terms, mailboxes: Mapping[str, Mailbox], note: Note) -> None:
        self.terms = terms
        self.security: Identity | None = None
        """Who the coordinator is; None where it listens without TLS."""
        self._mailboxes = mailboxes
        self._note = note
        self._open: Counter[str | None] = Counter()
        self._counting = threading.Lock()
        self._noted: Counter[tuple[str, str]] = Counter()

    @property
    def most(self) -> int:
        """How many streams can be open at once."""
        return _STREAMS * len(self._mailboxes) + _UNNAMED

    def converse(self, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """One party's stream, from its greeting to its end; how many are open is limited before it may say a word."""
        name = self._known(context)
        with self._counting:
            self._open[name] += 1
            crowded = self._open[name] > (_UNNAMED if name is None else _STREAMS)
        try:
            if crowded:
                raise Refusal(f"{name!r} has too many streams.", retry=True)
            if name is not None:
                self.terms.need_known(name)
            yield from self._greeted(incoming, context)
        except Refusal as refusal:
            self._note_refusal(plain(str(name)), refusal)
            yield handshake.encode(refusal.answer)
        finally:
            with self._counting:
                self._open[name] -= 1

    def _known(self, context: grpc.ServicerContext) -> str | None:
        try:
            return peer_name(context)
        except CertificateError:
            return ""  # a name that no job can have

    def _greeted(self, incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        session = object()
        mailbox: Mailbox | None = None
        watch = Deadline(_GREETING, context.cancel)
        try:
            hello = handshake.expect(_next(incoming), Hello)
            assert isinstance(hello, Hello)
            mailbox = self._admit(hello, context)
            if self.terms.fingerprints:
                yield self._proof(_next(incoming), hello)
            welcome = self.terms.welcome
            yield handshake.encode(welcome)
            watch.extend(max(_GREETING, self.terms.patience))  # a party reads its files now
            ready = handshake.expect(_next(incoming), Ready, Finished)
            if isinstance(ready, Finished):
                raise Refusal(f"party {mailbox.name!r} cannot join: {ready.reason}")
            assert isinstance(ready, Ready)
            watch.close()
            self.terms.check_rows(mailbox.name, ready)
            self._seat(mailbox, session, ready)
            if self.terms.run != welcome.run:  # a service has changed to another run meanwhile
                raise Refusal(f"run {self.terms.run} is used by now. Join again.", retry=True, expected="early")
            if not context.add_callback(lambda: mailbox.leave(session)):
                raise _Gone
            known = {"fingerprint": mark} if (mark := peer_fingerprint(context)) else {}
            self._note_some("joined", mailbox.name, last=ready.last, address=context.peer(), **known)
            if isinstance(mailbox, QueryMailbox):
                yield from _queries(mailbox, session, incoming)
            else:
                yield from self._talk(mailbox, session, incoming)
        except Refusal as refusal:
            self._note_refusal(mailbox.name if mailbox else self._known(context) or context.peer(), refusal)
            yield handshake.encode(refusal.answer)
        except (ProtocolError, StorageError) as error:
            if mailbox is not None and mailbox.seats(session):
                mailbox.fail(str(error))
            wrong = Refusal(str(error))
            self._note_refusal(mailbox.name if mailbox else self._known(context) or context.peer(), wrong)
            yield handshake.encode(wrong.answer)
        except _Gone:
            self._note_some("left", mailbox.name if mailbox else self._known(context) or context.peer())
        finally:
            watch.close()
            if mailbox is not None:
                mailbox.leave(session)

    def _proof(self, data: bytes, hello: Hello) -> bytes:
        """Show the party that this coordinator has the key of its certificate."""
        asked = handshake.expect(data, Prove)
        assert isinstance(asked, Prove)
        if self.security is None:
            raise Refusal("the job pins fingerprints. Found plain text, without certificates. Use TLS.")
        content = proven(asked.nonce, hello.party, hello.job)
        return handshake.encode(Proof(self.security.certificate.decode(), self.security.sign(content)))

    def _admit(self, hello: Hello, context: grpc.ServicerContext) -> Mailbox:
        if self.security is not None and (why := self.security.revoked(context)):
            raise Refusal(why)
        self.terms.check_hello(hello, peer_name(context), peer_fingerprint(context))
        mailbox = self._mailboxes[hello.party]
        self.terms.check_free(mailbox)
        return mailbox

    def _note_refusal(self, peer: str, refusal: Refusal) -> None:
        self._note_some(refusal.expected or "refused", peer, reason=plain(str(refusal), 500))

    def _note_some(self, what: str, peer: str, **facts: object) -> None:
        """The first ones of a peer, then each time when their number has doubled: a log must not grow with them."""
        key = (what, peer if peer in self._mailboxes else "")
        with self._counting:
            self._noted[key] += 1
            count = self._noted[key]
        if count <= _TOLD or count & (count - 1) == 0:
            self._note(what, peer=plain(peer, 80), **facts, **({"times": count} if count > 1 else {}))

    def _seat(self, mailbox: Mailbox, session: object, ready: Ready) -> None:
        with mailbox.changed:
            if mailbox.connected and not mailbox.lost:
                raise Refusal(f"party {mailbox.name!r} is here already. Found a second one under its name.", retry=True)
            try:
                mailbox.sit(session, ready.last)
            except ProtocolError as error:
                mailbox.fail(str(error))
                raise

    def _talk(self, mailbox: Mailbox, session: object, incoming: Iterator[bytes]) -> Iterator[bytes]:
        law = AnswerLaw(mailbox.name, self.terms.form, self.terms.precision)
        while (item := mailbox.next(session)) is not None:
            if isinstance(item, Finished):
                yield handshake.encode(item)
                handshake.expect(_next(incoming), Finished)
                mailbox.told = True
                return
            law.expect(item)
            yield from _question(item)
            mailbox.said(item.seq)
            mailbox.deliver(item.seq, self._listen(mailbox, incoming, law))

    def _listen(self, mailbox: Mailbox, incoming: Iterator[bytes], law: AnswerLaw) -> Answer:
        """The answer to the exchange that is under way."""
        while True:
            answer = law.read(_next(incoming))
            if isinstance(answer, Finished):
                mailbox.fail(answer.reason)
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


def _queries(mailbox: QueryMailbox, session: object, incoming: Iterator[bytes]) -> Iterator[bytes]:
    """A conversation in which several questions are under way: this thread asks, another one reads the answers."""
    law = QueryLaw(mailbox.name)
    wrong: list[ProtocolError] = []

    def read() -> None:
        try:
            while not isinstance(answer := law.read(_next(incoming)), Finished):
                if answer is not None:
                    mailbox.hear(*answer)
            mailbox.told = answer.ok
            if not answer.ok:
                mailbox.fail(answer.reason)
        except ProtocolError as error:
            wrong.append(error)
        except _Gone:
            pass
        finally:
            mailbox.leave(session)

    threading.Thread(target=read, name="plait-answers", daemon=True).start()
    while (item := mailbox.next_question(session)) is not None:
        if isinstance(item, Finished):
            yield handshake.encode(item)
            mailbox.wait_left(session)
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
