"""Losses of labels -1 and +1."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, ndtr, xlogy

from plait._types import Array
from plait.errors import InputError
from plait.problem.losses.base import KINK_ROUNDING, Loss, Seen, between_kinks
from plait.problem.scalar_roots import logistic_root


class _Classification(Loss):
    classifies = True
    symmetric = True

    def labels(self, y: Array) -> Array:
        """Accept -1/+1 and 0/1; return -1/+1."""
        found = np.unique(y)
        if found.size == 1:
            raise InputError(
                f"labels must take at least two values. Found only {found[0]:g}. There is nothing to learn."
            )
        if np.isin(found, (-1.0, 1.0)).all():
            return y
        if np.isin(found, (0.0, 1.0)).all():
            return 2 * y - 1
        shown = ", ".join(f"{v:g}" for v in found[:5]) + (", ..." if found.size > 5 else "")
        raise InputError(
            f"{type(self).__name__} needs labels -1/+1 or 0/1. Found {shown}. "
            "Encode the classes first, or use a Vertical* classifier, which takes any classes."
        )


@dataclass(frozen=True)
class Logistic(_Classification):
    """log(1 + exp(-y z)), y in {-1, +1}."""

    gives_odds: ClassVar[bool] = True
    bends_slowly: ClassVar[bool] = True
    curvature: ClassVar[float] = 0.25

    def value(self, z: Array, y: Array) -> Array:
        m = -y * z
        return np.maximum(m, 0.0) + np.log1p(np.exp(-np.abs(m)))

    def gradient(self, z: Array, y: Array) -> Array:
        m = y * z
        t = np.exp(-np.abs(m))
        return -y * np.where(m > 0, t, 1.0) / (1 + t)

    def hessian(self, z: Array, y: Array) -> Array:
        t = np.exp(-np.abs(z))
        return t / np.square(1 + t)

    def derivatives(self, z: Array, y: Array) -> tuple[Array, Array, Array]:
        m = y * z
        t = np.abs(m)
        np.exp(np.negative(t, out=t), out=t)
        s = np.reciprocal(1 + t)
        ts = t * s
        gradient = np.where(m > 0, ts, s)
        gradient *= -y
        value = np.log1p(t, out=t)
        value -= np.minimum(m, 0.0, out=m)
        return value, gradient, np.multiply(ts, s, out=s)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        """The gradient -y / (1 + exp(y z)) shows the label, by its sign, and the score."""
        a = np.minimum(np.maximum(np.abs(gradient), 1e-300), 1 - 1e-16)
        score = -np.sign(gradient) * np.log((1 - a) / a)
        return Seen(score, np.ones(a.shape, dtype=bool), a * (1 - a))

    def expected_curvature(self, mean: Array, variance: float) -> Array:
        """The label does not matter; the logistic curve over a normal score is one that is stretched (MacKay 1992)."""
        flatter = 1 / np.sqrt(1 + np.pi * variance / 8)
        return flatter * self.hessian(flatter * mean, mean)

    def expected_response(self, mean: Array, variance: float) -> Array:
        return expit(mean / np.sqrt(1 + np.pi * variance / 8))

    def slope(self) -> float:
        return 1.0

    def conjugate(self, v: Array, y: Array) -> Array:
        """s log s + (1 - s) log(1 - s),  s = -v y in [0, 1]."""
        s = -v * y
        rest = 1 - s
        if s.size and s.min() > 0 and rest.min() > 0:  # the usual case; xlogy takes three times as long
            return s * np.log(s) + rest * np.log(rest)
        return np.where((s < 0) | (s > 1), np.inf, xlogy(s, s) + xlogy(rest, rest))

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        return y * logistic_root(y * v, np.asarray(step, dtype=np.float64))


@dataclass(frozen=True)
class SquaredHinge(_Classification):
    """max(0, 1 - y z)^2, y in {-1, +1}; scikit-learn's squared_hinge."""

    curvature: ClassVar[float] = 2.0

    def value(self, z: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.maximum(0.0, 1 - y * z) ** 2

    def gradient(self, z: Array, y: Array) -> Array:
        return -2 * y * np.maximum(0.0, 1 - y * z)

    def hessian(self, z: Array, y: Array) -> Array:
        return np.where(y * z < 1, 2.0, 0.0)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        inside = gradient != 0
        return Seen(gradient / 2, inside, np.where(inside, 2.0, 0.0))

    def expected_curvature(self, mean: Array, variance: float) -> Array:
        """Where labels are as sure as the scores say, (1 + z) / 2 within -1 and 1: only scores there are bent."""
        spread = np.sqrt(max(variance, 1e-300))
        return self.curvature * np.asarray(ndtr((1 - mean) / spread) - ndtr((-1 - mean) / spread))

    def conjugate(self, v: Array, y: Array) -> Array:
        a = v * y
        return np.where(a > 0, np.inf, a + a * a / 4)

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        return np.where(y * v < 1, v / (1 + 2 * step) + y * (step / (0.5 + step)), v)


@dataclass(frozen=True)
class Hinge(_Classification):
    """max(0, 1 - y z), y in {-1, +1}: the support vector machine."""

    smooth = False
    curvature: ClassVar[None] = None

    def value(self, z: Array, y: Array) -> Array:
        return np.maximum(0.0, 1 - y * z)

    def gradient(self, z: Array, y: Array) -> Array:
        return np.where(y * z < 1, -y, 0.0)

    def slope(self) -> float:
        return 1.0

    def conjugate(self, v: Array, y: Array) -> Array:
        a = v * y
        return np.where((a > 0) | (a < -1), np.inf, a)

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        t = y * v
        return np.where(t < 1, y * np.minimum(t + step, 1.0), v)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        return between_kinks(gradient, (np.abs(gradient) > KINK_ROUNDING) & (np.abs(gradient) < 1 - KINK_ROUNDING))
