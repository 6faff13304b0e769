"""Kinks of single weights along a party's span, by a primal-dual Newton method that takes every step whole.

A kink  a |u|  is rounded off to  a sqrt(u^2 + delta^2).  Beside each weight v the method keeps a slope s of its own,
|s| <= a, and solves  s n = a v,  n = sqrt(v^2 + delta^2),  by Newton's method in both.  That makes the slope at the
next u linear in u,

    s(u) = a v / n + H (u - v),    H = (a - s v / n) / n,

which is the parabola that the coordinator gets.  At v it has the slope of the rounded kink itself, so that it never
promises a fall where there is none.  Where s lags behind v, as after a step across zero, H is that of a chord; where
they agree, H is Newton's.  Then v goes to u, and s to s(u), back within a.  (Chan, Golub and Mulet, 1999.)
"""

from dataclasses import dataclass

import numpy as np

from plait._types import Array
from plait.methods.subspace.linear_cones import Bend

_FIRST = 0.1  # of a weight's reach: delta at first
_LESS = 0.05  # of what the last step left open: delta after it, if all slopes stayed within a
_LEAST = 1e-3  # of a weight's reach: no round needs sharper kinks, as the next one has a shorter reach
_LEAST_PART = 1e-6  # of the slopes that a step wants: what can be granted counts as this much
_WITHIN = 1 - 1e-14  # of a: the steepest slope, so that rounding never makes H negative


@dataclass(frozen=True)
class Kinks(Bend):
    """Weights v (d,), their slopes s (d,), the unit of delta (d,); delta in these units; their parabola h, H (d,)."""

    a: float
    v: Array
    s: Array
    unit: Array
    rounded: Array | float

    @staticmethod
    def at(a: float, v: Array, s: Array, unit: Array, rounded: Array | float) -> "Kinks":
        delta = rounded * unit
        n = np.sqrt(v * v + delta * delta)
        part = v / n
        weight = (a - s * part) / n
        return Kinks(a * part - weight * v, weight, a, v, s, unit, rounded)

    @staticmethod
    def started(a: float, v: Array, unit: Array) -> "Kinks":
        """With the slopes of the rounded kinks at v (d,)."""
        delta = _FIRST * unit
        return Kinks.at(a, v, a * v / np.sqrt(v * v + delta * delta), unit, _FIRST)

    def answered(self, u: Array) -> tuple["Kinks", float]:
        """After a step to u (d,), with sharper kinks; and by how much the penalty's slopes leave it open.

        Where a slope had to be brought back, its kink stays as round as that was far.
        """
        a, s = self.a, self.h + self.weight * u
        part = a * _WITHIN / np.maximum(np.abs(s), a)
        s *= part
        gaps = a * np.abs(u) - s * u
        back = 1 - part
        far = float(np.add.reduce(back)) / u.size
        left = float(gaps @ (1 / self.unit)) / (a * u.size)
        sharp = np.minimum(self.rounded, max(_LESS, far * far) * left)
        rounded = np.maximum(np.maximum(sharp, self.rounded * back * back), _LEAST)
        return Kinks.at(a, u, s, self.unit, rounded), float(np.add.reduce(gaps)) / max(1 - far, _LEAST_PART)
