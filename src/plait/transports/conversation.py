"""A party's side of one stream to the coordinator: from the greeting to the end, or until the connection breaks."""

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

import grpc
import numpy as np

from plait._names import plain
from plait.errors import CertificateError, PlaitError, ProtocolError, TransportError, for_others, unspecific
from plait.messages import Broadcast, Parcel, Share
from plait.transports import handshake
from plait.transports.deadline import Deadline
from plait.transports.frames import frames, pack_parcel
from plait.transports.grpc_options import CONVERSE, SERVICE
from plait.transports.handshake import (
    KEY_BYTES,
    Alive,
    Finished,
    Hello,
    Load,
    Meet,
    Proof,
    Prove,
    Query,
    Refused,
    Welcome,
    proven,
)
from plait.transports.law import PartyLaw, Request
from plait.transports.outgoing import Again, Outgoing
from plait.transports.participant import Participant
from plait.transports.queries import QueryQueue
from plait.transports.tls import check_proof

_GREETING = 20.0  # seconds for the coordinator to say who it is; it does not wait for anybody to do so
_LEAST_IDLE = 60.0  # seconds of silence: other parties compute, and a coordinator with little patience has time to end
_A_DAY = 86_400.0  # seconds: an alignment waits for people
_CERTIFICATE_WORDS = ("certificate", "hostname verification", "peer name")
"""Marks of a TLS handshake that will fail however often it is tried."""
_NOBODY = "connection refused"
"""The mark of an address at which no program listens."""
_UNREACHABLE = re.compile(r"^failed to connect to all addresses; last error: \w+: ")
"""What gRPC says before the reason when it cannot connect."""


class Conversation:
    """One stream, from greeting to end; `PartyLaw` checks all that comes in."""

    def __init__(
        self, channel: grpc.Channel, hello: Hello, join: Callable[[Welcome], Participant], patience: float
    ) -> None:
        self.joined = False
        self.discreet = False
        self.pinned = ""
        self.proves = False
        self._hello = hello
        self._join = join
        self._patience = patience
        self._say = Outgoing()
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{SERVICE}/{CONVERSE}")
        self._incoming = call(iter(self._say))
        self._deadline = Deadline(_GREETING, self._incoming.cancel)
        self._idle = _GREETING
        self._queries: QueryQueue | None = None
        self._loading = threading.Lock()
        self._failure: PlaitError | None = None

    def run(self) -> Finished:
        self._say.put([handshake.encode(self._hello)])
        if self.proves:
            self._ask_for_proof()
        welcome = self._expect_welcome()
        self._idle = _A_DAY  # until this party is ready it is the one that takes time
        try:
            participant = self._join(welcome)
        except PlaitError as error:
            self._give_up(self._words(error))
            raise
        self._idle = _idle(participant.agreement.purpose, self._patience)
        self._say.put([handshake.encode(participant.ready)])
        law = PartyLaw(participant.agreement)
        while True:
            said = self._read(law)
            self.joined = self.joined or isinstance(said, Request)  # nothing else is a sign that the run goes on
            if isinstance(said, Refused):
                _refused(said)
            elif isinstance(said, Finished):
                participant.finish(said)
                self._acknowledge()
                return said
            elif said is not None:
                self._answer(said, participant)

    def _read(self, law: PartyLaw) -> Request | Finished | Refused | None:
        data = self._next()
        try:
            return law.read(data)
        except ProtocolError as error:
            self._give_up(str(error))
            raise

    def _acknowledge(self) -> None:
        """Say that the results are kept, and let the coordinator end the stream."""
        self._say.put([handshake.encode(Finished(True, "kept", {}))])
        with contextlib.suppress(Again):
            self._next()

    def close(self) -> None:
        self._deadline.close()
        self._say.end()
        self._incoming.cancel()
        if self._queries is not None:
            self._queries.close()

    def _answer(self, request: Request, participant: Participant) -> None:
        item, seq = request.item, request.seq
        if isinstance(item, Alive):
            self._say.put([handshake.encode(item, seq)])
        elif isinstance(item, Query):
            self._queries = self._queries or QueryQueue(lambda queries: _looked_up(queries, participant))
            self._queries.ask(item).add_done_callback(lambda answer: self._looked_up(seq, answer))
        elif isinstance(item, Load):
            self._begin_load(item, seq, participant)
        elif isinstance(item, Meet):
            self._meet(item, seq, participant)
        else:
            self._compute(request, participant)

    def _looked_up(self, seq: int, answer: "Future[Share]") -> None:
        """On the thread of the queries: send their answer, or end the conversation with what went wrong."""
        error = answer.exception()
        if isinstance(error, PlaitError):
            self._end_with(error)
        else:
            with contextlib.suppress(Again):  # the stream has ended: nobody waits for this answer
                self._say.put(frames(answer.result(), seq))

    def _begin_load(self, load: Load, seq: int, participant: Participant) -> None:
        """On a thread of its own, because files are read; one at a time, or a coordinator could start any number."""
        if self._loading.acquire(blocking=False):
            threading.Thread(target=self._load, args=(load, seq, participant), name="plait-load", daemon=True).start()
        else:
            busy = replace(load, problem="another run is being loaded. Try again.")
            self._say.put([handshake.encode(busy, seq)])

    def _load(self, load: Load, seq: int, participant: Participant) -> None:
        """Have another run ready, or say why not."""
        problem = ""
        try:
            with _computable(f"run {load.run}"):
                participant.load(load.run, load.used)
        except PlaitError as error:
            problem = self._words(error)
        finally:
            self._loading.release()
        with contextlib.suppress(Again):
            self._say.put([handshake.encode(replace(load, problem=problem), seq)])

    def _meet(self, meet: Meet, seq: int, participant: Participant) -> None:
        try:
            answer = Meet(participant.meet(meet.keys))
        except PlaitError as error:
            self._give_up(self._words(error))
            raise
        self._say.put([handshake.encode(answer, seq)])

    def _end_with(self, error: PlaitError) -> None:
        if self._failure is None:
            self._failure = error
            self._give_up(self._words(error))
            self._incoming.cancel()

    def _compute(self, request: Request, participant: Participant) -> None:
        self._deadline.extend(_A_DAY)  # the party itself is at work
        try:
            answer = _computed(request, participant)
        except PlaitError as error:
            self._give_up(self._words(error))
            raise
        seq = request.seq
        said = [pack_parcel(answer, seq)] if isinstance(answer, Parcel) else frames(answer, seq)
        self._say.put(_and_then(said, participant.rest))

    def _words(self, error: PlaitError) -> str:
        return unspecific(error) if self.discreet else for_others(error)

    def _give_up(self, reason: str) -> None:
        """Tell the coordinator why, so that the reason is seen on all sides."""
        with contextlib.suppress(Again):
            self._say.put([handshake.encode(Finished(False, reason, {}))])
        self._say.end()
        time.sleep(0.2)  # seconds for the reason to leave before the stream is cut

    def _ask_for_proof(self) -> None:
        """Let the coordinator show that it has the key whose fingerprint the job pins."""
        prove = Prove(secrets.token_hex(KEY_BYTES))
        self._say.put([handshake.encode(prove)])
        said = handshake.expect(self._next(), Proof, Refused)
        if isinstance(said, Refused):
            _refused(said)
        assert isinstance(said, Proof)
        if self.pinned:
            content = proven(prove.nonce, self._hello.party, self._hello.job)
            check_proof(said.certificate, said.signature, content, self.pinned)

    def _expect_welcome(self) -> Welcome:
        said = handshake.expect(self._next(), Welcome, Refused)
        if isinstance(said, Refused):
            _refused(said)
        assert isinstance(said, Welcome)
        return said

    def _next(self) -> bytes:
        """The next frame; the one place where gRPC's errors are translated."""
        self._deadline.extend(self._idle)
        try:
            return next(self._incoming)
        except StopIteration:
            if self._failure is not None:
                raise self._failure from None
            raise Again("the coordinator closed the connection") from None
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            if self._failure is not None:
                raise self._failure from None
            if self._deadline.passed:
                raise Again(f"the coordinator was silent for {self._idle:g} s") from None
            details = getattr(error, "details", str)() or "the connection broke"
            if any(word in details.lower() for word in _CERTIFICATE_WORDS):
                raise CertificateError(
                    "this party and the coordinator must have certificates of the same authority, valid now, and the "
                    f"coordinator's must carry its name. Found that TLS refuses: {details}. Compare the fingerprints "
                    "of ca.crt with the label party (`plait cert show`), or correct the clock."
                ) from None
            nobody = _NOBODY in details.lower()
            shorter = _UNREACHABLE.sub("no connection yet, ", details)
            raise Again("no program answers at its address yet" if nobody else shorter) from None


