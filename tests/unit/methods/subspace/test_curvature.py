"""Sampled and factorised curvature against the dense Hessian."""

import numpy as np
import pytest
import scipy.sparse as sp

from plait.methods.subspace.curvature import Curvature, rows_taken, sample
from plait.problem.features import Features


def test_a_sample_stands_for_all_weights_and_keeps_the_heavy_rows_whole() -> None:
    rng = np.random.default_rng(0)
    w = rng.random(5000)
    w[:50] = 1000.0
    rows, weights = sample(w, 600)
    assert abs(rows.size - 600) <= 1
    assert np.all(np.diff(rows) > 0)
    assert set(range(50)) <= set(rows)
    np.testing.assert_allclose(weights[:50], 1000.0)
    assert weights.sum() == pytest.approx(w.sum(), rel=0.01)
    again, _ = sample(w, 600)
    np.testing.assert_array_equal(rows, again)


def test_samples_estimate_means_without_bias() -> None:
    rng = np.random.default_rng(1)
    w, x = rng.random(20_000) ** 4, rng.standard_normal(20_000) ** 2
    rows, weights = sample(w, 4000)
    assert weights @ x[rows] == pytest.approx(w @ x, rel=0.05)


def test_rows_without_weight_are_never_taken() -> None:
    w = np.zeros(100)
    w[:10] = 1.0
    rows, weights = sample(w, 40)
    np.testing.assert_array_equal(rows, np.arange(10))
    np.testing.assert_allclose(weights, 1.0)


def hessian(x: np.ndarray, w: np.ndarray, h: np.ndarray) -> np.ndarray:
    return x.T @ (w[:, None] * x) + np.diag(h)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_small_tables_are_factorised_exactly(kind: object) -> None:
    rng = np.random.default_rng(2)
    x, w, h = rng.standard_normal((300, 7)), rng.random(300) / 300, np.full(7, 1e-3)
    curvature = Curvature(Features(kind(x)), w, h, 1e-3)  # type: ignore[operator]
    rhs = rng.standard_normal((7, 2))
    np.testing.assert_allclose(curvature.solve(rhs), np.linalg.solve(hessian(x, w, h), rhs), rtol=1e-9)
    moves = rng.standard_normal((3, 300))
    np.testing.assert_allclose(curvature.cross(moves, (0, 1, 2)), x.T @ (w[:, None] * moves.T), atol=1e-12)
    np.testing.assert_allclose(curvature.square(moves), (moves * w) @ moves.T, atol=1e-12)
    assert curvature.early == curvature.late == 0


@pytest.mark.parametrize("shape", [(1500, 900), (3000, 700)], ids=["fewer rows than columns", "more rows"])
def test_a_sampled_factor_is_the_inverse_of_what_it_says(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    n, d = shape
    x, h = rng.standard_normal((n, d)), np.full(d, 0.05)
    w = rng.random(n) ** 8 / n
    features = Features(x)
    count = rows_taken(features, single=True)
    assert 0 < count < n
    curvature = Curvature(features, w, h, 0.05)
    rows, weights = sample(w, count)
    part = np.sqrt(weights)[:, None] * x[rows]
    gram = part.T @ part
    shrunk = 0.9 * gram + 0.1 * np.diag(np.diag(gram)) + np.diag(h) if count < 4 * d else gram + np.diag(h)
    rhs = rng.standard_normal(d)
    np.testing.assert_allclose(curvature.solve(rhs), np.linalg.solve(shrunk, rhs), rtol=1e-3, atol=1e-3)
    moves = rng.standard_normal((2, n))
    cross = part.T @ (moves[:, rows] * np.sqrt(weights)).T
    np.testing.assert_allclose(curvature.cross(moves, (0, 1)), cross, rtol=1e-4, atol=1e-5)
    assert curvature.early > 0


def test_another_ridge_reuses_the_sample_and_new_weights_do_not() -> None:
    rng = np.random.default_rng(4)
    x, w = rng.standard_normal((1500, 900)), np.full(1500, 1 / 1500)
    features, rhs = Features(x), rng.standard_normal(900)
    first = Curvature(features, w, np.full(900, 0.05), 0.05)
    later = Curvature(features, w, np.full(900, 0.2), 0.05, first)
    anew = Curvature(features, w, np.full(900, 0.2), 0.05)
    np.testing.assert_array_equal(later.solve(rhs), anew.solve(rhs))


@pytest.mark.parametrize("rows", [2000, 100_000])
def test_wide_sparse_tables_are_iterated_on(rows: int) -> None:
    columns = np.random.default_rng(5).integers(0, 5000, 5 * rows)
    table = sp.csr_matrix((np.ones(5 * rows), columns, np.arange(0, 5 * rows + 1, 5)), shape=(rows, 5000))
    assert rows_taken(Features(table), single=True) == 0


def test_iterations_are_preconditioned_by_the_diagonal() -> None:
    table = sp.random(2000, 5000, density=1e-3, format="csr", random_state=0)
    curvature = Curvature(Features(table), np.full(2000, 1e-3), np.full(5000, 1e-2), 1e-2)
    np.testing.assert_allclose(curvature.solve(np.ones(5000)), 1 / (1e-3 * table.power(2).sum(axis=0).A1 + 1e-2))


def test_products_of_a_sparse_table_with_moves_have_the_same_bits_kept_or_made_together() -> None:
    rng = np.random.default_rng(3)
    x = sp.random(500, 9, 0.3, format="csr", random_state=3, data_rvs=rng.standard_normal)
    w, moves, names = rng.random(500), rng.standard_normal((6, 500)), (2, 3, 5, 6, 7, 8)
    growing = Curvature(Features(x), w, np.ones(9), 1.0)
    for k in range(1, 7):
        kept = growing.cross(moves[:k], names[:k])
    anew = Curvature(Features(x), w, np.ones(9), 1.0).cross(moves, names)
    assert np.array_equal(kept, anew)  # a party that was killed makes all of them together
    assert kept == pytest.approx(x.toarray().T @ (moves * w).T, abs=1e-12)
