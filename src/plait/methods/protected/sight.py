"""What a party knows of the loss where the gradient is encrypted: it receives D^T g (d,) and never g.

The gradient also showed the curvature of the loss at every row, and how the others moved.  The curvature is guessed:

    w_i E loss''(z_i),   z_i ~ N(mean + slope (own score - its mean), what this line leaves),   scaled to the true sum

from a few numbers that the coordinator sends with every gradient.
"""

from dataclasses import astuple, dataclass, fields
from typing import ClassVar

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast
from plait.methods.base import Block, Task
from plait.methods.subspace.messages import StepProposal

_CURVATURE_FLOOR = 4e-3  # of the mean curvature: a row that seems certain may not be
_LEAST_UNIT = 1e-12  # of a score: smaller images are rounding
_ROUNDING = 1e-4  # of a column's largest slope: what encoding and rounding may add


@dataclass(frozen=True)
class Outlook:
    """Some of what the gradient would have shown.

    mean, variance  of the scores of all rows
    slope           of the line of all scores over the group's own; 1 where the coordinator sees sums only
    curvature       the weighted sum of the loss's curvature over all rows
    unit            the size of the group's last image, a power of two: sums are rounded to a fraction of it
    """

    mean: float
    variance: float
    slope: float
    curvature: float
    unit: float = 1.0

    @staticmethod
    def of(task: Task, z: Array, own: Array | None, image: Array | None) -> "Outlook":
        """At the scores z (N,); own (N,) is a single party's part of them."""
        slope, away = 1.0, z - z.mean()
        if own is not None:
            spread = float(own.var())
            slope = float(np.mean((own - own.mean()) * away)) / spread if spread > 0 else 0.0
        curvature = float(task.weights @ task.loss.hessian(z, task.labels))
        largest = 1.0 if image is None else float(np.abs(image).max())
        unit = 2.0 ** float(np.ceil(np.log2(min(max(largest, _LEAST_UNIT), 1.0))))
        return Outlook(float(z.mean()), float(np.mean(away * away)), slope, max(curvature, 0.0), unit)

    def pack(self) -> Array:
        return np.array(astuple(self))


class HiddenGradient:
    """The vector is D^T g (d,)."""

    shows_moves: ClassVar[bool] = False
    outlook: ClassVar[int] = len(fields(Outlook))

    def __init__(self, block: Block, centred: bool = True) -> None:
        """Scores under random signs are not `centred`: their mean is 0 whatever they are."""
        self.block = block
        self._centred = centred
        self._sizes = np.sqrt(block.features.weighted_column_squares(block.weights))

    def check(self, vector: Array, first: Array | None, step: float | None) -> None:
        """|D_j^T g| is at most the loss's steepest slope times the weighted norm of the column."""
        steepest = self.block.loss.slope()
        if steepest is not None and (np.abs(vector) > (1 + _ROUNDING) * steepest * self._sizes).any():
            raise ProtocolError(
                f"a gradient of {type(self.block.loss).__name__} is at most {steepest:g} per record, times its weight. "
                "Found a larger one. The coordinator does not minimise the job's loss. Nothing was answered."
            )

    def read(self, broadcast: Broadcast, orders: StepProposal) -> Array:
        assert broadcast.vector is not None
        return broadcast.vector

    def pull(self, vector: Array) -> Array:
        return vector

    def curvature(self, x: Array, orders: StepProposal, vector: Array, first: Array) -> Array:
        told = Outlook(*(float(s) for s in orders.outlook))
        own = self.block.features.forward(x)
        mean, centre = (float(own.mean()), told.mean) if self._centred else (0.0, 0.0)
        left = max(told.variance - told.slope**2 * float(np.mean(np.square(own - mean))), 0.0)
        guess = self.block.loss.expected_curvature(centre + told.slope * (own - mean), left)
        w = self.block.weights * np.maximum(guess, max(_CURVATURE_FLOOR * float(guess.mean()), 1e-300))
        total = told.curvature if told.curvature > 0 else orders.stiffness  # flat everywhere: keep the step finite
        return np.asarray(w * (total / float(w.sum())))

    def others_move(self, orders: StepProposal, first: Array, last: Array, now: Array, own: Array) -> Array:
        return np.zeros_like(own)  # unknown
