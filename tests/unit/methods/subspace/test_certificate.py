"""Certified fits against scikit-learn and the barrier oracle: what is proved is true, and hard problems end."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Lasso, Ridge

import plait
from tests import oracle
from tests.oracle import Problem, Terms


def breast() -> tuple[list[np.ndarray], np.ndarray]:
    x, y = load_breast_cancer(return_X_y=True)
    return np.array_split((x - x.mean(axis=0)) / x.std(axis=0), 3, axis=1), np.where(y > 0, 1.0, -1.0)


def best_of(
    parts: list[np.ndarray], y: np.ndarray, terms: list[Terms], intercept: bool, loss: str = "Logistic"
) -> float:
    ends = np.cumsum([p.shape[1] for p in parts])
    blocks = tuple((int(e - p.shape[1]), int(e), t) for p, e, t in zip(parts, ends, terms, strict=True))
    return oracle.solve(Problem(oracle.LOSSES[loss], np.hstack(parts), y, blocks, intercept))[0]


RIDGE, WALL = plait.L2(1e-3), plait.L2(1e-3) + plait.NonNegative()
BOX, BALL = plait.L2(1e-3) + plait.Box(-0.1, 0.1), plait.L2(1e-3) + plait.Ball(0.5)
PLAIN, POSITIVE = Terms(ridge=1e-3), Terms(ridge=1e-3, lower=0.0)
BOUNDED, ROUND = Terms(ridge=1e-3, lower=-0.1, upper=0.1), Terms(ridge=1e-3, radius=0.5)


@pytest.mark.parametrize(
    ("penalty", "terms"),
    [
        ([RIDGE, RIDGE, WALL], [PLAIN, PLAIN, POSITIVE]),
        ([RIDGE, WALL, WALL], [PLAIN, POSITIVE, POSITIVE]),
        ([RIDGE, RIDGE, BOX], [PLAIN, PLAIN, BOUNDED]),
        ([RIDGE, RIDGE, BALL], [PLAIN, PLAIN, ROUND]),
        ([plait.L1(1e-2)] * 3, [Terms(l1=1e-2)] * 3),
    ],
    ids=["one wall", "two walls", "box", "ball", "L1"],
)
def test_one_party_with_walls_or_kinks_is_certified_at_the_optimum(penalty: list, terms: list) -> None:
    parts, y = breast()
    fit = plait.fit(parts, y, penalty=penalty, method="subspace")
    best = best_of(parts, y, terms, True)
    assert fit.certified
    assert fit.rounds <= 20
    assert (fit.objective - best) / best <= fit.gap + 1e-9
    assert fit.objective == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(("loss", "name"), [(plait.Hinge(), "Hinge"), (plait.Pinball(oracle.QUANTILE), "Pinball")])
def test_a_kinked_loss_within_a_ball_is_certified_at_the_optimum(loss: plait.Loss, name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 9))
    y = x @ rng.normal(size=9) + rng.normal(size=80)
    parts, y = np.array_split(x, 3, axis=1), np.sign(y) if name == "Hinge" else y
    fit = plait.fit(parts, y, loss=loss, penalty=[RIDGE, RIDGE, BALL])
    assert fit.certified
    assert fit.objective == pytest.approx(best_of(parts, y, [PLAIN, PLAIN, ROUND], True, name), rel=1e-6)


def test_sparse_model_has_the_support_of_the_optimum() -> None:
    x, y = load_diabetes(return_X_y=True)
    x, y = x / x.std(axis=0), (y - y.mean()) / y.std()
    fit = plait.fit(np.array_split(x, 3, axis=1), y, loss=plait.Squared(), penalty=plait.L1(0.05), method="subspace")
    pooled = Lasso(alpha=0.05, tol=1e-12, max_iter=100_000).fit(x, y)
    assert fit.certified
    np.testing.assert_array_equal(np.concatenate(fit.weights) != 0, pooled.coef_ != 0)


def test_lasso_with_more_columns_than_rows_ends() -> None:
    rng = np.random.default_rng(306)
    x, y = rng.normal(size=(3, 6)), rng.normal(size=3)
    fit = plait.fit(
        [x[:, :3], x[:, 3:]], y, loss=plait.Squared(), penalty=plait.L1(0.01), fit_intercept=False, method="subspace"
    )
    pooled = Lasso(alpha=0.01, tol=1e-14, max_iter=10**6, fit_intercept=False).fit(x, y)
    best = ((x @ pooled.coef_ - y) ** 2).mean() / 2 + 0.01 * np.abs(pooled.coef_).sum()
    assert fit.certified
    assert fit.objective == pytest.approx(best, rel=1e-6)


def test_sparse_squared_hinge_with_more_columns_than_rows_at_every_party_does_not_stall() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(24, 75))
    y = np.where(x[:, :6].sum(axis=1) + rng.normal(size=24) > 0, 1.0, -1.0)
    parts = np.array_split(x, 3, axis=1)
    fit = plait.fit(parts, y, loss=plait.SquaredHinge(), penalty=plait.L1(1e-3), fit_intercept=False)
    best = best_of(parts, y, [Terms(l1=1e-3)] * 3, False, "SquaredHinge")
    assert fit.objective == pytest.approx(best, rel=1e-6)


def test_a_far_target_is_reached() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    y = x @ rng.normal(size=6) + rng.normal(size=300) + 1e6
    parts = np.array_split(x, 3, axis=1)
    fit = plait.fit(parts, y, loss=plait.Huber(), penalty=plait.L2(1e-4), method="subspace")
    assert fit.certified
    assert fit.intercept == pytest.approx(1e6, abs=1.0)


def test_the_intercept_crosses_the_flat_parts_between_kinks_that_lie_far_apart() -> None:
    x, _ = load_diabetes(return_X_y=True)
    y = 2e5 + 1e5 * np.random.default_rng(0).normal(size=442)
    fit = plait.fit(np.array_split(x, 3, axis=1), y, loss=plait.Pinball(0.9), penalty=plait.L2(1e-4))
    assert fit.certified
    assert fit.rounds <= 25


def test_a_quantile_far_from_zero_is_reached_without_an_intercept() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 6)) * 10.0 ** np.array([-4, 5, 3, 2, 0, -1])
    penalty = [plait.L2(1e-3), plait.L2(1e-3) + plait.Ball(0.2)]
    y = 1e6 + 1e3 * rng.normal(size=40)
    fit = plait.fit(np.array_split(x, 2, axis=1), y, loss=plait.Pinball(0.5), penalty=penalty, fit_intercept=False)
    assert fit.certified
    assert fit.rounds <= 20


def test_a_ball_around_columns_of_very_different_sizes_is_certified() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 20)) * 10.0 ** rng.uniform(-6, 6, size=20)
    y = x / x.std(axis=0) @ rng.normal(size=20) + rng.normal(size=200)
    penalty = plait.Ball(0.5, non_negative=True)
    fit = plait.fit(np.array_split(x, 2, axis=1), y, loss=plait.Squared(), penalty=penalty)
    assert fit.certified
    assert fit.rounds <= 30


def test_columns_of_zeros_in_a_ball_of_groups_stay_zero() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(12, 4)) * np.array([1.0, 1.0, 0.0, 0.0])
    y = np.where(rng.random(12) > 0.5, 1.0, -1.0)
    penalty = plait.GroupLasso(1e-3, (0, 0)) + plait.Ball(0.5)
    fit = plait.fit(np.array_split(x, 2, axis=1), y, loss=plait.Hinge(), penalty=penalty)
    assert fit.certified
    assert not fit.weights[1].any()


@pytest.mark.parametrize(("seed", "offset"), [(0, 1e4), (1, 2e3), (2, 2e3)])
def test_columns_far_from_zero_do_not_stall(seed: int, offset: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(100, 4))
    y = np.where(x @ np.array([3.0, 3.0, 0.0, 1.0]) + rng.normal(size=100) > 0, 1.0, -1.0)
    fit = plait.fit(np.array_split(x + offset, 4, axis=1), y, penalty=plait.L1(5e-3) + plait.L2(5e-3))
    assert fit.certified
    assert fit.rounds <= 10


def test_closing_a_model_does_not_leave_out_what_it_needs() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 30))
    y = rng.poisson(np.exp(0.5 * x[:, 0])).astype(float)
    penalty = plait.GroupLasso(1e-4, tuple(np.arange(15) // 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        fit = plait.fit(
            np.array_split(x + 1e3, 2, axis=1),
            y,
            loss=plait.Poisson(),
            penalty=penalty,
            stopping=plait.Stopping(max_rounds=12),
        )
    assert fit.objective <= fit.history[-2].objective + 1e-6


def test_the_proved_gap_knows_the_rounding_of_labels_far_from_zero() -> None:
    rng = np.random.default_rng(3)
    parts, y = np.array_split(rng.normal(size=(12, 30)), 2, axis=1), rng.normal(size=12)
    near = plait.fit(parts, (y + 1e6) - 1e6, loss=plait.Squared(), penalty=plait.L2(1e-2))
    far = plait.fit(parts, y + 1e6, loss=plait.Squared(), penalty=plait.L2(1e-2))
    assert far.gap >= abs(far.objective - near.objective) / near.objective > 0


def test_overlapping_columns_do_not_end_early() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(500, 5))
    b = a + 1e-3 * rng.normal(size=a.shape)
    y = a @ rng.normal(size=5) + 300 * (b - a) @ rng.normal(size=5) + rng.normal(size=500)
    fit = plait.fit([a, b], y, loss=plait.Squared(), penalty=plait.L2(1e-8), fit_intercept=False, method="subspace")
    x = np.hstack([a, b])
    pooled = Ridge(alpha=1e-8 * 500, tol=1e-14, fit_intercept=False).fit(x, y)
    best = ((x @ pooled.coef_ - y) ** 2).mean() / 2 + 5e-9 * (pooled.coef_**2).sum()
    assert fit.objective == pytest.approx(best, rel=1e-6)


def test_an_exact_fit_ends() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 4))
    fit = plait.fit(
        [x[:, :2], x[:, 2:]],
        x @ rng.normal(size=4) + 2,
        loss=plait.Squared(),
        penalty=plait.NoPenalty(),
        method="subspace",
    )
    assert fit.converged
    assert fit.rounds < 20


def test_without_a_penalty_the_words_are_not_certified() -> None:
    parts, y = breast()
    fit = plait.fit([p[:, :3] for p in parts], y, penalty=plait.NoPenalty(), method="subspace")
    assert fit.converged
    assert not fit.certified
    assert "not certified" in fit.reason


@pytest.mark.parametrize("precision", ["float32", "int16"])
@pytest.mark.parametrize("penalty", [plait.L2(1e-4), plait.L1(1e-3)], ids=repr)
def test_short_numbers_end_at_the_same_optimum(precision: str, penalty: plait.Penalty) -> None:
    parts, y = breast()
    exact = plait.fit(parts, y, penalty=penalty, stopping=plait.Stopping(tol=1e-10))
    fit = plait.fit(parts, y, penalty=penalty, precision=precision)
    assert fit.certified
    assert fit.objective <= exact.objective * (1 + 1e-6)
    z = sum(p @ w for p, w in zip(parts, fit.weights, strict=True)) + fit.intercept
    true = np.mean(np.logaddexp(0, -np.where(y > 0, 1, -1) * z)) + sum(penalty.value(w) for w in fit.weights)
    assert fit.objective == pytest.approx(true, rel=1e-9 if precision == "float32" else 1e-8)


def test_nothing_is_proved_that_the_rounding_of_scores_far_from_zero_hides() -> None:
    rng = np.random.default_rng(6)
    x = (rng.random((12, 13)) > 0.6).astype(float)
    y = 1e7 + 1e-3 * rng.standard_normal(12)  # numbers there lie 2e-9 apart, and the best loss is below 1e-4
    penalty = plait.L1(1e-6) + plait.L2(1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = plait.fit(np.hsplit(x, [6]), y, loss="pinball", penalty=penalty, stopping=plait.Stopping(max_rounds=60))
    w = np.concatenate(list(fit.weights)).astype(np.longdouble)
    left = y.astype(np.longdouble) - x.astype(np.longdouble) @ w - np.longdouble(fit.intercept)
    true = float(np.abs(left).mean() / 2 + 1e-6 * np.abs(w).sum() + 5e-5 * (w @ w))
    assert not fit.certified
    assert abs(fit.objective - true) <= fit.gap * fit.objective
