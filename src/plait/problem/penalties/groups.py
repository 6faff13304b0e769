"""Penalties that choose whole groups of columns: the group lasso, and its sum with the L1 norm."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plait._checks import need_type, need_types
from plait._types import Array
from plait.errors import InputError, SettingError
from plait.problem.penalties.base import FeasibleSet, Shape, Step, chain, need_non_negative
from plait.problem.penalties.forms import Groups, Parabola
from plait.problem.penalties.norms import L1


class _Grouped(Shape):
    """A sum of norms of groups of weights, positively homogeneous."""

    def prox_within(self, v: Array, step: Step, feasible: FeasibleSet | None) -> Array:
        """The signs first, then the shrinkage of the groups, then the ball."""
        cone = None if feasible is None else feasible.cone
        x = self.shape_prox(v if cone is None else cone.project(v), step)
        return x if feasible is None else feasible.project(x)

    def jacobian_within(self, v: Array, step: Step, feasible: FeasibleSet | None) -> Array:
        cone = None if feasible is None else feasible.cone
        if feasible is None or cone is None:
            return super().jacobian_within(v, step, feasible)
        inside = cone.project(v)
        jacobian = chain(self.shape_jacobian(inside, step), cone.project_jacobian(v))
        return chain(feasible.project_jacobian(self.shape_prox(inside, step)), jacobian)

    def need_closed(self, feasible: FeasibleSet) -> None:
        if feasible.cone is None:
            raise SettingError(
                f"GroupLasso goes with NonNegative() or Ball(radius), not with {feasible}: no closed form is known. "
                "Use L1 with a box, or give the party one of the two."
            )


@dataclass(frozen=True)
class GroupLasso(_Grouped):
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
        need_non_negative("GroupLasso(alpha)", alpha)
        object.__setattr__(self, "alpha", float(alpha))
        object.__setattr__(self, "groups", tuple(int(g) for g in groups))

    @cached_property
    def _partition(self) -> tuple[npt.NDArray[np.intp], Array]:
        """Per column its group's number, and per group the root of its size."""
        _, member, size = np.unique(self.groups, return_inverse=True, return_counts=True)
        return member, np.sqrt(size)

    @property
    def grouped(self) -> Groups:
        member, root = self._partition
        return Groups(member, self.alpha * root)

    def scaled(self, factor: float) -> "GroupLasso":
        return GroupLasso(factor * self.alpha, self.groups)

    def plus(self, other: Shape) -> Shape | None:
        if isinstance(other, L1):
            return SparseGroupLasso(other.alpha, self)
        if isinstance(other, GroupLasso) and other.groups == self.groups:
            return GroupLasso(self.alpha + other.alpha, self.groups)
        return other.plus(self) if isinstance(other, SparseGroupLasso) else None

    def check(self, width: int) -> None:
        if len(self.groups) != width:
            raise InputError(
                f"GroupLasso(groups) must name one group per column. Found {len(self.groups)} for {width} columns."
            )

    def _norms(self, x: Array) -> tuple[npt.NDArray[np.intp], Array, Array]:
        """Per column: its group's number, and per group: norm and weight."""
        member, root = self._partition
        return member, self.grouped.norms(x), root

    def shape_value(self, x: Array) -> float:
        _, norm, weight = self._norms(x)
        return self.alpha * float(weight @ norm)

    def shape_prox(self, v: Array, step: Step) -> Array:
        member, norm, weight = self._norms(v)
        safe = np.where(norm > 0, norm, 1.0)
        return v * np.maximum(1 - step * self.alpha * weight / safe, 0.0)[member]

    def shape_majoriser(self, at: Array, width: Array) -> Parabola:
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
class SparseGroupLasso(_Grouped):
    """A group lasso that is also sparse within its groups; write it as `L1(0.1) + GroupLasso(0.2, groups)`.

    Parameters
    ----------
    l1_alpha : float
        The strength of the L1 norm, 0 or more.
    group : GroupLasso
        The group norms.
    """

    l1_alpha: float
    group: GroupLasso

    def __post_init__(self) -> None:
        need_types(self)
        need_non_negative("SparseGroupLasso(l1_alpha)", self.l1_alpha)

    @property
    def _single(self) -> L1:
        return L1(self.l1_alpha)

    @property
    def l1(self) -> float:
        return float(self.l1_alpha)

    @property
    def grouped(self) -> Groups:
        return self.group.grouped

    def scaled(self, factor: float) -> "SparseGroupLasso":
        return SparseGroupLasso(factor * self.l1_alpha, self.group.scaled(factor))

    def plus(self, other: Shape) -> Shape | None:
        if isinstance(other, L1):
            return SparseGroupLasso(self.l1_alpha + other.alpha, self.group)
        if isinstance(other, SparseGroupLasso):
            both = self.group.plus(other.group)
            return None if both is None else both.plus(L1(self.l1_alpha + other.l1_alpha))
        both = self.group.plus(other) if isinstance(other, GroupLasso) else None
        return None if both is None else both.plus(self._single)

    def check(self, width: int) -> None:
        self.group.check(width)

    def shape_value(self, x: Array) -> float:
        return self._single.shape_value(x) + self.group.shape_value(x)

    def shape_prox(self, v: Array, step: Step) -> Array:
        """The soft threshold of every weight, then the shrinkage of the groups (Simon et al. 2013)."""
        return self.group.shape_prox(self._single.shape_prox(v, step), step)

    def shape_jacobian(self, v: Array, step: Step) -> Array:
        inner = self._single.shape_jacobian(v, step)
        return chain(self.group.shape_jacobian(self._single.shape_prox(v, step), step), inner)

    def shape_majoriser(self, at: Array, width: Array) -> Parabola:
        single, group = self._single.shape_majoriser(at, width), self.group.shape_majoriser(at, width)
        return Parabola(single.constant + group.constant, single.curvature + group.curvature)
