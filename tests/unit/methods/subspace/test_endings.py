"""What a run has when it ends: the objective of its weights, in every number format, and the optimum's zeros."""

import warnings

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import Lasso, PoissonRegressor

import plait


def near_copies(seed: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Two parties that hold the same ten columns but for a thousandth; the scores that the first one's would give."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(1000, 10))
    second = first + 1e-3 * rng.normal(size=first.shape)
    return [first, second], first @ (rng.normal(size=10) * (rng.random(10) < 0.6)) + rng.normal(size=1000)


@pytest.mark.parametrize(("precision", "seed"), [("float32", s) for s in (88, 116, 126, 322)] + [("int16", 273)])
def test_the_objective_is_that_of_the_weights_where_a_party_is_left_with_none(precision: str, seed: int) -> None:
    # A short memory puts x itself among the directions; where x has become 0, its scores are all rounding.
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(80, 12))
    y = np.where(columns[:, 0] + 0.3 * columns[:, 4] + 0.5 * rng.normal(size=80) > 0, 1.0, -1.0)
    penalty = plait.L1(float(10 ** rng.uniform(-2, -1)))
    method = plait.Subspace(memory=int(rng.integers(1, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        fit = plait.fit(
            np.array_split(columns, 4, axis=1),
            y,
            loss=plait.SquaredHinge(),
            penalty=penalty,
            method=method,
            stopping=plait.Stopping(tol=1e-15, max_rounds=40),
            precision=precision,
        )
    x = np.concatenate(fit.weights)
    z = columns @ x + fit.intercept
    true = np.mean(np.maximum(0, 1 - y * z) ** 2) + penalty.alpha * np.abs(x).sum()
    assert fit.objective == pytest.approx(true, rel=1e-7)


@pytest.mark.parametrize("seed", [4, 10])
def test_float32_arrives_where_a_party_stays_at_its_bound(seed: int) -> None:
    # Its directions are so small that float32 takes their images for 0.
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(150, 2)) @ rng.normal(size=(2, 10)) + 1e-6 * rng.normal(size=(150, 10))
    y = np.where(columns[:, 0] + 0.5 * rng.normal(size=150) > 0, 1.0, -1.0)
    penalties = [plait.L2(1e-3) + plait.NonNegative(), plait.L1(1e-3) + plait.NonNegative()]
    parts = [columns[:, :9], columns[:, 9:]]
    exact = plait.fit(parts, y, loss=plait.Hinge(), penalty=penalties)
    fit = plait.fit(parts, y, loss=plait.Hinge(), penalty=penalties, precision="float32")
    assert exact.certified
    assert fit.objective <= exact.objective * (1 + 2e-6)


@pytest.mark.parametrize("seed", [3, 6, 17, 20])
def test_a_kinked_loss_in_float32_arrives_where_rows_share_kinks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = (rng.random((400, 7)) < rng.uniform(0.1, 0.5, size=7)).astype(float)
    y = np.where(columns @ rng.normal(size=7) + rng.normal(size=400) > 0, 1.0, -1.0)
    fit = plait.fit(
        [columns[:, :4], columns[:, 4:]], y, loss=plait.Hinge(), penalty=plait.L1(3e-3), precision="float32"
    )
    assert fit.certified


def test_parties_that_stay_at_zero_have_numbers_that_are_finite() -> None:
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(400, 12))
    columns[:, rng.random(12) < 0.3] = 1.0
    columns[:, rng.random(12) < 0.2] = 0.0
    y = np.where(columns @ (rng.normal(size=12) * (rng.random(12) < 0.4)) + rng.normal(size=400) > 0, 1.0, -1.0)
    strength = float(10 ** rng.uniform(-3, -1)) / 2
    penalty = plait.L1(strength) + plait.GroupLasso(strength, [0])
    fit = plait.fit(np.array_split(columns, 12, axis=1), y, loss=plait.Hinge(), penalty=penalty, fit_intercept=False)
    assert fit.certified


def test_weights_that_rest_at_a_wall_are_there_exactly() -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(20, 40))
    y = columns[:, :3].sum(axis=1) + rng.normal(size=20)
    penalty = plait.L2(1e-2) + plait.Box(-0.1, 0.2)
    fit = plait.fit(np.array_split(columns, 2, axis=1), y, loss=plait.Squared(), penalty=penalty, fit_intercept=False)
    x = np.concatenate(fit.weights)
    slope = columns.T @ (columns @ x - y) / 20 + 1e-2 * x
    pressed = (slope < -1e-4) | (slope > 1e-4)  # only a wall holds these
    assert pressed.sum() > 5
    assert np.array_equal(x[pressed], np.where(slope[pressed] < 0, 0.2, -0.1))


