"""What the coordinator tells beside a hidden gradient: a few numbers, all of them functions of the scores."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.methods.base import Task

MOVES, _MOVES_BYTES = 40, 2**26  # of all scores' last moves, how many count, and in how many bytes they are kept
_HALF = 0.5  # the mantissa of a power of two, as frexp gives it
_LEAST_UNIT = 1e-12  # of a score: smaller images are rounding
LARGEST, _LARGEST_SQUARE = 1e50, 1e100  # of numbers of a score's size, and of its square: as of a proposal's settings


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

    def check(self) -> None:
        """ProtocolError unless an honest coordinator could state these numbers.

        In a sum a unit that is too large would erase a party's share: sent to all but one, it would show that one's.
        """
        sound = {
            "a variance and a curvature that are not negative": min(self.variance, self.curvature) >= 0,
            f"numbers of at most {LARGEST:g}": max(abs(self.mean), abs(self.slope)) <= LARGEST,
            f"squares of at most {_LARGEST_SQUARE:g}": max(self.variance, self.curvature) <= _LARGEST_SQUARE
            and float(np.abs(self.products).max(initial=0.0)) <= _LARGEST_SQUARE,
            "a unit that is a power of two, of at most 1": _LEAST_UNIT <= self.unit <= 1
            and float(np.frexp(self.unit)[0]) == _HALF,
        }
        wrong = [what for what, holds in sound.items() if not holds]
        if wrong:
            raise ProtocolError(f"an outlook must have {wrong[0]}. Found others. Nothing was answered.")


def moved(task: Task, moves: Array, before: Array, after: Array) -> Array:
    """The last moves (k, N) of all scores, with the one from `before` to `after`; without what the intercept did."""
    kept = moves_kept(before.size)
    if not kept:
        return moves
    move = after - before
    if task.fit_intercept:
        move = move - float(task.weights @ move)
    return np.vstack([moves, move] if len(moves) else [move])[-kept:]
