"""The coordinator: labels, loss, its half of the method.  No input or output."""

from collections.abc import Mapping
from dataclasses import replace

from plait.messages import Broadcast, Share, rounded
from plait.methods.base import Measured, Method, Task
from plait.types import Array


class Coordinator:
    """Says what to send next and takes the answers."""

    def __init__(self, task: Task, method: Method, single: bool = False) -> None:
        self.task = task
        self.single = single
        self.method = method
        self._side = method.coordinator_side(task)
        self._state = self._side.start()

    def requests(self) -> dict[str, Broadcast]:
        """What to send next, and to whom."""
        return self._sent(self._side.requests(self._state))

    def absorb(self, shares: Mapping[str, Share]) -> Measured | None:
        """Take the answers; returns an earlier state once it is fully measured."""
        self._state, measured = self._side.absorb(self._state, shares)
        return measured

    def closing(self) -> dict[str, Broadcast]:
        """The last broadcast of a run."""
        return self._sent(self._side.closing(self._state))

    def _sent(self, requests: dict[str, Broadcast]) -> dict[str, Broadcast]:
        """The requests, in single precision where that was chosen; what several parties are sent stays one array."""
        if not self.single:
            return requests
        vectors = {id(r.vector): rounded(r).vector for r in requests.values()}
        return {
            name: r if r.vector is None else replace(r, vector=vectors[id(r.vector)], single=True)
            for name, r in requests.items()
        }

    def close(self, shares: Mapping[str, Share]) -> Measured:
        """Take the last answers; returns the final state."""
        return self._side.closed(self._state, shares)

    @property
    def current(self) -> Measured:
        """The newest state, as far as it is known."""
        return self._side.current(self._state)

    @property
    def intercept(self) -> float:
        return self._side.intercept(self._state)

    @property
    def scores(self) -> Array | None:
        """z (N,) as far as the coordinator knows it."""
        return self._side.known_scores(self._state)
