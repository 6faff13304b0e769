"""Where a round of ADMM sharing starts or ends, as the coordinator sees it, and combinations of such places."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from plait._types import Array


@dataclass(frozen=True)
class Iterate:
    """Shares D_m x_m (M, N), z and u (N,), and b: where a round starts or ends."""

    shares: Array
    z: Array
    u: Array
    intercept: float

    @cached_property
    def total(self) -> Array:
        """S = sum_m D_m x_m + b."""
        return self.shares.sum(axis=0) + self.intercept

    @cached_property
    def gap(self) -> Array:
        """S - z."""
        return self.total - self.z

    @property
    def v(self) -> Array:
        return self.gap + self.u

    @property
    def pull(self) -> Array:
        """S + u as the z-update saw it: z = prox(pull) and u = pull - z follow from it."""
        return self.z + self.u

    def flat(self) -> Array:
        """All that the next round depends on; the intercept weighs as much as the scores that it moves."""
        return np.concatenate([self.shares.ravel(), self.pull, [np.sqrt(self.z.size) * self.intercept]])

    def rescaled(self, factor: float) -> "Iterate":
        """The same point after rho has been multiplied by `factor`."""
        return replace(self, u=self.u / factor)


def mix(iterates: Sequence[Iterate], coefficients: Sequence[float] | Array) -> Iterate:
    """The affine combination of iterates."""
    return Iterate(
        combine([i.shares for i in iterates], coefficients),
        combine([i.z for i in iterates], coefficients),
        combine([i.u for i in iterates], coefficients),
        float(np.dot(coefficients, [i.intercept for i in iterates])),
    )


def combine(arrays: Sequence[Array], coefficients: Sequence[float] | Array) -> Array:
    """sum_j c_j array_j."""
    total = coefficients[0] * arrays[0]
    for c, a in zip(coefficients[1:], arrays[1:], strict=True):
        if c != 0:
            total += c * a
    return total
