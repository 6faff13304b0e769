"""No penalty, the ridge, the L1 norm and their mixture."""

from dataclasses import dataclass, replace

import numpy as np

from plait._checks import need_types
from plait._types import Array
from plait.errors import SettingError
from plait.problem.penalties.base import DEFAULT_ALPHA, Penalty, Shape, Step, need_non_negative
from plait.problem.penalties.forms import Parabola


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """No penalty at all."""

    def scaled(self, factor: float) -> "NoPenalty":
        return self


@dataclass(frozen=True)
class L2(Penalty):
    """alpha/2 ||x||^2.

    Parameters
    ----------
    alpha : float, default=1e-4
        The strength, 0 or more.
    """

    alpha: float = DEFAULT_ALPHA

    def __post_init__(self) -> None:
        need_types(self)
        need_non_negative("L2(alpha)", self.alpha)

    @property
    def ridge(self) -> float:
        return float(self.alpha)

    def scaled(self, factor: float) -> "L2":
        return L2(factor * self.alpha)


@dataclass(frozen=True)
class L1(Shape):
    """alpha ||x||_1.

    Parameters
    ----------
    alpha : float, default=1e-4
        The strength, 0 or more.
    """

    alpha: float = DEFAULT_ALPHA

    def __post_init__(self) -> None:
        need_types(self)
        need_non_negative("L1(alpha)", self.alpha)

    @property
    def shape(self) -> Shape | None:
        return self if self.alpha > 0 else None  # of no strength it has no kinks either

    @property
    def l1(self) -> float:
        return float(self.alpha)

    def scaled(self, factor: float) -> "L1":
        return L1(factor * self.alpha)

    def plus(self, other: Shape) -> Shape | None:
        return L1(self.alpha + other.alpha) if isinstance(other, L1) else other.plus(self)

    def shape_value(self, x: Array) -> float:
        return self.alpha * float(np.abs(x).sum())

    def shape_prox(self, v: Array, step: Step) -> Array:
        return np.sign(v) * np.maximum(np.abs(v) - step * self.alpha, 0.0)

    def shape_jacobian(self, v: Array, step: Step) -> Array:
        return (np.abs(v) > step * self.alpha).astype(np.float64)

    def shape_majoriser(self, at: Array, width: Array) -> Parabola:
        """|x| <= x^2 / (2 q) + q / 2  for every q > 0."""
        q = np.hypot(at, width)
        return Parabola(self.alpha * float(q.sum()) / 2, self.alpha / q)


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """alpha (l1_ratio ||x||_1 + (1 - l1_ratio)/2 ||x||^2).

    Parameters
    ----------
    alpha : float, default=1e-4
        The strength, 0 or more.
    l1_ratio : float, default=0.5
        The part of the L1 norm, from 0 to 1.
    """

    alpha: float = DEFAULT_ALPHA
    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        need_types(self)
        need_non_negative("ElasticNet(alpha)", self.alpha)
        if not 0 <= self.l1_ratio <= 1:
            raise SettingError(f"ElasticNet(l1_ratio) must lie in [0, 1]. Found {self.l1_ratio}.")

    @property
    def ridge(self) -> float:
        return self.alpha * (1 - self.l1_ratio)

    @property
    def shape(self) -> Shape | None:
        return L1(self.alpha * self.l1_ratio) if self.alpha * self.l1_ratio > 0 else None

    def scaled(self, factor: float) -> "ElasticNet":
        return replace(self, alpha=factor * self.alpha)
