"""A party's penalty along the span of its directions: what it tells the coordinator, and never a weight.

    x + B^T c,   B (k+1, d): past directions as they were sent, then the newest, d = y - x

A smooth penalty is a parabola in c.  One with kinks or walls is described near y: by its slopes and curvature among
the weights that do not rest there, and by the steps that would disturb those that do.
"""

from dataclasses import dataclass

import numpy as np

from plait._types import Array
from plait.methods.certified.kinked_step import Separable, at_rest
from plait.methods.certified.messages import Answer
from plait.problem.penalties import L1, Ball, Box, GroupLasso, Penalty

_RANK = 1e-9  # of the largest singular value: smaller ones are rounding
_WIDTH = 0.03  # of a weight's largest move: the least width of its kink, once it has come to rest
_CLEAN = 3e-9  # of the sum of its parts: a resting weight's move below this is rounding, and is not made


@dataclass(frozen=True)
class Basis:
    """x (d,), y (d,), and the directions (k+1, d), the newest last: y - x."""

    x: Array
    y: Array
    rows: Array

    def point(self, penalty: Penalty, c: Array) -> Array:
        """x + B^T c, where weights that rest at y and are not meant to move stay exactly at rest."""
        y = self.y
        past, old = c[:-1], self.rows[:-1]
        moved = past @ old
        if penalty.smooth:
            return self.x + moved + c[-1] * self.rows[-1]
        moved = np.where(at_rest(penalty, y) & (np.abs(moved) <= _CLEAN * (np.abs(past) @ np.abs(old))), 0.0, moved)
        return (y if c[-1] == 1 else self.x + c[-1] * self.rows[-1]) + moved


