"""What the coordinator tells beside a hidden gradient: a few numbers, all of them functions of the scores."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plait._types import Array
from plait.methods.base import Task

MOVES, _MOVES_BYTES = 40, 2**26  # of all scores' last moves, how many count, and in how many bytes they are kept
_LEAST_UNIT = 1e-12  # of a score: smaller images are rounding


def moves_kept(rows: int) -> int:
    """How many of the last moves of all scores either side keeps."""
    return int(min(MOVES, _MOVES_BYTES // (8 * rows)))


@dataclass(frozen=True)
class Outlook:
    """Some of what the gradient would have shown.

    mean, variance  of the scores of all rows
    slope           of the line of all scores over the group's own; 1 where the coordinator sees sums only
    curvature       the weighted sum of the loss's curvature over all rows
    unit            the size of the group's last image, a power of two: sums are rounded to a fraction of it
    products        (MOVES,) of the last move of all scores with the moves up to it, the newest last; 0 for none
    """

    mean: float
    variance: float
    slope: float
    curvature: float
    unit: float
    products: Array
    size: ClassVar[int] = 5 + MOVES

    @staticmethod
    def of(task: Task, z: Array, own: Array | None, image: Array | None, moves: Array) -> "Outlook":
        """At the scores z (N,), after these moves (k, N); own (N,) is a single party's part of the scores."""
        slope, away = 1.0, z - z.mean()
        if own is not None:
            spread = float(own.var())
            slope = float(np.mean((own - own.mean()) * away)) / spread if spread > 0 else 0.0
        curvature = float(task.weights @ task.loss.hessian(z, task.labels))
        largest = 1.0 if image is None else float(np.abs(image).max())
        unit = 2.0 ** float(np.ceil(np.log2(min(max(largest, _LEAST_UNIT), 1.0))))
        products = np.zeros(MOVES)
        if len(moves):
            products[-len(moves) :] = moves @ (task.weights * moves[-1])
        return Outlook(float(z.mean()), float(np.mean(away * away)), slope, max(curvature, 0.0), unit, products)

    def pack(self) -> Array:
        return np.concatenate([[self.mean, self.variance, self.slope, self.curvature, self.unit], self.products])

    @staticmethod
    def unpack(numbers: Array) -> "Outlook":
        mean, variance, slope, curvature, unit = (float(s) for s in numbers[:5])
        return Outlook(mean, variance, slope, curvature, unit, numbers[5:])


def moved(task: Task, moves: Array, before: Array, after: Array) -> Array:
    """The last moves (k, N) of all scores, with the one from `before` to `after`; without what the intercept did."""
    kept = moves_kept(before.size)
    if not kept:
        return moves
    move = after - before
    if task.fit_intercept:
        move = move - float(task.weights @ move)
    return np.vstack([moves, move] if len(moves) else [move])[-kept:]
