"""Penalties and feasible sets: what a party's own weights cost, and where they may lie.

Every penalty is  ridge/2 ||x||^2 + shape(x) + indicator of feasible(x),  each part optional.  Penalties add with `+`:
`L1(1e-3) + NonNegative()`.  What has no closed proximal map is refused when it is written, not when it is used.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from plait._checks import need_type, need_types
from plait._types import Array
from plait.errors import InputError, SettingError
from plait.problem.scalar_roots import cauchy_hessian, cauchy_root, half_log


@dataclass(frozen=True)
class Parabola:
    """constant + x^T diag(curvature) x / 2, curvature (d,)."""

    constant: float
    curvature: Array


DEFAULT_ALPHA = 1e-4
"""The strength of a penalty where none is given: light enough for most tables, enough to make the optimum unique."""

Step: TypeAlias = "float | Array"
"""A step size, or for a separable penalty one per weight."""


class Penalty:
    """ridge/2 ||x||^2 + shape(x), x in feasible; x has shape (d,)."""

    @property
    def ridge(self) -> float:
        """The coefficient of ||x||^2 / 2."""
        return 0.0

    @property
    def shape(self) -> "Shape | None":
        """The part that is not quadratic."""
        return None

    @property
    def feasible(self) -> "FeasibleSet | None":
        """Where x may lie; None is everywhere."""
        return None

    @property
    def smooth(self) -> bool:
        """Differentiable everywhere, and unconstrained."""
        return self.feasible is None and (self.shape is None or self.shape.differentiable)

    @property
    def quadratic(self) -> bool:
        """Only a ridge."""
        return self.shape is None and self.feasible is None

    @property
    def convex(self) -> bool:
        """Every part is convex."""
        return self.shape is None or self.shape.is_convex

    @property
    def separable(self) -> bool:
        """A sum over single weights."""
        return not isinstance(self.shape, GroupLasso) and not isinstance(self.feasible, Ball)

    def value(self, x: Array) -> float:
        """The penalty at x; constraints count as met."""
        total = self.ridge / 2 * float(x @ x)
        return total if self.shape is None else total + self.shape.shape_value(x)

    def gradient(self, x: Array) -> Array:
        """The gradient at x of a smooth penalty."""
        g = self.ridge * x
        return g if self.shape is None else g + self.shape.shape_gradient(x)

    def majoriser(self, at: Array, width: Array) -> "Parabola":
        """A parabola above the penalty: it touches at `at`, or nearly where a kink within `width` is rounded off.

        A smooth penalty is touched with its own slope, and a ridge is met exactly.
        """
        h = np.full(at.shape, self.ridge)
        if self.shape is None:
            return Parabola(0.0, h)
        over = self.shape.shape_majoriser(at, width)
        return Parabola(over.constant, over.curvature + h)

    def prox(self, v: Array, step: Step) -> Array:
        """argmin over x of  penalty(x) + ||x - v||^2 / (2 step)."""
        shrink = 1 + step * self.ridge
        x = v / shrink
        if self._positive_groups:
            x = np.maximum(x, 0.0)  # the non-negative part first, then the group shrinkage
        if self.shape is not None:
            x = self.shape.shape_prox(x, step / shrink)
        return x if self.feasible is None else self.feasible.project(x)

    def prox_jacobian(self, v: Array, step: Step) -> Array:
        """A generalised Jacobian of v -> prox(v, step): its diagonal (d,) where it is one, else (d, d)."""
        shrink = 1 + step * self.ridge
        x = v / shrink
        jacobian: Array = np.ones_like(v) / shrink
        if self._positive_groups:
            jacobian = jacobian * (x > 0)
            x = np.maximum(x, 0.0)
        if self.shape is not None:
            jacobian = _chain(self.shape.shape_jacobian(x, step / shrink), jacobian)
            x = self.shape.shape_prox(x, step / shrink)
        return jacobian if self.feasible is None else _chain(self.feasible.project_jacobian(x), jacobian)

    @property
    def _positive_groups(self) -> bool:
        """Groups whose weights must not be negative, alone or within a ball."""
        kept = self.feasible
        return isinstance(self.shape, GroupLasso) and (
            isinstance(kept, Box) or (isinstance(kept, Ball) and kept.non_negative)
        )

    def check(self, width: int) -> None:
        """Raise InputError when the penalty does not fit a party with `width` columns."""
        for part in (self.shape, self.feasible):
            if part is not None and part is not self:
                part.check(width)

    def __add__(self, other: "Penalty") -> "Penalty":
        if not isinstance(other, Penalty):
            return NotImplemented
        return Combined(
            self.ridge + other.ridge,
            _one_of("shapes", self.shape, other.shape, _add_shapes),
            _one_of("feasible sets", self.feasible, other.feasible, _intersect),
        )


class Shape(Penalty, ABC):
    """A penalty that is not quadratic and has a closed proximal map of its own."""

    differentiable: ClassVar[bool] = False
    is_convex: ClassVar[bool] = True

    @property
    def shape(self) -> "Shape":
        return self

    @abstractmethod
    def shape_value(self, x: Array) -> float: ...

    @abstractmethod
    def shape_prox(self, v: Array, step: Step) -> Array: ...

    @abstractmethod
    def shape_jacobian(self, v: Array, step: Step) -> Array: ...

    def shape_gradient(self, x: Array) -> Array:
        raise SettingError(f"a method that needs the penalty's gradient cannot use {self!r}, which has kinks")

    @abstractmethod
    def shape_majoriser(self, at: Array, width: Array) -> "Parabola": ...


class FeasibleSet(Penalty, ABC):
    """A closed convex set with a closed projection."""

    @property
    def feasible(self) -> "FeasibleSet":
        return self

    @abstractmethod
    def project(self, x: Array) -> Array: ...

    @abstractmethod
    def project_jacobian(self, x: Array) -> Array: ...


@dataclass(frozen=True)
class NoPenalty(Penalty):
    """No penalty at all."""


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
        _need_non_negative("L2(alpha)", self.alpha)

    @property
    def ridge(self) -> float:
        return float(self.alpha)


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
        _need_non_negative("L1(alpha)", self.alpha)

    def shape_value(self, x: Array) -> float:
        return self.alpha * float(np.abs(x).sum())

    def shape_prox(self, v: Array, step: Step) -> Array:
        return np.sign(v) * np.maximum(np.abs(v) - step * self.alpha, 0.0)

    def shape_jacobian(self, v: Array, step: Step) -> Array:
        return (np.abs(v) > step * self.alpha).astype(np.float64)

    def shape_majoriser(self, at: Array, width: Array) -> "Parabola":
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
        _need_non_negative("ElasticNet(alpha)", self.alpha)
        if not 0 <= self.l1_ratio <= 1:
            raise SettingError(f"ElasticNet(l1_ratio) must lie in [0, 1]. Found {self.l1_ratio}.")

    @property
    def ridge(self) -> float:
        return self.alpha * (1 - self.l1_ratio)

    @property
    def shape(self) -> Shape | None:
        return L1(self.alpha * self.l1_ratio) if self.alpha * self.l1_ratio > 0 else None


@dataclass(frozen=True)
class GroupLasso(Shape):
    """alpha sum over groups of sqrt(size) ||x_group||; `groups` names the group of every column.

    Parameters
    ----------
    alpha : float
        The strength, 0 or more.
    groups : list of int
        One number per column; columns with equal numbers form a group.
    """

    alpha: float
    groups: tuple[int, ...]

    def __init__(self, alpha: float, groups: Sequence[int]) -> None:
        need_type("GroupLasso(alpha)", alpha, float)
        need_type("GroupLasso(groups)", groups, Sequence[int])
        _need_non_negative("GroupLasso(alpha)", alpha)
        object.__setattr__(self, "alpha", float(alpha))
        object.__setattr__(self, "groups", tuple(int(g) for g in groups))

    def check(self, width: int) -> None:
        if len(self.groups) != width:
            raise InputError(
                f"GroupLasso(groups) must name one group per column. Found {len(self.groups)} for {width} columns."
            )

    def _norms(self, x: Array) -> tuple[npt.NDArray[np.intp], Array, Array]:
        """Per column: its group's number, and per group: norm and weight."""
        _, member, size = np.unique(self.groups, return_inverse=True, return_counts=True)
        return member, np.sqrt(np.bincount(member, weights=x * x)), np.sqrt(size)

    def shape_value(self, x: Array) -> float:
        _, norm, weight = self._norms(x)
        return self.alpha * float(weight @ norm)

    def shape_prox(self, v: Array, step: Step) -> Array:
        member, norm, weight = self._norms(v)
        safe = np.where(norm > 0, norm, 1.0)
        return v * np.maximum(1 - step * self.alpha * weight / safe, 0.0)[member]

    def shape_majoriser(self, at: Array, width: Array) -> "Parabola":
        """||x_g|| <= ||x_g||^2 / (2 q) + q / 2  for every q > 0."""
        member, norm, weight = self._norms(np.hypot(at, width))
        return Parabola(self.alpha * float(weight @ norm) / 2, self.alpha * (weight / norm)[member])

    def shape_jacobian(self, v: Array, step: Step) -> Array:
        member, norm, weight = self._norms(v)
        alive = norm > step * self.alpha * weight
        pull = np.where(alive, step * self.alpha * weight / np.where(norm > 0, norm, 1.0), 0.0)
        unit = v / np.where(norm > 0, norm, 1.0)[member]
        same = member[:, None] == member[None, :]
        return np.diag(np.where(alive, 1 - pull, 0.0)[member]) + same * np.outer(unit * pull[member], unit)


