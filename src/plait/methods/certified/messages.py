"""The scalars of the subspace method, packed and unpacked in one place."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import numpy.typing as npt

from plait._types import Array


@dataclass(frozen=True)
class StepProposal:
    """What the coordinator says beside the gradient, or instead of it.

    asks          1.0 for a question: what would your penalty be after this step?  Nothing moves.
    memory        how many past directions the coordinator minimises over
    start         the score that every sample had before round 1
    intercept     1.0 where the coordinator also moves an intercept
    stiffness     what the curvature that a gradient shows is to be multiplied by
    width         how many features the parties have in all, as far as known
    alone         1.0 where a party must not count on the others' moves
    scale         x is multiplied by this after the step: it was led back into a ball
    coefficients  of the step, over the basis (k+1,): past directions and the newest; empty before round 1
    sizes         the norms of the images of the past directions (k,)
    gram_row      the new step's products with the past ones in the penalty's metric, summed over parties
    """

    asks: float
    memory: int
    start: float
    intercept: float
    stiffness: float
    width: float
    alone: float
    scale: float
    coefficients: Array
    sizes: Array
    gram_row: Array

    def pack(self) -> Array:
        numbers = [self.asks, self.memory, self.start, self.intercept, self.stiffness, self.width]
        head = [*numbers, self.alone, self.scale, self.coefficients.size, self.sizes.size]
        return np.concatenate([head, self.coefficients, self.sizes, self.gram_row])

    @staticmethod
    def unpack(scalars: Array) -> "StepProposal":
        asks, memory, start, intercept, stiffness, width, alone, scale = (float(s) for s in scalars[:8])
        count, sizes = (int(s) for s in scalars[8:10])
        coefficients, rest = scalars[10 : 10 + count], scalars[10 + count :]
        given = (asks, int(memory), start, intercept, stiffness, width, alone, scale)
        return StepProposal(*given, coefficients, rest[:sizes], rest[sizes:])


@dataclass(frozen=True)
class Description:
    """What a party says beside its vector D_m y_m - known.

    penalty, reached   its penalty at x and at y = x + d
    stationarity       its part of the paper's Lyapunov value
    gain               by how much its own model of the objective would fall at y
    width              how many features it has
    kinks              1.0 where its penalty is not smooth
    reach              the largest t <= 1 with a finite conjugate at -t D^T g
    conjugate          its penalty's conjugate at -reach D^T g
    supposed           the same at -D^T g, if no weight were larger than some radius
    open               1.0 where no finite conjugate can be expected: nothing bounds its weights
    drift              g^T e and the size of e, e = D x less what the coordinator has
    slopes             of the penalty along the basis, at x and at y, (2, k+1); only at x where it is smooth
    curvature          of the penalty along the basis, (k+1, k+1)
    resting            a projector (k+1, k+1): steps that it does not see leave the weights at rest where they are
    disturbed          the curvature (k+1, k+1) that stands for what disturbing the weights at rest costs
    along              products of the newest direction with the last steps, in the penalty's metric
    """

    penalty: float
    reached: float
    stationarity: float
    gain: float
    width: float
    kinks: float
    reach: float
    conjugate: float
    supposed: float
    open: float
    drift_slope: float
    drift_size: float
    slopes: Array
    curvature: Array
    resting: Array
    disturbed: Array
    along: Array

    @property
    def numbers(self) -> tuple[float, ...]:
        return (
            *(self.penalty, self.reached, self.stationarity, self.gain, self.width, self.kinks, self.reach),
            *(self.conjugate, self.supposed, self.open, self.drift_slope, self.drift_size),
        )

    def pack(self) -> Array:
        size = len(self.curvature)
        upper = _upper(size)
        matrices = [self.curvature[upper]]
        if self.kinks:
            matrices += [self.resting[upper], self.disturbed[upper]]
        return np.concatenate([self.numbers, self.slopes.ravel(), *matrices, self.along])

    @staticmethod
    def unpack(scalars: Array, basis: int) -> "Description":
        """basis: how many coefficients a step has; 0 in the closing exchange."""
        numbers = dict(zip(_NAMES, (float(s) for s in scalars[:_NUMBERS]), strict=True))
        rest = scalars[_NUMBERS:]
        triangle = basis * (basis + 1) // 2
        kinks = numbers["kinks"] > 0
        rows = 2 if kinks else 1
        slopes, rest = rest[: rows * basis].reshape(rows, basis), rest[rows * basis :]
        curvature, rest = _symmetric(rest[:triangle], basis), rest[triangle:]
        none = np.zeros((basis, basis))
        if not kinks:
            return Description(**numbers, slopes=slopes, curvature=curvature, resting=none, disturbed=none, along=rest)
        resting, disturbed = (_symmetric(rest[i * triangle : (i + 1) * triangle], basis) for i in range(2))
        rest = rest[2 * triangle :]
        return Description(
            **numbers, slopes=slopes, curvature=curvature, resting=resting, disturbed=disturbed, along=rest
        )

    @property
    def slopes_at_ends(self) -> Array:
        """The slopes at x and at y (2, k+1), where a smooth penalty states only those at x."""
        if len(self.slopes) == 2 or not self.slopes.size:
            return self.slopes
        return np.vstack([self.slopes, self.slopes + self.curvature[-1]])


_NUMBERS = 12


@dataclass(frozen=True)
class Answer:
    """A party's answer to a question.

    fraction, scale   how much of the step stays within bounds, and the factor that leads back into a ball
    penalty           at x + fraction * step, scaled
    slopes            of the penalty there, along the basis (k+1,)
    wall              (bound, normal (k+1,)):  normal^T c <= bound  holds for every step c within bounds
    """

    fraction: float
    scale: float
    penalty: float
    slopes: Array
    wall: Array

    def pack(self) -> Array:
        return np.concatenate([[self.fraction, self.scale, self.penalty], self.slopes, self.wall])

    @staticmethod
    def unpack(scalars: Array) -> "Answer":
        fraction, scale, penalty = (float(s) for s in scalars[:3])
        basis = (scalars.size - 4) // 2
        return Answer(fraction, scale, penalty, scalars[3 : 3 + basis], scalars[3 + basis :])


def add_answers(answers: Sequence[Answer]) -> Answer:
    """Parties that take a common step take as much of it as all can."""
    total = answers[0]
    for other in answers[1:]:
        total = Answer(
            min(total.fraction, other.fraction),
            min(total.scale, other.scale),
            total.penalty + other.penalty,
            total.slopes + other.slopes,
            total.wall + other.wall,
        )
    return total


def add_reports(reports: Sequence[Description]) -> Description:
    """All that secure aggregation will show of the penalties: the sums."""
    total = reports[0]
    for other in reports[1:]:
        numbers = dict(zip(_NAMES, np.add(total.numbers, other.numbers), strict=True))
        ends = total.kinks or other.kinks
        total = replace(
            total,
            **numbers,
            slopes=total.slopes_at_ends + other.slopes_at_ends if ends else total.slopes + other.slopes,
            curvature=total.curvature + other.curvature,
            resting=total.resting + other.resting,
            disturbed=total.disturbed + other.disturbed,
            along=total.along + other.along,
        )
    return total


_NAMES = (
    *("penalty", "reached", "stationarity", "gain", "width", "kinks", "reach"),
    *("conjugate", "supposed", "open", "drift_slope", "drift_size"),
)


@cache
def _upper(size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    return np.triu_indices(size)


def _symmetric(packed: Array, size: int) -> Array:
    matrix = np.zeros((size, size))
    matrix[_upper(size)] = packed
    return matrix + np.triu(matrix, 1).T
