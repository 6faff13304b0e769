"""The least of equally good models: where several weights give the same scores, those of the smallest norm.

Parties without a penalty may share their part S of the scores out in many ways.  The least one is

    x_m = D_m^T a,   one a (N,) for all of them,   with   sum_m D_m D_m^T a = S   (up to the intercept).

The coordinator looks for a in the span of S, (D D^T) S, (D D^T)^2 S, ...: a Krylov space, as of conjugate gradients.
Each step is one round: it sends a direction p (N,), and each of these parties answers D_m D_m^T p.  In exact arithmetic
there are at most as many steps as the columns have dimensions.
"""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from plait._types import Array
from plait.methods.base import Task
from plait.problem.losses import Hinge, Logistic, Loss, SquaredHinge

_CLEAR = 1e-8  # of unit vectors' Gram matrix: what a set of vectors spans by less may be rounding
_SAME = 1e-12  # a sine, squared: two directions at a smaller angle are the same
_REACHED = 1e-13  # of the scores: what the least weights lack of them is then rounding
_CLOSE = 1e-10  # of the scores: a model whose scores differ by more is not one of the equals
_NOTHING = 1e-14  # of the images: a direction that they leave is then rounding, and there are no more of them
MOST_ROWS = 1 << 16  # rows: 200 directions and their images take 100 MB each at the coordinator
STEADY = (Logistic, Hinge, SquaredHinge)  # the losses whose gradient has the sign of -y, or is zero


def asks_any_vector(loss: Loss) -> bool:
    """Whether the gradients of the loss may be any vectors, so that a party answers other vectors as well."""
    return loss.smooth and loss.convex and loss.slope() is None and not isinstance(loss, STEADY)


@dataclass(frozen=True)
class LeastNorm:
    """A search for a: directions sent (k, N), their images (k, N) per group, the coefficients found (k,).

    groups   which groups have no penalty
    scores   the sum of their parts of the scores (N,)
    left     the size of what the least weights found so far lack of it
    """

    groups: tuple[int, ...]
    scores: Array
    directions: Array
    images: tuple[Array, ...]
    coefficients: Array
    left: float
    done: bool = False

    @staticmethod
    def of(task: Task, groups: tuple[int, ...], shares: tuple[Array, ...]) -> "LeastNorm":
        """For these groups' parts of the scores, (N,) each, with the first direction."""
        none = np.empty((0, task.rows))
        scores = _counted(task, reduce(np.add, shares))
        size = float(np.linalg.norm(scores))
        return LeastNorm(groups, scores, scores[None] / size, (none,) * len(groups), np.empty(0), size)

    def heard(self, task: Task, images: tuple[Array, ...]) -> "LeastNorm":
        """The search after the answers D D^T p (N,) of every group to the last direction p."""
        p, kept = self.directions, tuple(np.vstack([old, new]) for old, new in zip(self.images, images, strict=True))
        totals = _counted(task, reduce(np.add, kept))
        found: Array = np.linalg.lstsq(totals.T, self.scores, rcond=None)[0].astype(np.float64, copy=False)
        left = float(np.linalg.norm(self.scores - found @ totals))
        search = replace(self, images=kept, coefficients=found, left=left)
        direction = totals[-1]
        for _ in range(2):  # once more for what rounding left
            direction = direction - (p @ direction) @ p
        size = float(np.linalg.norm(direction))
        if (
            left <= _REACHED * float(np.linalg.norm(self.scores))
            or size <= _NOTHING * np.abs(totals).max() * p.shape[1]
        ):
            return replace(search, done=True)
        return replace(search, directions=np.vstack([p, direction / size]))

    @property
    def reached(self) -> bool:
        """Whether the search has found a model with the same scores."""
        return self.done and self.left <= _CLOSE * float(np.linalg.norm(self.scores))

    def parts(self) -> tuple[Array, ...]:
        """Each group's part of the scores (N,) with the least weights."""
        return tuple(self.coefficients @ images for images in self.images)


def _counted(task: Task, scores: Array) -> Array:
    """What of scores (..., N) matters: rows with weight only, and up to a constant where there is an intercept."""
    on = task.weights > 0
    if task.fit_intercept:
        scores = scores - scores[..., on].mean(axis=-1, keepdims=True)
    return np.where(on, scores, 0.0)


def ambiguous(task: Task, columns: float, images: tuple[Array, ...]) -> bool:
    """Whether several weights may give the same scores, as far as the images (k, N) received from each group show.

    There are more columns than rows, or what one group has sent is partly what the others could have sent.
    """
    constant = int(task.fit_intercept)
    if columns > np.count_nonzero(task.weights) - constant:
        return True
    found = np.empty((0, task.rows))
    for each in images:
        found, common = _joined(found, _basis(_counted(task, each)))
        if common:
            return True
    return False


def _basis(vectors: Array) -> Array:
    """Orthonormal vectors (r, N) for what vectors (k, N) clearly span."""
    size = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors[size[:, 0] > 0] / size[size > 0][:, None]
    values, mixed = np.linalg.eigh(units @ units.T)
    clear = values > _CLEAR
    return np.asarray((mixed[:, clear] / np.sqrt(values[clear])).T @ units)


def _joined(space: Array, other: Array) -> tuple[Array, bool]:
    """An orthonormal basis of two spaces, from those of each; and whether they have a direction in common."""
    overlap = other @ space.T
    values, mixed = np.linalg.eigh(np.eye(len(other)) - overlap @ overlap.T)  # sines of the angles, squared
    if values.min(initial=1.0) <= _SAME:
        return space, True
    return np.vstack([space, (mixed / np.sqrt(values)).T @ (other - overlap @ space)]), False