def described(penalty: Penalty, basis: Basis, pull: Array, sizes: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Slopes at x and y, curvature, the resting projector, what disturbing costs, and the metric (d,) of steps.

    pull is D^T g: it says to which side of its kink a weight at rest leans.  sizes (k,) are those of the past images.
    """
    x, rows = basis.x, basis.rows
    if penalty.smooth:
        h = penalty.majoriser(x, np.zeros_like(x)).curvature
        return (rows @ (h * x))[None], (rows * h) @ rows.T, np.empty((0, 0)), np.empty((0, 0)), h
    h = np.full(x.shape, penalty.ridge)
    y = basis.y
    curvature = (rows * h) @ rows.T + _bend(penalty, rows, y, pull)
    slopes = np.stack([rows @ subgradient(penalty, x, pull), rows @ subgradient(penalty, y, pull, x)])
    if isinstance(penalty.feasible, Ball):
        slopes[1] += _pressure(penalty, y, pull) * (rows @ y)
    return slopes, curvature, _resting(penalty, rows, y, sizes), _disturbed(penalty, basis, pull), h


def subgradient(penalty: Penalty, at: Array, pull: Array, before: Array | None = None) -> Array:
    """A slope of the penalty (d,): at kinks the one that best resists `pull`, or that of the side one comes from."""
    smooth = penalty.ridge * at
    shape = penalty.shape
    if isinstance(shape, L1):
        sides = np.clip(-pull / max(shape.alpha, 1e-300), -1.0, 1.0)
        if before is not None:
            sides = np.where(before != 0, np.sign(before), sides)
        return smooth + shape.alpha * np.where(at != 0, np.sign(at), sides)
    if isinstance(shape, GroupLasso):
        member, norm, weight = shape._norms(at)
        unit = at / np.where(norm > 0, norm, 1.0)[member]
        _, lean, _ = shape._norms(pull)
        free = -pull / np.maximum(lean, shape.alpha * weight)[member]
        alive = norm[member] > 0
        return smooth + shape.alpha * weight[member] * np.where(alive, unit, np.where(lean[member] > 0, free, 0.0))
    return smooth


def _bend(penalty: Penalty, rows: Array, y: Array, pull: Array) -> Array:
    """The curvature of group norms and of a ball's surface at y along the rows, (k+1, k+1)."""
    total = np.zeros((len(rows), len(rows)))
    if isinstance(penalty.feasible, Ball):
        total += _pressure(penalty, y, pull) * (rows @ rows.T)
    shape = penalty.shape
    if isinstance(shape, GroupLasso):
        member, norm, weight = shape._norms(y)
        alive = norm > 0
        pulls = np.where(alive, shape.alpha * weight / np.where(alive, norm, 1.0), 0.0)
        total += (rows * pulls[member]) @ rows.T
        unit = y / np.where(alive, norm, 1.0)[member]
        radial = np.zeros((len(rows), norm.size))
        np.add.at(radial.T, member, (rows * unit).T)
        total -= (radial * pulls) @ radial.T
    return total


def _pressure(penalty: Penalty, y: Array, pull: Array) -> float:
    """The multiplier of a ball that y touches: how hard the objective pushes outward."""
    ball = penalty.feasible
    assert isinstance(ball, Ball)
    if float(np.linalg.norm(y)) < ball.radius * (1 - 1e-9):
        return 0.0
    outward = -float((pull + subgradient(penalty, y, pull)) @ y) / ball.radius**2
    return max(outward, 0.0)


def _resting(penalty: Penalty, rows: Array, y: Array, sizes: Array) -> Array:
    """The projector onto those combinations of past directions that would move a weight at rest.

    Directions count in units of their images' sizes.
    """
    projector = np.zeros((len(rows), len(rows)))
    rest = rows[:-1, at_rest(penalty, y)]
    rest = rest[:, (rest != 0).any(axis=0)]
    if not rest.size:
        return projector
    u, values, _ = np.linalg.svd(rest / sizes[:, None], full_matrices=False)
    u = u[:, values > _RANK * float(values[0])]
    projector[:-1, :-1] = u @ u.T
    return projector


def _disturbed(penalty: Penalty, basis: Basis, pull: Array) -> Array:
    """A parabola in place of the kinks at rest:  sum_i s_i (B_i c)^2 / q_i,  s_i a kink's slope, q_i its width.

    A kink is as wide as its weight at x is far from it, or as a small part of its largest move.
    """
    rest = at_rest(penalty, basis.y)
    old = basis.rows[:-1, rest]
    cost = np.zeros((len(basis.rows), len(basis.rows)))
    largest = np.abs(old).max(axis=0, initial=0.0)
    width = np.maximum(np.abs(basis.x - basis.y)[rest], _WIDTH * largest)
    slope = np.abs(pull + penalty.ridge * basis.y)[rest]
    if penalty.shape is not None:
        slope = np.maximum(slope, getattr(penalty.shape, "alpha", 0.0))
    cost[:-1, :-1] = (old * np.where(width > 0, slope / np.where(width > 0, width, 1.0), 0.0)) @ old.T
    return cost


def answer(penalty: Penalty, basis: Basis, c: Array, pull: Array) -> Answer:
    """What the penalty is after the step c, or after as much of it as stays within bounds."""
    point, wall = basis.point(penalty, c), np.zeros(len(basis.rows) + 1)
    kept = penalty.feasible
    fraction, scale = 1.0, 1.0
    inside = point if kept is None else kept.project(point)
    if isinstance(kept, Box) or (isinstance(kept, Ball) and kept.non_negative):
        box = kept if isinstance(kept, Box) else Box(0.0, np.inf)
        nearest = box.project(point)
        out = point != nearest
        if out.any():
            normal = (point - nearest) / np.linalg.norm(point - nearest)
            wall = np.append(float(normal @ (nearest - basis.x)), basis.rows @ normal)
            move = point - basis.x
            fraction = float(np.min((nearest - basis.x)[out] / move[out]))
            fraction = min(max(fraction, 0.0), 1.0)
            inside = box.project(basis.x + fraction * move)
    if isinstance(kept, Ball):
        inside = inside if kept.non_negative else point
        scale = min(1.0, kept.radius / max(float(np.linalg.norm(inside)), 1e-300))
        inside = kept.project(scale * inside)
    slopes = basis.rows @ subgradient(penalty, inside, pull)
    return Answer(fraction, scale, penalty.value(inside), slopes, wall)


__all__ = ["Basis", "Separable", "answer", "described", "subgradient"]
