"""The span of a party's directions, as both sides know it: the party its weights, the coordinator their images."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.methods.subspace.idle_moves import IdleMoves

_LEAST_REACH = 1e-12  # of the largest weight, in units of its column: smaller moves are rounding
_IDLE_REACH = 0.1  # of the same, where weights may move idly: steps then lead much further than the newest direction
_FAINTEST = 1e-20  # of the largest move so far: a party that stays at 0 has neither, and needs a unit


@dataclass(frozen=True)
class Basis:
    """x (d,), y (d,), and the directions (k+1, d), the newest last: y - x."""

    x: Array
    y: Array
    rows: Array
    sizes: Array
    """The norms of the columns (d,), 1 for those that are zero."""
    narrows: bool = False
    """Whether weights that no step moves are left out."""
    idle: IdleMoves | None = None
    """Moves of the weights that are not left out."""

    def point(self, c: Array) -> Array:
        """x + B^T c, and y itself where the step leads there."""
        return self.y if self.leads_to_y(c) else np.asarray(self.x + c @ self.rows)

    def leads_to_y(self, c: Array) -> bool:
        """Whether a step is the newest direction alone."""
        return bool(c[-1] == 1 and not c[:-1].any())

    @cached_property
    def reach(self) -> Array:
        """How far each weight must move (d,) to change the scores as much as the newest direction's largest part."""
        least = _LEAST_REACH if self.idle is None else _IDLE_REACH
        parts = ((1.0, self.rows[-1]), (least, self.y), (_FAINTEST, self.rows))
        return max([1e-100, *(f * float((np.abs(v) * self.sizes).max(initial=0.0)) for f, v in parts)]) / self.sizes

    @cached_property
    def moving(self) -> npt.NDArray[np.bool_]:
        """Which weights (d,) any step moves."""
        return np.asarray(self.rows.any(axis=0))

    @cached_property
    def acting(self) -> "Basis":
        """The same without the weights that no step moves, where these are left out."""
        on = self.moving
        if not self.narrows or on.all():
            return self
        return Basis(self.x[on], self.y[on], self.rows[:, on], self.sizes[on], idle=self.idle)

    def whole(self, u: Array) -> Array:
        """All weights (d,), for those of `acting`."""
        if self.acting is self:
            return u
        x = self.x.copy()
        x[self.moving] = u
        return x

    def with_idle_moves(self, columns: Array, known: Array, images: Array) -> "Basis":
        """For a table (N, d), its scores at x (N,) and what the directions add to them (k+1, N)."""
        if self.acting is not self:
            on = self.moving
            columns, known = columns[:, on], known - columns[:, ~on] @ self.x[~on]
        return replace(self, idle=IdleMoves.of(columns, known, images))
