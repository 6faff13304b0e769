"""A party's end: it dials the coordinator, answers, and dials again when the connection breaks."""

import random
import time
from collections.abc import Callable
from typing import Any

import grpc

from plait._names import plain
from plait.errors import MissingPartyError, ProtocolError
from plait.transports.conversation import Conversation
from plait.transports.grpc_options import KEEPALIVE, Note
from plait.transports.handshake import Finished, Hello, Welcome
from plait.transports.outgoing import Again
from plait.transports.participant import Participant
from plait.transports.tls import Identity, PlainText, Security

_FIRST_PAUSE = 0.05  # seconds before the first new attempt, then twice as long each time: a short break costs little
_LONGEST_PAUSE = 5.0  # seconds between attempts at most: a coordinator that comes back waits no longer for its parties
_MOST_ENDS = 16  # phases of one start: an alignment, a training or a batch, and those of pairs are three to five
_CLIENT_OPTIONS: list[tuple[str, Any]] = [
    *KEEPALIVE,
    ("grpc.use_local_subchannel_pool", 1),  # 1 is yes: a new attempt must not share the broken connection
    ("grpc.enable_retries", 0),  # 0 is no: `Link` tries again itself
]


class Link:
    """A party's connection to its coordinator."""

    def __init__(self, address: str, coordinator: str, security: Security, patience: float, note: Note) -> None:
        self._address = address
        self._coordinator = coordinator
        self._security = security
        self._patience = patience
        self._note = note
        self.longest_wait = patience
        """Seconds without a conversation after which this party gives up."""
        self.discreet = False
        """Whether errors say nothing to the coordinator: what went wrong may depend on what the party protects."""
        self.pinned = ""
        """The fingerprint that the job pins for the coordinator; empty for any that the authority signed."""
        self.proves = False
        """Whether the job pins any fingerprint: then coordinators are asked for a proof."""
        self._ends = 0
        if isinstance(security, PlainText):
            security.check(address)

    def serve(self, hello: Hello, join: Callable[[Welcome], Participant]) -> Finished:
        """Answer until the coordinator says how it ended; MissingPartyError when it stays away too long."""
        self._ends += 1
        if self._ends > _MOST_ENDS:
            raise ProtocolError(
                f"one start of this program goes through {_MOST_ENDS} phases to their end. Found a coordinator that "
                "announces another one. It is faulty, or not honest."
            )
        seen, pause, attempted = time.monotonic(), _FIRST_PAUSE, False
        while True:
            channel = self._channel()
            conversation = Conversation(channel, hello, join, self._patience)
            conversation.discreet, conversation.pinned = self.discreet, self.pinned
            conversation.proves = self.proves
            try:
                return conversation.run()
            except Again as again:
                if conversation.joined:
                    seen, pause = time.monotonic(), _FIRST_PAUSE
                self._note("disconnected", reason=plain(str(again)), again=attempted and not conversation.joined)
                attempted = True
                self._renew()
                if time.monotonic() - seen > self.longest_wait:
                    raise MissingPartyError(
                        f"the coordinator {self._coordinator!r} must be reachable at {self._address} within "
                        f"{self.longest_wait:g} s. Found: {again}. Is it running? Try `plait doctor`."
                    ) from None
            finally:
                conversation.close()
                channel.close()
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def check(self, hello: Hello) -> str:
        """What the coordinator says to a party that only asks; TransportError when it cannot be reached."""
        channel = self._channel()
        conversation = Conversation(channel, hello, _no_run, self._patience)
        conversation.pinned, conversation.proves = self.pinned, self.proves
        try:
            conversation.run()
        except Again as again:
            return str(again)
        finally:
            conversation.close()
            channel.close()
        return "it answered"

    def _renew(self) -> None:
        """Read the certificate again: one that has expired is told here, and one that was renewed is used."""
        if isinstance(self._security, Identity):
            self._security = Identity.load(self._security.folder, self._security.name)

    def _channel(self) -> grpc.Channel:
        if isinstance(self._security, PlainText):
            return grpc.insecure_channel(self._address, _CLIENT_OPTIONS)
        # The coordinator is known by the name in its certificate, wherever it runs.
        options = [*_CLIENT_OPTIONS, ("grpc.ssl_target_name_override", self._coordinator)]
        return grpc.secure_channel(self._address, self._security.client(), options)


def _no_run(welcome: Welcome) -> Participant:
    raise ProtocolError(f"a check must not join a run. Found {welcome.run}.")
