"""A party: its matrix, its weights, its half of the method.  No input or output."""

from dataclasses import dataclass
from typing import Any

from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block, Method
from plait.training.precision import Line
from plait.training.protected import Masker, Opener


@dataclass(frozen=True)
class Standing:
    """All that changes from message to message: the method's state, and the line's."""

    state: Any
    line: Line


class Party:
    """Holds D_m and x_m, which never leave it, and answers broadcasts."""

    def __init__(
        self,
        name: str,
        block: Block,
        method: Method,
        precision: str = "float64",
        opener: Opener | None = None,
        masker: Masker | None = None,
    ) -> None:
        """In a protected run `opener` decrypts what is received, and `masker` masks what is sent."""
        self._opener, self._masker = opener, masker
        self.name = name
        self.block = block
        self.method = method
        self._side = method.party_side(block)
        self._standing = Standing(self._side.start(), Line(precision))

    def handle(self, broadcast: Broadcast) -> Share:
        """Take one step and return what is sent to the coordinator."""
        self._standing, share = self._step(self._standing, broadcast)
        return share

    def _step(self, standing: Standing, broadcast: Broadcast) -> tuple[Standing, Share]:
        if self._opener is not None and broadcast.round:  # a briefing, of round 0, is not encrypted
            broadcast = self._opener.open(broadcast)
        line, heard = standing.line.hear(broadcast)
        state, share = self._side.respond(standing.state, heard)
        line, said = line.say(share)
        if said is not share:
            state = self._side.arrived(state, line.read(said))
        if self._masker is not None and broadcast.round:
            said = self._masker.mask(said, broadcast.closing)
        return Standing(state, line), said

    def check(self, broadcast: Broadcast) -> None:
        """Raise ProtocolError unless an honest coordinator could have sent this now; nothing changes."""
        self._side.check(self._standing.state, self._standing.line.hear(broadcast)[1])

    @property
    def shown(self) -> int:
        """How many columns the vector of the last share is made of."""
        return self._side.shown(self._standing.state)

    @property
    def state(self) -> Any:
        """All that changes from message to message."""
        return self._standing

    def answer_from(self, state: Any, broadcast: Broadcast) -> Share:
        """What was, or would have been, sent from this state; nothing changes."""
        return self._step(state, broadcast)[1]

    def resume(self, state: Any) -> None:
        """Go on from a state that was stored."""
        self._standing = state

    @property
    def weights(self) -> Array:
        """x_m, (d_m,)."""
        return self._side.weights(self._standing.state)
