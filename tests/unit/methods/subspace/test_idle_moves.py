"""Where a party has more columns than rows it states the least penalty of all weights with the same scores."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet

import plait
from plait.methods.subspace.idle_moves import IdleMoves, Settled
from plait.methods.subspace.span_basis import Basis


def least(d: np.ndarray, h: np.ndarray, weight: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The oracle: the conditions of optimality as one linear system."""
    n, width = d.shape
    whole = np.block([[np.diag(weight), d.T], [d, np.zeros((n, n))]])
    return np.linalg.lstsq(whole, np.concatenate([-h, scores]), rcond=1e-13)[0][:width]


@pytest.mark.parametrize("centred", [False, True])
def test_weights_with_the_scores_of_a_step_cost_the_least(centred: bool) -> None:
    rng = np.random.default_rng(0)
    d = rng.standard_normal((12, 30))
    d = d - d.mean(axis=0) if centred else d  # then one combination of the rows is nothing
    x, rows = rng.standard_normal(30), rng.standard_normal((4, 30))
    h, weight = rng.standard_normal(30), rng.uniform(0.1, 10, 30)
    moves = IdleMoves.of(d, d @ x, rows @ d.T)
    assert moves is not None
    at = rng.standard_normal(30)
    settled = Settled.of(moves, h, weight, at)
    assert settled is not None
    start = float(at @ (h + weight * at / 2))
    model = settled.model(start, at)
    for _ in range(5):
        c = rng.standard_normal(4)
        wanted = d @ x + c @ rows @ d.T
        best, found = least(d, h, weight, wanted), settled.weights(c)
        assert found is not None
        np.testing.assert_allclose(d @ found, wanted, atol=1e-11)
        np.testing.assert_allclose(found, best, atol=1e-9)
        assert model.value(c) == pytest.approx(float(best @ (h + weight * best / 2)), rel=1e-10)


def test_no_move_is_idle_where_columns_are_independent() -> None:
    rng = np.random.default_rng(1)
    assert IdleMoves.of(rng.standard_normal((9, 9)), np.zeros(9), np.zeros((1, 9))) is None
    assert IdleMoves.of(np.zeros((9, 12)), np.zeros(9), np.zeros((1, 9))) is None


def test_weights_that_no_step_moves_stay() -> None:
    rng = np.random.default_rng(2)
    d, x = rng.standard_normal((5, 20)), rng.standard_normal(20)
    rows = rng.standard_normal((3, 20))
    rows[:, 12:] = 0
    basis = Basis(x, x + rows[-1], rows, np.ones(20), narrows=True).with_idle_moves(d, d @ x, rows @ d.T)
    assert basis.acting.idle is not None
    settled = Settled.of(basis.acting.idle, np.zeros(12), np.ones(12), x[:12])
    assert settled is not None
    c = np.array([0.5, -1.0, 2.0])
    moved = settled.weights(c)
    assert moved is not None
    found = basis.whole(moved)
    np.testing.assert_array_equal(found[12:], x[12:])
    np.testing.assert_allclose(d @ found, d @ (x + c @ rows), atol=1e-11)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_parties_that_could_each_fit_the_labels_alone_find_the_pooled_optimum(form: str, precision: str) -> None:
    rng = np.random.default_rng(3)
    table = rng.standard_normal((20, 240))
    table[np.abs(table) < 0.3] = 0
    y = table @ (rng.standard_normal(240) * (rng.random(240) < 0.05)) + 0.1 * rng.standard_normal(20)
    parts = np.hsplit(table, 3)
    fit = plait.fit(
        [sp.csr_matrix(p) for p in parts] if form == "sparse" else parts,
        y,
        loss="squared",
        penalty=plait.L1(1e-4) + plait.L2(1e-4),
        fit_intercept=False,
        precision=precision,
        stopping=plait.Stopping(max_rounds=60, tol=1e-6),
    )
    pooled = ElasticNet(alpha=2e-4, l1_ratio=0.5, fit_intercept=False, tol=1e-13, max_iter=1_000_000).fit(table, y)

    def objective(w: np.ndarray) -> float:
        return float(((y - table @ w) ** 2).mean() / 2 + 1e-4 * np.abs(w).sum() + 1e-4 * (w @ w) / 2)

    assert fit.converged, fit.reason
    assert fit.certified
    assert objective(np.concatenate(list(fit.weights))) == pytest.approx(objective(pooled.coef_), rel=1e-6)
