"""How messages travel between the coordinator and the parties."""

import os
from collections.abc import Mapping
from typing import Protocol

from plait.messages import Broadcast, Share

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # before gRPC is loaded: what it would print, our errors say


class Transport(Protocol):
    """One call: broadcasts out, shares back."""

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        """Deliver each broadcast to its party and return every party's answer."""
        ...
