import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, norm

from plait.errors import PrivacyError, SettingError
from plait.privacy.noise import (
    LARGEST_SCALE,
    Grid,
    InsecureTestNoise,
    KeyedNoise,
    Keystream,
    Release,
    discrete_gaussian,
)

RELEASE = Release("run", "bank", 1, "gram", "00")


def stream(seed: int = 0) -> Keystream:
    return InsecureTestNoise(seed).stream(RELEASE)


def gaussian_pmf(points: np.ndarray, scale: float) -> np.ndarray:
    support = np.arange(-60 * math.ceil(scale), 60 * math.ceil(scale) + 1)
    return np.exp(-(points**2) / (2 * scale**2)) / np.exp(-(support**2) / (2 * scale**2)).sum()


@pytest.mark.parametrize("scale", [1, 2, 3, 7, 64])
def test_samples_follow_the_discrete_gaussian_law(scale: int) -> None:
    n = 200_000
    samples = discrete_gaussian(scale, n, stream(scale))
    points = np.arange(-3 * scale, 3 * scale + 1)
    observed = np.array([(samples == k).sum() for k in points] + [(np.abs(samples) > 3 * scale).sum()])
    inside = gaussian_pmf(points, scale)
    expected = n * np.append(inside, 1 - inside.sum())
    statistic = ((observed - expected) ** 2 / expected).sum()
    assert statistic < chi2.ppf(0.9999, points.size)


@pytest.mark.parametrize("scale", [1000, 2**21, LARGEST_SCALE])
def test_a_large_scale_is_indistinguishable_from_the_continuous_law(scale: int) -> None:
    samples = discrete_gaussian(scale, 200_000, stream(scale)) / scale
    assert kstest(samples, "norm").pvalue > 1e-4
    assert abs(samples.std() - 1) < 5 / math.sqrt(2 * 200_000)


def test_the_low_bits_of_the_noise_are_uniform() -> None:
    samples = discrete_gaussian(2**25 + 1, 160_000, stream())
    counts = np.bincount(samples & 15, minlength=16)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < chi2.ppf(0.9999, 15)


def test_the_low_bits_do_not_tell_neighbouring_values_apart() -> None:
    # With numpy's float noise the event below has probability 0.0445 for u = 0 and 0 for u = 1.
    def event(u: float, noise: np.ndarray) -> float:
        w = u + noise
        close = np.abs(w) < 0.25
        return float((close & (np.ldexp(w, 53) != np.rint(np.ldexp(w, 53)))).mean())

    rng = np.random.default_rng(0)
    assert event(0.0, 3.731 * rng.standard_normal(100_000)) > 0.02
    assert event(1.0, 3.731 * rng.standard_normal(100_000)) == 0.0

    grid = Grid.for_sigma(3.731)
    for u in (0.0, 1.0):
        noise = grid.noisy(np.zeros(100_000), stream(int(u)))
        assert event(u, noise) == 0.0
        assert event(u, grid.noisy(np.full(100_000, u), stream(5)) - u) == 0.0


def test_released_values_lie_on_the_grid() -> None:
    grid = Grid.for_sigma(0.37)
    released = grid.noisy(np.linspace(-5, 5, 1001), stream())
    assert np.array_equal(np.rint(released / grid.gamma) * grid.gamma, released)


@settings(deadline=None, max_examples=200)
@given(st.floats(1e-12, 1e12))
def test_the_grid_never_gives_less_noise_than_asked(sigma: float) -> None:
    grid = Grid.for_sigma(sigma)
    assert sigma <= grid.sigma <= sigma * (1 + 2.0**-24)
    assert 2**25 <= grid.scale <= 2**26


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.floats(0.01, 10.0), st.integers(0, 10**6))
def test_rounding_adds_at_most_the_stated_sensitivity(dimension: int, sigma: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = Grid(4, math.frexp(sigma)[1])
    a, b = rng.standard_normal((2, dimension)) * grid.gamma * 10
    rounded = np.linalg.norm((grid.round(a) - grid.round(b)) * grid.gamma)
    assert rounded <= np.linalg.norm(a - b) + grid.rounding(dimension) * (1 + 1e-12)


@pytest.mark.parametrize("scale", [4, 20, 300])
def test_slack_bounds_the_ratio_to_rounded_continuous_noise(scale: int) -> None:
    points = np.arange(0, 30 * scale + 1)  # by symmetry; further out the normal tail underflows
    rounded = norm.sf((points - 0.5) / scale) - norm.sf((points + 0.5) / scale)
    ratio = np.log(gaussian_pmf(points, scale) / rounded)
    assert np.abs(ratio).max() <= Grid(scale, 0).slack(1)
    assert np.abs(ratio).max() > Grid(scale, 0).slack(1) / 10


def test_the_keystream_is_aes_256_in_counter_mode() -> None:
    key = bytes(range(32))
    raw = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(80))
    expected = [int.from_bytes(raw[8 * i : 8 * i + 8], "little") >> 1 for i in range(10)]
    source = Keystream(key)
    assert [*source.words(4).tolist(), *source.words(6).tolist()] == expected


def test_bounded_words_are_uniform_for_a_bound_that_does_not_divide() -> None:
    bound = 2**62 + 2**61  # a quarter of all words is uneven and must be redrawn
    words = stream().below(bound, 60_000)
    assert words.max() < bound
    counts = np.bincount((words // (bound // 6)).clip(max=5), minlength=6)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < chi2.ppf(0.9999, 5)


def test_the_same_release_gives_the_same_noise_and_any_other_input_another() -> None:
    noise = KeyedNoise(bytes(32))
    first = noise.stream(RELEASE).words(8)
    assert np.array_equal(first, noise.stream(RELEASE).words(8))
    others = [
        Release("run2", "bank", 1, "gram", "00"),
        Release("run", "shop", 1, "gram", "00"),
        Release("run", "bank", 2, "gram", "00"),
        Release("run", "bank", 1, "grad", "00"),
        Release("run", "bank", 1, "gram", "01"),
        Release("runb", "ank", 1, "gram", "00"),
    ]
    for other in others:
        assert not np.array_equal(first, noise.stream(other).words(8))
        assert noise.key_id(other) != noise.key_id(RELEASE)
    assert not np.array_equal(first, KeyedNoise(b"\1" * 32).stream(RELEASE).words(8))


def test_a_fresh_secret_is_drawn_and_never_shown() -> None:
    one, two = KeyedNoise(), KeyedNoise()
    assert one.secret != two.secret
    assert one.secret.hex() not in repr(one)
    assert str(one.secret) not in repr(one)


def test_test_noise_says_so() -> None:
    assert "INSECURE" in InsecureTestNoise(1).name
    assert "INSECURE" not in KeyedNoise().name


def test_a_value_that_does_not_fit_is_not_released() -> None:
    with pytest.raises(PrivacyError, match="finite"):
        Grid.for_sigma(1.0).noisy(np.array([np.nan]), stream())
    with pytest.raises(PrivacyError, match="grid steps"):
        Grid.for_sigma(1e-12).noisy(np.array([1e12]), stream())


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="sigma"):
        Grid.for_sigma(0.0)
    with pytest.raises(SettingError, match="scale"):
        discrete_gaussian(0, 1, stream())
    with pytest.raises(SettingError, match="secret"):
        KeyedNoise(b"short")


def test_no_samples_need_no_words() -> None:
    assert discrete_gaussian(3, 0, stream()).size == 0
