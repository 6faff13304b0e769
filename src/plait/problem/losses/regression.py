"""Losses of labels that are any number: squared, robust, of quantiles."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from plait._checks import need_types
from plait._types import Array
from plait.errors import SettingError
from plait.problem.losses.base import KINK_ROUNDING, Loss, Seen, between_kinks, need_positive, weighted_median
from plait.problem.scalar_roots import cauchy_hessian, cauchy_root, half_log


@dataclass(frozen=True)
class Squared(Loss):
    """(z - y)^2 / 2."""

    symmetric = True
    bends_slowly: ClassVar[bool] = True
    curvature: ClassVar[float] = 1.0

    def value(self, z: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return (z - y) ** 2 / 2

    def gradient(self, z: Array, y: Array) -> Array:
        return z - y

    def hessian(self, z: Array, y: Array) -> Array:
        return np.ones_like(z)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        return Seen(gradient, np.ones(gradient.shape, dtype=bool), np.ones_like(gradient))

    def conjugate(self, v: Array, y: Array) -> Array:
        return v * (v / 2 + y)

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        return v / (1 + step) + y * (step / (1 + step))


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 for |r| <= delta, delta |r| - delta^2 / 2 beyond, r = z - y.

    Parameters
    ----------
    delta : float, default=1.0
        Where the loss turns from a parabola into a line, in units of the label.
    """

    delta: float = 1.0
    symmetric = True
    curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        need_types(self)
        need_positive("Huber(delta=...)", self.delta)

    def value(self, z: Array, y: Array) -> Array:
        r = np.abs(z - y)
        inside = np.minimum(r, self.delta)
        return inside * (r - inside / 2)

    def gradient(self, z: Array, y: Array) -> Array:
        return np.clip(z - y, -self.delta, self.delta)

    def hessian(self, z: Array, y: Array) -> Array:
        return np.where(np.abs(z - y) <= self.delta, 1.0, 0.0)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        inside = np.abs(gradient) < self.delta * (1 - 1e-9)
        return Seen(gradient, inside, np.where(inside, 1.0, 0.0))

    def slope(self) -> float:
        return self.delta

    def conjugate(self, v: Array, y: Array) -> Array:
        return np.where(np.abs(v) > self.delta, np.inf, v * (v / 2 + y))

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        a = v - y
        inside = np.abs(a) <= self.delta * (1 + step)
        return np.where(inside, y + a / (1 + step), v - step * self.delta * np.sign(a))


@dataclass(frozen=True)
class Pinball(Loss):
    """q max(y - z, 0) + (1 - q) max(z - y, 0): the q-th conditional quantile.

    Parameters
    ----------
    quantile : float, default=0.5
        Which quantile of the label is predicted, between 0 and 1.
    """

    quantile: float = 0.5
    smooth = False
    curvature: ClassVar[None] = None

    def __post_init__(self) -> None:
        need_types(self)
        if not 0 < self.quantile < 1:
            raise SettingError(f"Pinball(quantile=...) must lie between 0 and 1. Found {self.quantile}.")

    def value(self, z: Array, y: Array) -> Array:
        r = y - z
        return np.maximum(self.quantile * r, (self.quantile - 1) * r)

    def gradient(self, z: Array, y: Array) -> Array:
        return np.where(z < y, -self.quantile, np.where(z > y, 1 - self.quantile, 0.0))

    def slope(self) -> float:
        return max(self.quantile, 1 - self.quantile)

    def conjugate(self, v: Array, y: Array) -> Array:
        return np.where((v < -self.quantile) | (v > 1 - self.quantile), np.inf, v * y)

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        # Below y the score climbs by step * q, above it falls by step * (1 - q); between, it stops at y.
        return np.clip(y, v - step * (1 - self.quantile), v + step * self.quantile)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        return between_kinks(
            gradient, (gradient > KINK_ROUNDING - self.quantile) & (gradient < 1 - self.quantile - KINK_ROUNDING)
        )

    def stiffness(self, y: Array, weights: Array | None = None, intercept: bool = True) -> float:
        """A kink has no curvature of its own; how far the labels are from the first scores sets their scale."""
        first = weighted_median(y, weights) if intercept else 0.0
        spread = float(np.average(np.abs(y - first), weights=weights))
        return 1.0 / spread if spread > 0 else 1.0


@dataclass(frozen=True)
class Cauchy(Loss):
    """(c^2 / 2) log(1 + (z - y)^2 / c^2): smooth and non-convex, it all but ignores gross outliers.

    Parameters
    ----------
    scale : float, default=1.0
        Residuals much larger than this count little, in units of the label.
    """

    scale: float = 1.0
    convex = False
    symmetric = True
    curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        need_types(self)
        need_positive("Cauchy(scale=...)", self.scale)

    def value(self, z: Array, y: Array) -> Array:
        return self.scale**2 * half_log((z - y) / self.scale)

    def gradient(self, z: Array, y: Array) -> Array:
        r = z - y
        with np.errstate(over="ignore"):
            return r / (1 + (r / self.scale) ** 2)

    def hessian(self, z: Array, y: Array) -> Array:
        return cauchy_hessian((z - y) / self.scale)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        """The weight gradient / r of the majorising parabola, taking every row for an inlier (|r| <= c)."""
        q = np.minimum(2 * np.abs(gradient) / self.scale, 1.0)
        return Seen(gradient, np.zeros(q.shape, dtype=bool), (1 + np.sqrt(1 - q * q)) / 2)

    def slope(self) -> float:
        return self.scale / 2

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        step = np.broadcast_to(np.asarray(step, dtype=np.float64), np.shape(v))
        return y + self.scale * cauchy_root((v - y) / self.scale, step)
