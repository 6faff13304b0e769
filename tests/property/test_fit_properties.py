"""What must not change the model: how columns are split, their order, their form, and the unit of the labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import plait

STOPPING = plait.Stopping(max_rounds=2000, tol=1e-9)


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 6))
    return x, x @ rng.standard_normal(6) + rng.standard_normal(40)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), cuts=st.sets(st.integers(1, 5), max_size=5))
def test_model_does_not_depend_on_who_holds_which_column(seed: int, cuts: set[int]) -> None:
    x, y = data(seed)
    order = np.random.default_rng(seed + 1).permutation(6)
    split = plait.fit(
        np.split(x[:, order], sorted(cuts), axis=1),
        y,
        loss=plait.Huber(),
        penalty=plait.L2(0.1),
        stopping=STOPPING,
        fit_intercept=False,
    )
    pooled = plait.fit([x], y, loss=plait.Huber(), penalty=plait.L2(0.1), stopping=STOPPING, fit_intercept=False)
    np.testing.assert_allclose(np.concatenate(split.weights), pooled.weights[0][order], atol=1e-6)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), scale=st.floats(1e-4, 1e4))
def test_model_scales_with_the_labels(seed: int, scale: float) -> None:
    x, y = data(seed)
    parts = [x[:, :3], x[:, 3:]]
    plain = plait.fit(parts, y, loss=plait.Squared(), penalty=plait.L2(0.1), stopping=STOPPING, fit_intercept=False)
    scaled = plait.fit(
        parts, scale * y, loss=plait.Squared(), penalty=plait.L2(0.1), stopping=STOPPING, fit_intercept=False
    )
    np.testing.assert_allclose(np.concatenate(scaled.weights) / scale, np.concatenate(plain.weights), atol=1e-6)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_sparse_and_dense_columns_give_the_same_run(seed: int) -> None:
    x, y = data(seed)
    x[np.random.default_rng(seed).random(x.shape) < 0.5] = 0
    dense = plait.fit(
        [x[:, :3], x[:, 3:]], y, loss=plait.Squared(), penalty=plait.L1(0.05), stopping=STOPPING, fit_intercept=False
    )
    sparse = plait.fit(
        [sp.csc_array(x[:, :3]), sp.coo_matrix(x[:, 3:])],
        y,
        loss=plait.Squared(),
        penalty=plait.L1(0.05),
        stopping=STOPPING,
        fit_intercept=False,
    )
    # Sums are rounded otherwise, so a run may end a round earlier: the tolerance of the objective is what both keep.
    assert sparse.objective == pytest.approx(dense.objective, rel=2e-9)
    np.testing.assert_allclose(np.concatenate(sparse.weights), np.concatenate(dense.weights), atol=1e-6)