@dataclass(frozen=True)
class LogPenalty(Shape):
    """(alpha s^2 / 2) sum_j log(1 + x_j^2 / s^2): smooth and non-convex; like L2 near 0, it spares large weights.

    Parameters
    ----------
    alpha : float, default=1e-4
        The strength, 0 or more.
    scale : float, default=1.0
        Weights much larger than this are spared.
    """

    alpha: float = DEFAULT_ALPHA
    scale: float = 1.0
    differentiable = True
    is_convex = False

    def __post_init__(self) -> None:
        need_types(self)
        _need_non_negative("LogPenalty(alpha)", self.alpha)
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise SettingError(f"LogPenalty(scale) must be positive and finite. Found {self.scale}.")

    def shape_value(self, x: Array) -> float:
        return self.alpha * self.scale**2 * float(half_log(x / self.scale).sum())

    def shape_gradient(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return self.alpha * x / (1 + (x / self.scale) ** 2)

    def shape_majoriser(self, at: Array, width: Array) -> "Parabola":
        """The penalty is concave in x^2, so the parabola through `at` with the same slope lies above it."""
        h = self.alpha / (1 + (at / self.scale) ** 2)
        return Parabola(self.shape_value(at) - float(h @ (at * at)) / 2, h)

    def shape_prox(self, v: Array, step: Step) -> Array:
        return self.scale * cauchy_root(
            v / self.scale, np.broadcast_to(np.asarray(step * self.alpha, dtype=np.float64), v.shape)
        )

    def shape_jacobian(self, v: Array, step: Step) -> Array:
        bend = cauchy_hessian(self.shape_prox(v, step) / self.scale)
        return 1 / np.maximum(1 + step * self.alpha * bend, 1e-3)


@dataclass(frozen=True)
class Box(FeasibleSet):
    """lower <= x_j <= upper for every weight.

    Parameters
    ----------
    lower : float, default=-inf
        The least value of a weight.
    upper : float, default=inf
        The largest value of a weight.
    """

    lower: float = -np.inf
    upper: float = np.inf

    def __post_init__(self) -> None:
        need_types(self)
        if not self.lower <= self.upper:
            raise SettingError(f"Box(lower, upper) needs lower <= upper. Found {self.lower} and {self.upper}.")

    def project(self, x: Array) -> Array:
        return np.clip(x, self.lower, self.upper)

    def project_jacobian(self, x: Array) -> Array:
        return ((x > self.lower) & (x < self.upper)).astype(np.float64)


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


@dataclass(frozen=True)
class Combined(Penalty):
    """A sum of penalties in its normal form; write it as `L1(0.1) + L2(0.01) + NonNegative()`."""

    ridge_part: float = 0.0
    shape_part: Shape | None = None
    feasible_part: FeasibleSet | None = None

    def __post_init__(self) -> None:
        shape, feasible = self.shape_part, self.feasible_part
        if isinstance(shape, GroupLasso) and isinstance(feasible, Box) and feasible != Box(0.0, np.inf):
            raise SettingError(
                f"GroupLasso goes with NonNegative() or Ball(radius), not with {feasible}: no closed form is known. "
                "Use L1 with a box, or give the party one of the two."
            )
        if isinstance(shape, LogPenalty) and isinstance(feasible, Ball):
            raise SettingError("LogPenalty goes with a box, not with a ball: no closed form is known. Use Box(...).")

    @property
    def ridge(self) -> float:
        return self.ridge_part

    @property
    def shape(self) -> Shape | None:
        return self.shape_part

    @property
    def feasible(self) -> FeasibleSet | None:
        return self.feasible_part


def _add_shapes(a: Shape, b: Shape) -> Shape | None:
    return L1(a.alpha + b.alpha) if isinstance(a, L1) and isinstance(b, L1) else None


def _intersect(a: FeasibleSet, b: FeasibleSet) -> FeasibleSet | None:
    if isinstance(a, Box) and isinstance(b, Box):
        return Box(max(a.lower, b.lower), min(a.upper, b.upper))
    if isinstance(a, Ball) and isinstance(b, Ball):
        return Ball(min(a.radius, b.radius), a.non_negative or b.non_negative)
    box, ball = (a, b) if isinstance(a, Box) else (b, a)
    if isinstance(ball, Ball) and box == Box(0.0, np.inf):
        return Ball(ball.radius, non_negative=True)
    return None


_Part = TypeVar("_Part", Shape, FeasibleSet)


def _one_of(what: str, a: _Part | None, b: _Part | None, merge: Callable[[_Part, _Part], _Part | None]) -> _Part | None:
    if a is None or b is None:
        return b if a is None else a
    both = merge(a, b)
    if both is None:
        raise SettingError(
            f"these {what} cannot be combined: {a} and {b}, whose sum has no closed proximal map. Keep one."
        )
    return both


def _chain(outer: Array, inner: Array) -> Array:
    """outer @ inner, where a 1-d array stands for a diagonal matrix."""
    if outer.ndim == 1 and inner.ndim == 1:
        return outer * inner
    if outer.ndim == 1:
        return outer[:, None] * inner
    return outer * inner if inner.ndim == 1 else outer @ inner


def _need_non_negative(what: str, value: float) -> None:
    if not (np.isfinite(value) and value >= 0):
        raise SettingError(f"{what} must be finite and not negative. Found {value}.")
