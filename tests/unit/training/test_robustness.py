"""Runs that once went wrong: an unsettled rho, accelerated starts that overshoot, columns far from zero."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import plait


def test_adaptive_rho_settles_on_a_weakly_penalised_problem() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    fit = plait.fit(
        [x[:, :10], x[:, 10:20], x[:, 20:]],
        y,
        penalty=plait.L2(1e-4),
        method=plait.Proximal(),
        stopping=plait.Stopping(max_rounds=600),
        fit_intercept=True,
    )
    pooled = LogisticRegression(C=1 / (1e-4 * len(y)), tol=1e-10, max_iter=100_000).fit(x, y)
    reference = np.logaddexp(0, -(2 * y - 1) * pooled.decision_function(x)).mean() + 5e-5 * (pooled.coef_**2).sum()
    assert fit.converged
    assert fit.objective == pytest.approx(reference, rel=1e-6)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_an_accelerated_start_that_overshoots_is_taken_back(label: int) -> None:
    x, y = make_blobs(n_samples=80, centers=3, random_state=0)
    signs = np.where(y == label, 1.0, -1.0)
    model = plait.VerticalSVC(loss=plait.Hinge(), alpha=1e-4, method=plait.Proximal()).fit(x, signs)
    reached = _svm_objective(model.decision_function(x), model.coef_[0], signs)
    assert reached == pytest.approx(model.fits_[0].objective, rel=1e-9)
    assert reached <= _svm_dual_bound(x, signs) * (1 + 1e-6)


def _svm_objective(scores: np.ndarray, w: np.ndarray, signs: np.ndarray) -> float:
    return float(np.maximum(0, 1 - signs * scores).mean() + 5e-5 * w @ w)


def _svm_dual_bound(x: np.ndarray, signs: np.ndarray) -> float:
    """No primal value is below the dual one of libsvm's multipliers, which add up to zero by construction."""
    machine = SVC(kernel="linear", C=1 / (1e-4 * len(signs)), tol=1e-12).fit(x, signs)
    alpha = np.abs(machine.dual_coef_[0])
    w = machine.dual_coef_[0] @ x[machine.support_]
    return 1e-4 * float(alpha.sum() - w @ w / 2)


def test_columns_far_from_zero_cost_no_more_rounds_than_centred_ones() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 4))
    y = (x[:, 0] + rng.normal(size=100) > 0).astype(float)
    away = np.array([1e3, 1e3, -1e4, -1e4])
    for loss in ("squared_hinge", "hinge"):
        near = plait.VerticalSVC(2, loss=loss, alpha=1e-2).fit(x, y)
        far = plait.VerticalSVC(2, loss=loss, alpha=1e-2).fit(x + away, y)
        assert far.n_iter_ <= 1.2 * near.n_iter_
        np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-4)
        np.testing.assert_allclose(far.decision_function(x + away), near.decision_function(x), atol=1e-3)
