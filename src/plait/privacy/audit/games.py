"""Does a mechanism do what it claims? Tests that run it and try to prove it wrong.

    sensitivity search   the largest change of a release over neighbours, against its stated sensitivity
    scale test           the spread, independence and support of the noise, against its stated sigma
    game                 many runs on D and D', a lower confidence bound on mu, against the stated mu
    one run              every row a canary with a secret sign, a lower bound on epsilon from one release

A failure proves a fault, up to the stated confidence; a pass proves nothing.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, binom, chi2, norm

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Finding:
    """The outcome of one test: what was measured, the most that it may be, and whether it passed."""

    test: str
    measured: float
    allowed: float
    passed: bool

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "FAILED"
        return f"{verdict}: {self.test}: {self.measured:.4g} (at most {self.allowed:.4g})"


def sensitivity_search(changes: Iterable[tuple[Floats, Floats]], stated: float, name: str = "sensitivity") -> Finding:
    """The largest |f(D) - f(D')| over given neighbours must not exceed the stated sensitivity."""
    worst = max(float(np.linalg.norm(one - two)) for one, two in changes)
    return Finding(name, worst, stated, worst <= stated)


def hill_climb(
    change: Callable[[Floats], float], start: Floats, steps: int, rng: np.random.Generator
) -> tuple[float, Floats]:
    """A random search for the pair of neighbours between which a release changes most; a vector encodes the pair."""
    best, at, width = change(start), start, 1.0
    for _ in range(steps):
        trial = at + width * rng.standard_normal(start.size)
        value = change(trial)
        if value > best:
            best, at, width = value, trial, min(width * 1.5, 10.0)  # wider after a success, as in the 1/5 rule
        else:
            width = max(width * 0.9, 1e-3)  # narrower after a failure: about one success in five keeps the width
    return best, at


def scale_test(noise: Floats, sigma: float, confidence: float = 0.9999) -> Finding:
    """Is the spread of `noise`, release minus clean value, too small for the stated sigma?"""
    n = noise.size
    upper = math.sqrt(float(np.sum(noise**2)) / chi2.ppf(1 - confidence, n))
    ratio = sigma / upper if upper > 0 else math.inf
    return Finding("noise too small (stated / largest plausible sigma)", ratio, 1.0, ratio <= 1.0)


def independence_test(first: Floats, second: Floats, sigmas: float = 5.0) -> Finding:
    """Noise of two releases must be uncorrelated: |r| below `sigmas` / sqrt(n)."""
    r = float(first @ second / math.sqrt((first @ first) * (second @ second)))
    allowed = sigmas / math.sqrt(first.size)
    return Finding("correlation between releases", abs(r), allowed, abs(r) <= allowed)


def support_test(release: Floats, matrix: Floats, least: float = 0.1) -> Finding:
    """A share must have a part outside the column space of the data, or its support tells the data."""
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    basis = left[:, values > 1e-9 * values[0]]  # smaller singular values count as 0
    inside = float(np.linalg.norm(basis.T @ release) / np.linalg.norm(release))
    return Finding("part of a share in the column space", inside, 1 - least**2 / 2, inside <= 1 - least**2 / 2)


def proportion_bounds(successes: int, trials: int, confidence: float) -> tuple[float, float]:
    """Two one-sided Clopper-Pearson bounds, each with `confidence`."""
    low = 0.0 if successes == 0 else float(beta.ppf(1 - confidence, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.ppf(confidence, successes + 1, trials - successes))
    return low, high


def mu_lower_bound(on_first: NDArray[np.bool_], on_second: NDArray[np.bool_], confidence: float = 0.99) -> float:
    """mu >= Phi^-1(TPR) - Phi^-1(FPR), from guesses "it was D" when it was D and when it was D'."""
    each = 1 - (1 - confidence) / 2
    low, _ = proportion_bounds(int(on_first.sum()), on_first.size, each)
    _, high = proportion_bounds(int(on_second.sum()), on_second.size, each)
    return max(0.0, float(norm.ppf(low) - norm.ppf(high)))


def game(
    run_first: Callable[[int], Floats],
    run_second: Callable[[int], Floats],
    statistic: Callable[[Floats], float],
    stated_mu: float,
    runs: int,
    confidence: float = 0.99,
) -> Finding:
    """Guess from transcripts which of two neighbours was used; the proved mu must not exceed the stated one.

    `statistic` is positive for the first data set, as a log likelihood ratio with the stated noise is.
    """
    on_first = np.array([statistic(run_first(k)) > 0 for k in range(runs)])
    on_second = np.array([statistic(run_second(runs + k)) > 0 for k in range(runs)])
    bound = mu_lower_bound(on_first, on_second, confidence)
    return Finding("distinguishing game (mu proved)", bound, stated_mu, bound <= stated_mu)


def likelihood_ratio(first: Floats, second: Floats, sigma: Floats | float) -> Callable[[Floats], float]:
    """log N(w; first, sigma^2) - log N(w; second, sigma^2) of a transcript w, coordinates independent."""
    direction = (first - second) / np.square(sigma)
    middle = (first + second) / 2
    return lambda w: float(direction @ (w - middle))


def one_run_epsilon(correct: int, guesses: int, delta: float, records: int, confidence: float = 0.95) -> float:
    """A lower bound on epsilon from `correct` of `guesses` secret signs.

    Steinke, Nasr and Jagielski (2023), theorem 5.2: with F the tail of Binomial(guesses, e^eps / (1 +
    e^eps)), the probability of so many correct guesses is at most F(v) + 2 N delta max_i (F(v - i) -
    F(v)) / i.
    """

    def plausible(epsilon: float) -> bool:
        q = 1 / (1 + math.exp(-epsilon))
        tail = float(binom.sf(correct - 1, guesses, q))
        below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, q))
        steepest = float(np.max(below / np.arange(1, correct + 1))) if correct else 0.0
        return tail + 2 * records * delta * steepest > 1 - confidence

    if plausible(0.0):
        return 0.0
    low, high = 0.0, 50.0  # epsilons: one beyond 50 says nothing
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if plausible(middle) else (middle, high)
    return low


def one_run(
    scores: Floats, signs: Floats, stated_epsilon: float, delta: float, guesses: int, confidence: float = 0.95
) -> Finding:
    """Guess the secret signs of the `guesses` rows whose noisy scores are largest in absolute value."""
    chosen = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    correct = int(np.sum(np.sign(scores[chosen]) == signs[chosen]))
    bound = one_run_epsilon(correct, guesses, delta, scores.size, confidence)
    return Finding("one run with canaries (epsilon proved)", bound, stated_epsilon, bound <= stated_epsilon)
