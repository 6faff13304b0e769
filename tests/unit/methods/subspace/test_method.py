"""The subspace method against scikit-learn on the pooled table."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import plait


@pytest.mark.parametrize("sums_only", [False, True])
@pytest.mark.parametrize("parties", [1, 2, 5])
def test_reaches_the_pooled_optimum_without_ever_going_up(parties: int, sums_only: bool) -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    method = plait.Subspace(sums_only=sums_only)
    fit = plait.fit(np.array_split(x, parties, axis=1), y, penalty=plait.L2(1e-3), method=method, fit_intercept=True)
    pooled = LogisticRegression(C=1 / (1e-3 * len(y)), tol=1e-12, max_iter=10_000).fit(x, y)
    scores = x @ pooled.coef_[0] + pooled.intercept_
    reference = np.logaddexp(0, -(2 * y - 1) * scores).mean() + 5e-4 * (pooled.coef_**2).sum()
    objectives = [fit.history.start.objective] + [r.objective for r in fit.history]
    assert fit.objective == pytest.approx(reference, rel=1e-6)
    assert np.all(np.diff(objectives) <= 1e-12)


def test_smooth_and_kinked_penalties_mix_in_one_sum() -> None:
    x, y = load_breast_cancer(return_X_y=True)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    parts, penalty = {"smooth": x[:, :15], "kinked": x[:, 15:]}, {"smooth": plait.L2(0.1), "kinked": plait.L1(0.02)}
    together = plait.fit(parts, y, penalty=penalty, method=plait.Subspace(sums_only=True))
    apart = plait.fit(parts, y, penalty=penalty)
    assert together.certified
    assert together.objective == pytest.approx(apart.objective, rel=2e-6)


def test_flat_parts_of_a_loss_between_kinks_do_not_stall_a_run() -> None:
    x, y = np.array([[-2.0], [1.0], [1.0]]) / 3, np.array([1.0, 2.0, 11.0])
    fit = plait.fit([x], y, loss=plait.Pinball(0.5), penalty=plait.L1(0.01), stopping=plait.Stopping(tol=1e-7))
    # By hand: the first row is fitted, the second one just reached: a weight of 1 and a loss of 9 / 6.
    assert fit.certified
    assert fit.objective == pytest.approx(1.51, rel=1e-6)
    assert fit.weights[0] == pytest.approx(1.0, abs=1e-4)
