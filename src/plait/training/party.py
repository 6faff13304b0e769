"""A party: its matrix, its weights, its half of the method.  No input or output."""

from dataclasses import dataclass, field
from typing import Any

from plait._replace import replace
from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Block, Method
from plait.training.party_shield import Agreed, PartyShield
from plait.training.precision import Line


@dataclass(frozen=True)
class Standing:
    """All that changes from message to message: the method's state, the line's, and what a protected run agreed on."""

    state: Any
    line: Line
    agreed: Agreed = field(default_factory=Agreed)
    exchanges: int = 0
    """Shares that have been sent since: each is masked under its own number."""


class Party:
    """Holds D_m and x_m, which never leave it, and answers broadcasts."""

    def __init__(
        self,
        name: str,
        block: Block,
        method: Method,
        precision: str = "float64",
        shield: PartyShield | None = None,
    ) -> None:
        """In a protected run `shield` decrypts what is received, and masks what is sent."""
        self.shield = shield
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
        if self.shield is not None and not self.shield.ready(standing.agreed):
            agreed, share = self.shield.agree(standing.agreed, broadcast)
            return replace(standing, agreed=agreed), share
        workspace = self.block.workspace
        line, heard = standing.line.hear(self._opened(standing, broadcast), workspace)
        state, share = self._side.respond(standing.state, heard)
        line, said = line.say(share, workspace)
        rounded = said is not share
        del share, heard  # they hold long vectors
        if rounded:
            state = self._side.arrived(state, line.read(said, workspace))
        if broadcast.closing:
            line = line.finer()
        if self.shield is not None:
            said = self.shield.mask(standing.agreed, said, standing.exchanges)
        return Standing(state, line, standing.agreed, standing.exchanges + 1), said

    def _opened(self, standing: Standing, broadcast: Broadcast) -> Broadcast:
        return broadcast if self.shield is None else self.shield.open(standing.agreed, broadcast)

    def check(self, broadcast: Broadcast) -> None:
        """Raise ProtocolError unless an honest coordinator could have sent this now; nothing changes."""
        standing = self._standing
        if self.shield is None or self.shield.ready(standing.agreed):
            self._side.check(
                standing.state, standing.line.hear(self._opened(standing, broadcast), self.block.workspace)[1]
            )

    def agreeing(self, seq: int) -> bool:
        """Whether this exchange comes before round 1, and agrees on keys."""
        return self.shield is not None and seq <= self.shield.exchanges_before

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
        return self._split()[0]

    @property
    def intercept(self) -> float:
        """The intercept, where this party has it: beside a blind machine; else 0."""
        return self._split()[1]

    def _split(self) -> tuple[Array, float]:
        weights = self._side.weights(self._standing.state)
        return (weights, 0.0) if self.shield is None else self.shield.split(weights)
