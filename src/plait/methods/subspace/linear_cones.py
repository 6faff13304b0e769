"""Kinks of single weights and walls as linear cones of a primal-dual interior point method: pairs of numbers above 0.

Each pair is a distance p and a multiplier l, whose product is brought to a target t.  For a weight u with penalty a |u|

    p = tau - v,  q = tau + v,   tau > |v| beside |u|          l_p = a + s,  l_q = a - s,   s its slope, |s| < a

and for a wall  p is the distance to it.  Newton's method on  p l = t  makes the slope after a step linear in u:

    s(u) = h + H u,    H diagonal.

With norms of single weights the scaling of Nesterov and Todd (cones.py) gives the same step.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plait._types import Array

_TINY = 1e-300  # below it a number has no reciprocal
_SIDES = np.array([[-1.0], [1.0]])


@dataclass(frozen=True)
class Bend:
    """The slope h + H u of rounded kinks and walls:  h (d,), and the diagonal of H (d,)."""

    h: Array
    weight: Array


@dataclass(frozen=True)
class KinkCones:
    """Norms of single weights: points (4, d) with rows p, q, l_p, l_q; unit (d,) of the target; the target."""

    points: Array
    unit: Array
    target: float

    @staticmethod
    def at(a: float | Array, unit: Array, s: Array, mu: Array, target: float) -> "KinkCones":
        """On the central path where the slopes are s (d,), inside:  p l_p = q l_q = mu (d,)."""
        points = np.empty((4, s.size))
        points[2], points[3] = a + s, a - s
        np.divide(mu, points[2:], out=points[:2])
        return KinkCones(points, unit, target)

    @cached_property
    def gaps(self) -> Array:
        """a tau - s v (d,): what the penalty's slopes leave open."""
        p = self.points
        return np.asarray((p[0] * p[2] + p[1] * p[3]) / 2)

    @cached_property
    def _terms(self) -> tuple[Array, Array, Array, Array]:
        """t / l and p / l (2, d), H (d,), and where the slope stays as it is (d,)."""
        p = self.points
        aims, ratios = self.target * self.unit / p[2:], p[:2] / p[2:]
        return aims, ratios, 2 / (ratios[0] + ratios[1]), (aims[1] - aims[0]) / 2

    @cached_property
    def bend(self) -> Bend:
        _, _, weight, centre = self._terms
        return Bend((self.points[2] - self.points[3]) / 2 - weight * centre, weight)

    def change(self, u: Array) -> Array:
        """By how much Newton's method moves the points (4, d), given u (d,)."""
        aims, ratios, weight, centre = self._terms
        turn = _SIDES * (weight * (u - centre))
        change = np.empty_like(self.points)
        np.subtract(aims + ratios * turn, self.points[:2], out=change[:2])
        np.negative(turn, out=change[2:])
        return change

    def stepped(self, change: Array, part: Array) -> "KinkCones":
        """After a part (d,) of the change: each weight goes as far as it can."""
        return KinkCones(self.points + part * change, self.unit, self.target)

    def aimed(self, target: float) -> "KinkCones":
        found = KinkCones(self.points, self.unit, target)
        if "gaps" in self.__dict__:
            found.__dict__["gaps"] = self.gaps  # they do not depend on the target
        return found

    def room(self, change: Array) -> Array:
        """How much of the change keeps the points above 0, (d,)."""
        return until_zero(self.points, change)


@dataclass(frozen=True)
class Walls:
    """side (u_j - place) >= 0, j = on (n,): points (2, n), distances and multipliers; unit (n,); the target."""

    width: int
    on: npt.NDArray[np.intp]
    place: Array
    side: float
    points: Array
    unit: Array
    target: float

    @cached_property
    def gaps(self) -> Array:
        return np.asarray(self.points[0] * self.points[1])

    @cached_property
    def bend(self) -> Bend:
        h, weight = np.zeros(self.width), np.zeros(self.width)
        far, a = self.points
        weight[self.on] = a / far
        h[self.on] = -self.side * (a + self.target * self.unit / far) - weight[self.on] * self.place
        return Bend(h, weight)

    def change(self, u: Array) -> Array:
        """By how much Newton's method moves the points (2, n), given u (d,)."""
        far, a = self.points
        there = self.side * (u[self.on] - self.place)
        return np.array([there - far, (self.target * self.unit - a * there) / far])

    def stepped(self, change: Array, part: Array) -> "Walls":
        return Walls(self.width, self.on, self.place, self.side, self.points + part * change, self.unit, self.target)

    def aimed(self, target: float) -> "Walls":
        return Walls(self.width, self.on, self.place, self.side, self.points, self.unit, target)

    def room(self, change: Array) -> Array:
        """How much of the change keeps the points above 0, (n,)."""
        return until_zero(self.points, change)


def until_zero(points: Array, change: Array) -> Array:
    """The largest t (d,) for which  points + t change >= 0  in each column; points (k, d) are above 0."""
    return np.asarray(1 / np.maximum(-np.minimum.reduce(change / points), _TINY))
