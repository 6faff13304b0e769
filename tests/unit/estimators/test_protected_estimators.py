"""Estimators whose runs are protected: the same models, and nothing that depends on labels reaches a party."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, Ridge

import plait

PROTECTED = [plait.Protection("labels", max_leverage=1.0), plait.Protection("sums", max_leverage=1.0)]


def cancer() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(0)) / X.std(0), y


@pytest.mark.parametrize("protection", PROTECTED, ids=["labels", "sums"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_protected_classifier_is_that_of_scikit_learn(protection: plait.Protection, class_weight: Any) -> None:
    X, y = cancer()
    options = {"alpha": 1e-2, "class_weight": class_weight, "tol": 1e-9}
    model = plait.VerticalLogisticRegression(3, protection=protection, **options).fit(X, y)
    judge = LogisticRegression(C=1 / (1e-2 * len(y)), class_weight=class_weight, tol=1e-10, max_iter=5000).fit(X, y)
    assert model.fits_[0].protection is not None
    np.testing.assert_allclose(model.predict_proba(X), judge.predict_proba(X), atol=2e-4)


def test_a_protected_regression_is_that_of_scikit_learn() -> None:
    X, y = load_diabetes(return_X_y=True)
    kinds = {"clinic": slice(0, 5), "laboratory": slice(5, 10)}
    model = plait.VerticalRegression(kinds, alpha=1e-3, fit_intercept=False, protection="labels").fit(X, y)
    judge = Ridge(1e-3 * len(y), fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.predict(X), judge.predict(X), atol=5e-3)  # of predictions around 70


def test_every_class_gets_a_protected_run() -> None:
    X, y = load_iris(return_X_y=True)
    model = plait.VerticalLogisticRegression(2, alpha=1e-2, protection="labels").fit(X, y)
    assert [fit.protection is not None for fit in model.fits_] == [True] * 3


class Watched(plait.VerticalLogisticRegression):
    """Remembers the tables that the parties of a run get."""

    def _run(self, parts: Any, *others: Any) -> Any:
        self.tables_ = {name: part.matrix for name, part in parts.items()}
        return super()._run(parts, *others)


@pytest.mark.parametrize("protection", PROTECTED, ids=["labels", "sums"])
def test_tables_of_a_protected_run_do_not_depend_on_the_labels(protection: plait.Protection) -> None:
    """Class weights come from the labels; with them in its means, or with rows merged, a party could tell these."""
    X, y = cancer()
    X = np.vstack([X, X[:20]])
    tables = []
    for labels in (np.r_[y, y[:20]], np.r_[y, 1 - y[:20]]):
        model = Watched(3, alpha=1e-2, class_weight="balanced", protection=protection).fit(X, labels)
        tables.append(model.tables_)
    for name, table in tables[0].items():
        np.testing.assert_array_equal(table, tables[1][name])


def test_the_option_is_one_of_scikit_learns() -> None:
    model = clone(plait.VerticalSVC(2, protection="labels"))
    assert model.get_params()["protection"] == "labels"
    with pytest.raises(plait.SettingError, match="protection must be"):
        model.set_params(protection="most").fit(*cancer())
