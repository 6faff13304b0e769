"""Products of a party's matrix against plain NumPy, in every form that plait computes them."""

import numpy as np
import pytest
import scipy.sparse as sp

from plait.problem import row_blocks
from plait.problem.features import Features


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csr_array], ids=["dense", "csr_matrix", "csr_array"])
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_weighted_grams_and_squares(kind: object, density: float) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5000, 12)) * (rng.random((5000, 12)) < density)
    features = Features(kind(x))  # type: ignore[operator]
    for weights in (None, rng.random(5000)):
        full = x.T @ (x if weights is None else weights[:, None] * x)
        np.testing.assert_allclose(features.weighted_gram(weights), full, rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(features.weighted_gram(weights, np.float32), full, rtol=1e-4, atol=1e-2)
        np.testing.assert_allclose(features.weighted_column_squares(weights), np.diag(full), rtol=1e-12)
    np.testing.assert_array_equal(features.forward(np.eye(12)), x)  # nothing was changed in place


def test_blocks_of_a_large_table_give_what_the_whole_gives() -> None:
    rng = np.random.default_rng(4)
    x, v, c = rng.standard_normal((40_001, 64)), rng.standard_normal(40_001), rng.standard_normal(64)
    features = Features(x)
    assert len(features._blocks) > 1
    np.testing.assert_allclose(features.forward(c), x @ c, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(features.adjoint(v), x.T @ v, rtol=1e-10)
    np.testing.assert_allclose(
        features.adjoint(np.column_stack([v, 2 * v])), x.T @ np.column_stack([v, 2 * v]), rtol=1e-10
    )
    np.testing.assert_allclose(features.weighted_gram(v**2), x.T @ ((v**2)[:, None] * x), rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix], ids=["dense", "csr"])
def test_scaled_rows(kind: object) -> None:
    rng = np.random.default_rng(5)
    x, rows, factors = rng.standard_normal((50, 4)), np.array([1, 7, 30]), np.array([2.0, 0.5, 3.0])
    features = Features(kind(x))  # type: ignore[operator]
    np.testing.assert_allclose(features.scaled_rows(rows, factors, np.float64), factors[:, None] * x[rows])
    np.testing.assert_array_equal(features.forward(np.eye(4)), x)


@pytest.mark.parametrize("unsorted", [False, True])
def test_the_gram_of_indicators_has_the_same_bits_from_pairs_and_from_blocks(unsorted: bool) -> None:
    rng = np.random.default_rng(5)
    columns = np.stack([j * 6 + rng.integers(0, 6, 3000) for j in range(4)], axis=1)
    x = sp.csr_matrix((np.ones(12000), columns.ravel(), np.arange(0, 12001, 4)), shape=(3000, 24))
    if unsorted:
        x = sp.csr_matrix((x.data, columns[:, ::-1].ravel(), x.indptr), shape=x.shape)
    features, weights = Features(x), rng.random(3000)
    assert (features._pairs is None) == unsorted
    found = features.weighted_gram(weights)
    np.testing.assert_allclose(found, x.toarray().T @ (weights[:, None] * x.toarray()), rtol=1e-12)
    np.testing.assert_array_equal(found, features._summed(row_blocks.gram, (weights,), None, "float64"))


def test_other_sparse_tables_have_no_pairs() -> None:
    rng = np.random.default_rng(6)
    ones = rng.random((500, 8))
    for x in (ones < 0.9, np.where(ones < 0.1, 2.0, 0.0), np.zeros((500, 8))):
        assert Features(sp.csr_matrix(x.astype(float)))._pairs is None
