"""What every penalty can do, and the normal form of their sums."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np

from plait._types import Array
from plait.errors import SettingError
from plait.problem.penalties.forms import Groups, Parabola

DEFAULT_ALPHA = 1e-4
"""The strength of a penalty where none is given: light enough for most tables, enough to make the optimum unique."""

Step: TypeAlias = "float | Array"
"""A step size, or for a separable penalty one per weight."""


class Penalty:
    """ridge/2 ||x||^2 + shape(x), x in feasible; x has shape (d,)."""

    __array_ufunc__ = None  # so that a NumPy number times a penalty is a penalty

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
    def l1(self) -> float:
        """The coefficient of ||x||_1."""
        return 0.0 if self.shape is None else self.shape.l1

    @property
    def grouped(self) -> Groups | None:
        """The group norms, if there are any."""
        return None if self.shape is None else self.shape.grouped

    @property
    def norm_bound(self) -> float:
        """The largest ||x|| that is allowed; infinite where none is stated."""
        return np.inf if self.feasible is None else self.feasible.norm_bound

    def bounds(self, width: int) -> tuple[Array, Array]:
        """The least and the largest value of every weight, two arrays (width,)."""
        if self.feasible is None:
            return np.full(width, -np.inf), np.full(width, np.inf)
        return self.feasible.bounds(width)

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
        return self.grouped is None and not np.isfinite(self.norm_bound)

    def value(self, x: Array) -> float:
        """The penalty at x; constraints count as met."""
        ridge, shape = self.ridge, self.shape
        total = ridge / 2 * float(x @ x) if ridge else 0.0
        return total if shape is None else total + shape.shape_value(x)

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
        if self.shape is not None:
            return self.shape.prox_within(x, step / shrink, self.feasible)
        return x if self.feasible is None else self.feasible.project(x)

    def prox_jacobian(self, v: Array, step: Step) -> Array:
        """A generalised Jacobian of v -> prox(v, step): its diagonal (d,) where it is one, else (d, d)."""
        shrink = 1 + step * self.ridge
        x = v / shrink
        jacobian: Array = np.ones_like(v) / shrink
        if self.shape is not None:
            return chain(self.shape.jacobian_within(x, step / shrink, self.feasible), jacobian)
        return jacobian if self.feasible is None else chain(self.feasible.project_jacobian(x), jacobian)

    def check(self, width: int) -> None:
        """Raise InputError when the penalty does not fit a party with `width` columns."""
        for part in (self.shape, self.feasible):
            if part is not None and part is not self:
                part.check(width)

    def scaled(self, factor: float) -> "Penalty":
        """The penalty times `factor`; its constraints stay."""
        shape = None if self.shape is None else self.shape.scaled(factor)
        return Combined(factor * self.ridge, shape, self.feasible)

    def __add__(self, other: "Penalty") -> "Penalty":
        if not isinstance(other, Penalty):
            return NotImplemented
        return Combined(
            self.ridge + other.ridge,
            _one_of("shapes", self.shape, other.shape, lambda a, b: a.plus(b)),
            _one_of("feasible sets", self.feasible, other.feasible, lambda a, b: a.meet(b)),
        )

    def __radd__(self, other: object) -> "Penalty":
        return self if isinstance(other, int) and other == 0 else NotImplemented  # sum() begins with 0

    def __mul__(self, factor: Any) -> "Penalty":
        if not isinstance(factor, Real):
            return NotImplemented
        need_non_negative("the factor of a penalty", float(factor))
        return self.scaled(float(factor))

    __rmul__ = __mul__


class Shape(Penalty, ABC):
    """A penalty that is not quadratic and has a closed proximal map of its own."""

    differentiable: ClassVar[bool] = False
    is_convex: ClassVar[bool] = True

    @property
    def shape(self) -> "Shape | None":
        return self

    @property
    def l1(self) -> float:
        return 0.0

    @property
    def grouped(self) -> Groups | None:
        return None

    @abstractmethod
    def scaled(self, factor: float) -> "Shape": ...

    @abstractmethod
    def shape_value(self, x: Array) -> float:
        """Its value at x (d,)."""

    @abstractmethod
    def shape_prox(self, v: Array, step: Step) -> Array:
        """Its proximal map at v (d,)."""

    @abstractmethod
    def shape_jacobian(self, v: Array, step: Step) -> Array:
        """The derivative of the proximal map at v."""

    def shape_gradient(self, x: Array) -> Array:
        """Its gradient at x (d,), where it has no kinks."""
        raise SettingError(f"a method that needs the penalty's gradient cannot use {self!r}, which has kinks")

    @abstractmethod
    def shape_majoriser(self, at: Array, width: Array) -> "Parabola":
        """A parabola that lies above it and touches it at `at`."""

    def prox_within(self, v: Array, step: Step, feasible: "FeasibleSet | None") -> Array:
        """The proximal map of the shape and of the set together."""
        x = self.shape_prox(v, step)
        return x if feasible is None else feasible.project(x)

    def jacobian_within(self, v: Array, step: Step, feasible: "FeasibleSet | None") -> Array:
        """A generalised Jacobian of `prox_within`, a diagonal (d,) or (d, d)."""
        jacobian = self.shape_jacobian(v, step)
        return jacobian if feasible is None else chain(feasible.project_jacobian(self.shape_prox(v, step)), jacobian)

    def plus(self, other: "Shape") -> "Shape | None":
        """The sum of two shapes, if its proximal map is closed."""
        return None

    def need_closed(self, feasible: "FeasibleSet") -> None:
        """Raise SettingError where the proximal map of the shape and of the set together is not closed."""
        return


class FeasibleSet(Penalty, ABC):
    """A closed convex set with a closed projection."""

    @property
    def feasible(self) -> "FeasibleSet | None":
        return self

    def scaled(self, factor: float) -> "FeasibleSet":
        return self

    @property
    def norm_bound(self) -> float:
        return np.inf

    @abstractmethod
    def bounds(self, width: int) -> tuple[Array, Array]: ...

    @property
    @abstractmethod
    def cone(self) -> "FeasibleSet | None":
        """Only signs are fixed, apart from a bound on ||x||: the cone of these signs, else None."""

    @abstractmethod
    def project(self, x: Array) -> Array:
        """The nearest point of the set to x (d,)."""

    @abstractmethod
    def project_jacobian(self, x: Array) -> Array:
        """The derivative of the projection at x."""

    @abstractmethod
    def meet(self, other: "FeasibleSet") -> "FeasibleSet | None":
        """The intersection of two sets, if its projection is closed."""


@dataclass(frozen=True)
class Combined(Penalty):
    """A sum of penalties in its normal form; write it as `L1(0.1) + L2(0.01) + NonNegative()`."""

    ridge_part: float = 0.0
    shape_part: Shape | None = None
    feasible_part: FeasibleSet | None = None

    def __post_init__(self) -> None:
        if self.shape_part is not None and self.feasible_part is not None:
            self.shape_part.need_closed(self.feasible_part)

    @property
    def ridge(self) -> float:
        return self.ridge_part

    @property
    def shape(self) -> Shape | None:
        return self.shape_part

    @property
    def feasible(self) -> FeasibleSet | None:
        return self.feasible_part


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


def chain(outer: Array, inner: Array) -> Array:
    """outer @ inner, where a 1-d array stands for a diagonal matrix."""
    if outer.ndim == 1 and inner.ndim == 1:
        return outer * inner
    if outer.ndim == 1:
        return outer[:, None] * inner
    return outer * inner if inner.ndim == 1 else outer @ inner


def need_non_negative(what: str, value: float) -> None:
    if not (np.isfinite(value) and value >= 0):
        raise SettingError(f"{what} must be finite and not negative. Found {value}.")
