"""What a party remembers between messages."""

from dataclasses import dataclass, field

import numpy as np

from plait._types import Array
from plait.methods.subspace.penalty_span import Rounding
from plait.methods.subspace.sight import Glimpse

_ROOM = 2
"""Rows that a new array has room for.  More saves copies; but with ten parties the allocator then gives memory back to
the system, and fetching it again takes longer than the copies."""


@dataclass(frozen=True)
class SubspacePartyState:
    """x (d,), the directions sent (k, d) with their images (k, N) as the coordinator has them, and the newest.

    steps (k, d) and the others' moves (k, N) in the last rounds; the first and the last gradient (N,).
    """

    x: Array
    directions: Array
    images: Array
    direction: Array
    target: Array
    """y = x + direction, where weights at rest are exactly at rest."""
    image: Array
    steps: Array
    others: Array
    total_gram: Array
    known: Array
    """The party's scores as the coordinator has them (N,)."""
    dropped: bool = False
    """Whether directions have been forgotten, so that x itself joins the basis."""
    first: Array | None = None
    last: Array | None = None
    factored: tuple[Array, Array] | None = None
    """The curvature of the loss (N,) and the ridge (d,) with which H was last factorised."""
    rounds: int = 0
    pull: Array | None = None
    """D^T g (d,) of the last round, where the penalty has kinks."""
    corrected: Array | None = None
    """What the coordinator's scores lacked at a closing (N,)."""
    asked: int = 0
    """The round of the last gradient."""
    questions: int = 0
    """How many questions have been answered since."""
    closings: int = 0
    again: bool = False
    """Whether the run has been closed since, so that the round may begin anew."""
    drifted: bool = False
    """Whether the coordinator's scores may differ from D x: vectors are rounded on their way, or weights were."""
    rounding: Rounding | None = None
    """How far the interior point method has come in this round, where the penalty has kinks or walls."""
    glimpse: Glimpse = field(default_factory=Glimpse)
    """Where the gradient is hidden: what D^T g has told of all scores."""
    pulled: tuple[Array, ...] = ()
    """D^T p (d,) of every direction p that the coordinator has sent in search of the least weights."""
    answered: tuple[Array, ...] = ()
    """D D^T p (N,) of each, as the coordinator has it."""

    @staticmethod
    def start(rows: int, columns: int, keeps: bool) -> "SubspacePartyState":
        """Before round 1; `keeps` says whether vectors (N,) of its own are kept."""
        none, zero = np.empty((0, rows)), np.zeros(rows if keeps else 0)
        return SubspacePartyState(
            np.zeros(columns),
            np.empty((0, columns)),
            none,
            np.zeros(columns),
            np.zeros(columns),
            zero,
            np.empty((0, columns)),
            none,
            np.empty((0, 0)),
            zero,
        )


class Stack:
    """Puts rows below matrices: in place where the matrix is the one that it gave last and has room, else in a copy."""

    def __init__(self) -> None:
        self._array = np.empty((0, 0))
        self._end = 0
        self._last: Array | None = None

    def put(self, rows: Array, row: Array, most: int) -> Array:
        """The rows (k, n) with one more (n,); of these at most so many of the newest."""
        if rows is not self._last or self._end == len(self._array):
            kept = rows[max(0, len(rows) + 1 - most) :]
            self._array = np.empty((len(kept) + _ROOM, row.size))
            self._end = len(kept)
            self._array[: self._end] = kept
        self._array[self._end] = row
        self._end += 1
        self._last = self._array[max(0, self._end - most) : self._end]
        return self._last


def grown(gram: Array, row: Array) -> Array:
    """A Gram matrix with one more row, whose products with the oldest vectors are not known and taken as 0."""
    n = len(gram) + 1
    grown = np.zeros((n, n))
    grown[:-1, :-1] = gram
    grown[-1, n - row.size :] = row
    grown[n - row.size :, -1] = row
    return grown
