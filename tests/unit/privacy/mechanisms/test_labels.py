import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare, laplace

from plait.errors import BudgetError, InputError, PrivacyError, SettingError
from plait.privacy.ledger.ledger import Budget, Ledger, fingerprint
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse, private_labels
from plait.privacy.mechanisms.soft_logistic import SoftLogistic, label_noise_factor
from plait.privacy.noise import InsecureTestNoise, KeyedNoise, Keystream, Release
from plait.problem.losses import Logistic


def stream(seed: int = 0) -> Keystream:
    return InsecureTestNoise(seed).stream(Release("r", "p", 0, "labels", ""))


@pytest.mark.parametrize(("epsilon", "classes"), [(0.5, 2), (1.0, 2), (1.0, 5), (3.0, 3)])
def test_reports_follow_the_law_of_randomised_response(epsilon: float, classes: int) -> None:
    n = 60_000
    for true in range(classes):
        reported = RandomisedResponse(epsilon, classes).release(np.full(n, true), stream(true))
        keep = math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
        expected = np.full(classes, n * (1 - keep) / (classes - 1))
        expected[true] = n * keep
        assert chisquare(np.bincount(reported, minlength=classes), expected).pvalue > 1e-4


@pytest.mark.parametrize(("epsilon", "classes"), [(0.1, 2), (1.0, 2), (1.0, 7), (8.0, 3)])
def test_the_likelihood_ratio_of_a_report_is_at_most_e_to_the_epsilon(epsilon: float, classes: int) -> None:
    lie = RandomisedResponse(epsilon, classes).lie
    assert (1 - (classes - 1) * lie) / lie <= math.exp(epsilon) * (1 + 1e-12)


@pytest.mark.parametrize("classes", [2, 4])
def test_soft_targets_are_right_on_average(classes: int) -> None:
    mechanism = RandomisedResponse(1.0, classes)
    keep, lie = 1 - (classes - 1) * mechanism.lie, mechanism.lie
    targets = mechanism.targets(np.arange(classes))
    if classes == 2:
        targets = np.column_stack([1 - targets, targets])
    channel = np.full((classes, classes), lie) + (keep - lie) * np.eye(classes)
    assert np.allclose(channel @ targets, np.eye(classes))


def test_two_classes_have_the_closed_form() -> None:
    mechanism = RandomisedResponse(1.0)
    pi = 1 / (1 + math.e)
    assert mechanism.targets([0, 1]) == pytest.approx([-pi / (1 - 2 * pi), (1 - pi) / (1 - 2 * pi)])
    assert mechanism.gradient_bound == pytest.approx((1 - pi) / (1 - 2 * pi))
    assert SoftLogistic(*mechanism.targets([0, 1])).slope() == pytest.approx(mechanism.gradient_bound)


def test_the_soft_logistic_loss_is_the_logistic_loss_on_labels_and_its_prox_is_stationary() -> None:
    z, t = np.linspace(-6, 6, 50), np.tile([0.0, 1.0], 25)
    assert np.allclose(SoftLogistic().value(z, t), Logistic().value(z, 2 * t - 1))
    soft = SoftLogistic(-0.6, 1.6)
    targets = np.where(t > 0, 1.6, -0.6)
    p = soft.prox(z, np.full(50, 2.5), targets)
    assert np.allclose(soft.gradient(p, targets) + (p - z) / 2.5, 0, atol=1e-9)
    assert np.allclose(soft.seen(soft.gradient(z, targets), z, 0.0).score, z, atol=1e-6)


def test_only_noisy_targets_raise_the_penalty() -> None:
    assert label_noise_factor(np.array([0.0, 1.0, 1.0])) == 1.0
    assert label_noise_factor(np.array([-0.6, 1.6, 1.6])) > 3


def test_regression_labels_get_laplace_noise_of_the_range() -> None:
    mechanism = NoisyLabel(0.5, low=-1.0, high=3.0)
    noisy = mechanism.release(np.full(100_000, 99.0), stream())
    assert np.mean(noisy) == pytest.approx(3.0, abs=0.2)
    quantiles = np.quantile(noisy - 3.0, [0.1, 0.25, 0.5, 0.75, 0.9])
    assert quantiles == pytest.approx(laplace.ppf([0.1, 0.25, 0.5, 0.75, 0.9], scale=8.0), abs=0.35)
    assert mechanism.cost.pure <= 0.5


def test_labels_are_drawn_once_and_read_back(tmp_path: Path) -> None:
    labels = np.arange(200) % 2
    ledger = Ledger(tmp_path, "bank", fingerprint(b"labels"), Budget(1.0))
    store = tmp_path / "labels.json"
    mechanism = RandomisedResponse(1.0)
    first = private_labels(mechanism, labels, ledger, KeyedNoise(), store)
    again = private_labels(mechanism, labels, ledger, KeyedNoise(), store)
    assert np.array_equal(first, again)
    assert ledger.spent().epsilon(1e-5) == 1.0
    with pytest.raises(PrivacyError, match="once per data version"):
        private_labels(RandomisedResponse(0.5), labels, ledger, KeyedNoise(), store)
    with pytest.raises(BudgetError):
        private_labels(mechanism, labels, ledger, KeyedNoise(), tmp_path / "other.json")


def test_lost_labels_come_back_from_the_ledger_for_free(tmp_path: Path) -> None:
    labels, noise = np.arange(50) % 2, KeyedNoise()
    ledger = Ledger(tmp_path, "bank", fingerprint(b"labels"), Budget(1.0))
    first = private_labels(RandomisedResponse(1.0), labels, ledger, noise, tmp_path / "a.json")
    again = private_labels(RandomisedResponse(1.0), labels, ledger, noise, tmp_path / "b.json")
    assert np.array_equal(first, again)


def test_unusable_labels_and_settings_are_refused() -> None:
    with pytest.raises(InputError, match="must be classes"):
        RandomisedResponse(1.0).release([0, 2], stream())
    with pytest.raises(InputError, match="finite"):
        NoisyLabel(1.0, 0.0, 1.0).release([math.nan], stream())
    with pytest.raises(SettingError, match="classes"):
        RandomisedResponse(1.0, classes=1)
    with pytest.raises(SettingError, match="range"):
        NoisyLabel(1.0, 2.0, 1.0)
    with pytest.raises(SettingError, match="epsilon"):
        RandomisedResponse(0.0)
