"""The audit passes the real mechanisms and fails mutants of them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, norm

from plait.privacy.accounting import mu_of
from plait.privacy.admm import MechanismA
from plait.privacy.audit import (
    Finding,
    game,
    hill_climb,
    independence_test,
    likelihood_ratio,
    mu_lower_bound,
    one_run,
    one_run_epsilon,
    proportion_bounds,
    scale_test,
    sensitivity_search,
    support_test,
)
from plait.privacy.noise import InsecureTestNoise, Keystream, Release
from plait.privacy.paper import ColumnNoise
from plait.privacy.releases import NoisyGradient, NoisyGram, NoisyScores
from plait.privacy.rows import Adjacency, ClippedRows

MU = 1.0
REPLACE = Adjacency.REPLACE
GRADIENT = NoisyGradient.for_mu(MU, 2, 1.0, REPLACE)
REST = np.full((3, 2), 0.2)


def stream(seed: int) -> Keystream:
    return InsecureTestNoise(seed).stream(Release("audit", "p", 0, "n", ""))


def rows(first: list[float]) -> ClippedRows:
    return ClippedRows.of(np.vstack([first, REST]))


Run = Callable[[np.ndarray, np.ndarray, int], np.ndarray]


def gradient_game(run: Run, runs: int, record: float = 1.0, residual: float = 1.0) -> Finding:
    """`run` maps features, residuals and a seed to a transcript; the record is +record e_1 or -record e_1."""
    q = np.array([residual, 0.1, 0.1, 0.1])
    one, two = np.vstack([[record, 0.0], REST]), np.vstack([[-record, 0.0], REST])
    means = [GRADIENT.value(ClippedRows.of(m), q) for m in (one, two)]
    ratio = likelihood_ratio(means[0], means[1], GRADIENT.sigma)
    return game(lambda k: run(one, q, k), lambda k: run(two, q, k), ratio, MU, runs)


def correct(features: np.ndarray, q: np.ndarray, seed: int) -> np.ndarray:
    return GRADIENT.release(ClippedRows.of(features), q, stream(seed))


def noise_halved(features: np.ndarray, q: np.ndarray, seed: int) -> np.ndarray:
    half = replace(GRADIENT, grid=replace(GRADIENT.grid, exponent=GRADIENT.grid.exponent - 1))
    return half.release(ClippedRows.of(features), q, stream(seed))


def adjacency_factor_forgotten(features: np.ndarray, q: np.ndarray, seed: int) -> np.ndarray:
    blank = NoisyGradient.for_mu(MU, 2, 1.0, Adjacency.ZERO_OUT)
    return blank.release(ClippedRows.of(features), q, stream(seed))


def row_clip_removed(features: np.ndarray, q: np.ndarray, seed: int) -> np.ndarray:
    return GRADIENT.release(ClippedRows(features, 20), q, stream(seed))


def residual_clip_removed(features: np.ndarray, q: np.ndarray, seed: int) -> np.ndarray:
    return GRADIENT.grid.noisy(features.T @ q, stream(seed))


def retry_with_fresh_noise(features: np.ndarray, q: np.ndarray, seed: int) -> np.ndarray:
    draws = [correct(features, q, 3 * seed + k) for k in range(3)]
    return np.mean(draws, axis=0)


def test_the_game_passes_the_real_gradient() -> None:
    finding = gradient_game(correct, runs=1500)
    assert finding.passed, finding
    assert finding.measured > 0.75  # the neighbours attain the sensitivity, so the audit is tight


@pytest.mark.parametrize(("record", "residual"), [(50.0, 1.0), (1.0, 50.0)])
def test_the_game_passes_the_real_gradient_on_extreme_records(record: float, residual: float) -> None:
    assert gradient_game(correct, 600, record, residual).passed


@pytest.mark.parametrize(
    ("mutant", "record", "residual"),
    [
        (noise_halved, 1.0, 1.0),
        (adjacency_factor_forgotten, 1.0, 1.0),
        (row_clip_removed, 3.0, 1.0),
        (residual_clip_removed, 1.0, 3.0),
        (retry_with_fresh_noise, 1.0, 1.0),
    ],
)
def test_the_game_fails_every_mutant(mutant: Run, record: float, residual: float) -> None:
    assert not gradient_game(mutant, 500, record, residual).passed


def gram_change(gram: NoisyGram, pair: np.ndarray) -> float:
    a, b = rows(pair[:2].tolist()), rows(pair[2:].tolist())
    return float(np.linalg.norm(gram.value(a, np.ones(4)) - gram.value(b, np.ones(4))))


def test_the_search_attains_and_never_exceeds_the_gram_sensitivity() -> None:
    gram = NoisyGram.for_mu(MU, 2, 1.0, REPLACE)
    rng = np.random.default_rng(0)
    worst, at = hill_climb(lambda p: gram_change(gram, p), np.array([1.0, 0.1, 0.2, 1.0]), 1500, rng)
    assert 0.95 * gram.sensitivity < worst <= gram.sensitivity
    values = [gram.value(rows(v), np.ones(4)) for v in (at[:2].tolist(), at[2:].tolist())]
    assert sensitivity_search([(values[0], values[1])], gram.sensitivity).passed
    blank = NoisyGram.for_mu(MU, 2, 1.0, Adjacency.ZERO_OUT)
    assert not sensitivity_search([(values[0], values[1])], blank.sensitivity).passed


def test_the_scale_test_passes_true_noise_and_fails_less() -> None:
    noise = GRADIENT.grid.noisy(np.zeros(20_000), stream(1))
    assert scale_test(noise, GRADIENT.sigma).passed
    assert not scale_test(0.95 * noise, GRADIENT.sigma).passed


def test_an_unnoised_validation_score_fails_the_scale_test() -> None:
    scores = NoisyScores.for_mu(MU, 400, 2.0, REPLACE)
    data = ClippedRows.of(np.random.default_rng(0).standard_normal((400, 3)))
    x = np.array([1.0, -1.0, 0.5])
    clean = scores.value(data, x) * scores.bound
    assert scale_test(scores.release(data, x, stream(2)) - clean, scores.sigma).passed
    assert not scale_test(np.clip(data.matrix @ x, -2, 2) - clean, scores.sigma).passed


def test_reused_noise_fails_the_independence_test() -> None:
    wide = NoisyGradient.for_mu(MU, 300, 1.0, REPLACE)
    data = ClippedRows.of(np.random.default_rng(0).standard_normal((5, 300)))

    def noise(q: np.ndarray, seed: int) -> np.ndarray:
        return wide.release(data, q, stream(seed)) - wide.value(data, q)

    one, two = np.ones(5), np.zeros(5)
    assert independence_test(noise(one, 1), noise(two, 2)).passed
    assert not independence_test(noise(one, 1), noise(two, 1)).passed


@pytest.mark.parametrize("subtract_clean_cache", [False, True])
def test_subtracting_the_unnoised_cache_is_seen(subtract_clean_cache: bool) -> None:
    mechanism = MechanismA(8.0, 2, 0.01, radius=100.0, target_bound=1e4, output_bound=1e4)
    rng = np.random.default_rng(0)
    data = ClippedRows.of(rng.standard_normal((60, 40)))
    sigma, target = 1.0, rng.standard_normal(60)
    first, second = [], []
    for _ in range(40):
        clean = mechanism.value(data, target)
        n1, n2 = sigma * rng.standard_normal((2, 60))
        sent = clean + n1
        feedback = target - sent  # what the coordinator makes of the share
        kept = clean if subtract_clean_cache else sent
        released = mechanism.value(data, feedback + kept) + n2
        expected = mechanism.value(data, feedback + sent)
        first.append(n1)
        second.append(released - expected)
    finding = independence_test(np.concatenate(first), np.concatenate(second))
    assert finding.passed is not subtract_clean_cache


def test_projected_noise_fails_the_support_test_and_isotropic_noise_passes() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((50, 4))
    x = rng.standard_normal(4)
    stream = InsecureTestNoise(0).stream(Release("r", "p", 0, "paper", ""))
    assert not support_test(matrix @ (x + ColumnNoise.of(matrix.T @ matrix).sample(100.0, stream)), matrix).passed
    assert support_test(matrix @ x + 10 * rng.standard_normal(50), matrix).passed


def one_run_finding(sigma_factor: float, records: int) -> Finding:
    epsilon, delta = 1.0, 1e-5
    scores = NoisyScores.for_mu(mu_of(epsilon, delta), records, 1.0, REPLACE)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], records)
    data = ClippedRows.of(signs[:, None])
    clean = scores.value(data, np.array([1.0]))
    noise = scores.release(data, np.array([1.0]), stream(3)) - clean
    return one_run(clean + sigma_factor * noise, signs, epsilon, delta, records // 50)


def test_one_run_passes_the_real_scores() -> None:
    assert one_run_finding(1.0, 32_561).passed


def test_one_run_fails_scores_with_a_third_of_the_noise() -> None:
    assert not one_run_finding(1 / 3, 32_561).passed


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
    finding = gradient_game(lambda f, q, k: correct(f, q, k + shift), runs=20_000)
    assert finding.passed, finding
    assert finding.measured > 0.9


@pytest.mark.slow
def test_the_long_game_sees_ten_percent_too_little_noise() -> None:
    short = replace(GRADIENT, grid=replace(GRADIENT.grid, scale=int(GRADIENT.grid.scale * 0.9)))
    finding = gradient_game(lambda f, q, k: short.release(ClippedRows.of(f), q, stream(k)), runs=20_000)
    assert not finding.passed
