"""Weights from one noisy Hessian and a few noisy gradients: nothing here sees data.

A noisy gradient g_k at x_k tells the right-hand side b = H x* of the optimum x*: b_k = H x_k - g_k, with noise sigma_k.
The b_k are averaged, each counted by 1 / sigma_k^2, and the weights are the posterior mean given the average.  In the
eigenbasis of H, with e an eigenvalue, lambda the penalty, tau^2 the prior variance of a weight and s^2 the variance of
the average's noise, each coordinate is

    b / (e + lambda + S),   S = e (1 / f - 1),   f = e^2 / (e^2 + (s^2 + k e) / tau^2),

the minimiser of u^T H u / 2 - b^T u + lambda |u|^2 / 2 + u^T S u / 2. Any other penalty takes the place of the ridge in
that problem.  Early averages are noisy and are shrunk most, so that no step goes far astray.  k e is the variance of b
between samples of rows (`Lesson.sampling`): a model is for rows that it has not seen.  The weight of a constant column,
the last one, has no penalty.

H is the curvature at the offset.  Where the score varies much, the loss is flatter: `secant` says by which factor, for
a score of this spread, and H counts that much less, in b_k, in e and in f.  Of this lessening counts as much as f says
that the score is signal, for noise makes scores vary, too.

The prior: before anything is seen, a party's score varies between rows by STRONG or by WEAK, at even odds, its weights
being alike in all directions.  With W the sum of the rows' curvatures that is tau^2 = STRONG W / trace H, or WEAK
instead of STRONG; W / trace H counts as at most SPARSE, for rows of norm 1.  The average has variance tau^2 e^2 + s^2 +
k e along each direction, which says how likely either of them is, and f is the mean of both.  So a party that has
little to say is soon taken to have little to say.

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
FLOOR = 0.4
"""The floor of eigenvalues in units of sigma sqrt(d); noise alone has eigenvalues up to 2 sigma sqrt(d)."""
LEAST_KEPT = 1e-12  # smallest f: far below what anybody could notice, and 1 / f keeps its digits
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
    """A noisy Hessian in its eigenbasis, cleaned, and tau^2 for a score that varies by 1.

    `free` where the last column has no penalty.
    """

    values: Floats
    vectors: Floats
    unit: float
    curvature: float
    sampling: float
    secant: Callable[[float], float]
    free: bool

    @classmethod
    def of(
        cls,
        hessian: Floats,
        sigma: float,
        curvature: float,
        sampling: float = 0.0,
        secant: Callable[[float], float] = lambda spread: 1.0,
        largest: float = SPARSE,
        free: bool = False,
    ) -> "NoisyNewton":
        """From a Hessian with noise sigma on its diagonal, and the sum of the rows' curvatures.

        `sampling` and `secant` as in `Lesson`; `largest` is what W / trace H counts as at most.
        """
        found, vectors = np.linalg.eigh(hessian)
        values = _cleaned(found, sigma / math.sqrt(2))
        unit = min(largest, curvature / float(values.sum()))
        return cls(values, vectors, unit, curvature, sampling, secant, free)

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
            weights = self._ridged(average, curvature, factor * penalty.ridge)
        else:
            weights = self._penalised(average, curvature, penalty, factor, state.weights)
        energies = self.values * (self.vectors.T @ weights) ** 2
        whole = float(energies.sum())
        return NewtonState(weights, average, precision, float(energies @ kept) / whole if whole > 0 else 0.0)

    def _kept(self, values: Floats, average: Floats, variance: float) -> Floats:
        """f (d,): what is kept of an average with this variance, the mean over both priors."""
        signal = np.outer([STRONG, WEAK], self.unit * values**2)
        spread = signal + variance + self.sampling * values
        evidence = -np.sum(np.log(spread) + average**2 / spread, axis=1) / 2
        chance = np.exp(evidence - evidence.max())
        kept: Floats = chance / chance.sum() @ (signal / spread)
        return np.maximum(kept, LEAST_KEPT)

    def _ridged(self, average: Floats, curvature: Floats, ridge: float) -> Floats:
        """The minimiser with a ridge on every weight, but for that of a free column (Sherman and Morrison)."""
        solved: Floats = average / (curvature + ridge)
        if self.free:
            column = self.vectors[-1]
            moved = column / (curvature + ridge)
            solved = solved + moved * (ridge * (column @ solved) / (1 - ridge * (column @ moved)))
        return self.vectors @ solved

    def _penalised(self, average: Floats, curvature: Floats, penalty: Penalty, factor: float, start: Floats) -> Floats:
        """The minimiser with any penalty on every weight; that of a free column is eliminated first."""
        matrix, right = (self.vectors * curvature) @ self.vectors.T, self.vectors @ average
        if not self.free:
            return _minimised(matrix, right, penalty, factor, start)
        beside, own = matrix[:-1, -1], matrix[-1, -1]
        within = matrix[:-1, :-1] - np.outer(beside, beside) / own
        weights = _minimised(within, right[:-1] - beside * (right[-1] / own), penalty, factor, start[:-1])
        return np.append(weights, (right[-1] - beside @ weights) / own)

    def energy(self, weights: Floats) -> float:
        """weights^T H weights."""
        return float(self.values @ (self.vectors.T @ weights) ** 2)


def _minimised(matrix: Floats, right: Floats, penalty: Penalty, factor: float, start: Floats) -> Floats:
    """The minimiser of u^T M u / 2 - right^T u + factor penalty(u)."""
    # A residual of 1e-9 is far below the noise.
    return CompositeProblem(penalty, Quadratic.of(matrix)).solve(right, factor, start, 1e-9)


def _cleaned(values: Floats, sigma: float) -> Floats:
    """What the true matrix has along the eigenvectors of a noisy one, at least the floor; `values` (d,) ascend."""
    tiny = np.finfo(float).tiny
    if sigma == 0:
        return np.maximum(values, tiny)
    apart = values[:, None] - values[None, :]
    spread = np.sum(apart / (apart**2 + sigma**2), axis=1)
    rising = np.asarray(isotonic_regression(values - 2 * sigma**2 * spread).x)
    return np.maximum(rising, FLOOR * sigma * math.sqrt(values.size))
