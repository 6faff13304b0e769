"""Curves and intervals of scores, against scikit-learn and closed forms."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import precision_recall_curve, roc_curve

from plait.problem import curves
from plait.problem.intervals import compare
from plait.problem.losses import Logistic, Squared


@pytest.fixture(scope="module")
def sample() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=500), 1)  # with ties
    return scores, (rng.random(500) < 1 / (1 + np.exp(-scores))).astype(float)


def test_roc_is_that_of_scikit_learn(sample: tuple[np.ndarray, np.ndarray]) -> None:
    scores, positive = sample
    false, true, _ = roc_curve(positive, scores, drop_intermediate=False)
    np.testing.assert_allclose(curves.roc(scores, positive), (false, true))


def test_precision_and_recall_are_those_of_scikit_learn(sample: tuple[np.ndarray, np.ndarray]) -> None:
    scores, positive = sample
    precision, recall, _ = precision_recall_curve(positive, scores)
    np.testing.assert_allclose(curves.precision_recall(scores, positive), (recall[-2::-1], precision[-2::-1]))


def test_calibration_is_that_of_scikit_learn_without_ties() -> None:
    rng = np.random.default_rng(1)
    probability = rng.random(1000)
    positive = (rng.random(1000) < probability).astype(float)
    observed, expected = calibration_curve(positive, probability, n_bins=10, strategy="quantile")
    np.testing.assert_allclose(curves.calibration(probability, positive), (expected, observed), atol=2e-2)


def test_reach_is_the_mean_label_of_the_rows_with_the_highest_values() -> None:
    part, mean = curves.reach(np.array([0.1, 3.0, 2.0, -1.0]), np.array([1.0, 8.0, 4.0, -5.0]))
    np.testing.assert_allclose(part, [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(mean, [8.0, 6.0, 13 / 3, 2.0])


def test_lift_of_all_rows_is_one_and_of_perfect_scores_is_the_most(sample: tuple[np.ndarray, np.ndarray]) -> None:
    _, positive = sample
    taken, lift = curves.lift(positive, positive)
    assert taken[-1] == lift[-1] == 1
    assert lift[0] == pytest.approx(1 / positive.mean())


def test_the_spread_adds_up_to_one_for_each_group(sample: tuple[np.ndarray, np.ndarray]) -> None:
    scores, positive = sample
    edges, heights = curves.spread(scores, (positive == 0, positive == 1))
    assert len(edges) == 25
    assert [h.sum() for h in heights] == pytest.approx([1, 1])


def test_the_interval_of_a_mean_is_that_of_the_central_limit_theorem() -> None:
    rng = np.random.default_rng(2)
    labels = rng.normal(size=2000)
    found = compare(Squared(), {"zero": np.zeros(2000)}, labels).metrics["zero"]["mean loss"]
    error = np.std(labels**2 / 2) / np.sqrt(2000)
    assert found.value == pytest.approx(np.mean(labels**2 / 2))
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.25)


def test_a_gain_is_surer_than_the_metrics_it_is_made_of() -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(size=1000)
    labels = np.where(rng.random(1000) < 1 / (1 + np.exp(-2 * z)), 1.0, -1.0)
    found = compare(Logistic(), {"half": z, "full": 2 * z}, labels)
    gain, each = found.gains["full"]["log loss"], found.metrics["full"]["log loss"]
    assert gain.value == pytest.approx(each.value - found.metrics["half"]["log loss"].value)
    assert gain.high - gain.low < each.high - each.low
    assert gain.excludes_zero
    assert found.gains["full"]["AUC"].value == 0
