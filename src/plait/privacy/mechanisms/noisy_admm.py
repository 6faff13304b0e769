"""Mechanism A: the ADMM x-update with isotropic noise and a proved sensitivity.

With kappa = lambda / (rho + tau), public targets |s_i| <= B_s and rows of norm at most 1, the party solves

    x = argmin over |x| <= R of |D x - s|^2 / 2 + kappa |x|^2 / 2 + R_0(x),  R_0 convex,

and sends u = clip(D x, B_o) + N(0, sigma^2 I_N). Replacing row i moves x by e with |e| <= |g| / kappa and
|D_-i e| <= |g| / (2 sqrt(kappa)), where |g| <= |r| + |r'| <= 2 (R + B_s); hence

    Delta^2 = (2 B_o)^2 + (R + B_s)^2 / kappa        one row is replaced
    Delta^2 = B_o^2 + (R + B_s)^2 / (4 kappa)        one row is set to zeros

A solver that ends with gradient norm eta adds 2 eta / (2 sqrt(kappa)), because both solutions may be inexact. A round
reads only the data and released values: it subtracts the share that was released, never the share before noise.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from plait._checks import need_types
from plait.errors import PrivacyError, SettingError
from plait.privacy.accounting import Cost, mu_of
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.mechanisms.base import DefaultMethod, GuaranteedMechanism, Schedule
from plait.privacy.mechanisms.paper import minimise_on_ball
from plait.privacy.mechanisms.wording import protected
from plait.privacy.noise import Grid, Keystream
from plait.problem.penalties import Ball, NoPenalty, Penalty
from plait.problem.prox_newton import CompositeProblem, Quadratic

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MechanismA(GuaranteedMechanism):
    """ADMM sharing with noise in every share: (epsilon, delta) differential privacy of every row, over all rounds.

    The guarantee covers the shares and not the weights that the party keeps.  So nothing is scored with these.
    A run fills in `kappa`, `rest` and `scale`, where R_0 is `scale` times `rest`.

    Parameters
    ----------
    epsilon : float
        The epsilon of all rounds together.
    rounds : int, default=10
        How many rounds are paid for.
    kappa : float, default=1.0
        lambda / (rho + tau); a run fills it in.
    delta : float, default=1e-5
        The delta of all rounds together.
    adjacency : Adjacency, default=Adjacency.REPLACE
        What may differ between two tables that are hard to tell apart: one row replaced, or set to zeros.
    radius : float, default=10.0
        The largest norm of the weights.
    target_bound : float, default=2.0
        Where targets are clipped.
    output_bound : float, default=2.0
        Where shares are clipped.
    residual : float, default=1e-6
        The largest gradient norm at which the x-update counts as solved; it is added to the sensitivity.
    clip : float, default=None
        The public norm to which longer rows are shortened; None is 1.
    rest : Penalty, default=NoPenalty()
        The penalty without its ridge; a run fills it in.
    scale : float, default=1.0
        The factor of `rest`; a run fills it in.
    """

    schedule: ClassVar[Schedule] = Schedule.EVERY_ROUND
    default_method: ClassVar[DefaultMethod] = DefaultMethod.FIXED_RHO

    epsilon: float
    rounds: int = 10
    kappa: float = 1.0
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.REPLACE
    radius: float = 10.0
    target_bound: float = 2.0
    output_bound: float = 2.0
    residual: float = 1e-6
    clip: float | None = None
    covers_weights: ClassVar[bool] = False
    rest: Penalty = field(default_factory=NoPenalty)
    scale: float = 1.0

    def __post_init__(self) -> None:
        need_types(self)
        mu_of(self.epsilon, self.delta)
        for name in ("rounds", "kappa", "radius", "target_bound", "output_bound"):
            if not getattr(self, name) > 0:
                raise SettingError(
                    f"`{name}` must be positive. Found {getattr(self, name)}. Without a strongly "
                    "convex penalty the x-update has no bounded sensitivity; use Recommended."
                )

    @property
    def guarantee(self) -> str:
        return f"{protected(self.epsilon, self.delta, self.adjacency)} in {self.rounds} rounds of shares"

    @property
    def max_rounds(self) -> int:
        return self.rounds

    @property
    def sensitivity(self) -> float:
        """The proved l2 sensitivity of the clipped share, with the error of the solver."""
        pull = (self.radius + self.target_bound) ** 2 / self.kappa
        own = self.output_bound**2
        square = 4 * own + pull if self.adjacency is Adjacency.REPLACE else own + pull / 4
        return math.sqrt(square) + self.residual / math.sqrt(self.kappa)

    def grid(self, records: int) -> Grid:
        """The noise grid of one round, for which all rounds together stay within (epsilon, delta)."""
        mu = mu_of(self.epsilon, self.delta) / math.sqrt(self.rounds)
        while True:
            grid = Grid.for_sigma(self.sensitivity / mu)
            if self._cost(grid, records).times(self.rounds).delta(self.epsilon) <= self.delta:
                return grid
            mu *= 1 - 1e-6  # a millionth more noise, until the cost of discrete noise is covered, too

    def cost(self, records: int) -> Cost:
        """The cost of one round."""
        return self._cost(self.grid(records), records)

    def _cost(self, grid: Grid, records: int) -> Cost:
        return Cost(mu=(self.sensitivity + grid.rounding(records)) / grid.sigma, slack=grid.slack(records))

    def solve(self, rows: ClippedRows, targets: Floats) -> Floats:
        """x (d,), the x-update for clipped targets (N,); PrivacyError where its gradient norm exceeds `residual`."""
        s = np.clip(targets, -self.target_bound, self.target_bound)
        hessian = rows.gram() + self.kappa * np.eye(rows.shape[1])
        linear = -rows.adjoint(s)
        if self.rest.quadratic:
            x = minimise_on_ball(hessian, linear, self.radius)
            found = ball_residual(hessian @ x + linear, x, self.radius)
        else:
            x, found = self._composite(hessian, -linear)
        if found > self.residual:
            raise PrivacyError(
                f"The x-update must be solved to a gradient of {self.residual:g}. Found {found:.1e}; nothing was "
                "released. Allow a larger `residual`, which costs a little noise."
            )
        return x

    def _composite(self, hessian: Floats, linear: Floats) -> tuple[Floats, float]:
        """The minimiser with R_0, after one proximal step beyond the solver's result, and a subgradient's norm there.

        x+ = prox(w), w = x - t (H x - b), makes (w - x+) / t a subgradient of R_0 and the ball at x+.
        """
        problem = CompositeProblem(self.rest + Ball(self.radius), Quadratic.of(hessian))
        # To a residual of 1e-13, near the limit of doubles; `solve` checks the residual that is left.
        start = problem.solve(linear, self.scale, np.zeros(linear.size), 1e-13)
        x = problem.proximal_step(start, linear, self.scale)
        gap = (start - x) / problem.t + hessian @ (x - start)
        return x, float(np.linalg.norm(gap))

    def value(self, rows: ClippedRows, targets: Floats) -> Floats:
        """The share (N,) before noise."""
        return self._share(rows, self.solve(rows, targets))

    def release(self, rows: ClippedRows, targets: Floats, stream: Keystream) -> Floats:
        """The share (N,) with its noise."""
        return self.noisy(rows, self.solve(rows, targets), stream)

    def noisy(self, rows: ClippedRows, x: Floats, stream: Keystream) -> Floats:
        """The release for the solution x of an x-update."""
        return self.grid(rows.shape[0]).noisy(self._share(rows, x), stream)

    def _share(self, rows: ClippedRows, x: Floats) -> Floats:
        return np.clip(rows.forward(x), -self.output_bound, self.output_bound)


def ball_residual(gradient: Floats, x: Floats, radius: float) -> float:
    """How far a gradient at x is from optimality on |x| <= radius; at the edge it may point along -x."""
    norm = float(np.linalg.norm(x))
    if norm < radius * (1 - 1e-9):  # within rounding error of the edge counts as on it
        return float(np.linalg.norm(gradient))
    inward = max(0.0, -float(gradient @ x) / norm**2)
    return float(np.linalg.norm(gradient + inward * x))


def column_sensitivity(target_norm: float, column_norm: float, kappa: float) -> float:
    """Sensitivity to replacing one column of norm at most C, for targets s: |s| C^2 / (kappa + C^2)."""
    return target_norm * column_norm**2 / (kappa + column_norm**2)
