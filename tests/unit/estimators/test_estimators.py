"""The estimators: who holds which column, which tables they take, and what scikit-learn would answer."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression, PoissonRegressor, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import plait
from tests.extras import polars as pl

Data = tuple[np.ndarray, np.ndarray]


def _standard(loader: Any) -> Data:
    x, y = loader(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), y


@pytest.fixture(scope="module")
def cancer() -> Data:
    return _standard(load_breast_cancer)


@pytest.fixture(scope="module")
def diabetes() -> Data:
    x, y = _standard(load_diabetes)
    return x, y / 50


@pytest.fixture(scope="module")
def frame() -> tuple[pd.DataFrame, pd.Series]:
    data = load_breast_cancer(as_frame=True)
    x = data.data[["mean area", "mean radius", "mean texture"]]
    return (x - x.mean()) / x.std(), data.target


THREE = {"a": slice(0, 10), "b": [*range(20, 30)], "c": slice(10, 20)}


class TestParity:
    """The objective at plait's weights is within 1e-6 of the one at scikit-learn's."""

    def test_logistic_regression(self, cancer: Data) -> None:
        x, y = cancer
        ours = plait.VerticalLogisticRegression(THREE, alpha=1e-2).fit(x, y)
        theirs = LogisticRegression(C=1e2 / len(y), solver="newton-cholesky", tol=1e-12).fit(x, y)

        def objective(m: Any) -> float:
            losses = np.logaddexp(0, -(2 * y - 1) * (x @ m.coef_[0] + m.intercept_[0]))
            return float(losses.mean() + 5e-3 * (m.coef_**2).sum())

        assert objective(ours) == pytest.approx(objective(theirs), rel=1e-6)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-4)
        np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))

    @pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
    def test_support_vector_machine(self, cancer: Data, loss: str) -> None:
        x, y = cancer
        ours = plait.VerticalSVC(THREE, loss=loss, alpha=1e-1, fit_intercept=False).fit(x, y)
        theirs = LinearSVC(C=10 / len(y), loss=loss, fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(x, y)
        power = 2 if loss == "squared_hinge" else 1

        def objective(m: Any) -> float:
            losses = np.maximum(0, 1 - (2 * y - 1) * (x @ m.coef_[0])) ** power
            return float(losses.mean() + 5e-2 * (m.coef_**2).sum())

        assert objective(ours) == pytest.approx(objective(theirs), rel=1e-6)

    def test_ridge(self, diabetes: Data) -> None:
        x, y = diabetes
        ours = plait.VerticalRegression(3, alpha=1e-2).fit(x, y)
        theirs = Ridge(alpha=1e-2 * len(y)).fit(x, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
        assert ours.intercept_ == pytest.approx(theirs.intercept_)

    def test_poisson(self, diabetes: Data) -> None:
        x, y = diabetes
        ours = plait.VerticalRegression(2, loss="poisson", alpha=1e-2).fit(x, y)
        theirs = PoissonRegressor(alpha=1e-2, solver="newton-cholesky", tol=1e-12).fit(x, y)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
        np.testing.assert_allclose(ours.predict(x), theirs.predict(x), rtol=1e-5)

    def test_quantile(self, diabetes: Data) -> None:
        x, y = diabetes
        loss = plait.Pinball(0.8)
        ours = plait.VerticalRegression(2, loss=loss, penalty="l1", alpha=0.2).fit(x, y)
        theirs = QuantileRegressor(quantile=0.8, alpha=0.2).fit(x, y)

        def objective(m: Any) -> float:
            r = y - x @ m.coef_ - m.intercept_
            return float(np.maximum(0.8 * r, -0.2 * r).mean() + 0.2 * np.abs(m.coef_).sum())

        assert objective(ours) == pytest.approx(objective(theirs), rel=1e-6)

    def test_classes_one_against_the_rest(self) -> None:
        x, y = _standard(load_iris)
        names = np.array(["setosa", "versicolor", "virginica"])[y]
        ours = plait.VerticalLogisticRegression(2, alpha=1e-2).fit(x, names)
        theirs = OneVsRestClassifier(LogisticRegression(C=1e2 / len(y), solver="newton-cholesky", tol=1e-12))
        theirs.fit(x, names)
        assert ours.coef_.shape == (3, 4)
        np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-5)
        np.testing.assert_array_equal(ours.predict(x), theirs.predict(x))

    def test_class_and_sample_weights(self, cancer: Data) -> None:
        x, y = cancer
        weights = np.random.default_rng(0).uniform(size=len(y))
        ours = plait.VerticalLogisticRegression(THREE, alpha=1e-2, class_weight={0: 3.0, 1: 1.0})
        ours.fit(x, y, sample_weight=weights)
        total = (weights * np.where(y == 0, 3.0, 1.0)).sum()
        theirs = LogisticRegression(C=1e2 / total, solver="newton-cholesky", tol=1e-12, class_weight={0: 3.0})
        theirs.fit(x, y, sample_weight=weights)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)


class TestTables:
    """Whatever the table is made of, the model is the same."""

    PARTIES = {"clinic": ["mean radius", "mean texture"], "lab": ["mean area"]}  # noqa: RUF012

    def test_pandas_polars_numpy_and_csr_agree(self, frame: tuple[pd.DataFrame, pd.Series]) -> None:
        x, y = frame
        by_position = {"clinic": [1, 2], "lab": 0}
        tables = {
            "pandas": (x, self.PARTIES),
            "polars": (pl.DataFrame({c: x[c].to_numpy() for c in x}), self.PARTIES),
            "numpy": (x.to_numpy(), by_position),
            "csr": (sp.csr_array(x.to_numpy()), by_position),
        }
        models = {
            kind: plait.VerticalLogisticRegression(parties, alpha=1e-3).fit(table, y)
            for kind, (table, parties) in tables.items()
        }
        for kind, (table, _) in tables.items():
            np.testing.assert_allclose(models[kind].coef_, models["numpy"].coef_, atol=1e-5)
            np.testing.assert_array_equal(models[kind].predict(table), models["numpy"].predict(x.to_numpy()))

    @pytest.mark.parametrize("kind", ["pandas", "polars"])
    def test_names_are_remembered_and_checked(self, frame: tuple[pd.DataFrame, pd.Series], kind: str) -> None:
        x, y = frame
        table = x if kind == "pandas" else pl.DataFrame({c: x[c].to_numpy() for c in x})
        model = plait.VerticalLogisticRegression(self.PARTIES).fit(table, y)
        assert list(model.feature_names_in_) == ["mean area", "mean radius", "mean texture"]
        assert {p: list(c) for p, c in model.owners_.items()} == {"clinic": [1, 2], "lab": [0]}
        with pytest.raises(plait.InputError, match="feature names should match"):
            model.predict(table[["mean radius", "mean area", "mean texture"]])

    def test_predictions_are_sigmoids_of_scores(self, frame: tuple[pd.DataFrame, pd.Series]) -> None:
        x, y = frame
        model = plait.VerticalLogisticRegression(self.PARTIES).fit(x, y)
        scores = x.to_numpy() @ model.coef_[0] + model.intercept_[0]
        np.testing.assert_allclose(model.decision_function(x), scores)
        np.testing.assert_allclose(model.predict_proba(x)[:, 1], expit(scores))
        np.testing.assert_allclose(model.predict_log_proba(x), np.log(model.predict_proba(x)))


class TestOptions:
    def test_each_party_may_have_its_own_penalty(self, diabetes: Data) -> None:
        x, y = diabetes
        parties = {"free": slice(0, 5), "positive": slice(5, 10)}
        penalty = {"free": plait.L2(1e-2), "positive": plait.L2(1e-2) + plait.NonNegative()}
        model = plait.VerticalRegression(parties, penalty=penalty, method=plait.Proximal()).fit(x, y)
        assert (model.coef_[:5] < 0).any()
        assert (model.coef_[5:] >= 0).all()

    def test_an_even_split_covers_all_columns(self, diabetes: Data) -> None:
        model = plait.VerticalRegression(3).fit(*diabetes)
        assert {p: len(c) for p, c in model.owners_.items()} == {"party 0": 4, "party 1": 3, "party 2": 3}

    def test_history_and_rounds_are_kept(self, diabetes: Data) -> None:
        seen: list[plait.Round] = []
        model = plait.VerticalRegression(2, callbacks=(seen.append,)).fit(*diabetes)
        assert model.n_iter_ == len(model.history_) == len(seen)
        assert model.history_[-1].objective == model.fits_[0].objective

    def test_goes_into_a_pipeline_and_a_grid_search(self, cancer: Data) -> None:
        x, y = cancer
        steps = make_pipeline(StandardScaler(), plait.VerticalLogisticRegression(2, tol=1e-6))
        search = GridSearchCV(steps, {"verticallogisticregression__alpha": [1e-2, 1.0]}, cv=3).fit(x, y)
        assert search.best_params_ == {"verticallogisticregression__alpha": 1e-2}
        assert search.best_score_ > 0.95

    def test_clones_keep_their_parties(self) -> None:
        model = plait.VerticalSVC(THREE, loss=plait.Hinge(), method=plait.Proximal(rho=0.5))
        assert clone(model).get_params() == model.get_params()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"penalty": "ridge"}, "penalty must be 'l2', 'l1', 'none'"),
            ({"alpha": -1.0}, r"L2\(alpha\) must be finite and not negative"),
            ({"penalty": None}, "penalty must be"),
            ({"max_rounds": 0}, "max_rounds"),
            ({"tol": -1.0}, "tol"),
            ({"loss": "logistic"}, "loss must be one of"),
            ({"loss": plait.Logistic()}, "regression loss object"),
        ],
    )
    def test_impossible_options_are_named(self, diabetes: Data, options: dict[str, Any], message: str) -> None:
        with pytest.raises(plait.SettingError, match=message):
            plait.VerticalRegression(2, **options).fit(*diabetes)
