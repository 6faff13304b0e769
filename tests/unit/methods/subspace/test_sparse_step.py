"""The exact L1 step against scikit-learn's coordinate descent, and by the conditions of optimality."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso

from plait.methods.subspace import sparse_step
from plait.methods.subspace.sparse_step import sparse_minimum


def _problem(seed: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns that overlap, labels, and from them Q and the linear term of the mean squared loss."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(rows, columns)) + 2 * rng.normal(size=(rows, 1))
    y = table @ (rng.normal(size=columns) * (rng.random(columns) < 0.4)) + rng.normal(size=rows)
    return table, y, table.T @ table / rows, table.T @ y / rows


@pytest.mark.parametrize("guesses", [8, 0])  # 0: only the steps to the next kink
@pytest.mark.parametrize("seed", range(6))
def test_the_step_is_that_of_coordinate_descent(monkeypatch: pytest.MonkeyPatch, seed: int, guesses: int) -> None:
    monkeypatch.setattr(sparse_step, "_GUESSES", guesses)
    table, y, q, linear = _problem(seed, 60, 12)
    for l1 in (1e-3, 0.1, 1.0):
        expected = Lasso(alpha=l1, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(table, y).coef_
        start = np.random.default_rng(seed).normal(size=12) * (np.arange(12) % 3 == 0)
        found = sparse_minimum(l1, q, linear, start)
        np.testing.assert_allclose(found, expected, atol=1e-7)
        np.testing.assert_array_equal(found == 0, expected == 0)


@pytest.mark.parametrize("seed", range(6))
def test_more_columns_than_rows_leave_no_slope_beyond_the_penalty(seed: int) -> None:
    _, _, q, linear = _problem(seed, 10, 40)
    q = q + 1e-7 * np.diag(np.diag(q))
    found = sparse_minimum(0.05, q, linear, np.zeros(40))
    slope = linear - q @ found
    assert np.abs(slope).max() <= 0.05 * (1 + 1e-6)
    np.testing.assert_allclose(slope[found != 0], 0.05 * np.sign(found[found != 0]), atol=1e-8)


def test_a_penalty_above_every_slope_leaves_all_weights_at_rest() -> None:
    _, _, q, linear = _problem(0, 60, 12)
    assert not sparse_minimum(float(np.abs(linear).max()) * 1.001, q, linear, np.ones(12)).any()
