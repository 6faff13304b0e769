"""Fenchel conjugates of penalties: each party's part of a lower bound on the best objective.

    penalty*(v) = sup over x of  v^T x - penalty(x)

With a ridge the supremum is reached at one proximal step.  Without one the penalty is a norm or nothing, and the
supremum is zero or infinite unless the weights are bounded: by a constraint, or by a radius that is only supposed.
"""

import numpy as np

from plait._types import Array
from plait.problem.penalties import L1, Ball, Box, GroupLasso, Penalty

_WITHIN = 1 - 8 * np.finfo(np.float64).eps  # so that rounding does not lead out of where a conjugate is finite


def conjugate(penalty: Penalty, v: Array, radius: Array | None = None) -> float:
    """penalty*(v) for a convex penalty, v (d,); infinite where nothing bounds it.

    radius (d,): the conjugate as if no weight exceeded it, |x_j| <= radius_j; then it is always finite.
    """
    if penalty.ridge > 0:
        x = _without_ridge_prox(penalty, v / penalty.ridge, 1 / penalty.ridge)
        if radius is None or (np.abs(x) <= radius).all():
            return float(v @ x) - penalty.value(x)
    if isinstance(penalty.feasible, Ball):
        return penalty.feasible.radius * float(np.linalg.norm(_beyond(penalty, v)))
    if isinstance(penalty.shape, GroupLasso):
        return _of_groups(penalty, v, radius)
    return _of_each(penalty, v, radius)


def reach(penalty: Penalty, v: Array) -> float:
    """The largest t in [0, 1] for which penalty*(t v) is finite."""
    if penalty.ridge > 0 or isinstance(penalty.feasible, Ball):
        return 1.0
    low, high = _bounds(penalty)
    open_ = np.where(v > 0, np.isposinf(high), np.isneginf(low))
    slope = np.where(open_, np.abs(v), 0.0)
    if isinstance(penalty.shape, GroupLasso):
        _, norm, weight = penalty.shape._norms(slope)
        limit = penalty.shape.alpha * weight
    else:
        norm, limit = slope, np.full(v.shape, _l1(penalty))
    over = norm > limit
    return float(np.min(_WITHIN * limit[over] / norm[over], initial=1.0))


def _without_ridge_prox(penalty: Penalty, v: Array, step: float) -> Array:
    """The proximal map of all but the ridge."""
    x = np.maximum(v, 0.0) if penalty._positive_groups else v
    if penalty.shape is not None:
        x = penalty.shape.shape_prox(x, step)
    return x if penalty.feasible is None else penalty.feasible.project(x)


def _beyond(penalty: Penalty, v: Array) -> Array:
    """What is left of v after the shape's own conjugate ball, in the directions in which weights may grow."""
    if isinstance(penalty.feasible, Ball) and penalty.feasible.non_negative:
        v = np.maximum(v, 0.0)
    return v if penalty.shape is None else penalty.shape.shape_prox(v, 1.0)


def _of_groups(penalty: Penalty, v: Array, radius: Array | None) -> float:
    """A group lasso, alone or with x >= 0:  sum over groups of  radius (||v_g|| - weight)_+."""
    if penalty.feasible is not None:
        v = np.maximum(v, 0.0)
    left = _beyond(penalty, v)
    if radius is None:
        return np.inf if reach(penalty, v) < 1 else 0.0
    return float(np.abs(left) @ radius)


def _of_each(penalty: Penalty, v: Array, radius: Array | None) -> float:
    """A sum over single weights:  sup over low <= x <= high of  v x - alpha |x| - ridge x^2 / 2."""
    low, high = _bounds(penalty)
    if radius is not None:
        low, high = np.maximum(low, -radius), np.minimum(high, radius)
    slack = np.sign(v) * np.maximum(np.abs(v) - _l1(penalty), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        best = np.where(slack == 0, 0.0, slack / penalty.ridge if penalty.ridge > 0 else np.sign(slack) * np.inf)
    x = np.clip(best, low, high)
    with np.errstate(invalid="ignore"):
        gain = np.where(x == 0, 0.0, v * x - _l1(penalty) * np.abs(x) - penalty.ridge / 2 * x * x)
    return float(np.sum(np.where(np.isinf(x), np.inf, gain)))


def _l1(penalty: Penalty) -> float:
    return penalty.shape.alpha if isinstance(penalty.shape, L1) else 0.0


def _bounds(penalty: Penalty) -> tuple[Array, Array]:
    box = penalty.feasible if isinstance(penalty.feasible, Box) else Box()
    return np.asarray(box.lower), np.asarray(box.upper)
