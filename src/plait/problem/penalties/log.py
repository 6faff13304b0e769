"""The logarithmic penalty: smooth and non-convex."""

from dataclasses import dataclass, replace

import numpy as np

from plait._checks import need_types
from plait._types import Array
from plait.errors import SettingError
from plait.problem.penalties.base import DEFAULT_ALPHA, FeasibleSet, Shape, Step, need_non_negative
from plait.problem.penalties.forms import Parabola
from plait.problem.scalar_roots import cauchy_hessian, cauchy_minima, half_log


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
        need_non_negative("LogPenalty(alpha)", self.alpha)
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise SettingError(f"LogPenalty(scale) must be positive and finite. Found {self.scale}.")

    def scaled(self, factor: float) -> "LogPenalty":
        return replace(self, alpha=factor * self.alpha)

    def need_closed(self, feasible: FeasibleSet) -> None:
        if np.isfinite(feasible.norm_bound):
            raise SettingError("LogPenalty goes with a box, not with a ball: no closed form is known. Use Box(...).")

    def shape_value(self, x: Array) -> float:
        return self.alpha * self.scale**2 * float(half_log(x / self.scale).sum())

    def shape_gradient(self, x: Array) -> Array:
        with np.errstate(over="ignore"):
            return self.alpha * x / (1 + (x / self.scale) ** 2)

    def shape_majoriser(self, at: Array, width: Array) -> Parabola:
        """The penalty is concave in x^2, so the parabola through `at` with the same slope lies above it."""
        h = self.alpha / (1 + (at / self.scale) ** 2)
        return Parabola(self.shape_value(at) - float(h @ (at * at)) / 2, h)

    def shape_prox(self, v: Array, step: Step) -> Array:
        return self.prox_within(v, step, None)

    def prox_within(self, v: Array, step: Step, feasible: FeasibleSet | None) -> Array:
        """The lower of the two minima, each moved to the nearest bound where it lies outside."""
        t = np.broadcast_to(np.asarray(step * self.alpha, dtype=np.float64), v.shape)
        near, far = (self.scale * r for r in cauchy_minima(v / self.scale, t))
        if feasible is not None:
            near, far = feasible.project(near), feasible.project(far)
        # The difference of the two objectives, without the parts that they share: a huge v would drown it.
        with np.errstate(over="ignore", invalid="ignore"):
            rise = self.scale**2 * t * (half_log(far / self.scale) - half_log(near / self.scale))
            fall = (far - near) * (v - (far + near) / 2)
        return np.where(rise < fall, far, near)

    def shape_jacobian(self, v: Array, step: Step) -> Array:
        return self.jacobian_within(v, step, None)

    def jacobian_within(self, v: Array, step: Step, feasible: FeasibleSet | None) -> Array:
        x = self.prox_within(v, step, feasible)
        jacobian = 1 / np.maximum(1 + step * self.alpha * cauchy_hessian(x / self.scale), 1e-3)
        return jacobian if feasible is None else jacobian * feasible.project_jacobian(x)
