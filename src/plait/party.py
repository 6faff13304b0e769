"""A party: its matrix, its weights, its half of the method.  No input or output."""

from typing import Any

from plait.messages import Broadcast, Share, rounded
from plait.methods.base import Block, Method
from plait.types import Array


class Party:
    """Holds D_m and x_m, which never leave it, and answers broadcasts."""

    def __init__(self, name: str, block: Block, method: Method, single: bool = False) -> None:
        self.name = name
        self.block = block
        self.single = single
        self.lengths = method.lengths(block.features.rows)
        self._side = method.party_side(block)
        self._state = self._side.start()

    def handle(self, broadcast: Broadcast) -> Share:
        """Take one step and return what is sent to the coordinator."""
        self._state, share = self._side.respond(self._state, broadcast)
        return self._sent(share)

    def _sent(self, share: Share) -> Share:
        return rounded(share) if self.single else share

    @property
    def state(self) -> Any:
        """All that changes from message to message."""
        return self._state

    def answer_from(self, state: Any, broadcast: Broadcast) -> Share:
        """What was, or would have been, sent from this state; nothing changes."""
        return self._sent(self._side.respond(state, broadcast)[1])

    def resume(self, state: Any) -> None:
        """Go on from a state that was stored."""
        self._state = state

    @property
    def weights(self) -> Array:
        """x_m, (d_m,)."""
        return self._side.weights(self._state)
