"""How messages travel between the coordinator and the parties."""

from collections.abc import Mapping
from typing import Protocol

from plait.messages import Broadcast, Share


class Transport(Protocol):
    """One call: broadcasts out, shares back."""

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        """Deliver each broadcast to its party and return every party's answer."""
        ...
