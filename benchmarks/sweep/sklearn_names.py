"""A pytest plugin that puts plait under the names of scikit-learn's linear models, columns dealt to three parties.

Every adapter has the constructor of the model that it stands for; only `fit` is plait's.  What plait has no word for
raises `Lacking`, so that it can be told from what plait gets wrong.  One line of JSON per test goes to PLAIT_SKLEARN.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.linear_model
import sklearn.svm
from sklearn.utils.class_weight import compute_sample_weight

import plait

_PARTIES = 3
_SECONDS = 20  # for one test
_touched: set[str] = set()
_current = ""


class Lacking(Exception):
    """plait offers nothing of this kind."""


def _total(weights: Any, rows: int) -> float:
    return float(rows if weights is None else np.sum(np.broadcast_to(np.asarray(weights, dtype=float), (rows,))))


def _train(model: Any, vertical: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit the plait estimator and take over what it found."""
    for option in ("warm_start", "positive"):
        if getattr(model, option, False):
            raise Lacking(option)
    if getattr(model, "precompute", False) is not False:
        raise Lacking("precompute")
    width = np.shape(X)[1] if len(np.shape(X)) == 2 else 1
    fitted = vertical.set_params(parties=min(_PARTIES, max(width, 1))).fit(X, y, sample_weight=sample_weight)
    names = ("coef_", "intercept_", "n_iter_", "n_features_in_", "classes_", "feature_names_in_")
    for name in names:
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name))
    return model


def _touch(model: Any, X: Any, y: Any) -> None:
    _touched.add(_current)
    model._validate_params()
    if np.ndim(y) == 2 and np.shape(y)[1] > 1:
        raise Lacking("several targets")


def _classifier_weights(model: Any, y: Any, sample_weight: Any) -> Any:
    if model.class_weight is None:
        return sample_weight
    by_class = compute_sample_weight(model.class_weight, y)
    return by_class if sample_weight is None else by_class * sample_weight


class LogisticRegression(sklearn.linear_model.LogisticRegression):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _touch(self, X, y)
        if np.unique(y).size > 2:
            raise Lacking("softmax")
        strength = (
            0.0 if np.isinf(self.C) else 1 / (self.C * _total(_classifier_weights(self, y, sample_weight), len(y)))
        )
        ratio = float(self.l1_ratio or 0.0) if self.penalty == "deprecated" else float(self.penalty == "l1")
        penalty = plait.ElasticNet(strength, ratio) if strength else plait.NoPenalty()
        vertical = plait.VerticalLogisticRegression(
            penalty=penalty, fit_intercept=self.fit_intercept, class_weight=self.class_weight
        )
        _train(self, vertical, X, y, sample_weight)
        self.n_iter_ = np.atleast_1d(self.n_iter_).astype(np.int32)
        return self


class LinearSVC(sklearn.svm.LinearSVC):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _touch(self, X, y)
        if self.multi_class != "ovr":
            raise Lacking("crammer_singer")
        strength = 1 / (self.C * _total(_classifier_weights(self, y, sample_weight), len(y)))
        penalty = plait.L1(strength) if self.penalty == "l1" else plait.L2(strength)
        vertical = plait.VerticalSVC(
            loss=self.loss, penalty=penalty, fit_intercept=self.fit_intercept, class_weight=self.class_weight
        )
        return _train(self, vertical, X, y, sample_weight)


def _regression(model: Any, X: Any, y: Any, sample_weight: Any, loss: Any, penalty: Any) -> Any:
    vertical = plait.VerticalRegression(loss=loss, penalty=penalty, fit_intercept=model.fit_intercept)
    return _train(model, vertical, X, y, sample_weight)


class Ridge(sklearn.linear_model.Ridge):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _touch(self, X, y)
        if np.ndim(self.alpha):
            raise Lacking("one strength per target")
        strength = float(self.alpha) / _total(sample_weight, len(y))
        return _regression(self, X, y, sample_weight, plait.Squared(), plait.L2(strength))


class ElasticNet(sklearn.linear_model.ElasticNet):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        _touch(self, X, y)
        ratio = getattr(self, "l1_ratio", 1.0)
        penalty = plait.L1(self.alpha * ratio) + plait.L2(self.alpha * (1 - ratio))
        return _regression(self, X, y, sample_weight, plait.Squared(), penalty)


class Lasso(sklearn.linear_model.Lasso):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        _touch(self, X, y)
        return _regression(self, X, y, sample_weight, plait.Squared(), plait.L1(self.alpha))


class PoissonRegressor(sklearn.linear_model.PoissonRegressor):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _touch(self, X, y)
        self._base_loss = self._get_loss()
        return _regression(self, X, y, sample_weight, plait.Poisson(), plait.L2(self.alpha))


class QuantileRegressor(sklearn.linear_model.QuantileRegressor):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _touch(self, X, y)
        return _regression(self, X, y, sample_weight, plait.Pinball(self.quantile), plait.L1(self.alpha))


class HuberRegressor(sklearn.linear_model.HuberRegressor):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _touch(self, X, y)
        raise Lacking("a scale that is fitted with the weights")


for _adapter in (LogisticRegression, Ridge, ElasticNet, Lasso, PoissonRegressor, QuantileRegressor, HuberRegressor):
    setattr(sklearn.linear_model, _adapter.__name__, _adapter)
sklearn.svm.LinearSVC = LinearSVC


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Any:
    """Name the running test, and give it a limit of seconds."""
    global _current
    _current = item.nodeid

    def ring(*_: object) -> None:
        raise TimeoutError(f"not done in {_SECONDS} s")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Write down how each test ended."""
    report = yield
    if report.when == "call":
        error = call.excinfo
        words = "" if error is None else f"{error.typename}: {str(error.value).strip().splitlines()[:1]}"
        with Path(os.environ["PLAIT_SKLEARN"]).open("a") as lines:
            line = {"test": item.nodeid, "outcome": report.outcome, "touched": item.nodeid in _touched, "words": words}
            lines.write(json.dumps(line) + "\n")
    return report
