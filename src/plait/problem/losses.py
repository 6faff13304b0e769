"""Losses: what one row costs, as a function of its score z and its label y.

Every method is elementwise over arrays of one shape.  Sample weights are applied by the caller, so that a loss
is a function of one score and one label and nothing else.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from plait._checks import need_types
from plait._types import Array
from plait.errors import InputError, SettingError
from plait.problem.scalar_roots import cauchy_hessian, cauchy_root, half_log, logistic_root, poisson_root

_ROUNDING = 1e-7
"""How far from its ends the slope of a rounded kink must be to count as between them."""


@dataclass(frozen=True)
class Seen:
    """What can be read off a gradient: scores up to a constant per row, for which rows, and the curvature."""

    score: Array
    known: npt.NDArray[np.bool_]
    curvature: Array


class Loss(ABC):
    """A loss of one score; `curvature` bounds its second derivative, None where there is no bound."""

    convex: ClassVar[bool] = True
    smooth: ClassVar[bool] = True
    classifies: ClassVar[bool] = False
    curvature: ClassVar[float | None]

    @abstractmethod
    def value(self, z: Array, y: Array) -> Array:
        """loss(z; y)."""

    @abstractmethod
    def gradient(self, z: Array, y: Array) -> Array:
        """d loss / dz; at a kink, one subgradient."""

    @abstractmethod
    def prox(self, v: Array, step: Array, y: Array) -> Array:
        """argmin over z of  loss(z; y) + (z - v)^2 / (2 step);  step >= 0 and step = 0 gives v."""

    def conjugate(self, v: Array, y: Array) -> Array:
        """sup over z of  v z - loss(z; y),  of a convex loss; infinite where v is no slope of the loss."""
        raise SettingError(f"a lower bound needs a convex loss. Found {self!r}.")

    def hessian(self, z: Array, y: Array) -> Array:
        """d^2 loss / dz^2, for smooth losses."""
        raise SettingError(f"a method that needs second derivatives cannot use {self!r}, which has kinks")

    def derivatives(self, z: Array, y: Array) -> tuple[Array, Array, Array]:
        """Value, gradient and second derivative, for smooth losses; together they may cost less than one by one."""
        return self.value(z, y), self.gradient(z, y), self.hessian(z, y)

    def seen(self, gradient: Array, first: Array, start: float) -> "Seen":
        """What a gradient shows to who receives it, given the first gradient, taken where every score was `start`."""
        raise SettingError(f"the gradient of {self!r} shows no curvature: it has kinks")

    def expected_curvature(self, mean: Array, variance: float) -> Array:
        """E d^2 loss / dz^2 over z ~ N(mean, variance) and an unknown label: the bound, unless a loss knows better."""
        return np.full(mean.shape, self.stiffness(mean) if self.curvature is None else self.curvature)

    def stiffness(self, y: Array, weights: Array | None = None) -> float:
        """The typical curvature of the loss on these labels (N,): the natural unit of the penalty rho.

        Labels count by their weights (N,), or alike.
        """
        return 1.0 if self.curvature is None else self.curvature

    def slope(self) -> float | None:
        """A bound on |gradient| that holds for every score and label; None where there is none."""
        return None

    def labels(self, y: Array) -> Array:
        """The labels as this loss wants them; InputError if it cannot take them."""
        return y


class _Classification(Loss):
    classifies = True

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
        a = np.clip(np.abs(gradient), 1e-300, 1 - 1e-16)
        score = -np.sign(gradient) * np.log((1 - a) / a)
        return Seen(score, np.ones(a.shape, dtype=bool), a * (1 - a))

    def expected_curvature(self, mean: Array, variance: float) -> Array:
        """The label does not matter; the logistic curve over a normal score is one that is stretched (MacKay 1992)."""
        flatter = 1 / np.sqrt(1 + np.pi * variance / 8)
        return flatter * self.hessian(flatter * mean, mean)

    def slope(self) -> float:
        return 1.0

    def conjugate(self, v: Array, y: Array) -> Array:
        """s log s + (1 - s) log(1 - s),  s = -v y in [0, 1]."""
        s = -v * y
        return np.where((s < 0) | (s > 1), np.inf, xlogy(s, s) + xlogy(1 - s, 1 - s))

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        return y * logistic_root(y * v, np.asarray(step, dtype=np.float64))


@dataclass(frozen=True)
class Squared(Loss):
    """(z - y)^2 / 2."""

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
        return _between(gradient, (np.abs(gradient) > _ROUNDING) & (np.abs(gradient) < 1 - _ROUNDING))


@dataclass(frozen=True)
class Huber(Loss):
    """r^2 / 2 for |r| <= delta, delta |r| - delta^2 / 2 beyond, r = z - y.

    Parameters
    ----------
    delta : float, default=1.0
        Where the loss turns from a parabola into a line, in units of the label.
    """

    delta: float = 1.0
    curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        need_types(self)
        _need_positive("Huber(delta=...)", self.delta)

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
class Poisson(Loss):
    """exp(z) - y z, y >= 0: counts with a log link."""

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

    def stiffness(self, y: Array, weights: Array | None = None) -> float:
        """exp(z) averages to the mean count at any optimum with an intercept."""
        return max(float(np.average(y, weights=weights)), 1e-3)

    def labels(self, y: Array) -> Array:
        if (y < 0).any():
            raise InputError(
                f"Poisson needs labels >= 0. Found {y.min():g}: "
                "Some value(s) of y are out of the valid range of the loss. Check the label column."
            )
        return y


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
        return _between(gradient, (gradient > _ROUNDING - self.quantile) & (gradient < 1 - self.quantile - _ROUNDING))

    def stiffness(self, y: Array, weights: Array | None = None) -> float:
        """A kink has no curvature of its own; the labels' spread sets the scale of the scores."""
        spread = float(np.average(np.abs(y - _middle(y, weights)), weights=weights))
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
    curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        need_types(self)
        _need_positive("Cauchy(scale=...)", self.scale)

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


def _middle(y: Array, weights: Array | None) -> float:
    """The least label that half of the weight does not exceed."""
    order = np.argsort(y)
    below = np.cumsum(np.ones(y.size) if weights is None else weights[order])
    return float(y[order[np.searchsorted(below, below[-1] / 2)]])


def _between(gradient: Array, at_kink: npt.NDArray[np.bool_]) -> Seen:
    """What the gradient of a rounded kink shows: curvature at the kink, in units of the rounding's stiffness."""
    return Seen(gradient, at_kink, at_kink.astype(np.float64))


@dataclass(frozen=True)
class Envelope(Loss):
    """A loss rounded off:  min over s of  loss(s; y) + (rho/2)(z + shift - s)^2,  shift (N,) one per row."""

    base: Loss
    rho: float
    shift: Array
    curvature: ClassVar[None] = None

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

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        """A parabola's share of the way to the base's own prox."""
        total = step + 1 / self.rho
        there = self.base.prox(v + self.shift, total, y) - self.shift
        return v + (step / total) * (there - v)


def _need_positive(what: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise SettingError(f"{what} must be positive and finite. Found {value}.")
