"""The coordinator: labels, loss, its half of the method.  No input or output."""

from collections.abc import Mapping

from plait._replace import replace
from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import Measured, Method, Task
from plait.training.coordinator_shield import CoordinatorShield
from plait.training.precision import DEFAULT_PRECISION, Line


class Coordinator:
    """Says what to send next and takes the answers."""

    def __init__(
        self, task: Task, method: Method, precision: str = "float64", shield: CoordinatorShield | None = None
    ) -> None:
        self.task = task
        self.method = method
        self._side = method.coordinator_side(task)
        self._state = self._side.start()
        self._lines = dict.fromkeys(task.parties, Line(precision))
        self._plain = precision == DEFAULT_PRECISION  # requests travel as they are
        self._shield = shield
        self._with_vector = False  # whether the answers that are under way have a vector

    def requests(self) -> dict[str, Broadcast]:
        """What to send next, and to whom."""
        return self._said(self._side.requests(self._state))

    def absorb(self, shares: Mapping[str, Share]) -> Measured | None:
        """Take the answers; returns an earlier state once it is fully measured."""
        self._state, measured = self._side.absorb(self._state, self._heard(shares))
        return measured

    def settle(self) -> bool:
        """Whether to exchange once more in order to choose among equally good models."""
        state = self._side.settling(self._state)
        self._state = self._state if state is None else state
        return state is not None

    def closing(self) -> dict[str, Broadcast]:
        """The last broadcast of a run."""
        return self._said(self._side.closing(self._state))

    def _said(self, requests: dict[str, Broadcast]) -> dict[str, Broadcast]:
        """The requests as they travel; the vector that several parties are sent stays one array."""
        if self._shield is not None:
            said, held = self._shield.seal(requests, inward=not self.task.loss.smooth)
            self._with_vector = any(r.vector is not None for r in requests.values())
            if held is not None:
                self._state = self._side.told(self._state, held)
            return said
        if self._plain:
            return requests
        before, done, said = dict(self._lines), {}, {}
        arrives: Array | None = None
        for name, request in requests.items():
            line, same = before[name], (id(request.vector), id(before[name].said))
            if same not in done:
                done[same] = line.say(request, self.task.workspace)
            after, sent = done[same]
            line = replace(line, said=after.said)
            self._lines[name] = line.finer() if request.closing else line
            said[name] = replace(request, vector=sent.vector, step=sent.step, change=sent.change)
            if sent.vector is not None and sent.vector is not request.vector:
                arrives = after.read(sent, self.task.workspace)
        if arrives is not None:
            self._state = self._side.told(self._state, arrives)
        return said

    def _heard(self, shares: Mapping[str, Share]) -> Mapping[str, Share]:
        if self._shield is not None:
            return self._shield.read(shares, self._with_vector)
        heard = {}
        for name, share in shares.items():
            self._lines[name], heard[name] = self._lines[name].hear(share, self.task.workspace)
        return heard

    def close(self, shares: Mapping[str, Share]) -> Measured:
        """Take the last answers; returns the final state, from which a run may also go on."""
        heard = self._heard(shares)
        final = self._side.closed(self._state, heard)
        self._state = self._side.reopened(self._state, heard)
        return final

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
