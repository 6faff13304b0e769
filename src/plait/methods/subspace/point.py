"""The loss where the coordinator is: at scores z (N,)."""

from dataclasses import dataclass

import numpy as np

from plait._types import Array
from plait.methods.base import Task
from plait.problem.row_blocks import by_parts, vector_slices

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
        if len(vector_slices(z.size)) == 1 and not task.workspace.on_disk:
            value, slope, h = task.loss.derivatives(z, task.labels)
            least = _least(task, float(h.min()), h)
            h = h if least is None else np.maximum(h, least)
            return Point(z, float(task.weights @ value), task.weights * slope, task.weights * h)
        gradient, curvature = task.workspace.empty(z.size), task.workspace.empty(z.size)

        def look(rows: slice) -> tuple[float, float, float]:
            w = task.weights[rows]
            value, slope, h = task.loss.of_rows(rows).derivatives(z[rows], task.labels[rows])
            np.multiply(w, slope, out=gradient[rows])
            curvature[rows] = h
            return float(w @ value), float(h.min()), float(h.max())

        values, lows, tops = zip(*by_parts(look, z.size), strict=True)
        least = _least(task, min(lows), np.array(tops))

        def weigh(rows: slice) -> None:
            h = curvature[rows] if least is None else np.maximum(curvature[rows], least)
            np.multiply(task.weights[rows], h, out=curvature[rows])

        by_parts(weigh, z.size)
        return Point(z, sum(values), gradient, curvature)


def _least(task: Task, lowest: float, tops: Array) -> float | None:
    """Where the loss is flat or bends down, a little curvature, so that a slope is followed; None where it is not."""
    if lowest > 0:
        return None
    top = float(tops.max())
    return _LEAST * top if top > 0 else task.loss.stiffness(task.labels, task.weights, task.fit_intercept)


def moved_scores(task: Task, z: Array, moved: Array, length: float = 1.0) -> Array:
    """z + length * moved, (N,)."""
    if len(vector_slices(z.size)) == 1 and not task.workspace.on_disk:
        return z + moved if length == 1 else z + length * moved
    return task.vector(lambda rows: z[rows] + length * moved[rows])


def equal_ones(rows: int) -> Array:
    """A vector (N,) of ones that takes no memory."""
    return np.broadcast_to(np.float64(1.0), (rows,))
