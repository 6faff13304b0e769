"""The coordinator's end of the network: one gRPC port that all parties dial, and what they are asked and answer."""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import grpc

from plait.errors import MissingPartyError, TransportError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.admission import Terms
from plait.transports.grpc_options import CONVERSE, SERVICE, Note, server_options
from plait.transports.handshake import Finished
from plait.transports.mailbox import Answer, Item, Mailbox, PeerStanding
from plait.transports.party_streams import PartyStreams
from plait.transports.queries import QueryMailbox
from plait.transports.tls import PlainText, Security

_POLL = 0.5  # seconds between looks at a party's connection while its answer is awaited: Ctrl-C works as soon
_HEAD_START = 0.02
"""Seconds for which local parties let requests to the others go first."""
_REMINDER = 15.0  # seconds after which the coordinator says again who is missing
_CONSENT = 86_400.0  # seconds that people may take to agree to an alignment: a day
RETURNS = 4  # times the patience for one answer in all: a party may leave, come back, and compute, more than once


class Hub:
    """Serves the parties that the job names."""

    def __init__(self, terms: Terms, note: Note) -> None:
        self._terms = terms
        self.by_id = {name: QueryMailbox(name, terms.silence) for name in terms.parties if terms.by_id}
        """Where queries for scores are put, if that is what the parties are here for."""
        self._mailboxes = {name: self.by_id.get(name) or Mailbox(name, terms.kept) for name in terms.parties}
        self._streams = PartyStreams(terms, self._mailboxes, note)
        self._threads = ThreadPoolExecutor(self._streams.most + 2, "plait-hub")
        self._server: grpc.Server | None = None
        self._closed = False

    def open(self, address: str, security: Security) -> int:
        """Listen; returns the port."""
        server = grpc.server(self._threads, options=server_options())
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._streams.converse)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {CONVERSE: handler}),))
        try:
            if isinstance(security, PlainText):
                security.check(address)
                port = server.add_insecure_port(address)
            else:
                self._streams.security = security
                port = server.add_secure_port(address, security.server())
        except RuntimeError as error:
            raise TransportError(
                f"the coordinator must be able to listen on {address}. Found that it cannot: another program has the "
                "port, or the address is not this machine's. End that program, or use another port: --listen here, and "
                "--address at every other party."
            ) from error
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

    @property
    def patience(self) -> float:
        """Seconds for one answer of a party, as the job says."""
        return self._terms.patience

    def use_run(self, run: str) -> None:
        """Name another run to parties that join from now on."""
        self._streams.terms = replace(self._streams.terms, run=run)

    @property
    def standings(self) -> list[PeerStanding]:
        """How every party stands now."""
        return [mailbox.standing for mailbox in self._mailboxes.values()]

    def put(self, seq: int, requests: Mapping[str, Item]) -> None:
        """Begin to deliver requests."""
        for name, item in requests.items():
            self._mailboxes[name].put(seq, item)

    def give_head_start(self) -> None:
        """Wait until all requests have left, though not for long: sending takes the processor, too."""
        deadline = time.monotonic() + _HEAD_START
        for mailbox in self._mailboxes.values():
            mailbox.wait_said(max(0.0, deadline - time.monotonic()))

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
        mailbox = self._mailboxes[name]
        while (answer := mailbox.take(_POLL)) is None:
            self._check(mailbox, _CONSENT if mailbox.asks_people else None)
        return answer

    def remember(self, seq: int, requests: Mapping[str, Broadcast], shares: Mapping[str, Share]) -> None:
        """An exchange that took place before a restart."""
        for name in requests.keys() & self._mailboxes.keys():
            self._mailboxes[name].remember(seq, requests[name], shares[name])

    def wait_for_all(self, waiting: Callable[[list[str], bool], None]) -> None:
        """Wait until every party has joined; `waiting` is told who is missing, when that changes and when it lasts."""
        told: list[str] | None = None
        remind = math.inf
        while absent := [d.name for d in self._mailboxes.values() if not (d.connected or d.told)]:
            if absent != told or time.monotonic() > remind:
                waiting(absent, absent == told)
                remind = time.monotonic() + _REMINDER if absent != told else math.inf
                told = absent
            for mailbox in self._mailboxes.values():
                self._check(mailbox)
            time.sleep(0.02)  # seconds: a party that joins waits no longer

    def finish(self, finished: Finished, told: Callable[[str], None], patience: float) -> None:
        """Tell every party how it ended; `told` hears who has kept its results; give up after `patience` seconds."""
        waiting = {mailbox.name: mailbox for mailbox in self._mailboxes.values() if not mailbox.told}
        for mailbox in waiting.values():
            mailbox.finish(finished)
        deadline = time.monotonic() + patience
        while waiting and time.monotonic() < deadline:
            for name in [name for name, mailbox in waiting.items() if mailbox.told]:
                told(name)
                del waiting[name]
            time.sleep(0.005)  # seconds: the last message of a run should cost little

    def skip(self, name: str) -> None:
        """This party has kept its results already."""
        self._mailboxes[name].told = True

    def close(self) -> None:
        """Stop listening; parties will try again until somebody answers or their patience ends.

        No conversation goes on after this: the last thing that one does is to note that its party left.
        """
        self._closed = True
        if self._server is not None:
            self._server.stop(grace=0.2).wait()  # seconds for the last frames to leave
        self._threads.shutdown()

    def _check(self, mailbox: Mailbox, most_silent: float | None = None) -> None:
        if self._closed:
            raise TransportError("the coordinator has stopped listening.")
        if mailbox.failure is not None:
            raise TransportError(f"party {mailbox.name!r} cannot go on: {mailbox.failure}")
        if mailbox.missing() > self._terms.patience:
            if self._streams.security is not None:
                self._streams.security.need_valid()  # with an expired certificate nobody could come back
            raise MissingPartyError(
                f"party {mailbox.name!r} must not be away for more than {self._terms.patience:g} s. "
                f"Found it missing for longer. Start it again, then this coordinator: the run resumes."
            )
        if mailbox.silent() > (self._terms.patience if most_silent is None else most_silent):
            raise MissingPartyError(
                f"party {mailbox.name!r} must answer within {self._terms.patience:g} s (coordinator.patience). Found "
                "it connected and silent. Start it again, then this coordinator: the run resumes."
            )
        if most_silent is None and mailbox.owed() > RETURNS * self._terms.patience:
            raise MissingPartyError(
                f"party {mailbox.name!r} must answer within {RETURNS * self._terms.patience:g} s, however often it "
                "comes back. Found no answer. Start it again, then this coordinator: the run resumes."
            )
