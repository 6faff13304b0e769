"""What users of scikit-learn expect of every model: shapes, number formats, weights, grids, warnings, errors."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.exceptions
from sklearn.base import clone
from sklearn.linear_model import ElasticNet, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV

import plait

RNG = np.random.default_rng(4)
X = RNG.standard_normal((60, 5))
Y = X @ np.array([1.0, -2.0, 0.0, 0.5, 0.0]) + 0.3 * RNG.standard_normal(60) + 2
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0] + 0.5)).astype(float)
CLASSES = np.where(Y > 2, "yes", "no")
MODELS = [
    (plait.VerticalLogisticRegression(3), CLASSES),
    (plait.VerticalSVC(3), CLASSES),
    (plait.VerticalRegression(3), Y),
    (plait.VerticalRegression(3, loss="huber"), Y),
    (plait.VerticalRegression(3, loss="poisson"), COUNTS),
]
NAMES = ["logistic", "svc", "squared", "huber", "poisson"]
each_model = pytest.mark.parametrize(("model", "y"), MODELS, ids=NAMES)


def test_convergence_warning_is_scikit_learns_and_points_at_the_caller() -> None:
    model = plait.VerticalRegression(2, loss="huber", max_iter=1, tol=1e-14)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="before its tolerance") as caught:
        model.fit(X, Y)
    with pytest.warns(plait.ConvergenceWarning) as caught_by_fit:
        plait.fit([X], Y, loss="huber", stopping=plait.Stopping(1, tol=1e-14))
    assert {w.filename for w in (*caught, *caught_by_fit)} == {__file__}


def test_elastic_net_by_name_with_its_ratio() -> None:
    ours = plait.VerticalRegression(2, penalty="elasticnet", alpha=0.1, l1_ratio=0.7, tol=1e-10).fit(X, Y)
    theirs = ElasticNet(alpha=0.1, l1_ratio=0.7, tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    with pytest.raises(plait.SettingError, match="l1_ratio goes with the penalty 'elastic-net'"):
        plait.VerticalRegression(2, penalty="l1", l1_ratio=0.7).fit(X, Y)
    with pytest.raises(plait.SettingError, match="Leave out l1_ratio"):
        plait.VerticalRegression(2, penalty=plait.L1(0.1), l1_ratio=0.7).fit(X, Y)


def test_a_grid_may_vary_the_options_of_a_penalty_and_of_a_loss() -> None:
    model = plait.VerticalRegression(2, penalty=plait.L1(9.0), loss=plait.Huber(1.0))
    grid = GridSearchCV(model, {"penalty__alpha": [5.0, 1e-3], "loss__delta": [0.5, 2.0]}, cv=3).fit(X, Y)
    assert grid.best_params_["penalty__alpha"] == 1e-3
    assert grid.best_estimator_.penalty == plait.L1(1e-3)
    assert model.penalty == plait.L1(9.0)  # what a user gave stays as it is


def test_a_grid_may_vary_the_penalty_and_the_strength_of_those_that_have_one() -> None:
    grid = GridSearchCV(
        plait.VerticalRegression(2), {"penalty": ["none", "l2", plait.L1(0.1)], "alpha": [1e-3, 10.0]}, cv=3
    ).fit(X, Y)
    assert not np.isnan(grid.cv_results_["mean_test_score"]).any()
    with pytest.raises(plait.SettingError, match="takes no alpha"):
        plait.fit([X], Y, loss="squared", penalty="none", alpha=1.0)
    with pytest.raises(plait.SettingError, match="Leave out alpha"):
        plait.fit([X], Y, loss="squared", penalty=plait.L1(0.1), alpha=1.0)


def test_alpha_goes_to_the_parties_whose_penalty_has_a_strength() -> None:
    halves = [X[:, :3], X[:, 3:]]
    both = plait.fit(halves, Y, loss="squared", penalty=["l2", "none"], alpha=0.5)
    same = plait.fit(halves, Y, loss="squared", penalty=[plait.L2(0.5), plait.NoPenalty()])
    assert both.objective == same.objective


def test_options_of_a_named_penalty_can_be_set() -> None:
    model = plait.VerticalRegression(penalty="elastic-net").set_params(penalty__l1_ratio=0.2)
    assert model.penalty == plait.ElasticNet(l1_ratio=0.2)
    assert model.get_params()["penalty__l1_ratio"] == 0.2
    assert clone(model).penalty == model.penalty


@pytest.mark.parametrize("wrong", ["penalty__beta", "method__rho", "colour__hue", "colour"])
def test_unknown_options_are_value_errors(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"options|Valid parameters"):
        plait.VerticalRegression().set_params(**{wrong: 1})


def test_several_targets_have_a_model_each() -> None:
    targets = np.column_stack([Y, -3 * Y, X[:, 0]])
    ours = plait.VerticalRegression(2, alpha=1e-2, tol=1e-12).fit(X, targets)
    theirs = Ridge(alpha=0.6).fit(X, targets)
    assert ours.coef_.shape == (3, 5)
    assert ours.intercept_.shape == (3,)
    assert ours.n_iter_.shape == (3,)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-6)
    assert ours.score(X, targets) == pytest.approx(theirs.score(X, targets), abs=1e-6)
    assert len(ours.coefficients()) == 15


def test_several_private_targets_are_refused() -> None:
    mechanism = plait.privacy.Recommended(epsilon=1.0, delta=1e-5, clip=1.0)
    with pytest.raises(plait.SettingError, match="one target"):
        plait.VerticalRegression(2, privacy=mechanism).fit(X, np.column_stack([Y, Y]))


def test_poisson_is_scored_by_deviance_and_wants_no_negative_targets() -> None:
    ours = plait.VerticalRegression(2, loss="poisson", alpha=0.1, tol=1e-10).fit(X, COUNTS)
    theirs = PoissonRegressor(alpha=0.1, tol=1e-10).fit(X, COUNTS)
    assert ours.score(X, COUNTS) == pytest.approx(theirs.score(X, COUNTS), abs=1e-6)
    assert ours.__sklearn_tags__().target_tags.positive_only
    with pytest.raises(ValueError, match="out of the valid range of the loss"):
        ours.fit(X, COUNTS - 1)


@each_model
def test_shapes_are_those_of_scikit_learn(model: Any, y: Any) -> None:
    fitted = clone(model).fit(X, y)
    if y is CLASSES:
        assert fitted.coef_.shape == (1, 5)
        assert fitted.intercept_.shape == (1,)
    else:
        assert fitted.coef_.shape == (5,)
        assert np.ndim(fitted.intercept_) == 0
    assert np.shape(fitted.n_iter_) == ((1,) if isinstance(model, plait.VerticalLogisticRegression) else ())


@each_model
def test_float32_is_kept(model: Any, y: Any) -> None:
    small, large = X.astype(np.float32), X
    single, double = clone(model).fit(small, y), clone(model).fit(large, y)
    assert single.coef_.dtype == np.float32
    assert double.coef_.dtype == np.float64
    assert clone(model).fit(sp.csr_array(small), y).coef_.dtype == np.float32
    scores = "decision_function" if y is CLASSES else "predict"
    assert getattr(single, scores)(small).dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-4)


@each_model
def test_a_row_without_weight_is_as_good_as_absent(model: Any, y: Any) -> None:
    weights = RNG.uniform(0.5, 2.0, 60)
    weights[::4] = 0.0
    kept = weights > 0
    with_zeros = clone(model).fit(X, y, sample_weight=weights)
    without = clone(model).fit(X[kept], y[kept], sample_weight=weights[kept])
    np.testing.assert_allclose(with_zeros.coef_, without.coef_, rtol=1e-12)
    np.testing.assert_allclose(with_zeros.intercept_, without.intercept_, rtol=1e-12)


@each_model
def test_a_row_of_twice_the_weight_is_two_rows_to_the_last_digit(model: Any, y: Any) -> None:
    counts = RNG.integers(0, 4, 60)
    order = RNG.permutation(60)
    weighted = clone(model).fit(X[order], y[order], sample_weight=counts[order])
    repeated = clone(model).fit(X.repeat(counts, axis=0), y.repeat(counts))
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    np.testing.assert_array_equal(weighted.intercept_, repeated.intercept_)


@pytest.mark.parametrize("loss", ["pinball", "cauchy"])
def test_weights_count_before_round_1(loss: str) -> None:
    counts = RNG.integers(1, 4, 60)
    halves = [X[:, :3], X[:, 3:]]
    weighted = plait.fit(halves, Y, loss=loss, sample_weight=counts)
    repeated = plait.fit([h.repeat(counts, axis=0) for h in halves], Y.repeat(counts), loss=loss)
    assert weighted.history[0].objective == pytest.approx(repeated.history[0].objective, rel=1e-9)


@each_model
def test_one_weight_for_all_rows_counts_them_alike(model: Any, y: Any) -> None:
    plain, scalar = clone(model).fit(X, y), clone(model).fit(X, y, sample_weight=7.0)
    np.testing.assert_allclose(plain.coef_, scalar.coef_, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson", "pinball", "cauchy"])
@pytest.mark.parametrize("value", [0.0, 5.0])
def test_a_constant_target_is_the_intercept(loss: str, value: float) -> None:
    if loss == "poisson" and value == 0:
        pytest.skip("the logarithm of no events is minus infinity")
    model = plait.VerticalRegression(2, loss=loss, alpha=0.1).fit(X, np.full(60, value))
    np.testing.assert_allclose(model.predict(X), value, atol=1e-3)


def test_penalties_of_no_strength_are_none() -> None:
    tight = plait.Stopping(tol=1e-14)
    none = plait.fit([X], Y, loss="squared", penalty="none", stopping=tight)
    for penalty in (plait.L1(0.0), plait.L1(0.0) + plait.L2(0.0), 0 * plait.L1(0.1)):
        assert penalty.smooth
        same = plait.fit([X], Y, loss="squared", penalty=penalty, stopping=tight)
        assert same.coefficients() == none.coefficients()


def test_a_weight_that_goes_to_zero_is_zero() -> None:
    rng = np.random.RandomState(42)
    table, targets = rng.rand(10, 5), rng.rand(10)
    weights = rng.uniform(low=0.01, high=2, size=10)
    penalty = plait.L1(0.005) + plait.L2(0.005)
    for scale in (1.0, np.pi):
        model = plait.VerticalRegression(3, penalty=penalty, fit_intercept=False, tol=1e-12)
        found = model.fit(table, targets, sample_weight=scale * weights).coef_
        theirs = ElasticNet(alpha=0.01, fit_intercept=False, tol=1e-14, max_iter=100_000)
        expected = theirs.fit(table, targets, sample_weight=weights).coef_
        np.testing.assert_array_equal(found == 0, expected == 0)
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_one_class_is_still_refused() -> None:
    with pytest.raises(ValueError, match="two"):
        plait.VerticalLogisticRegression().fit(X, np.ones(60))
    with pytest.raises(ValueError, match="two"):
        plait.fit([X], np.ones(60))


def test_max_iter_is_another_name_of_max_rounds() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        model = plait.VerticalLogisticRegression(2, max_iter=2, tol=1e-14).fit(X, CLASSES)
    np.testing.assert_array_equal(model.n_iter_, [2])


@each_model
def test_a_warm_start_ends_at_the_same_model(model: Any, y: Any) -> None:
    cold = clone(model).set_params(tol=1e-9).fit(X, y)
    warm = clone(model).set_params(tol=1e-9, warm_start=True, alpha=1e-1).fit(X, y).set_params(alpha=None).fit(X, y)
    np.testing.assert_allclose(warm.coef_, cold.coef_, atol=1e-3)


def test_a_start_must_fit_the_columns() -> None:
    with pytest.raises(plait.SettingError, match="'party 0' 3, 'party 1' 2"):
        plait.fit([X[:, :3], X[:, 3:]], Y, loss="squared", start=[np.ones(2), np.ones(2)])


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_missing_numbers_are_named_as_scikit_learn_does_and_by_party(broken: float) -> None:
    wrong = X.copy()
    wrong[7, 4] = broken
    words = r"Input X contains (NaN|infinity).* 'party 2' .* column '4', row 7"
    with pytest.raises(ValueError, match=words):
        plait.VerticalRegression(3).fit(wrong, Y)
    with pytest.raises(ValueError, match=words):
        plait.VerticalRegression(3).fit(X, Y).predict(wrong)


def test_rows_and_labels_of_other_numbers_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        plait.VerticalRegression(3).fit(X, Y[:-1])


def test_a_diverged_run_is_a_value_error_that_does_not_advise_what_was_done() -> None:
    assert issubclass(plait.DivergedError, ValueError)
    assert "plait.Proximal()" not in plait.Proximal().remedy
    assert "plait.Proximal()" in plait.Jacobi().remedy


@pytest.mark.parametrize("penalty", ["non-negative", plait.L2(0.1) + plait.Ball(1.0), ["l2", plait.Box(0.0, 1.0)]])
def test_a_constrained_model_may_score_poorly(penalty: Any) -> None:
    tags = plait.VerticalLogisticRegression(penalty=penalty).__sklearn_tags__()
    assert tags.classifier_tags.poor_score
    assert plait.VerticalRegression(penalty=penalty).__sklearn_tags__().regressor_tags.poor_score
    assert not plait.VerticalRegression(penalty="l1").__sklearn_tags__().regressor_tags.poor_score


@each_model
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_small_sparse_table_has_the_model_of_a_dense_one(model: Any, y: Any, fit_intercept: bool) -> None:
    thin = np.where(np.abs(X) < 1, 0.0, X)
    dense = clone(model).set_params(fit_intercept=fit_intercept, penalty="l1").fit(thin, y)
    sparse = clone(model).set_params(fit_intercept=fit_intercept, penalty="l1").fit(sp.csc_array(thin), y)
    np.testing.assert_array_equal(sparse.coef_, dense.coef_)
    np.testing.assert_array_equal(sparse.intercept_, dense.intercept_)
