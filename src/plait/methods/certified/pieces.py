"""A model of the penalties over coefficients c (K,), and the Newton step on it.

    c^T K c / 2 + sum over groups g of  max over j of (a_gj + s_gj^T c),      walls c <= bounds

The step's quadratic programme is solved through its dual: one weight per piece, those of a group summing to 1, and one
weight per wall.  There are few of them, so that an active set method finds them exactly.
"""

from dataclasses import dataclass

import numpy as np

from plait._types import Array

_CHANGES = 400  # changes of the active set; a few per piece are usual
_NEGATIVE = 1e-10  # of the largest slope: a dual slope that is only negative by rounding
_PROXIMAL = 1e-12  # of the trace: makes the dual's matrix definite where pieces repeat one another


@dataclass(frozen=True)
class Pieces:
    """K (K, K); constants (n,), slopes (n, K) and the group (n,) of every piece; walls (m, K) and bounds (m,)."""

    curvature: Array
    constants: Array
    slopes: Array
    group: Array
    walls: Array
    bounds: Array

    @staticmethod
    def single(r: Array, k: Array) -> "Pieces":
        """One group with one piece."""
        return Pieces(k, np.zeros(1), r[None], np.zeros(1), np.empty((0, r.size)), np.empty(0))

    @property
    def linear(self) -> Array | None:
        """The pieces' common slope (K,) where every group has one piece and there are no walls; else None."""
        if self.bounds.size or np.unique(self.group).size < self.group.size:
            return None
        return np.asarray(self.slopes.sum(axis=0))

    def only(self, kept: Array) -> "Pieces":
        """The same over some of the coefficients, the others being zero."""
        k = self.curvature[np.ix_(kept, kept)]
        return Pieces(k, self.constants, self.slopes[:, kept], self.group, self.walls[:, kept], self.bounds)

    def value(self, c: Array) -> float:
        return float(c @ (self.curvature @ c)) / 2 + self.highest(self.constants + self.slopes @ c)

    def highest(self, values: Array) -> float:
        """The sum over groups of the highest piece."""
        return sum(float(values[self.group == g].max()) for g in np.unique(self.group))


def cut_step(
    pieces: Pieces, c: Array, gradient: Array, hessian: Array, scale: Array, flat: float
) -> tuple[Array, float]:
    """The step (K,) to the model's minimum within the walls, and by how much the model falls.

    gradient and hessian are those of all but the pieces at c; the Hessian in coordinates multiplied by `scale`.
    """
    values, vectors = np.linalg.eigh(hessian)
    # Where there is no curvature the pieces alone must bound the step; a little makes it unique.
    root = vectors / np.sqrt(np.maximum(values, flat * max(float(values[-1]), 1e-300)))
    g = root.T @ (gradient / scale)
    now = pieces.constants + pieces.slopes @ c
    room = pieces.bounds - pieces.walls @ c
    v = root.T @ (np.vstack([pieces.slopes, pieces.walls]) / scale).T
    linear = np.concatenate([-now, np.maximum(room, 0.0)])
    weights = _active_set(v, g, linear, np.concatenate([pieces.group, np.full(room.size, -1.0)]))
    along = -(v @ weights + g)
    step = (root @ along) / scale
    reached = pieces.highest(now + pieces.slopes @ step) + float(gradient @ step) + float(along @ along) / 2
    return step, pieces.highest(now) - reached


def _active_set(v: Array, g: Array, linear: Array, group: Array) -> Array:
    """argmin over w >= 0, each group's summing to 1 (group -1 is free), of  |V w + g|^2 / 2 + linear^T w."""
    n = linear.size
    q = v.T @ v
    q[np.diag_indices(n)] += _PROXIMAL * max(float(np.trace(q)), 1e-300) / n
    base = v.T @ g + linear
    w = np.zeros(n)
    groups = np.unique(group[group >= 0])
    for name in groups:
        members = np.flatnonzero(group == name)
        w[members[np.argmin(linear[members])]] = 1.0
    free = w > 0
    members = (group[:, None] == groups[None, :]).astype(float)
    for _ in range(_CHANGES):
        slope = q @ w + base
        on = np.flatnonzero(free)
        e = members[on]
        kkt = np.block([[q[np.ix_(on, on)], e], [e.T, np.zeros((groups.size, groups.size))]])
        solved = np.linalg.lstsq(kkt, -np.concatenate([slope[on], np.zeros(groups.size)]), rcond=None)[0]
        move = solved[: on.size]
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(move < 0, -w[on] / move, np.inf)
        length = min(1.0, float(room.min(initial=np.inf)))
        w[on] = np.maximum(w[on] + length * move, 0.0)
        if length < 1:
            free[on[int(np.argmin(room))]] = False
            continue
        slope = q @ w + base
        level = np.array([slope[free & (group == name)].mean() for name in groups])
        reduced = slope - members @ level
        reduced[free] = 0.0
        worst = int(np.argmin(reduced))
        if reduced[worst] >= -_NEGATIVE * float(np.abs(slope).max()):
            break
        free[worst] = True
    return w