def _and_then(said: Iterable[bytes], rest: Callable[[], None]) -> Iterator[bytes]:
    yield from said
    rest()


def _refused(said: Refused) -> None:
    if said.retry:
        raise Again(said.reason)
    raise TransportError(f"the coordinator refused: {said.reason}")


def _computed(request: Request, participant: Participant) -> Share | Parcel:
    """The answer to a broadcast or a parcel."""
    item = request.item
    with _computable(f"exchange {request.seq}"):
        if isinstance(item, Parcel):
            return participant.receive(item)
        assert isinstance(item, Broadcast)
        return participant.answer(request.seq, item, request.before)


def _looked_up(queries: Sequence[Query], participant: Participant) -> list[Share]:
    with _computable("a query"):
        return participant.look_up(queries)


@contextlib.contextmanager
def _computable(what: str) -> Iterator[None]:
    """ProtocolError where the numbers of a request pass every rule and still cannot be computed with."""
    try:
        yield
    except PlaitError:
        raise
    except MemoryError as error:
        raise ProtocolError(
            f"{what} must ask for something that there is memory for. Found too little: {plain(str(error), 200)}. Give "
            "this program more memory, and start it again: the run resumes. If the job is small, the coordinator is "
            "faulty, or not honest."
        ) from error
    except (ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError) as error:
        raise ProtocolError(
            f"{what} must ask for something that can be computed. Found: {plain(str(error), 200)}. "
            "The coordinator is faulty, or not honest."
        ) from error


def _idle(purpose: str, patience: float) -> float:
    """Seconds that a connected coordinator may be silent: twice its patience, because it waits for other parties.

    An alignment also waits for people: a day.  A service asks for signs of life all the time: as long as a greeting.
    """
    if purpose == "serve":
        return _GREETING
    return _A_DAY if purpose == "align" else max(_LEAST_IDLE, 2 * patience)
