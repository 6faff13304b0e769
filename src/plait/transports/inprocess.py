"""All parties in this process: for simulation, tests and pooled work on one machine."""

from collections.abc import Callable, Mapping

from plait.messages import Broadcast, Share


class InProcess:
    """Calls each party's handler directly."""

    def __init__(self, handlers: Mapping[str, Callable[[Broadcast], Share]]) -> None:
        self._handlers = handlers

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        return {name: self._handlers[name](broadcast) for name, broadcast in requests.items()}
