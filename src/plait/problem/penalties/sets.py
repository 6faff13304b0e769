"""Where weights may lie: boxes and balls."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from plait._checks import need_type, need_types
from plait._types import Array
from plait.errors import InputError, SettingError
from plait.problem.penalties.base import FeasibleSet


@dataclass(frozen=True)
class Box(FeasibleSet):
    """lower <= x_j <= upper for every weight.

    Parameters
    ----------
    lower : float or list of float, default=-inf
        The least value of a weight: one number for all, or one number per column.
    upper : float or list of float, default=inf
        The largest value of a weight: one number for all, or one number per column.
    """

    lower: float | tuple[float, ...] = -np.inf
    upper: float | tuple[float, ...] = np.inf

    def __init__(self, lower: float | Sequence[float] = -np.inf, upper: float | Sequence[float] = np.inf) -> None:
        object.__setattr__(self, "lower", _limit("Box(lower)", lower))
        object.__setattr__(self, "upper", _limit("Box(upper)", upper))
        low, high = self._limits
        if low.ndim and high.ndim and low.size != high.size:
            raise SettingError(
                f"Box(lower, upper) must give as many lower as upper limits. Found {low.size} and {high.size}."
            )
        wrong = np.atleast_1d(~((low <= high) & (low < np.inf) & (high > -np.inf)))
        if wrong.any():
            at = int(np.argmax(wrong))
            pair = [np.broadcast_to(limit, wrong.shape)[at] for limit in (low, high)]
            column = f" for column {at + 1}" if wrong.size > 1 else ""
            raise SettingError(
                "Box(lower, upper) needs lower <= upper, with a finite number between them. "
                f"Found {pair[0]:g} and {pair[1]:g}{column}."
            )

    @cached_property
    def _limits(self) -> tuple[Array, Array]:
        return np.asarray(self.lower), np.asarray(self.upper)

    @property
    def feasible(self) -> "Box | None":
        """None where there is no bound at all."""
        low, high = self._limits
        return self if np.isfinite(low).any() or np.isfinite(high).any() else None

    def bounds(self, width: int) -> tuple[Array, Array]:
        low, high = self._limits
        return np.broadcast_to(low, width), np.broadcast_to(high, width)

    @property
    def cone(self) -> "Box | None":
        low, high = self._limits
        signs = ((low == 0) | (low == -np.inf)).all() and ((high == 0) | (high == np.inf)).all()
        return self if signs else None

    @property
    def non_negative(self) -> bool:
        """x_j >= 0 for every weight, and nothing else."""
        low, high = self._limits
        return bool((low == 0).all() and (high == np.inf).all())

    def check(self, width: int) -> None:
        for name, limit in zip(("lower", "upper"), self._limits, strict=True):
            if limit.ndim and limit.size != width:
                raise InputError(
                    f"Box({name}) must be one number, or one per column. Found {limit.size} for {width} columns."
                )

    def meet(self, other: FeasibleSet) -> FeasibleSet | None:
        if isinstance(other, Ball):
            return other.meet(self)
        if not isinstance(other, Box):
            return None
        (low, high), (other_low, other_high) = self._limits, other._limits
        sizes = {limit.size for limit in (low, high, other_low, other_high) if limit.ndim}
        if len(sizes) > 1:
            raise SettingError(f"boxes must have limits for as many columns. Found {' and '.join(map(str, sizes))}.")
        return Box(np.maximum(low, other_low).tolist(), np.minimum(high, other_high).tolist())

    def project(self, x: Array) -> Array:
        return np.clip(x, *self._limits)

    def project_jacobian(self, x: Array) -> Array:
        low, high = self._limits
        return ((x > low) & (x < high)).astype(np.float64)


def NonNegative() -> Box:
    """x_j >= 0 for every weight."""
    return Box(0.0, np.inf)


@dataclass(frozen=True)
class Ball(FeasibleSet):
    """||x|| <= radius; with `non_negative`, also x_j >= 0.

    Parameters
    ----------
    radius : float, default=1.0
        The largest norm of the party's weights.
    non_negative : bool, default=False
        Whether the weights must also be 0 or more.
    """

    radius: float = 1.0
    non_negative: bool = False

    def __post_init__(self) -> None:
        need_types(self)
        if not (np.isfinite(self.radius) and self.radius > 0):
            raise SettingError(f"Ball(radius) must be positive and finite. Found {self.radius}.")

    @property
    def norm_bound(self) -> float:
        return float(self.radius)

    def bounds(self, width: int) -> tuple[Array, Array]:
        return self.cone.bounds(width)

    @property
    def cone(self) -> Box:
        return NonNegative() if self.non_negative else Box()

    def meet(self, other: FeasibleSet) -> FeasibleSet | None:
        if isinstance(other, Ball):
            return Ball(min(self.radius, other.radius), self.non_negative or other.non_negative)
        return Ball(self.radius, non_negative=True) if isinstance(other, Box) and other.non_negative else None

    def project(self, x: Array) -> Array:
        if self.non_negative:
            x = np.maximum(x, 0.0)
        norm = float(np.linalg.norm(x))
        return x if norm <= self.radius else x * (self.radius / norm)

    def project_jacobian(self, x: Array) -> Array:
        kept = (x > 0).astype(np.float64) if self.non_negative else np.ones_like(x)
        norm = float(np.linalg.norm(x * kept))
        if norm <= self.radius:
            return kept
        unit = x * kept / norm
        return self.radius / norm * (np.diag(kept) - np.outer(unit, unit))


def _limit(what: str, value: Any) -> float | tuple[float, ...]:
    need_type(what, value, float | Sequence[float])
    return float(value) if np.ndim(value) == 0 else tuple(float(v) for v in value)
