"""Peers that hold a certificate and lie: a coordinator and a party that say exactly what a test tells them to."""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from plait._version import __version__
from plait.data.texts import keyed_digest
from plait.deployment.job_file import read_job
from plait.messages import Broadcast, Message, Parcel, Share
from plait.transports import handshake
from plait.transports.certificates import Folder
from plait.transports.frames import MAX_FRAME_BYTES, Assembler, Kind, frames, pack_parcel, unpack, unpack_parcel
from plait.transports.grpc_options import CONVERSE, SERVICE
from plait.transports.handshake import PROTOCOL, Finished, Hello, Proof, Prove, Ready, Welcome, proven
from plait.transports.tls import Identity

from .conftest import Job

RUN, KEY = "20260101-120000-0a1b2c", "ab" * 32
_SIZES = [("grpc.max_receive_message_length", MAX_FRAME_BYTES), ("grpc.max_send_message_length", MAX_FRAME_BYTES)]


class Talk:
    """One stream: what the honest side says comes from `hear`, and `say` sends any bytes."""

    def __init__(self, incoming: Iterator[bytes], say: Callable[[bytes], None]) -> None:
        self._incoming = incoming
        self.say = say
        self.lengths: set[int] = set(range(5000))
        """How many numbers a vector may have that is heard."""

    def hear(self) -> Any:
        """The next control message, message or parcel; None when the stream has ended."""
        assembler: Assembler | None = None
        try:
            while True:
                frame = unpack(next(self._incoming))
                if frame.kind is Kind.CONTROL:
                    return handshake.decode(frame)
                if frame.kind is Kind.PARCEL:
                    return unpack_parcel(frame)
                assembler = assembler or Assembler(frame.kind, *self.lengths)
                done = assembler.add(frame)
                if done is not None:
                    return done.message
        except (StopIteration, grpc.RpcError):
            return None

    def raw(self) -> Iterator[bytes]:
        """The frames as they come, until the stream ends."""
        with suppress(grpc.RpcError):
            yield from self._incoming

    def ask(self, message: Message, seq: int, before: int | None = None) -> Any:
        """Send a message, the one before it being the one with the number before, and hear the answer."""
        for data in frames(message, seq, seq - 1 if before is None else before):
            self.say(data)
        return self.hear()

    def parcel(self, parcel: Parcel, seq: int) -> Any:
        self.say(pack_parcel(parcel, seq))
        return self.hear()


@contextmanager
def coordinator(
    job: Job, script: Callable[[Talk], None], phase: str = "fit", run: str = RUN, raw_welcome: bytes = b""
) -> Iterator[threading.Event]:
    """A coordinator with the label party's certificate; `script` begins when a party is ready. Gives its end."""
    ended = threading.Event()

    def converse(incoming: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        out: queue.Queue[bytes | None] = queue.Queue()
        talk = Talk(incoming, out.put)

        def play() -> None:
            try:
                hello = talk.hear()
                assert isinstance(hello, Hello)
                if read_job(job.file).fingerprints:  # this coordinator has the key of its certificate
                    asked = talk.hear()
                    assert isinstance(asked, Prove)
                    own = _identity(job, job.label)
                    signature = own.sign(proven(asked.nonce, hello.party, hello.job))
                    talk.say(handshake.encode(Proof(own.certificate.decode(), signature)))
                talk.say(raw_welcome or handshake.encode(Welcome(run, KEY, phase)))
                if isinstance(talk.hear(), Ready):
                    script(talk)
            finally:
                out.put(None)
                ended.set()

        threading.Thread(target=play, daemon=True).start()
        yield from iter(out.get, None)

    server = grpc.server(ThreadPoolExecutor(8), options=_SIZES)
    handler: Any = grpc.stream_stream_rpc_method_handler(converse)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {CONVERSE: handler}),))
    server.add_secure_port(read_job(job.file).coordinator.address, _identity(job, job.label).server())
    server.start()
    try:
        yield ended
    finally:
        server.stop(0).wait()


@contextmanager
def party(job: Job, name: str, party: str | None = None, purpose: str = "fit", greet: bool = True) -> Iterator[Talk]:
    """A party with the certificate of `name`, greeted and ready where `greet`."""
    spec = read_job(job.file)
    options = [*_SIZES, ("grpc.ssl_target_name_override", job.label), ("grpc.use_local_subchannel_pool", 1)]
    channel = grpc.secure_channel(spec.coordinator.address, _identity(job, name).client(), options)
    out: queue.Queue[bytes | None] = queue.Queue()
    call: Any = channel.stream_stream(f"/{SERVICE}/{CONVERSE}")(iter(out.get, None))
    talk = Talk(call, out.put)
    try:
        if greet:
            talk.say(handshake.encode(Hello(PROTOCOL, __version__, party or name, spec.digest, purpose)))
            welcome = talk.hear()
            if isinstance(welcome, Welcome):
                ids = tuple(f"r{j}" for j in range(400))
                talk.say(handshake.encode(Ready(len(ids), keyed_digest(ids, bytes.fromhex(welcome.key)), 0)))
        yield talk
    finally:
        out.put(None)
        call.cancel()
        channel.close()


def share_of(broadcast: Broadcast, **changes: Any) -> Share:
    """An answer to a broadcast that is right but for the changes."""
    return Share(**{"round": broadcast.round, **changes})


def finished(reason: str = "done", ok: bool = True, **details: Any) -> bytes:
    return handshake.encode(Finished(ok, reason, details))


def _identity(job: Job, name: str) -> Identity:
    return Identity.load(Folder(job.folder / "certs"), name)
