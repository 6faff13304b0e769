"""The loss where the coordinator is: at scores z (N,)."""

from dataclasses import dataclass

import numpy as np

from plait._types import Array
from plait.methods.base import Task
from plait.problem.row_blocks import by_parts

_LEAST = 1e-4  # of the largest curvature: what a row on which the loss is flat counts at least


@dataclass(frozen=True)
class Point:
    """Scores z (N,), the mean loss there, its gradient (N,) and its curvature (N,)."""

    z: Array
    value: float
    gradient: Array
    curvature: Array

    @staticmethod
    def at(task: Task, z: Array) -> "Point":
        gradient, curvature = task.workspace.empty(z.size), task.workspace.empty(z.size)

        def look(rows: slice) -> tuple[float, float, float]:
            w = task.weights[rows]
            value, slope, h = task.loss.of_rows(rows).derivatives(z[rows], task.labels[rows])
            np.multiply(w, slope, out=gradient[rows])
            curvature[rows] = h
            return float(w @ value), float(h.min()), float(h.max())

        values, lows, tops = zip(*by_parts(look, z.size), strict=True)
        # Where the loss is flat or bends down, a little curvature, so that a slope is followed.
        least = -np.inf
        if min(lows) <= 0:
            unit = task.loss.stiffness(task.labels, task.weights, task.fit_intercept)
            least = _LEAST * max(tops) if max(tops) > 0 else unit

        def weigh(rows: slice) -> None:
            np.multiply(task.weights[rows], np.maximum(curvature[rows], least), out=curvature[rows])

        by_parts(weigh, z.size)
        return Point(z, sum(values), gradient, curvature)


def moved_scores(task: Task, z: Array, moved: Array, length: float = 1.0) -> Array:
    """z + length * moved, (N,)."""
    return task.vector(lambda rows: z[rows] + length * moved[rows])


def equal_ones(rows: int) -> Array:
    """A vector (N,) of ones that takes no memory."""
    return np.broadcast_to(np.float64(1.0), (rows,))
