"""What every loss can do, and what its gradient shows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.errors import SettingError

KINK_ROUNDING = 1e-7
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
    gives_odds: ClassVar[bool] = False
    """Whether a score is the logarithm of the odds of a positive label, and its logistic function a probability."""
    symmetric: ClassVar[bool] = False
    """Whether loss(-z; -y) = loss(z; y): it depends on y z, or on |y - z|, alone."""
    bends_slowly: ClassVar[bool] = False
    """Whether |third derivative| <= second derivative, which then changes at most e-fold where a score moves by 1."""
    rounds_kinks: ClassVar[bool] = False
    """Whether it is a loss with kinks, rounded off."""
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

    def predicted(self, z: Array) -> Array:
        """What a score predicts, in the units of the labels: itself, unless the loss has a link."""
        return z

    def conjugate(self, v: Array, y: Array) -> Array:
        """sup over z of  v z - loss(z; y),  of a convex loss; infinite where v is no slope of the loss."""
        raise SettingError(f"a lower bound needs a convex loss. Found {self!r}.")

    def hessian(self, z: Array, y: Array) -> Array:
        """d^2 loss / dz^2, for smooth losses."""
        raise SettingError(f"a method that needs second derivatives cannot use {self!r}, which has kinks")

    def derivatives(self, z: Array, y: Array) -> tuple[Array, Array, Array]:
        """Value, gradient and second derivative, for smooth losses; together they may cost less than one by one."""
        return self.value(z, y), self.gradient(z, y), self.hessian(z, y)

    def of_rows(self, rows: slice) -> "Loss":
        """The loss of some rows: itself, unless it has numbers of its own for every row."""
        return self

    def seen(self, gradient: Array, first: Array, start: float) -> "Seen":
        """What a gradient shows to who receives it, given the first gradient, taken where every score was `start`."""
        raise SettingError(f"the gradient of {self!r} shows no curvature: it has kinks")

    def expected_curvature(self, mean: Array, variance: float) -> Array:
        """E d^2 loss / dz^2 over z ~ N(mean, variance) and an unknown label: the bound, unless a loss knows better."""
        return np.full(mean.shape, self.stiffness(mean) if self.curvature is None else self.curvature)

    def expected_response(self, mean: Array, variance: float) -> Array | None:
        """E mu(z) over z ~ N(mean, variance), for a loss with d loss / dz = mu(z) - y and mu no line; None for others.

        mu is given up to a constant.
        """
        return None

    def stiffness(self, y: Array, weights: Array | None = None, intercept: bool = True) -> float:
        """The typical curvature of the loss on these labels (N,): the natural unit of the penalty rho.

        Labels count by their weights (N,), or alike.  With an intercept scores begin amid the labels, else at 0.
        """
        return 1.0 if self.curvature is None else self.curvature

    def slope(self) -> float | None:
        """A bound on |gradient| that holds for every score and label; None where there is none."""
        return None

    def labels(self, y: Array) -> Array:
        """The labels as this loss wants them; InputError if it cannot take them."""
        return y


def between_kinks(gradient: Array, at_kink: npt.NDArray[np.bool_]) -> Seen:
    """What the gradient of a rounded kink shows: curvature at the kink, in units of the rounding's stiffness."""
    return Seen(gradient, at_kink, at_kink.astype(np.float64))


def need_positive(what: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise SettingError(f"{what} must be positive and finite. Found {value}.")


def weighted_median(y: Array, weights: Array | None) -> float:
    """The least label that half of the weight does not exceed."""
    order = np.argsort(y)
    below = np.cumsum(np.ones(y.size) if weights is None else weights[order])
    return float(y[order[np.searchsorted(below, below[-1] / 2)]])
