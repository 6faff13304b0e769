"""The loss of counts."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import xlogy

from plait._types import Array
from plait.errors import InputError
from plait.problem.losses.base import Loss, Seen
from plait.problem.scalar_roots import poisson_root


@dataclass(frozen=True)
class Poisson(Loss):
    """exp(z) - y z, y >= 0: counts with a log link."""

    bends_slowly: ClassVar[bool] = True
    curvature: ClassVar[None] = None

    def value(self, z: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(z) - y * z

    def gradient(self, z: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(z) - y

    def hessian(self, z: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.exp(z)

    def predicted(self, z: Array) -> Array:
        """exp(z), the expected count."""
        with np.errstate(over="ignore"):
            return np.exp(z)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        """The first gradient exp(start) - y shows the label, and with it every later one shows exp(z)."""
        mean = np.maximum(np.exp(start) - first + gradient, 1e-12)
        return Seen(np.log(mean), np.ones(mean.shape, dtype=bool), mean)

    def conjugate(self, v: Array, y: Array) -> Array:
        """m log m - m,  m = v + y >= 0."""
        m = v + y
        return np.where(m < 0, np.inf, xlogy(m, m) - m)

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        return poisson_root(v, np.asarray(step, dtype=np.float64), y)

    def expected_curvature(self, mean: Array, variance: float) -> Array:
        """The mean of a log-normal number; the label does not matter."""
        return self.hessian(mean + variance / 2, mean)

    def expected_response(self, mean: Array, variance: float) -> Array:
        return self.hessian(mean + variance / 2, mean)

    def stiffness(self, y: Array, weights: Array | None = None, intercept: bool = True) -> float:
        """exp(z) averages to the mean count at any optimum with an intercept."""
        return max(float(np.average(y, weights=weights)), 1e-3)

    def labels(self, y: Array) -> Array:
        if (y < 0).any():
            raise InputError(
                f"Poisson needs labels >= 0. Found {y.min():g}: "
                "Some value(s) of y are out of the valid range of the loss. Check the label column."
            )
        return y
