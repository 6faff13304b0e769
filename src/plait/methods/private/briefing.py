"""What a party is told about the rows before a run: their weights, and how noisy the labels are.

In `plait.fit` every party's block is made with both.  In a deployed run they lie with the label party, so the first
exchange tells them, and the party builds its block from what it was told: the numbers are the same.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast, Share
from plait.methods.base import Block, CoordinatorSide, Method, PartySide, Task
from plait.privacy.mechanisms.soft_logistic import steadied


def briefing(weights: Array | None, softness: float) -> Broadcast:
    """Row weights (N,) that sum to 1, None where all rows count alike, and the labels' noise factor."""
    return Broadcast(0, weights, np.array([softness]))


@dataclass(frozen=True)
class Briefed(Method):
    """A method whose party waits for its briefing; a `protected` party's rows have norm at most 1."""

    inner: Method
    protected: bool

    def party_side(self, block: Block) -> PartySide:
        return BriefedSide(self.inner, block, self.protected)

    def lengths(self, rows: int) -> frozenset[int]:
        return self.inner.lengths(rows) | {rows}

    def exchanges(self, rounds: int, rows: int) -> int:
        return self.inner.exchanges(rounds, rows) + 1

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.inner.coordinator_side(task)


@dataclass(frozen=True)
class Told:
    """A briefing as it is kept, and the state of the method itself."""

    weights: Array | None
    softness: float
    inner: Any


class BriefedSide(PartySide):
    """Takes the briefing first; after that it is the method's own side."""

    def __init__(self, method: Method, block: Block, protected: bool) -> None:
        self._method = method
        self._block = block
        self._protected = protected
        self._made: PartySide | None = None

    def start(self) -> Told | None:
        return None

    def check(self, state: Told | None, broadcast: Broadcast) -> None:
        if state is not None:
            self._side(state).check(state.inner, broadcast)
        elif broadcast.scalars.size != 1 or broadcast.closing:
            raise ProtocolError(f"a briefing must bring one factor. Found {broadcast.scalars.size} scalars.")

    def respond(self, state: Told | None, broadcast: Broadcast) -> tuple[Told, Share]:
        if state is None:
            (softness,) = broadcast.scalars
            self._made = self._make(broadcast.vector, softness)
            return Told(broadcast.vector, softness, self._made.start()), Share(broadcast.round)
        inner, share = self._side(state).respond(state.inner, broadcast)
        return replace(state, inner=inner), share

    def arrived(self, state: Told, vector: Array) -> Told:
        return replace(state, inner=self._side(state).arrived(state.inner, vector))

    def weights(self, state: Told | None) -> Array:
        return np.zeros(self._block.features.columns) if state is None else self._side(state).weights(state.inner)

    def _side(self, state: Told) -> PartySide:
        """The method's side; a resumed party makes it anew from what it was told."""
        if self._made is None:
            self._made = self._make(state.weights, state.softness)
        return self._made

    def _make(self, weights: Array | None, softness: float) -> PartySide:
        block = self._block
        told = block.weights if weights is None else weights
        if not (np.all(told >= 0) and told.sum() > 0 and softness >= 1):
            raise ProtocolError(
                "a briefing must bring weights that are not negative, not all zero, and a factor of 1 or more. Found "
                f"weights from {told.min():g} to {told.max():g} and the factor {softness:g}."
            )
        square = 1.0 if self._protected else float(np.mean(block.features.row_squares))
        penalty = steadied(block.penalty, softness, square, block.features.rows)
        return self._method.party_side(replace(block, weights=told, penalty=penalty))
