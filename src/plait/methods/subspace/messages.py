"""The scalars of the subspace method, packed and unpacked in one place."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.messages import NO_BOUND

GRADIENT, QUESTION, DIRECTION = 0.0, 1.0, 2.0
"""What a broadcast of a running method brings: `StepProposal.asks`."""
_REMEMBERED = 100  # rows of a matrix: the places of its numbers are remembered, in 3 MB for all sizes up to it


@dataclass(frozen=True)
class StepProposal:
    """What the coordinator says beside the gradient, or instead of it.

    asks          1.0 for a question: what would your penalty be after this step?  Nothing moves.
                  2.0 for a direction p (N,) instead of the gradient: what is D D^T p?
    memory        how many past directions the coordinator minimises over
    start         the score that every row had before round 1
    intercept     1.0 where the coordinator also moves an intercept
    stiffness     what the curvature that a gradient shows is to be multiplied by
    width         how many columns the parties have in all, as far as known
    counted       on how many of the others' last moves a party with kinks may count
    scale         x is multiplied by this after the step: it was led back into a ball
    coefficients  of the step, over the basis (k+1,): past directions and the newest; empty before round 1
    gram_row      the new step's products with the past ones in the penalty's metric, summed over parties
    outlook       where the gradient is hidden: a few numbers of what it would have shown; else empty
    """

    asks: float
    memory: int
    start: float
    intercept: float
    stiffness: float
    width: float
    counted: float
    scale: float
    coefficients: Array
    gram_row: Array
    outlook: Array = field(default_factory=lambda: np.empty(0))

    def pack(self) -> Array:
        numbers = [self.asks, self.memory, self.start, self.intercept, self.stiffness, self.width]
        head = [*numbers, self.counted, self.scale, self.outlook.size, self.coefficients.size]
        return np.concatenate([head, self.outlook, self.coefficients, self.gram_row])

    @staticmethod
    def unpack(scalars: Array) -> "StepProposal":
        asks, memory, start, intercept, stiffness, width, counted, scale, told, count = scalars[:10].tolist()
        first = 10 + int(told)
        last = first + int(count)
        numbers = (asks, int(memory), start, intercept, stiffness, width, counted, scale)
        return StepProposal(*numbers, scalars[first:last], scalars[last:], scalars[10:first])


@dataclass(frozen=True)
class Model:
    """A parabola in the coefficients of a step:  constant + r^T c + c^T K c / 2;  r (k+1,), K (k+1, k+1)."""

    constant: float
    r: Array
    k: Array

    @staticmethod
    def none() -> "Model":
        """Over no coefficients."""
        return Model(0.0, np.empty(0), np.empty((0, 0)))

    def value(self, c: Array) -> float:
        return self.constant + float(self.r @ c) + float(c @ (self.k @ c)) / 2

    def __add__(self, other: "Model") -> "Model":
        return Model(self.constant + other.constant, self.r + other.r, self.k + other.k)

    @property
    def arrays(self) -> tuple[Array, Array]:
        """What is packed behind the constant."""
        size = self.r.size
        return self.r, self.k.ravel()[_upper(size)] if size <= _REMEMBERED else self.k[np.triu_indices(size)]

    @staticmethod
    def size(basis: int) -> int:
        """How many numbers it takes."""
        return 1 + basis + basis * (basis + 1) // 2

    @staticmethod
    def unpack(scalars: Array, basis: int) -> "Model":
        return Model(float(scalars[0]), scalars[1 : 1 + basis], _symmetric(scalars[1 + basis :], basis))


@dataclass(frozen=True)
class Description:
    """What a party says beside its vector D_m d, the image of its newest direction d = y - x.

    penalty, reached   its penalty at x and at y = x + d
    stationarity       its part of the paper's Lyapunov value
    gain               by how much its own model of the objective would fall at y
    width              how many columns it has
    free               how many of them have no penalty
    kinks              1.0 where its penalty is not smooth
    reach              the largest t <= 1 with a finite conjugate at -t D^T g
    conjugate          its penalty's conjugate at -reach D^T g
    supposed           the same at -D^T g, if no weight were larger than some radius
    open               1.0 where no finite conjugate can be expected: nothing bounds its weights
    drift              g^T e and the size of e, e = D x less what the coordinator has
    model              a parabola for the penalty along the basis, near y
    along              products of the newest direction with the last steps, in the penalty's metric; none with kinks
    """

    penalty: float
    reached: float
    stationarity: float
    gain: float
    width: float
    free: float
    kinks: float
    reach: float
    conjugate: float
    supposed: float
    open: float
    drift_slope: float
    drift_size: float
    model: Model
    along: Array

    @property
    def numbers(self) -> list[float]:
        return list(map(self.__dict__.__getitem__, NUMBERS))

    def pack(self) -> Array:
        return np.concatenate([[*self.numbers, self.model.constant], *self.model.arrays, self.along])

    @staticmethod
    def unpack(scalars: Array, basis: int) -> "Description":
        """basis: how many coefficients a step has; 0 in the closing exchange."""
        rest, size = scalars[len(NUMBERS) :], Model.size(basis)
        parts: tuple[Any, ...] = (*scalars[: len(NUMBERS)].tolist(), Model.unpack(rest[:size], basis), rest[size:])
        return Description(*parts)

    @staticmethod
    def size(basis: int) -> int:
        """How many numbers it takes, but for the products with past steps."""
        return len(NUMBERS) + Model.size(basis)


NUMBERS = tuple(f.name for f in fields(Description) if f.name not in ("model", "along"))
"""The scalars of a description before its parabola, in their order."""


@dataclass(frozen=True)
class Answer:
    """A party's answer to a question.

    fraction, scale   how much of the step stays within bounds, and the factor that leads back into a ball
    penalty           at x + fraction * step, scaled
    left              by how much a better rounding of kinks may still lower it along the span; NO_BOUND: not known
    model             the parabola for the penalty, seen from there
    """

    fraction: float
    scale: float
    penalty: float
    left: float
    model: Model

    def pack(self) -> Array:
        numbers = [self.fraction, self.scale, self.penalty, self.left, self.model.constant]
        return np.concatenate([numbers, *self.model.arrays])

    @staticmethod
    def unpack(scalars: Array, basis: int) -> "Answer":
        fraction, scale, penalty, left = scalars[:4].tolist()
        return Answer(fraction, scale, penalty, left, Model.unpack(scalars[4:], basis))

    @staticmethod
    def size(basis: int) -> int:
        """How many numbers it takes."""
        return 4 + Model.size(basis)


def add_answers(answers: Sequence[Answer]) -> Answer:
    """Of parties that take a common step; where one cannot take all of it, its penalty there is not known."""
    total = answers[0]
    for other in answers[1:]:
        total = Answer(
            min(total.fraction, other.fraction),
            min(total.scale, other.scale),
            total.penalty + other.penalty,
            min(total.left + other.left, NO_BOUND),
            total.model + other.model,
        )
    return total


def add_reports(reports: Sequence[Description]) -> Description:
    """The sum of the reports of parties that take a common step: all that a secure sum shows of them."""
    total = reports[0]
    for other in reports[1:]:
        numbers = dict(zip(NUMBERS, np.add(total.numbers, other.numbers), strict=True))
        along = total.along + other.along if total.along.size == other.along.size else np.empty(0)
        total = Description(**numbers, model=total.model + other.model, along=along)
    return total


@cache
def _upper(size: int) -> npt.NDArray[np.intp]:
    """Where the upper triangle of a square matrix lies in its numbers, row by row."""
    rows, columns = np.triu_indices(size)
    return rows * size + columns


@cache
def _whole(size: int) -> npt.NDArray[np.intp]:
    """Where the numbers of a symmetric matrix lie in its upper triangle, (size, size)."""
    places = np.empty((size, size), dtype=np.intp)
    rows, columns = np.triu_indices(size)
    places[rows, columns] = places[columns, rows] = np.arange(rows.size)
    return places


def _symmetric(packed: Array, size: int) -> Array:
    if size <= _REMEMBERED:
        return packed[_whole(size)]
    matrix = np.empty((size, size))
    matrix[np.triu_indices(size)] = packed
    matrix.T[np.triu_indices(size)] = packed
    return matrix
