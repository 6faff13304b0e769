"""plait.fit end to end, against scikit-learn on the pooled table."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import plait


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    x, y = load_breast_cancer(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), y


def test_three_parties_reach_the_pooled_optimum(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = cancer
    fit = plait.fit([x[:, :10], x[:, 10:20], x[:, 20:]], y, penalty=plait.L2(1e-3), fit_intercept=True)
    pooled = LogisticRegression(C=1 / (1e-3 * len(y)), tol=1e-12, max_iter=10_000).fit(x, y)
    scores = x @ pooled.coef_[0] + pooled.intercept_
    reference = np.logaddexp(0, -(2 * y - 1) * scores).mean() + 5e-4 * (pooled.coef_**2).sum()
    assert fit.converged
    assert fit.objective == pytest.approx(reference, rel=1e-6)
