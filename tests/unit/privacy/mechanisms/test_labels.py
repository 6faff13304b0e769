import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp, laplace

from plait.errors import BudgetError, InputError, PrivacyError, SettingError
from plait.privacy.ledger.budget import Budget
from plait.privacy.ledger.ledger import Ledger
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse
from plait.privacy.mechanisms.permanent import PermanentLabels
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


def test_noise_is_permanent_by_id_and_label(tmp_path: Path) -> None:
    noise, mechanism = KeyedNoise(), RandomisedResponse(1.0)
    ids, labels = [f"p{i}" for i in range(400)], (np.arange(400) % 2).astype(float)
    ledger = Ledger(tmp_path, "bank", "people", Budget(2.0))
    permanent = PermanentLabels(noise, "bank", "people", ledger)
    first = permanent.draw(mechanism, labels, ids)
    some = np.random.default_rng(0).permutation(400)[:300]
    again = permanent.draw(mechanism, labels[some], [ids[i] for i in some])
    assert np.array_equal(again, first[some]), "other rows in another order report the same"
    assert ledger.spent().epsilon(1e-5) == 1.0
    changed = labels.copy()
    changed[7] = 1 - changed[7]
    third = permanent.draw(mechanism, changed, ids)
    assert np.array_equal(np.delete(third, 7), np.delete(first, 7))
    assert ledger.spent().epsilon(1e-5) == 2.0, "a second label of one id is a second release"
    permanent.draw(mechanism, labels, ids)
    assert len(ledger.charges()) == 2
    with pytest.raises(BudgetError):
        permanent.draw(RandomisedResponse(0.5), labels, ids)
    assert np.array_equal(permanent.draw(mechanism, labels, ids), first), "a refused draw leaves nothing behind"


def test_without_ids_every_labels_vector_is_charged(tmp_path: Path) -> None:
    labels = (np.arange(50) % 2).astype(float)
    ledger = Ledger(tmp_path, "bank", "people", Budget(1.0))
    permanent = PermanentLabels(KeyedNoise(), "bank", "people", ledger)
    first = permanent.draw(RandomisedResponse(1.0), labels, None)
    assert np.array_equal(first, permanent.draw(RandomisedResponse(1.0), labels, None))
    with pytest.raises(BudgetError):
        permanent.draw(RandomisedResponse(1.0), labels[1:], None)


def test_a_lost_list_of_reported_labels_is_noticed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "bank", "people", Budget(1.0))
    permanent = PermanentLabels(KeyedNoise(), "bank", "people", ledger)
    permanent.draw(RandomisedResponse(1.0), np.zeros(3), ["a", "b", "c"])
    next(ledger.path.parent.glob("labels-*.bin")).unlink()
    with pytest.raises(PrivacyError, match="list of reported labels"):
        permanent.draw(RandomisedResponse(1.0), np.ones(3), ["a", "b", "c"])


@pytest.mark.parametrize("mechanism", [RandomisedResponse(1.0, 3), NoisyLabel(1.0, 0.0, 2.0)], ids=repr)
def test_permanent_noise_has_the_law_of_its_mechanism(mechanism: RandomisedResponse | NoisyLabel) -> None:
    count = 4000
    labels, ids = np.ones(count), [f"p{i}" for i in range(count)]
    drawn = PermanentLabels(KeyedNoise(), "bank", "people").draw(mechanism, labels, ids)
    other = np.asarray(mechanism.release(labels, stream()), dtype=float)
    assert ks_2samp(drawn, other, method="asymp").pvalue > 1e-4  # the exact law overflows for some draws


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
