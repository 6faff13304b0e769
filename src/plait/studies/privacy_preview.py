"""Expected loss against epsilon, by simulation on data that is public: nothing private is spent to choose epsilon."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from plait._types import Array
from plait.data.datasets import load
from plait.errors import SettingError
from plait.privacy.mechanisms.paper import NoPrivacy
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.noise import KeyedNoise
from plait.privacy.policy import Policy
from plait.training.convergence import ConvergenceWarning
from plait.training.fit import fit


@dataclass(frozen=True, eq=False)
class Sample:
    """Two parties' rows with labels 0/1, for training and for testing; a helper's rows have norm at most 1."""

    name: str
    train: tuple[Array, Array]
    labels: Array
    test: tuple[Array, Array]
    truth: Array

    @classmethod
    def of(cls, name: str, own: Array, helper: Array, labels: Array) -> "Sample":
        """A third of the rows, drawn by a fixed seed, are kept for testing."""
        held = np.random.default_rng(0).permutation(labels.size) % 3 == 0
        own, helper = _unit(own), _unit(helper)
        return cls(name, (own[~held], helper[~held]), labels[~held], (own[held], helper[held]), labels[held])


def breast_cancer() -> Sample:
    """569 patients, 15 columns each; ranges are those of the measurements, known beforehand."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    low, high = x.min(axis=0), x.max(axis=0)
    scaled = 2 * (x - low) / (high - low) - 1
    return Sample.of("breast cancer (scikit-learn)", scaled[:, :15], scaled[:, 15:], y.astype(np.float64))


def a9a() -> Sample:
    """32,561 adults, 66 and 57 columns, as in the paper."""
    data = load("a9a")
    own, helper = (data.parts[party].toarray() for party in ("A", "B"))
    return Sample.of("a9a", own, helper, (data.y > 0).astype(np.float64))


def synthetic(records: int, own: int, helper: int) -> Sample:
    """Gaussian columns of which a few matter, at a signal like that of real tabular data."""
    if min(records // 3, own, helper) < 1:
        raise SettingError(f"there must be rows and columns. Found {records} rows, {own} and {helper} columns.")
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((records, d)) for d in (own, helper)]
    rows = [_unit(r) for r in rows]
    score = sum((r @ (rng.standard_normal(r.shape[1]) * 2 * np.sqrt(2)) for r in rows), np.zeros(records))
    labels = (rng.random(records) < expit(score)).astype(np.float64)
    return Sample.of(f"synthetic, {records} rows, {own} + {helper} columns", rows[0], rows[1], labels)


SAMPLES: dict[str, Callable[[], Sample]] = {"breast-cancer": breast_cancer, "a9a": a9a}


@dataclass(frozen=True)
class Preview:
    """Test log loss without the helper, with it unprotected, and the median under each epsilon."""

    sample: str
    local: float
    pooled: float
    private: dict[float, float]


def preview(sample: Sample, epsilons: Sequence[float], delta: float = 1e-5, repeats: int = 5) -> Preview:
    """Train on the sample under every epsilon, `repeats` times with fresh noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        local = fit(list(sample.train[:1]), sample.labels, fit_intercept=True).scores(list(sample.test[:1]))
        pooled = fit(list(sample.train), sample.labels, fit_intercept=True).scores(list(sample.test))
        private = {
            epsilon: float(np.median([_private_loss(sample, Recommended(epsilon, delta)) for _ in range(repeats)]))
            for epsilon in epsilons
        }
    return Preview(sample.name, _log_loss(local, sample.truth), _log_loss(pooled, sample.truth), private)


def _private_loss(sample: Sample, mechanism: Recommended) -> float:
    policy = Policy([NoPrivacy(), mechanism], noise=KeyedNoise())
    model = fit(list(sample.train), sample.labels, privacy=policy, fit_intercept=True)
    return _log_loss(model.scores(list(sample.test)), sample.truth)


def _log_loss(scores: Array, labels: Array) -> float:
    return float(np.mean(np.logaddexp(0.0, scores) - labels * scores))


def _unit(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1)
    return rows / np.maximum(norms, 1e-12)[:, None]
