"""Fenchel conjugates of losses and penalties: the parts of a lower bound on the best objective.

    penalty*(v) = sup over x of  v^T x - penalty(x)

A convex penalty is  ridge/2 ||x||^2 + h(x)  within bounds and perhaps a ball, h a sum of norms.  With a ridge the
supremum is reached at one proximal step.  Without one, let `left` be what the proximal map of h and of the signs leaves
of v: then

    v^T x - h(x) <= left^T x,   with equality in the direction of x = left,

so that the supremum is radius ||left|| in a ball, and zero or infinite where nothing bounds the weights.
"""

import numpy as np

from plait._types import Array
from plait.errors import SettingError
from plait.problem.losses import Loss
from plait.problem.penalties import Groups, Penalty
from plait.problem.row_blocks import by_parts

_WITHIN = 1 - 1e-13  # so that rounding, of some thousand additions, does not lead out of where a conjugate is finite
_HALVINGS = 60  # of an interval of length 1: more than a number has digits


def loss_conjugate(loss: Loss, g: Array, labels: Array, weights: Array, scale: float = 1.0) -> float:
    """sum_i w_i loss*(scale g_i / w_i), all arrays (N,): the conjugate of  sum_i w_i loss(z_i; y_i)  at scale * g.

    A row without weight has no slope: the conjugate is infinite where its g_i is not zero.
    """

    def part(rows: slice) -> float:
        return _conjugate_of_rows(loss.of_rows(rows), scale * g[rows], labels[rows], weights[rows])

    return sum(by_parts(part, g.size))


def _conjugate_of_rows(loss: Loss, g: Array, labels: Array, weights: Array) -> float:
    counts = weights > 0
    if counts.all():
        return float(weights @ loss.conjugate(g / weights, labels))
    if (g[~counts] != 0).any():
        return np.inf
    return _conjugate_of_rows(loss, g[counts], labels[counts], weights[counts])


def conjugate(penalty: Penalty, v: Array, radius: Array | None = None) -> float:
    """penalty*(v) for a convex penalty, v (d,); infinite where nothing bounds it.

    radius (d,): the conjugate as if no weight exceeded it, |x_j| <= radius_j; then it is always finite.  It is exact
    where the penalty is a sum over single weights, else at least as large as the supremum, and at most penalty*(v).
    """
    if not penalty.convex:
        raise SettingError(f"a lower bound needs a convex penalty. Found {penalty!r}.")
    if np.isfinite(penalty.norm_bound):
        return _in_ball(penalty, v, radius)
    if penalty.grouped is None:
        return _of_each(penalty, v, radius)
    return _of_groups(penalty, penalty.grouped, v, radius)


def reach(penalty: Penalty, v: Array) -> float:
    """The largest t in [0, 1] for which penalty*(t v) is finite."""
    if penalty.ridge > 0 or np.isfinite(penalty.norm_bound):
        return 1.0
    slope = np.abs(v)
    if penalty.feasible is not None:
        low, high = penalty.bounds(v.size)
        slope = np.where(np.where(v > 0, np.isposinf(high), np.isneginf(low)), slope, 0.0)
    if penalty.grouped is None:
        steepest = float(slope.max(initial=0.0))
        return _WITHIN * penalty.l1 / steepest if steepest > penalty.l1 else 1.0
    return _group_reach(penalty.grouped, penalty.l1, slope)


def _group_reach(groups: Groups, l1: float, slope: Array) -> float:
    """The largest t in [0, 1] with  ||(t slope_g - l1)_+|| <= weight_g  for every group g."""

    def over(t: float) -> bool:
        return bool((groups.norms(np.maximum(t * slope - l1, 0.0)) > groups.weight).any())

    if not over(1.0):
        return 1.0
    if l1 == 0:
        norms = groups.norms(slope)
        alive = norms > 0
        return float(_WITHIN * np.min(groups.weight[alive] / norms[alive], initial=1.0))
    inside, outside = min(1.0, l1 / float(slope.max())), 1.0
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if over(middle) else (middle, outside)
    return _WITHIN * inside


def _left(penalty: Penalty, v: Array) -> Array:
    """What is left of v after the proximal map, with step 1, of the norms and of the signs that are fixed."""
    cone = None if penalty.feasible is None else penalty.feasible.cone
    if penalty.shape is not None:
        return penalty.shape.prox_within(v, 1.0, cone)
    return v if cone is None else cone.project(v)


def _maximiser(penalty: Penalty, v: Array) -> Array:
    """argmax over x of  v^T x - penalty(x),  of a penalty with a ridge."""
    x, step = v / penalty.ridge, 1 / penalty.ridge
    if penalty.shape is not None:
        return penalty.shape.prox_within(x, step, penalty.feasible)
    return x if penalty.feasible is None else penalty.feasible.project(x)


def _in_ball(penalty: Penalty, v: Array, radius: Array | None) -> float:
    if penalty.ridge > 0:
        x = _maximiser(penalty, v)
        whole = float(v @ x) - penalty.value(x)
    else:
        whole = penalty.norm_bound * float(np.linalg.norm(_left(penalty, v)))
    return whole if radius is None else min(whole, float(np.abs(_left(penalty, v)) @ radius))


def _of_groups(penalty: Penalty, groups: Groups, v: Array, radius: Array | None) -> float:
    """Norms of groups, without bounds other than signs: a sum over groups."""
    if penalty.ridge > 0:
        x = _maximiser(penalty, v)
        each = v * x - penalty.ridge / 2 * x * x - penalty.l1 * np.abs(x)
        whole = np.bincount(groups.member, weights=each, minlength=groups.weight.size) - groups.weight * groups.norms(x)
    elif radius is None:
        return 0.0 if reach(penalty, v) == 1 else np.inf
    else:
        whole = np.full(groups.weight.size, np.inf)
    if radius is None:
        return float(whole.sum())
    bounded = np.bincount(groups.member, weights=np.abs(_left(penalty, v)) * radius, minlength=groups.weight.size)
    return float(np.minimum(whole, bounded).sum())


def _of_each(penalty: Penalty, v: Array, radius: Array | None) -> float:
    """A sum over single weights:  sup over low <= x <= high of  v x - l1 |x| - ridge x^2 / 2."""
    ridge, l1 = penalty.ridge, penalty.l1
    if penalty.feasible is None:
        over = np.maximum(np.abs(v) - l1, 0.0) if l1 else np.abs(v)
        if ridge == 0:
            return (np.inf if over.any() else 0.0) if radius is None else float(over @ radius)
        free = float(over @ over) / (2 * ridge)
        if radius is not None and not (within := over <= ridge * radius).all():  # some weights would be larger
            x = np.divide(over, ridge, out=radius.copy(), where=within)
            return min(float(x @ (over - ridge / 2 * x)), free)
        if np.isfinite(free):
            return free
    low, high = penalty.bounds(v.size)
    if radius is not None:
        # Of a box that lies beyond the radius the nearest end is left.
        low, high = np.minimum(np.maximum(low, -radius), high), np.maximum(np.minimum(high, radius), low)
    slack = np.sign(v) * np.maximum(np.abs(v) - l1, 0.0)
    free = float(slack @ slack) / (2 * ridge) if ridge > 0 and penalty.feasible is None else np.inf
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        best = np.where(slack == 0, 0.0, slack / ridge if ridge > 0 else np.sign(slack) * np.inf)
        x = np.clip(best, low, high)
        gain = np.where(x == 0, 0.0, x * (v - ridge / 2 * x) - l1 * np.abs(x))
    return min(float(np.sum(np.where(np.isinf(x), np.inf, gain))), free)
