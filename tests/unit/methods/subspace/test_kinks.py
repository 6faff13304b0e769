"""The primal-dual Newton method on kinks of single weights, against Newton's method by hand and against lasso."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from plait.methods.subspace.kinks import Kinks

D, A = 7, 0.7


@pytest.fixture
def kinks() -> tuple[Kinks, np.ndarray]:
    """Weights, slopes and roundings that do not agree, and weights to go to."""
    rng = np.random.default_rng(3)
    v, s = rng.standard_normal(D), A * rng.uniform(-0.99, 0.99, D)
    return Kinks.at(A, v, s, rng.uniform(0.1, 1, D), rng.uniform(0.05, 0.5, D)), 3 * rng.standard_normal(D)


def test_the_slope_after_a_step_solves_the_linearised_equation(kinks: tuple[Kinks, np.ndarray]) -> None:
    k, u = kinks
    n = np.sqrt(k.v**2 + (k.rounded * k.unit) ** 2)
    ds, du = k.h + k.weight * u - k.s, u - k.v
    # Of  s n(v) - a v = 0:  ds n + s v/n dv - a dv = -(s n - a v).
    np.testing.assert_allclose(ds * n + k.s * k.v / n * du - A * du, A * k.v - k.s * n, rtol=1e-12)
    assert (k.weight >= 0).all()


def test_at_the_weights_the_slope_is_that_of_the_rounded_kink(kinks: tuple[Kinks, np.ndarray]) -> None:
    k, _ = kinks
    delta, h = k.rounded * k.unit, 1e-6
    higher, lower = (A * np.sqrt((k.v + sign * h) ** 2 + delta**2) for sign in (1, -1))
    np.testing.assert_allclose(k.h + k.weight * k.v, (higher - lower) / (2 * h), rtol=1e-6)


def test_slopes_never_leave_the_kink_and_what_is_left_is_never_negative(kinks: tuple[Kinks, np.ndarray]) -> None:
    k, u = kinks
    for scale in (1.0, -50.0, 1e-12, 0.0, 1e9):
        k, left = k.answered(scale * u)
        assert (np.abs(k.s) <= A).all()
        assert left >= 0
        assert (k.weight >= 0).all()
        np.testing.assert_array_equal(k.v, scale * u)


def test_a_weight_that_no_slope_holds_keeps_its_kink_round(kinks: tuple[Kinks, np.ndarray]) -> None:
    k = Kinks.started(A, np.zeros(2), np.ones(2))
    after, _ = k.answered(np.array([0.01, 40.0]))  # the second is far outside of what the first delta covers
    assert np.broadcast_to(after.rounded, 2)[1] > 0.9 * 0.1
    assert np.broadcast_to(after.rounded, 2)[0] < 0.02


@pytest.mark.parametrize("seed", range(5))
def test_the_method_ends_at_the_minimum_of_a_lasso(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 12)) @ rng.standard_normal((12, 12))
    y = x @ np.where(rng.random(12) < 0.5, rng.standard_normal(12), 0.0) + rng.standard_normal(40)
    q, linear, u = x.T @ x / 40, x.T @ y / 40, np.zeros(12)
    for reach in (0.5, 1e-3, 1e-6):  # of one round after another
        k, left = Kinks.started(0.1, u, np.full(12, reach)), np.inf
        for _ in range(20):
            u = np.linalg.solve(q + np.diag(k.weight), linear - k.h)
            k, left = k.answered(u)
    expected = Lasso(0.1, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(x, y).coef_
    np.testing.assert_allclose(u, expected, atol=1e-6)
    assert left < 1e-6