@pytest.mark.parametrize("loss", [plait.Huber(1.35), plait.SquaredHinge(), plait.Squared()], ids=repr)
def test_a_smooth_run_in_int16_arrives_where_progress_pauses(loss: plait.Loss) -> None:
    parts, scores = near_copies(3)
    y = np.where(scores > 0, 1.0, -1.0) if loss.classifies else scores
    exact = plait.fit(parts, y, loss=loss, penalty=plait.L1(1e-3), stopping=plait.Stopping(tol=1e-9))
    assert exact.certified
    fit = plait.fit(parts, y, loss=loss, penalty=plait.L1(1e-3), precision="int16")
    assert fit.certified
    assert fit.objective <= exact.objective * (1 + 1e-6)


@pytest.mark.parametrize(("rows", "seed"), [(300, 3), (500, 0)])
def test_int16_ends_with_a_proof_where_ten_parties_round_their_vectors(rows: int, seed: int) -> None:
    """Where vectors in steps are followed further they leave a gap of 1e-5 that no last measurement closes."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(rows, 100))
    y = columns @ (rng.normal(size=100) * (rng.random(100) < 0.2)) + rng.normal(size=rows)
    fit = plait.fit(
        np.array_split(columns, 10, axis=1), y, loss=plait.Squared(), penalty=plait.L1(1e-3), precision="int16"
    )
    known = Lasso(alpha=1e-3, tol=1e-14, max_iter=10**6).fit(columns, y)
    best = np.mean((y - known.predict(columns)) ** 2) / 2 + 1e-3 * np.abs(known.coef_).sum()
    assert fit.certified
    assert fit.objective <= best * (1 + 1e-6)


def test_a_lasso_has_the_zeros_of_the_optimum_though_it_ends_at_a_gap() -> None:
    right = 0
    for seed in range(6):
        parts, y = near_copies(seed)
        known = Lasso(alpha=1e-2, fit_intercept=False, tol=1e-14, max_iter=10**6).fit(np.hstack(parts), y)
        fit = plait.fit(parts, y, loss=plait.Squared(), penalty=plait.L1(1e-2), fit_intercept=False)
        right += np.array_equal(np.concatenate(fit.weights) != 0, known.coef_ != 0)
    assert right >= 5


def test_hinge_and_l1_arrive_where_every_party_has_more_columns_than_rows() -> None:
    """Rows that every party alone can separate, against the linear programme; a steep envelope took 96 rounds."""
    rng = np.random.default_rng(0)
    columns, alpha = rng.normal(size=(20, 100)), 0.01
    y = np.where(columns[:, :5].sum(axis=1) + rng.normal(size=20) > 0, 1.0, -1.0)
    parts = np.array_split(columns, 2, axis=1)
    fit = plait.fit(parts, y, loss=plait.Hinge(), penalty=plait.L1(alpha), fit_intercept=True)
    signed = y[:, None] * np.c_[columns, -columns, np.ones(20)]
    cost = np.r_[np.full(200, alpha), 0.0, np.full(20, 1 / 20)]  # of positive and negative parts, shift and slacks
    bounds = [(0, None)] * 200 + [(None, None)] + [(0, None)] * 20
    best = linprog(cost, A_ub=-np.c_[signed, np.eye(20)], b_ub=-np.ones(20), bounds=bounds)
    x = np.concatenate(fit.weights)
    value = np.maximum(1 - y * (columns @ x + fit.intercept), 0).mean() + alpha * np.abs(x).sum()
    assert value == pytest.approx(best.fun, rel=1e-6)
    assert fit.certified
    assert fit.rounds <= 70


def test_an_elastic_net_arrives_where_every_party_alone_can_fit_the_labels() -> None:
    """Three parties of 200 columns on 30 rows, against the dual at the residual; this took more than 200 rounds."""
    rng = np.random.default_rng(0)
    columns, alpha = rng.normal(size=(30, 600)), 1e-4
    y = columns[:, :5].sum(axis=1) + rng.normal(size=30)
    parts, penalty = np.array_split(columns, 3, axis=1), plait.ElasticNet(alpha, 0.5)
    fit = plait.fit(parts, y, loss=plait.Squared(), penalty=penalty, fit_intercept=False)
    x = np.concatenate(fit.weights)
    g = (y - columns @ x) / 30
    value = 15 * g @ g + alpha / 2 * np.abs(x).sum() + alpha / 4 * x @ x
    bound = g @ y - 15 * g @ g - (np.maximum(np.abs(columns.T @ g) - alpha / 2, 0) ** 2).sum() / alpha
    assert value - bound <= 1e-6 * value
    assert fit.certified
    assert fit.rounds <= 80


def test_the_objective_never_grows_where_the_loss_is_flat_and_parties_move_by_rounding_alone() -> None:
    """Five rows that many parties could separate: steps of 1e100 along vectors of 1e-19 seemed to pay."""
    rng = np.random.default_rng(26)
    none, ridge, box = plait.NoPenalty(), plait.L2(1e-3), plait.L1(1e-6) + plait.Box(-0.2, 0.5)
    penalties = [none, ridge, plait.GroupLasso(0.01, [0, 0]), plait.NonNegative(), ridge, plait.Ball(1e-3), none]
    penalties += [plait.L2(1e-6), none, plait.L1(0.01) + plait.Ball(0.5), ridge + plait.Box(0, 1e-6), box]
    parts = [rng.normal(size=(5, width)) for width in (1, 3, 2, 4, 6, 2, 15, 1, 1, 4, 5, 2)]
    y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        stopping = plait.Stopping(tol=1e-4, max_rounds=12)
        fit = plait.fit(parts, y, loss=plait.Hinge(), penalty=penalties, stopping=stopping)
    scores = sum(part @ x for part, x in zip(parts, fit.weights, strict=True)) + fit.intercept
    value = np.maximum(1 - y * scores, 0).mean() + sum(
        penalty.value(x) for penalty, x in zip(penalties, fit.weights, strict=True)
    )
    assert value == pytest.approx(fit.objective, rel=1e-6)
    assert 0 <= value <= 1e-4  # the optimum is 0; all weights 0 cost 0.8


def test_parties_that_see_no_gain_in_near_copies_do_not_end_the_run() -> None:
    """Without penalty the optimum lies along differences of 1e-5, which each party takes for what the other can do."""
    rng = np.random.default_rng(6)
    common = rng.standard_normal((600, 8))
    parts = [common + 1e-5 * rng.standard_normal(common.shape) for _ in range(5)]
    y = rng.poisson(np.exp(np.clip(common @ rng.standard_normal(8) / 2, -3, 3))).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = plait.fit(parts, y, loss="poisson", penalty=plait.NoPenalty(), fit_intercept=False)
    spanned = np.linalg.qr(np.hstack(parts))[0] * np.sqrt(600)  # the same models, well conditioned
    best = PoissonRegressor(alpha=0, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(spanned, y)
    z = spanned @ best.coef_
    optimum = float(np.mean(np.exp(z) - y * z))
    assert not fit.converged or fit.objective <= optimum + 1e-5 * abs(optimum)
