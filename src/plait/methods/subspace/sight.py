"""What a party makes of the vector that it receives in a round.

The plain protocol sends it the gradient g.  From g it has its own slopes D^T g, the curvature of the loss at every row,
and the others' moves.  Where the gradient is hidden (`plait.methods.protected`) it has less.  `Sight` is what both have
in common.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from plait._types import Array
from plait.messages import Broadcast
from plait.methods.base import Block, balanced
from plait.methods.subspace.checks import check_gradient
from plait.methods.subspace.messages import StepProposal
from plait.problem.losses import Seen
from plait.problem.row_blocks import by_parts, vector_by_parts, vector_slices

_CURVATURE_FLOOR, _KINK_FLOOR = 4e-3, 1e-4  # of the mean curvature; of a kink's own: the least that a row counts
_ROUNDING = 1e-6  # of the party's own move: what of the others' is below it is rounding


@dataclass(frozen=True)
class Glimpse:
    """What a party has made out of D^T g alone, as combinations of its own columns.

    scores     (d,): the scores of all parties are guessed as D scores, and a shift
    moves      (k, d): all parties' last moves were D moves^T, and something that the columns do not see
    products   (k, k) of these moves with one another, over all rows; the coordinator states them
    explained  (k, k): the same of what the columns see
    """

    scores: Array = field(default_factory=lambda: np.empty(0))
    moves: Array = field(default_factory=lambda: np.empty((0, 0)))
    products: Array = field(default_factory=lambda: np.empty((0, 0)))
    explained: Array = field(default_factory=lambda: np.empty((0, 0)))


class Sight(Protocol):
    """How a party reads the vectors of its broadcasts."""

    @property
    def shows_moves(self) -> bool:
        """Whether the others' moves can be read off two vectors."""
        ...

    @property
    def outlook(self) -> int:
        """How many numbers come with each vector, for what it does not show."""
        ...

    def check(self, vector: Array, first: Array | None, step: float | None) -> None:
        """Raise ProtocolError unless an honest coordinator could have sent the vector, after the first one."""
        ...

    def read(self, broadcast: Broadcast, orders: StepProposal) -> Array:
        """The vector as the party computes with it."""
        ...

    def pull(self, vector: Array) -> Array:
        """D^T g, (d,)."""
        ...

    def curvature(self, x: Array, orders: StepProposal, vector: Array, first: Array) -> Array:
        """The loss's curvature at every row (N,), weighted, with the party's weights at x (d,)."""
        ...

    def others_move(self, orders: StepProposal, first: Array, last: Array, now: Array, own: Array) -> Array:
        """By how much the others changed the scores (N,) between two vectors, while the party moved by own (N,)."""
        ...


class OpenGradient:
    """The vector is g (N,)."""

    shows_moves: ClassVar[bool] = True
    outlook: ClassVar[int] = 0

    def __init__(self, block: Block, remembers: bool = True) -> None:
        """`remembers` says whether scores are looked at again; where they are not, nothing of a vector is held."""
        self.block, self._remembers = block, remembers
        weights = block.weights
        self._per_sample = weights if bool(weights.min() > 0) else np.where(weights > 0, weights, 1.0)
        self._memo: list[tuple[Array, Seen]] = []

    def check(self, vector: Array, first: Array | None, step: float | None) -> None:
        check_gradient(self.block, vector, first, step)

    def read(self, broadcast: Broadcast, orders: StepProposal) -> Array:
        assert broadcast.vector is not None
        return balanced(broadcast.vector, self.block.workspace) if orders.intercept else broadcast.vector

    def pull(self, vector: Array) -> Array:
        return self.block.features.adjoint(vector)

    def curvature(self, x: Array, orders: StepProposal, vector: Array, first: Array) -> Array:
        curvature = self._curvature_seen(vector, first, orders.start)
        mean = float(self.block.weights @ curvature)
        if mean == 0:  # flat everywhere: a unit of curvature keeps the step finite
            return orders.stiffness * self.block.weights
        floor = max(_CURVATURE_FLOOR * mean, 0.0 if self.block.loss.smooth else _KINK_FLOOR)

        def weigh(rows: slice) -> Array:
            return np.asarray(orders.stiffness * self.block.weights[rows] * np.maximum(curvature[rows], floor))

        return self._vector(weigh)

    def others_move(self, orders: StepProposal, first: Array, last: Array, now: Array, own: Array) -> Array:
        before, after = (self._seen(v, first, orders.start) for v in (last, now))
        moved = self._vector(lambda rows: after.score[rows] - before.score[rows] - own[rows])
        # A move that shows on some rows only, or is mere rounding of the party's own, would mislead.
        clear = float(moved @ moved) > _ROUNDING**2 * float(own @ own) and bool((before.known & after.known).all())
        return moved if clear else np.zeros_like(moved)

    def _curvature_seen(self, g: Array, first: Array, start: float) -> Array:
        """The loss's curvature (N,) as g shows it."""
        if self._remembers:
            return self._seen(g, first, start).curvature
        return self._vector(lambda rows: self._seen_in(rows, g, first, start).curvature)

    def _vector(self, part: Callable[[slice], Array]) -> Array:
        """A vector (N,) that is made part by part."""
        return vector_by_parts(part, self.block.weights.size, self.block.workspace)

    def _seen_in(self, rows: slice, g: Array, first: Array, start: float) -> Seen:
        """What g shows of some rows."""
        each = self._per_sample[rows]
        return self.block.loss.seen(g[rows] / each, first[rows] / each, start)

    def _seen(self, g: Array, first: Array, start: float) -> Seen:
        """What g shows; the last two are remembered, as each is asked for in two rounds."""
        for known, seen in self._memo:
            if known is g:
                return seen
        seen = self.block.newest.made((g, first, self.block.weights), lambda: self._looked(g, first, start))
        self._memo = [*self._memo[-1:], (g, seen)]
        return seen

    def _looked(self, g: Array, first: Array, start: float) -> Seen:
        if len(vector_slices(g.size)) == 1 and not self.block.workspace.on_disk:
            return self._seen_in(slice(None), g, first, start)
        empty = self.block.workspace.empty
        score, curvature, visible = empty(g.size), empty(g.size), np.empty(g.size, bool)

        def look(rows: slice) -> None:
            part = self._seen_in(rows, g, first, start)
            score[rows], curvature[rows], visible[rows] = part.score, part.curvature, part.known

        by_parts(look, g.size)
        return Seen(score, visible, curvature)
