"""Metrics against scikit-learn and by hand."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics as reference

from plait.errors import InputError
from plait.problem.losses import Hinge, Logistic, Pinball, Poisson, Squared
from plait.problem.metrics import calibration_error, metrics


def test_classes_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(500).round(1)
    labels = np.where(rng.random(500) < expit(scores), 1.0, -1.0)
    found = metrics(Logistic(), scores, labels)
    assert found["AUC"] == pytest.approx(reference.roc_auc_score(labels, scores))
    assert found["log loss"] == pytest.approx(reference.log_loss(labels, expit(scores)))
    assert found["average precision"] == pytest.approx(reference.average_precision_score(labels, scores))
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(labels > 0, scores > 0))


def test_ks_lift_and_calibration_by_hand() -> None:
    scores = np.array([2.0, 1.0, 0.0, -1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0])
    labels = np.array([1, 1, -1, 1, -1, -1, -1, -1, -1, -1.0])
    found = metrics(Logistic(), scores, labels)
    assert found["KS"] == pytest.approx(1 - 1 / 7)
    assert found["lift in the top tenth"] == pytest.approx(1 / 0.3)
    assert calibration_error(np.array([0.05, 0.05, 0.95]), np.array([0.0, 1.0, 1.0])) == pytest.approx((0.9 + 0.05) / 3)


def test_numbers_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    labels = rng.standard_normal(50)
    scores = labels + rng.standard_normal(50)
    found = metrics(Squared(), scores, labels)
    assert found["RMSE"] ** 2 == pytest.approx(reference.mean_squared_error(labels, scores))
    assert found["MAE"] == pytest.approx(reference.mean_absolute_error(labels, scores))
    assert found["R2"] == pytest.approx(reference.r2_score(labels, scores))


def test_counts_are_measured_by_their_expectation_as_scikit_learn_does() -> None:
    rng = np.random.default_rng(2)
    scores = rng.standard_normal(80)
    labels = rng.poisson(np.exp(scores)).astype(float)
    found = metrics(Poisson(), scores, labels)
    assert found["mean deviance"] == pytest.approx(reference.mean_poisson_deviance(labels, np.exp(scores)))
    assert found["RMSE"] ** 2 == pytest.approx(reference.mean_squared_error(labels, np.exp(scores)))
    assert found["R2"] == pytest.approx(reference.r2_score(labels, np.exp(scores)))


def test_quantiles_are_measured_by_their_own_loss_and_by_how_many_labels_are_below() -> None:
    rng = np.random.default_rng(3)
    labels, scores = rng.standard_normal(200), np.full(200, 0.6)
    found = metrics(Pinball(0.7), scores, labels)
    assert found["mean loss"] == pytest.approx(reference.mean_pinball_loss(labels, scores, alpha=0.7))
    assert found["labels below"] == np.count_nonzero(labels <= 0.6) / 200


def test_a_margin_is_no_probability() -> None:
    rng = np.random.default_rng(4)
    scores = rng.standard_normal(100)
    found = metrics(Hinge(), scores, np.where(rng.random(100) < 0.5, 1.0, -1.0))
    assert not {"log loss", "calibration error"} & found.keys()
    assert {"AUC", "accuracy", "mean loss"} <= found.keys()


def test_one_class_cannot_be_measured() -> None:
    with pytest.raises(InputError, match="both classes"):
        metrics(Logistic(), np.zeros(3), np.ones(3))
