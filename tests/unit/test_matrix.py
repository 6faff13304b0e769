"""Products of a party's matrix against plain NumPy, in every form that plait computes them."""

import numpy as np
import pytest
import scipy.sparse as sp

from plait.matrix import Features


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
