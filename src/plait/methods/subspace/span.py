"""The coordinator's exact minimisation over vectors it has received, at no communication.

    c <- argmin over c of   sum_i w_i loss((z + P^T c)_i; y_i) + r^T c + c^T K c / 2

r and K model the penalties along the vectors.  Where a new model of the penalties asks for a
small step only, the loss's parabola is believed and no row is looked at.
"""

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.methods.admm.z_update import increasing_root
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.newton import Minimum, SpanObjective, newton
from plait.methods.subspace.point import Point, equal_ones
from plait.methods.subspace.valley import Valley
from plait.problem.losses.base import weighted_median

PRECISE = 1e-13  # of the objective: a promised fall that rounding hides
_ENOUGH = 1e-3  # of all that was gained: a Newton step that promises no more is the last one


def lowest(task: Task, valley: Valley, r: Array, k: Array, precision: float = PRECISE) -> tuple[Valley, Minimum]:
    """The minimum with penalties modelled by r (K,) and k (K, K), and the valley with its end there."""
    end, found = newton(SpanObjective.of(task, valley, r, k), valley, precision, _ENOUGH)
    return end, replace(found, coefficients=valley.spread(found.coefficients))


def lower(
    task: Task, valley: Valley, r: Array, k: Array, enough: float, small: float | None
) -> tuple[Valley, Array, float]:
    """The same less exactly: the valley, the coefficients (K,) and the objective there, loss by its parabola.

    enough: of all that was gained, what a Newton step must promise so that another follows.  Where the loss bends by
    no more than `small` on the way, its parabola is believed; it never is where that is None, and then the minimum is
    exact.
    """
    model, gained = SpanObjective.of(task, valley, r, k), 0.0
    step, bent = model.bent(valley)
    if small is None or bent > small:
        before = valley.point.value + model.penalty(valley.at)
        precise = (_ENOUGH, 0.0) if small is None else (enough, small)
        valley, _ = newton(model, valley, PRECISE, *precise)
        gained = before - valley.point.value - model.penalty(valley.at)
        valley = model.sloped(valley)
        step, bent = model.bent(valley)
    believed = small is not None and bent <= max(small, enough * gained)
    c = valley.at + step if believed else valley.at
    value = valley.loss(c) + model.penalty(c) - float(c @ (valley.ridge @ c)) / 2
    return valley, valley.spread(c), value


def minimise_over_span(
    task: Task, start: Point, vectors: Images, r: Array, k: Array, noise: Array | None = None
) -> Minimum:
    """Over all c.  vectors: (K, N), those received; r (K,) and k (K, K) model the penalty along them."""
    return lowest(task, Valley.of(task, start, vectors, k, noise), r, k)[1]


def best_shift(task: Task, z: Array) -> float:
    """The number b that minimises the mean loss at z + b, found between two ends where its slope changes sign."""
    if not task.loss.convex:
        starts = [0.0, weighted_median(task.labels - z, task.weights)]
        ones, none = Images((equal_ones(z.size),), z.size, task.workspace), np.zeros(1)
        ends = [
            (start, minimise_over_span(task, Point.at(task, z + start), ones, none, np.zeros((1, 1))))
            for start in starts
        ]
        start, best = min(ends, key=lambda end: end[1].value)
        return start + float(best.coefficients[0])

    def slope(b: float) -> float:
        return float(np.sum(task.gradient(task.vector(lambda rows: z[rows] + b))))

    return increasing_root(slope, 0.0, width=1.0)
