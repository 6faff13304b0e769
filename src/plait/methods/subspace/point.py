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
            low, top = _range(h, task.weights)
            least = _least(task, low, top)
            h = h if least is None else np.maximum(h, least)
            return Point(z, float(task.weights @ value), task.weights * slope, task.weights * h)
        gradient, curvature = task.workspace.empty(z.size), task.workspace.empty(z.size)

        def look(rows: slice) -> tuple[float, float, float]:
            w = task.weights[rows]
            value, slope, h = task.loss.of_rows(rows).derivatives(z[rows], task.labels[rows])
            np.multiply(w, slope, out=gradient[rows])
            curvature[rows] = h
            return float(w @ value), *_range(h, w)

        values, lows, tops = zip(*by_parts(look, z.size), strict=True)
        least = _least(task, min(lows), max(tops))

        def weigh(rows: slice) -> None:
            h = curvature[rows] if least is None else np.maximum(curvature[rows], least)
            np.multiply(task.weights[rows], h, out=curvature[rows])

        by_parts(weigh, z.size)
        return Point(z, sum(values), gradient, curvature)


def _range(h: Array, w: Array) -> tuple[float, float]:
    """The least and the largest curvature of the rows that count; a row of weight 0 may lie anywhere."""
    if not w.all():
        h = h[w > 0]
    return float(h.min(initial=np.inf)), float(h.max(initial=-np.inf))


def _least(task: Task, lowest: float, top: float) -> float | None:
    """Where the loss is flat or bends down, a little curvature, so that a slope is followed; None where it is not."""
    if lowest > 0:
        return None
    return _LEAST * top if top > 0 else task.loss.stiffness(task.labels, task.weights, task.fit_intercept)


def moved_scores(task: Task, z: Array, moved: Array, length: float = 1.0) -> Array:
    """z + length * moved, (N,)."""
    if len(vector_slices(z.size)) == 1 and not task.workspace.on_disk:
        return z + moved if length == 1 else z + length * moved
    return task.vector(lambda rows: z[rows] + length * moved[rows])


def equal_ones(rows: int) -> Array:
    """A vector (N,) of ones that takes no memory."""
    return np.broadcast_to(np.float64(1.0), (rows,))
