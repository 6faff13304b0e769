"""Weights from one noisy Hessian and a few noisy gradients: nothing here sees data.

A noisy gradient g_k at x_k tells the right-hand side b = H x* of the optimum x*: b_k = H x_k - g_k, with noise sigma_k.
The b_k are averaged, each counted by 1 / sigma_k^2, and the weights are the posterior mean given the average.  In the
eigenbasis of H, with e an eigenvalue, lambda the penalty, tau^2 the prior variance of a weight and s^2 the variance of
the average, each coordinate is

    b / (e + lambda + S),   S = e (1 / f - 1),   f = e^2 / (e^2 + s^2 / tau^2),

the minimiser of u^T H u / 2 - b^T u + lambda |u|^2 / 2 + u^T S u / 2. Any other penalty takes the place of the ridge in
that problem.  Early averages are noisy and are shrunk most, so that no step goes far astray.

H is the curvature at the offset.  Where the score varies much, the loss is flatter: `secant` says by which factor, for
a score of this spread, and H counts that much less, in b_k, in e and in f.  Of this lessening counts as much as f says
that the score is signal, for noise makes scores vary, too.

The prior: before anything is seen, a party's score varies between rows by STRONG, with probability LIKELY, or by
WEAK, its weights being alike in all directions.  With W the sum of the rows' curvatures that is tau^2 = STRONG W /
trace H, or WEAK instead of STRONG; W / trace H counts as at most SPARSE.  The average has variance tau^2 e^2 + s^2
along each direction, which says how likely either of them is, and f is the mean of both.  So a party that has little
to say is soon taken to have little to say.

The Hessian: noise spreads the eigenvalues, and its eigenvectors are not those of the true matrix T.  What counts is
v_i^T T v_i.  For noise whose entries beside the diagonal have standard deviation sigma its best estimate is

    e_i - 2 sigma^2 sum_j (e_i - e_j) / ((e_i - e_j)^2 + sigma^2),

smoothed over one sigma (Bun, Allez, Bouchaud and Potters 2016), then made to rise with i and raised to a floor.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from plait.problem.penalties import Penalty
from plait.problem.prox_newton import CompositeProblem, Quadratic

Floats = NDArray[np.float64]

STRONG = 2.0  # variance of a party's score between rows, in squared logits, where it has something to say
WEAK = 0.05  # the same where it has little to say: a fortieth
SPARSE = 3.0  # largest W / trace H: in rows that are mostly zeros, weights that make the score vary would be huge
LIKELY = 0.95  # probability of STRONG before anything is seen: a helper is asked because it has something to say
LIKELY_OF_SEVERAL = 0.8  # the same where there are several helpers: one may bring all that the others have to say
FLOOR = 0.4
"""The floor of eigenvalues in units of sigma sqrt(d); noise alone has eigenvalues up to 2 sigma sqrt(d)."""
LEAST_NOISE = 1e-150  # standard deviation that an exact gradient counts as: 1 / sigma^2 is then still a finite number


@dataclass(frozen=True, eq=False)
class NewtonState:
    """The current weights (d), the averaged right-hand sides in the eigenbasis (d), and 1 / their variance.

    `signal` is the mean of f over the energy of the score.
    """

    weights: Floats
    average: Floats
    precision: float
    signal: float


@dataclass(frozen=True, eq=False)
class NoisyNewton:
    """A noisy Hessian in its eigenbasis, cleaned, and tau^2 for a score that varies by 1."""

    values: Floats
    vectors: Floats
    unit: float
    likely: float
    curvature: float
    secant: Callable[[float], float]

    @classmethod
    def of(
        cls,
        hessian: Floats,
        sigma: float,
        curvature: float,
        alone: bool = True,
        secant: Callable[[float], float] = lambda spread: 1.0,
    ) -> "NoisyNewton":
        """From a Hessian with noise sigma on its diagonal, and the sum of the rows' curvatures.

        `alone` where there is no other helper.  `secant` as in `Lesson.secant`.
        """
        found, vectors = np.linalg.eigh(hessian)
        values = _cleaned(found, sigma / math.sqrt(2))
        likely = LIKELY if alone else LIKELY_OF_SEVERAL
        return cls(values, vectors, min(SPARSE, curvature / float(values.sum())), likely, curvature, secant)

    def start(self) -> NewtonState:
        zero = np.zeros(self.values.size)
        return NewtonState(weights=zero, average=zero, precision=0.0, signal=0.0)

    def step(
        self, state: NewtonState, gradient: Floats, sigma: float, penalty: Penalty, factor: float = 1.0
    ) -> NewtonState:
        """Average in what `gradient`, with noise `sigma`, tells at state.weights; then shrink.

        The penalty counts `factor` times: as often as all rows whose losses the gradient is of.
        """
        told = max(sigma, LEAST_NOISE) ** -2
        precision = state.precision + told
        flatter = 1 - self.secant(math.sqrt(self.energy(state.weights) / self.curvature))
        values = self.values * (1 - flatter * state.signal)
        right = values * (self.vectors.T @ state.weights) - self.vectors.T @ gradient
        average = state.average + (right - state.average) * (told / precision)
        kept = self._kept(values, average, 1 / precision)
        curvature = values / kept
        if penalty.quadratic:
            weights = self.vectors @ (average / (curvature + factor * penalty.ridge))
        else:
            weights = self._penalised(average, curvature, penalty, factor, state.weights)
        energies = self.values * (self.vectors.T @ weights) ** 2
        whole = float(energies.sum())
        return NewtonState(weights, average, precision, float(energies @ kept) / whole if whole > 0 else 0.0)

    def _kept(self, values: Floats, average: Floats, variance: float) -> Floats:
        """f (d,): what is kept of an average with this variance, the mean over both priors."""
        signal = np.outer([STRONG, WEAK], self.unit * values**2)
        spread = signal + variance
        evidence = np.log([self.likely, 1 - self.likely]) - np.sum(np.log(spread) + average**2 / spread, axis=1) / 2
        chance = np.exp(evidence - evidence.max())
        kept: Floats = chance / chance.sum() @ (signal / spread)
        return np.maximum(kept, np.finfo(float).tiny)

    def _penalised(self, average: Floats, curvature: Floats, penalty: Penalty, factor: float, start: Floats) -> Floats:
        matrix = (self.vectors * curvature) @ self.vectors.T
        problem = CompositeProblem(penalty, Quadratic.of(matrix))
        # A residual of 1e-9 is far below the noise.
        return problem.solve(self.vectors @ average, factor, start, 1e-9)

    def energy(self, weights: Floats) -> float:
        """weights^T H weights."""
        return float(self.values @ (self.vectors.T @ weights) ** 2)


def _cleaned(values: Floats, sigma: float) -> Floats:
    """What the true matrix has along the eigenvectors of a noisy one, at least the floor; `values` (d,) ascend."""
    tiny = np.finfo(float).tiny
    if sigma == 0:
        return np.maximum(values, tiny)
    apart = values[:, None] - values[None, :]
    spread = np.sum(apart / (apart**2 + sigma**2), axis=1)
    rising = np.asarray(isotonic_regression(values - 2 * sigma**2 * spread).x)
    return np.maximum(rising, FLOOR * sigma * math.sqrt(values.size))
