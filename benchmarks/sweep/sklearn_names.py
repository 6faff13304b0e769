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
_SECONDS = 20  # of processor time, for one test
_DIRECT = ("svd", "cholesky")  # solvers of scikit-learn's that know no tolerance: tests take their answers for exact
_EXACT, _VERTEX = 1e-16, 1e-9  # relative gaps: below rounding; of a linear programme, which ends at a corner
_FEW = range(10)  # iterations: so few, and a test means to stop a solver early
_touched: set[str] = set()
_current = ""


class Lacking(Exception):
    """plait offers nothing of this kind."""


def _total(weights: Any, rows: int) -> float:
    if weights is None or np.ndim(weights) > 1:  # plait says what is wrong with a table of weights
        return float(rows)
    return float(np.sum(np.broadcast_to(np.asarray(weights, dtype=float), (rows,))))


def _train(model: Any, vertical: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit the plait estimator and take over what it found."""
    if np.ndim(getattr(model, "precompute", False)):
        raise Lacking("a Gram matrix instead of the table")
    if getattr(model, "max_iter", None) == 0:
        raise Lacking("a model before its first round")
    width = np.shape(X)[1] if len(np.shape(X)) == 2 else 1
    vertical.set_params(parties=min(_PARTIES, max(width, 1)), warm_start=getattr(model, "warm_start", False))
    # scikit-learn's tolerances are of weights and slopes; the gap, plait's, goes with their square.
    tolerance = getattr(model, "tol", _VERTEX**0.5) ** 2
    exact = getattr(model, "solver_", "") in _DIRECT or tolerance == 0
    vertical.set_params(tol=min(vertical.tol, _EXACT if exact else max(tolerance, _EXACT)))
    if getattr(model, "max_iter", None) in _FEW:  # where a test wants a run that is cut short
        vertical.set_params(max_iter=model.max_iter)
    for name in ("coef_", "intercept_") if vertical.warm_start else ():
        if hasattr(model, name):
            setattr(vertical, name, getattr(model, name))
    fitted = vertical.fit(X, y, sample_weight=sample_weight)
    gaps = np.array([f.gap * abs(f.objective) for f in fitted.fits_])
    model.dual_gap_ = gaps if len(gaps) > 1 else gaps[0]
    names = ("coef_", "intercept_", "n_iter_", "n_features_in_", "classes_", "feature_names_in_")
    for name in names:
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name))
    return model


def _touch(model: Any, X: Any, y: Any) -> None:
    _touched.add(_current)
    model._validate_params()


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
        free = np.isinf(self.C) or self.penalty is None
        strength = 0.0 if free else 1 / (self.C * _total(_classifier_weights(self, y, sample_weight), len(y)))
        mixed = self.penalty in ("deprecated", "elasticnet")
        ratio = float(self.l1_ratio or 0.0) if mixed else float(self.penalty == "l1")
        vertical = plait.VerticalLogisticRegression(
            penalty="none" if free else "elasticnet",
            alpha=None if free else strength,
            l1_ratio=None if free else ratio,
            fit_intercept=self.fit_intercept,
            class_weight=self.class_weight,
        )
        _train(self, vertical, X, y, sample_weight)
        if self.solver == "liblinear":  # the only solver that answers in float64 whatever it is given
            self.coef_ = self.coef_.astype(np.float64)
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


def _signs(model: Any) -> list[plait.Penalty]:
    return [plait.NonNegative()] if model.positive else []


def _regression(model: Any, X: Any, y: Any, sample_weight: Any, loss: Any, penalty: Any) -> Any:
    vertical = plait.VerticalRegression(loss=loss, penalty=penalty, fit_intercept=model.fit_intercept)
    return _train(model, vertical, X, y, sample_weight)


class Ridge(sklearn.linear_model.Ridge):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        _touch(self, X, y)
        if np.ndim(self.alpha):
            raise Lacking("one strength per target")
        self.solver_ = "cholesky" if self.solver == "auto" else self.solver
        penalty = plait.L2(float(self.alpha) / _total(sample_weight, len(y)))
        if self.positive:
            penalty = penalty + plait.NonNegative()
        return _regression(self, X, y, sample_weight, plait.Squared(), penalty)


class ElasticNet(sklearn.linear_model.ElasticNet):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        _touch(self, X, y)
        ratio = getattr(self, "l1_ratio", 1.0)
        penalty = sum([plait.L1(self.alpha * ratio), plait.L2(self.alpha * (1 - ratio)), *_signs(self)])
        return _regression(self, X, y, sample_weight, plait.Squared(), penalty)


class Lasso(sklearn.linear_model.Lasso):  # type: ignore[misc]
    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        _touch(self, X, y)
        penalty = sum([plait.L1(self.alpha), *_signs(self)])
        return _regression(self, X, y, sample_weight, plait.Squared(), penalty)


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

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    """Write down how each test ended."""
    report = yield
    if report.when == "call":
        error = call.excinfo
        words = "" if error is None else f"{error.typename}: {str(error.value).strip().splitlines()[:1]}"
        if error is not None and Lacking.__name__ in str(error.value):  # a grid has failed for want of a feature
            words = f"{Lacking.__name__}: {words}"
        with Path(os.environ["PLAIT_SKLEARN"]).open("a") as lines:
            line = {"test": item.nodeid, "outcome": report.outcome, "touched": item.nodeid in _touched, "words": words}
            lines.write(json.dumps(line) + "\n")
    return report
