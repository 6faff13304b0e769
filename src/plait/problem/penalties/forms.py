"""What penalties say of themselves: a parabola above them, and their group norms."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plait._types import Array


@dataclass(frozen=True)
class Parabola:
    """constant + x^T diag(curvature) x / 2, curvature (d,)."""

    constant: float
    curvature: Array


@dataclass(frozen=True)
class Groups:
    """The group norms  sum over groups of weight_g ||x_g||:  the group of every column (d,), and the weights."""

    member: npt.NDArray[np.intp]
    weight: Array

    def norms(self, x: Array) -> Array:
        """||x_g|| of every group."""
        largest = float(np.max(np.abs(x), initial=0.0))
        if not largest >= 1e150:  # its square is a number
            return np.sqrt(np.bincount(self.member, weights=x * x, minlength=self.weight.size))
        return largest * self.norms(x / largest)
