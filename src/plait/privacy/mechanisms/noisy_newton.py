"""Weights from one noisy Hessian and a few noisy gradients: nothing here sees data.

Every noisy gradient g_k at x_k gives an estimate of the optimum, the Newton target x_k - H^-1 g_k, with
covariance sigma_g^2 H^-2. The targets are averaged with weights 1, 2, 3, ... (later ones start nearer) and
shrunk in the eigenbasis of the noisy Hessian: with e an eigenvalue, lambda the penalty, tau^2 the prior
variance of a weight and v the variance that averaging leaves of one gradient, each coordinate is multiplied
by

    e^2 / (e^2 + lambda e + v sigma_g^2 / tau^2),

the posterior mean of a Gaussian weight: the minimiser of |u - average|_H^2 / 2 + lambda |u|^2 / 2 + u^T S u / 2 with
S = v sigma_g^2 / (tau^2 H). Any other penalty takes the place of the ridge in that problem. Eigenvalues below the noise
of the Hessian are raised to a floor.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait.problem.penalties import Penalty
from plait.problem.prox_newton import CompositeProblem, Quadratic

Floats = NDArray[np.float64]

PRIOR_VARIANCE = 2.0
"""tau^2: rows have norm at most 1, so weights of a few units move a logit by a few units."""
FLOOR = 0.5
"""The floor in units of sigma_H sqrt(d); the noise matrix has eigenvalues up to 2 sigma_H sqrt(d)."""


@dataclass(frozen=True, eq=False)
class NewtonState:
    """The current weights (d), the averaged targets in the eigenbasis (d), and the number of targets."""

    weights: Floats
    average: Floats
    steps: int


@dataclass(frozen=True, eq=False)
class NoisyNewton:
    """A noisy Hessian in its eigenbasis, raised to the floor: the curvature that every step uses."""

    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, hessian: Floats, sigma: float) -> "NoisyNewton":
        values, vectors = np.linalg.eigh(hessian)
        floor = FLOOR * sigma * math.sqrt(values.size)
        return cls(np.maximum(values, 0.0) + floor + np.finfo(float).tiny, vectors)

    def start(self) -> NewtonState:
        zero = np.zeros(self.values.size)
        return NewtonState(weights=zero, average=zero, steps=0)

    def step(
        self, state: NewtonState, gradient: Floats, sigma: float, penalty: Penalty, factor: float = 1.0
    ) -> NewtonState:
        """Average in one more Newton target from `gradient` at state.weights, noise `sigma`; then shrink.

        The penalty counts `factor` times: N where the gradient is a sum over N records.
        """
        k = state.steps + 1
        target = self.vectors.T @ state.weights - (self.vectors.T @ gradient) / self.values
        average = state.average + (target - state.average) * 2 / (k + 1)
        left = 2 * (2 * k + 1) / (3 * k * (k + 1))  # sum j^2 / (sum j)^2 for j = 1..k
        curvature = self.values + left * sigma**2 / (PRIOR_VARIANCE * self.values)
        if penalty.quadratic:
            weights = self.vectors @ (self.values * average / (curvature + factor * penalty.ridge))
        else:
            weights = self._penalised(average, curvature, penalty, factor, state.weights)
        return NewtonState(weights, average, k)

    def _penalised(self, average: Floats, curvature: Floats, penalty: Penalty, factor: float, start: Floats) -> Floats:
        matrix = (self.vectors * curvature) @ self.vectors.T
        problem = CompositeProblem(penalty, Quadratic.of(matrix))
        # A residual of 1e-9 is far below the noise.
        return problem.solve(self.vectors @ (self.values * average), factor, start, 1e-9)

    def energy(self, weights: Floats) -> float:
        """weights^T H weights."""
        return float(self.values @ (self.vectors.T @ weights) ** 2)
