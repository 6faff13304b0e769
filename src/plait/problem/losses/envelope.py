"""A loss with its kinks rounded off."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from plait._types import Array
from plait.problem.losses.base import Loss


@dataclass(frozen=True)
class Envelope(Loss):
    """A loss rounded off:  min over s of  loss(s; y) + (rho/2)(z + shift - s)^2,  shift (N,) one per row."""

    base: Loss
    rho: float
    shift: Array
    curvature: ClassVar[None] = None
    rounds_kinks: ClassVar[bool] = True

    def of_rows(self, rows: slice) -> "Envelope":
        return replace(self, base=self.base.of_rows(rows), shift=self.shift[rows])

    def copy(self, z: Array, y: Array) -> Array:
        """The minimising s."""
        return self.base.prox(z + self.shift, np.full(z.shape, 1 / self.rho), y)

    def value(self, z: Array, y: Array) -> Array:
        s = self.copy(z, y)
        return self.base.value(s, y) + self.rho / 2 * (z + self.shift - s) ** 2

    def gradient(self, z: Array, y: Array) -> Array:
        return self.rho * (z + self.shift - self.copy(z, y))

    def hessian(self, z: Array, y: Array) -> Array:
        g = self.gradient(z, y)
        return self.rho * self.base.seen(g, g, 0.0).curvature

    def stiffness(self, y: Array, weights: Array | None = None, intercept: bool = True) -> float:
        return self.rho

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        """v + step / (step + 1/rho) (s - v),  s the prox of the base loss with step + 1/rho, less the shift."""
        total = step + 1 / self.rho
        there = self.base.prox(v + self.shift, total, y) - self.shift
        return v + (step / total) * (there - v)
