"""The audit passes the real mechanisms and fails mutants of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from plait.privacy.audit.games import (
    hill_climb,
    mu_lower_bound,
    one_run_epsilon,
    proportion_bounds,
    scale_test,
    sensitivity_search,
)
from plait.privacy.audit.suite import GRADIENT, REPLACE, REST, Effort, gradient_game
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.mechanisms.releases import NoisyGram
from plait.privacy.noise import InsecureTestNoise, Keystream, Release

MU = 1.0


def stream(seed: int) -> Keystream:
    return InsecureTestNoise(seed).stream(Release("audit", "p", 0, "n", ""))


def rows(first: list[float]) -> ClippedRows:
    return ClippedRows.of(np.vstack([first, REST]))


def gram_change(gram: NoisyGram, pair: np.ndarray) -> float:
    a, b = rows(pair[:2].tolist()), rows(pair[2:].tolist())
    return float(np.linalg.norm(gram.full(gram.value(a, np.ones(4)) - gram.value(b, np.ones(4)))))


def test_the_search_attains_and_never_exceeds_the_gram_sensitivity() -> None:
    gram = NoisyGram.for_mu(MU, 2, 1.0, REPLACE)
    rng = np.random.default_rng(0)
    worst, at = hill_climb(lambda p: gram_change(gram, p), np.array([1.0, 0.1, 0.2, 1.0]), 1500, rng)
    assert 0.95 * gram.sensitivity < worst <= gram.sensitivity
    values = [gram.full(gram.value(rows(v), np.ones(4))).ravel() for v in (at[:2].tolist(), at[2:].tolist())]
    assert sensitivity_search([(values[0], values[1])], gram.sensitivity).passed
    blank = NoisyGram.for_mu(MU, 2, 1.0, Adjacency.ZERO_OUT)
    assert not sensitivity_search([(values[0], values[1])], blank.sensitivity).passed


def test_the_scale_test_passes_true_noise_and_fails_less() -> None:
    noise = GRADIENT.grid.noisy(np.zeros(20_000), stream(1))
    assert scale_test(noise, GRADIENT.sigma).passed
    assert not scale_test(0.95 * noise, GRADIENT.sigma).passed


def test_the_one_run_bound_without_delta_is_the_binomial_test() -> None:
    bound = one_run_epsilon(800, 1000, 0.0, 1000)
    q = 1 / (1 + np.exp(-bound))
    assert binom.sf(799, 1000, q) == pytest.approx(0.05, rel=1e-3)
    assert one_run_epsilon(500, 1000, 1e-5, 1000) == 0.0


@pytest.mark.parametrize(("k", "n"), [(0, 20), (7, 20), (20, 20)])
def test_proportion_bounds_invert_the_binomial_tails(k: int, n: int) -> None:
    low, high = proportion_bounds(k, n, 0.99)
    if k > 0:
        assert binom.sf(k - 1, n, low) == pytest.approx(0.01)
    if k < n:
        assert binom.cdf(k, n, high) == pytest.approx(0.01)


def test_the_proved_mu_is_rarely_above_the_true_one() -> None:
    rng = np.random.default_rng(0)
    above = 0
    for _ in range(200):
        guesses = rng.standard_normal((2, 500)) + np.array([[0.5], [-0.5]]) > 0
        above += mu_lower_bound(guesses[0], guesses[1]) > 1.0
    assert above <= binom.ppf(0.999, 200, 0.01)
    assert norm.cdf(0.5) == pytest.approx(0.6915, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_the_long_game_passes_the_real_gradient(seed: int) -> None:
    shift = 10**6 * (seed + 1)
    real = lambda f, q, k: GRADIENT.release(ClippedRows.of(f), q, stream(k + shift))  # noqa: E731
    finding = gradient_game(real, Effort(20_000))
    assert finding.passed, finding
    assert finding.measured > 0.9


@pytest.mark.slow
def test_the_long_game_sees_ten_percent_too_little_noise() -> None:
    short = replace(GRADIENT, grid=replace(GRADIENT.grid, scale=int(GRADIENT.grid.scale * 0.9)))
    finding = gradient_game(lambda f, q, k: short.release(ClippedRows.of(f), q, stream(k)), Effort(20_000))
    assert not finding.passed
