"""The scalars of the subspace method, packed and unpacked in one place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.messages import NO_BOUND


@dataclass(frozen=True)
class Orders:
    """What the coordinator says beside the gradient.

    memory        how many past steps the coordinator minimises over
    models        how many parabolas of the penalty it wants
    start         the score that every sample had before round 1
    intercept     1.0 where the coordinator also moves an intercept
    stiffness     what the curvature that a gradient shows is to be multiplied by
    width         how many features the parties have in all, as far as known
    coefficients  of the last step, over the past steps and the newest direction (k+1,); empty before round 1
    gram_row      the new step's products with the past ones in the penalty's metric, summed over parties
    """

    memory: int
    models: int
    start: float
    intercept: float
    stiffness: float
    width: float
    coefficients: Array
    gram_row: Array

    def pack(self) -> Array:
        numbers = [self.memory, self.models, self.start, self.intercept, self.stiffness, self.width]
        head = [*numbers, self.coefficients.size]
        return np.concatenate([head, self.coefficients, self.gram_row])

    @staticmethod
    def unpack(scalars: Array) -> "Orders":
        count = int(scalars[6])
        coefficients, row = scalars[7 : 7 + count], scalars[7 + count :]
        start, intercept, stiffness, width = (float(s) for s in scalars[2:6])
        return Orders(int(scalars[0]), int(scalars[1]), start, intercept, stiffness, width, coefficients, row)


@dataclass(frozen=True)
class ProtectedOrders:
    """What the coordinator says where the gradient is encrypted: orders, and some of what the gradient showed.

    mean, variance  of the scores of all samples
    covariance      of the scores and the party's own part of them; nan where the coordinator sees sums only
    curvature       the weighted sum of the loss's curvature over all samples
    """

    orders: Orders
    mean: float
    variance: float
    covariance: float
    curvature: float

    def pack(self) -> Array:
        return np.concatenate([[self.mean, self.variance, self.covariance, self.curvature], self.orders.pack()])

    @staticmethod
    def unpack(scalars: Array) -> "ProtectedOrders":
        mean, variance, covariance, curvature = (float(s) for s in scalars[:4])
        return ProtectedOrders(Orders.unpack(scalars[4:]), mean, variance, covariance, curvature)


@dataclass(frozen=True)
class Bound:
    """penalty(x + B^T c) <= constant + r^T c + c^T K c / 2  for every c;  r (k+1,), K (k+1, k+1)."""

    constant: float
    r: Array
    k: Array

    def __add__(self, other: "Bound") -> "Bound":
        return Bound(self.constant + other.constant, self.r + other.r, self.k + other.k)


NUMBERS = 7
"""Scalars of a report before its parabolas."""
__all__ = ["FAR", "NO_BOUND", "NUMBERS", "Bound", "Orders", "Report", "add_reports"]

FAR = 16.0
"""How far beyond its own step a party also states its penalty, for the coordinator to go there if it pays."""


@dataclass(frozen=True)
class Report:
    """What a party says beside its vector D_m d_m.

    penalty, reached  the penalty at x and at x + d
    beyond            the penalty at x + FAR d; NO_BOUND where that is out of bounds
    stationarity      its part of the paper's Lyapunov value
    gain              by how much its own model of the objective would fall at x + d
    width             how many features it has
    kinks             1.0 where its penalty is not smooth
    models            parabolas above the penalty along its past steps and d
    """

    penalty: float
    reached: float
    beyond: float
    stationarity: float
    gain: float
    width: float
    kinks: float
    models: tuple[Bound, ...] = ()

    @property
    def numbers(self) -> tuple[float, ...]:
        return self.penalty, self.reached, self.beyond, self.stationarity, self.gain, self.width, self.kinks

    def raised(self, by: float) -> "Report":
        """The same with a penalty that is higher everywhere."""
        if by == 0.0:
            return self
        models = tuple(replace(m, constant=m.constant + by) for m in self.models)
        return replace(
            self, penalty=self.penalty + by, reached=self.reached + by, beyond=self.beyond + by, models=models
        )

    def pack(self) -> Array:
        return np.concatenate([self.numbers, *(_packed(m) for m in self.models)])

    @staticmethod
    def of(numbers: Array, models: tuple[Bound, ...]) -> "Report":
        penalty, reached, beyond, stationarity, gain, width, kinks = (float(s) for s in numbers)
        return Report(penalty, reached, beyond, stationarity, gain, width, kinks, models)

    @staticmethod
    def unpack(scalars: Array, basis: int) -> "Report":
        size = 1 + basis + basis * (basis + 1) // 2
        rest = scalars[NUMBERS:]
        models = tuple(_unpacked(rest[i : i + size], basis) for i in range(0, rest.size, size))
        return Report.of(scalars[:NUMBERS], models)


def add_reports(reports: Sequence[Report]) -> Report:
    """All that secure aggregation will show: the sums."""
    models = tuple(sum(m[1:], start=m[0]) for m in zip(*(r.models for r in reports), strict=True))
    return Report.of(np.sum([r.numbers for r in reports], axis=0), models)


@cache
def _upper(size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.triu_indices(size)


def _packed(model: Bound) -> Array:
    return np.concatenate([[model.constant], model.r, model.k[_upper(model.r.size)]])


def _unpacked(scalars: Array, basis: int) -> Bound:
    k = np.zeros((basis, basis))
    k[_upper(basis)] = scalars[1 + basis :]
    return Bound(float(scalars[0]), scalars[1 : 1 + basis], k + np.triu(k, 1).T)
