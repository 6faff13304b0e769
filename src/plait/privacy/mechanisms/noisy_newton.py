"""Weights from one noisy Hessian and a few noisy gradients: nothing here sees data.

A noisy gradient g_k at x_k gives an estimate of the right-hand side b = H x* of the optimum x*: b_k = H x_k - g_k, with
noise sigma_k.  The b_k are averaged with weights 1 / sigma_k^2, and the weights of the model are the posterior mean
given the average b.  In the eigenbasis of H each coordinate is

    b / (e + lambda + S),   S = e (1 / f - 1),   f = e^2 / (e^2 + (s^2 + v e) / tau^2),

    e        the eigenvalue
    lambda   the ridge penalty
    tau^2    the prior variance of the weights along this direction
    s^2      the variance of the average's noise
    v e      the variance of b over random draws of the rows (`Lesson.sampling` is v): the model is for new rows

This is the minimiser of u^T H u / 2 - b^T u + lambda |u|^2 / 2 + u^T S u / 2.  Any other penalty takes the place of the
ridge in that problem.  Early averages are noisy and are shrunk the most, so that early steps are small.  The weight of
a constant column, the last one, has no penalty.

H is the curvature at the offset.  Where the score varies much, the loss is flatter: `secant` is the factor for a score
of this spread, and multiplies H in b_k, in e and in f.  Noise, too, makes scores vary.  So 1 - secant is first
multiplied by the mean of f, the fraction of the score that is signal.

The prior: before anything is seen, the variance of a party's score between rows is STRONG with probability 1/2, else
one of WEAK, all of these as likely.  Its weights have a variance that is proportional to e^p: p is 0 with probability
1/2, else -1/2 or -1.  With W the sum of the rows' curvatures and V the variance of the score,

    tau^2 = V W e^p / (the sum of e^(p + 1) over all directions).

W / sum e is at most SPARSE, for rows of norm 1.  The average has variance tau^2 e^2 + s^2 + v e along each direction.
Its likelihood gives the probability of each prior, and f is the mean over them.  So the weights of a party without
signal soon become small.  Where the noise leaves all priors likely, f is mostly that of STRONG: to miss a signal costs
more than to keep a little noise.

The Hessian: noise spreads the eigenvalues, and the eigenvectors v_i are not those of the true matrix T.  The curvature
along them is v_i^T T v_i.  Where the noise beside the diagonal has standard deviation sigma, its best estimate is

    e_i - 2 sigma^2 sum_j (e_i - e_j) / ((e_i - e_j)^2 + sigma^2),

smoothed over one sigma (Bun, Allez, Bouchaud and Potters 2016).  The estimates are then made to increase with i, and
raised to a floor.
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

STRONG = 2.0  # variance of a party's score between rows, in squared logits, where its columns hold signal
WEAK = tuple(STRONG * 10 ** (-k / 2) for k in range(1, 6))
"""The same where its columns hold little signal: 0.6 to 0.006, in steps of a factor sqrt(10), which change f little."""
VARIANCES = np.array([STRONG, *WEAK])
POWERS = np.array([0.0, -0.5, -1.0])
"""0: all weights are alike; -1: all directions tell as much, also those in which rows differ little."""
SPARSE = 3.0  # largest W / trace H: for rows that are mostly zeros the prior would else allow huge weights
FLOOR = 0.4
"""The floor of eigenvalues, in units of sigma sqrt(d): noise alone has eigenvalues up to 2 sigma sqrt(d)."""
LEAST_KEPT = 1e-12  # smallest f: such a weight is as good as 0, and 1 / f stays a finite number
LEAST_NOISE = 1e-150  # smallest standard deviation of a gradient's noise: 1 / sigma^2 stays a finite number


@dataclass(frozen=True, eq=False)
class NewtonState:
    """The current weights (d,), the averaged right-hand side in the eigenbasis (d,), and 1 / its variance.

    `signal` is the mean of f, weighted by the energy of the score along each direction.
    """

    weights: Floats
    average: Floats
    precision: float
    signal: float


@dataclass(frozen=True, eq=False)
class NoisyNewton:
    """A noisy Hessian (d, d) in its eigenbasis, with cleaned eigenvalues.

    values      the cleaned eigenvalues e (d,)
    vectors     the eigenvectors (d, d), as columns
    unit        tau^2 for a score of variance 1 and p = 0: W / trace H, or `largest` where that is smaller
    curvature   W, the sum of the rows' curvatures
    sampling    `Lesson.sampling`
    secant      `Lesson.secant`
    free        whether the last column has no penalty
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

        `sampling` and `secant` are those of `Lesson`; `largest` is the upper limit of W / trace H.
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
        """Add to the average what `gradient` (d,), with noise `sigma`, tells at state.weights; then shrink.

        The penalty is multiplied by `factor`: the sum of the rows' factors in the gradient (`Lesson.mass`).
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
        """f (d,): the fraction that is kept of an average with this variance, the mean over all priors."""
        shapes = values ** POWERS[:, None]
        shapes *= values.sum() / (shapes @ values)[:, None]
        signal = np.kron(VARIANCES[:, None], self.unit * values**2 * shapes)
        spread = signal + variance + self.sampling * values
        evidence = -np.sum(np.log(spread) + average**2 / spread, axis=1) / 2
        before = np.outer(_first_is_half(VARIANCES.size), _first_is_half(POWERS.size)).ravel()
        chance = before * np.exp(evidence - evidence.max())
        kept: Floats = chance / chance.sum() @ (signal / spread)
        return np.maximum(kept, LEAST_KEPT)

    def _ridged(self, average: Floats, curvature: Floats, ridge: float) -> Floats:
        """The minimiser (d,) with a ridge on every weight except that of a free column (Sherman and Morrison)."""
        solved: Floats = average / (curvature + ridge)
        if self.free:
            column = self.vectors[-1]
            moved = column / (curvature + ridge)
            solved = solved + moved * (ridge * (column @ solved) / (1 - ridge * (column @ moved)))
        return self.vectors @ solved

    def _penalised(self, average: Floats, curvature: Floats, penalty: Penalty, factor: float, start: Floats) -> Floats:
        """The minimiser (d,) with any penalty; the weight of a free column has none and is eliminated first."""
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


def _first_is_half(count: int) -> Floats:
    """Probabilities (count,): 1/2 for the first, and all others as likely as each other."""
    return np.array([0.5, *[0.5 / (count - 1)] * (count - 1)])


def _cleaned(values: Floats, sigma: float) -> Floats:
    """The estimates of v_i^T T v_i (d,), at least the floor; `values` (d,) are the noisy eigenvalues, ascending."""
    tiny = np.finfo(float).tiny
    if sigma == 0:
        return np.maximum(values, tiny)
    apart = values[:, None] - values[None, :]
    spread = np.sum(apart / (apart**2 + sigma**2), axis=1)
    rising = np.asarray(isotonic_regression(values - 2 * sigma**2 * spread).x)
    return np.maximum(rising, FLOOR * sigma * math.sqrt(values.size))
