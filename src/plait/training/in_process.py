"""All parties in this process: for simulation, tests and pooled work on one machine."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from plait.messages import Broadcast, Share


class InProcess:
    """Calls the parties' handlers, side by side where there is a pool of threads."""

    def __init__(
        self, handlers: Mapping[str, Callable[[Broadcast], Share]], pool: ThreadPoolExecutor | None = None
    ) -> None:
        self._handlers = handlers
        self._pool = pool

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        short = all(broadcast.vector is None for broadcast in requests.values())  # a question: threads do not pay
        if self._pool is None or len(requests) == 1 or short:
            return {name: self._handlers[name](broadcast) for name, broadcast in requests.items()}
        under_way = {name: self._pool.submit(self._handlers[name], request) for name, request in requests.items()}
        return {name: future.result() for name, future in under_way.items()}
