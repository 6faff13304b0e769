"""A proof of how good a model is: a lower bound on the pooled objective from any slopes g of the loss.

    F* >= -sum_i w_i loss*(g_i) - sum_m R_m*(-D_m^T (w g)),      sum_i w_i g_i = 0 with an intercept

The conjugates R_m* are taken over |x_j| <= reach_j.  Where a penalty or a constraint keeps every better model within
that reach the bound holds without condition.  Elsewhere reach is ten times the model's own weights, and since F is
convex a model that is k times farther away is better by at most k times the gap.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.sweep.problems import Array, Problem, Terms

_CLOSE = 1e-9  # a tenth of what a reference must be certified to, so that proofs without a condition are preferred
_REACH = 10.0  # times the largest weight, each in its column's unit


@dataclass(frozen=True)
class Bound:
    """A lower bound on F*, and whether it needs no condition on the size of the weights."""

    value: float
    proved: bool


def lower_bound(problem: Problem, x: Array, b: float, slopes: Array) -> Bound:
    """The best bound of these slopes (N,), of those made orthogonal to all free columns, and of no slope at all."""
    candidates = (slopes, _orthogonal(problem, slopes), np.zeros_like(slopes))
    return max((_bound(problem, x, b, g) for g in candidates), key=lambda bound: bound.value)


def _orthogonal(problem: Problem, slopes: Array) -> Array:
    """The nearest slopes whose weighted sum over every column without penalty and constraint is 0."""
    free = [p for t, p in zip(problem.terms, problem.parts, strict=True) if t.kind == "none"]
    free += [np.ones((slopes.size, 1))] if problem.intercept else []
    if not free:
        return slopes
    root = np.sqrt(problem.weights)
    columns = root[:, None] * np.hstack(free)
    length = np.linalg.norm(columns, axis=0)
    basis, values, _ = np.linalg.svd(columns / np.where(length > 0, length, 1.0), full_matrices=False)
    basis = basis[:, values > 1e-13 * values.max(initial=0.0)]
    g = root * slopes
    for _ in range(2):  # once more for what rounding left
        g = g - basis @ (basis.T @ g)
    return np.divide(g, root, out=np.zeros_like(g), where=root > 0)


def _bound(problem: Problem, x: Array, b: float, slopes: Array) -> Bound:
    """The bound without a condition if it is nearly as high as the other."""
    w, y, loss = problem.weights, problem.y, problem.loss
    g = loss.inside(slopes, y)
    if problem.intercept:
        g = balanced(g, w)
    total = -float(w @ loss.conjugate(g, y))
    pull = -(problem.table.T @ (w * g))
    unit = np.sqrt(w @ problem.table**2)
    unit = np.where(unit > 0, unit, 1.0)
    near = _REACH * max(float(np.abs(x * unit).max(initial=0.0)), 1.0) / unit
    value = problem.objective(x, b)
    spare = value - float(w @ loss.floor(y))
    sure = [np.full(k.stop - k.start, _level_set(terms, spare)) for terms, k in _blocks(problem)]
    all_of_them = total - sum(conjugate(t, pull[k], far) for (t, k), far in zip(_blocks(problem), sure, strict=True))
    if value - all_of_them <= _CLOSE * abs(value):
        return Bound(all_of_them, proved=True)
    reached = [np.minimum(far, near[k]) for (_, k), far in zip(_blocks(problem), sure, strict=True)]
    those_near = total - sum(conjugate(t, pull[k], r) for (t, k), r in zip(_blocks(problem), reached, strict=True))
    return Bound(those_near, proved=False)


def _blocks(problem: Problem) -> list[tuple[Terms, slice]]:
    return list(zip(problem.terms, problem.blocks, strict=True))


def balanced(g: Array, w: Array) -> Array:
    """Shrink the positive or the negative part until the weighted sum is 0: it stays where the conjugate is finite."""
    up, down = float(w @ np.maximum(g, 0.0)), float(w @ np.maximum(-g, 0.0))
    least = min(up, down)
    return np.where(g > 0, g * (least / up if up > 0 else 0.0), g * (least / down if down > 0 else 0.0))


def conjugate(terms: Terms, pull: Array, reach: Array) -> float:
    """max of  pull^T x - R(x)  over the constraints and |x_j| <= reach_j (or a set that contains all these)."""
    low, high = np.maximum(terms.lower, -reach), np.minimum(terms.upper, reach)
    if np.isinf(terms.radius) and terms.group == 0:
        return _separable(terms, pull, low, high)
    if np.isinf(terms.lower):
        kept = np.sign(pull) * np.maximum(np.abs(pull) - terms.l1, 0.0)
    else:
        kept = np.maximum(pull - terms.l1, 0.0)  # with balls and groups a lower bound is always 0
    if terms.group > 0:
        for g in terms.members:
            norm = float(np.linalg.norm(kept[g]))
            kept[g] *= max(1 - terms.group * np.sqrt(g.size) / norm, 0.0) if norm > 0 else 0.0
    radius = min(terms.radius, float(np.linalg.norm(reach)))
    norm = float(np.linalg.norm(kept))
    if norm == 0:
        return 0.0
    length = min(radius, norm / terms.ridge) if terms.ridge > 0 else radius
    return norm * length - terms.ridge / 2 * length**2


def _separable(terms: Terms, pull: Array, low: Array, high: Array) -> float:
    """The maximum over each interval of a concave function with a kink at 0: at an end, at 0 or at a zero slope."""
    kept = np.sign(pull) * np.maximum(np.abs(pull) - terms.l1, 0.0)
    free = kept / terms.ridge if terms.ridge > 0 else np.where(kept == 0, 0.0, np.copysign(np.inf, kept))
    x = np.clip(free, low, high)
    if np.isinf(x).any():
        return np.inf
    return float(np.sum(pull * x - terms.l1 * np.abs(x) - terms.ridge / 2 * x**2))


def _level_set(terms: Terms, spare: float) -> float:
    """No model as good as this one has a larger weight."""
    limits = [terms.radius, max(abs(terms.lower), abs(terms.upper))]
    limits += [spare / terms.l1] if terms.l1 > 0 else []
    limits += [spare / terms.group] if terms.group > 0 else []
    limits += [np.sqrt(2 * max(spare, 0.0) / terms.ridge)] if terms.ridge > 0 else []
    return float(min(limits))
