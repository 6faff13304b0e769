"""FDML's stochastic gradient descent against a literal loop over the pooled table."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import plait

ROWS, WIDTHS = 103, (3, 5, 3)


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, sum(WIDTHS)))
    return x, np.where(x[:, 0] + x[:, 4] + rng.standard_normal(ROWS) > 0, 1.0, -1.0)


def parts_of(x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(WIDTHS)[:-1], axis=1)


def train(x: np.ndarray, y: np.ndarray, method: plait.Sgd, rounds: int = 4, **options) -> plait.Fit:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        return plait.fit(
            parts_of(x),
            y,
            method=method,
            stopping=plait.Stopping(max_rounds=rounds),
            **{"fit_intercept": False, **options},
        )


def start_of(method: plait.Sgd) -> np.ndarray:
    return np.concatenate([method.start * np.random.default_rng([method.seed, d]).standard_normal(d) for d in WIDTHS])


def literal(x, y, method, epochs, slope, shrink, weights=None, intercept=False):
    """Stochastic gradient descent as in a textbook; `slope` is the penalty's gradient, `shrink` its prox."""
    w = np.ones(len(y)) if weights is None else weights * len(y) / weights.sum()
    theta, b = start_of(method), 0.0
    v, vb = np.zeros_like(theta), 0.0
    for epoch in range(1, epochs + 1):
        order = np.random.default_rng([method.seed, epoch]).permutation(len(y))
        eta = method.step / (1 + method.decay * (epoch - 1))
        for first in range(0, len(y), method.batch):
            rows = order[first : first + method.batch]
            g = w[rows] * -y[rows] / (1 + np.exp(y[rows] * (x[rows] @ theta + b))) / len(rows)
            v = method.momentum * v + x[rows].T @ g + slope(theta)
            vb = method.momentum * vb + g.sum() * intercept
            theta, b = shrink(theta - eta * v, eta), b - eta * vb
    return theta, b


def objective(x, y, theta, penalty):
    return np.log1p(np.exp(-y * (x @ theta))).mean() + penalty


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("sparse", [False, True])
def test_takes_the_steps_of_a_literal_loop(momentum: float, sparse: bool) -> None:
    x, y = table()
    method = plait.Sgd(step=0.3, batch=10, decay=0.5, momentum=momentum, seed=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        fit = plait.fit(
            [sp.csr_matrix(p) if sparse else p for p in parts_of(x)],
            y,
            penalty=plait.L2(0.02),
            method=method,
            stopping=plait.Stopping(max_rounds=4),
            fit_intercept=False,
        )
    theta, _ = literal(x, y, method, 4, lambda t: 0.02 * t, lambda t, eta: t)
    np.testing.assert_allclose(np.concatenate(fit.weights), theta, rtol=0, atol=1e-10)
    assert fit.objective == pytest.approx(objective(x, y, theta, 0.01 * theta @ theta), abs=1e-10)


def test_an_intercept_and_sample_weights_follow_the_literal_loop() -> None:
    x, y = table()
    weights = np.random.default_rng(3).uniform(0.5, 2.0, ROWS)
    method = plait.Sgd(step=0.2, batch=16, momentum=0.5)
    fit = train(x, y, method, penalty=plait.L2(0.02), fit_intercept=True, sample_weight=weights)
    theta, b = literal(x, y, method, 4, lambda t: 0.02 * t, lambda t, eta: t, weights, intercept=True)
    np.testing.assert_allclose(np.concatenate(fit.weights), theta, rtol=0, atol=1e-10)
    assert fit.intercept == pytest.approx(b, abs=1e-10)


def test_a_penalty_with_kinks_takes_proximal_steps() -> None:
    x, y = table()
    method = plait.Sgd(step=0.3, batch=25)
    fit = train(x, y, method, penalty=plait.L1(0.05))
    theta, _ = literal(
        x, y, method, 4, np.zeros_like, lambda t, eta: np.sign(t) * np.maximum(np.abs(t) - 0.05 * eta, 0)
    )
    np.testing.assert_allclose(np.concatenate(fit.weights), theta, rtol=0, atol=1e-10)


def test_history_has_the_objective_of_every_epoch_and_of_the_random_start() -> None:
    x, y = table()
    method = plait.Sgd(step=0.3, batch=10, start=0.5)
    fit = train(x, y, method, penalty=plait.L2(0.02))
    assert [r.round for r in fit.history] == [1, 2, 3, 4]
    for epochs, record in enumerate([fit.history.start, *fit.history]):
        theta, _ = literal(x, y, method, epochs, lambda t: 0.02 * t, lambda t, eta: t)
        assert record.objective == pytest.approx(objective(x, y, theta, 0.01 * theta @ theta), abs=1e-10)


@pytest.mark.parametrize("measure", [True, False])
def test_an_epoch_sends_each_score_and_each_gradient_once_and_measuring_is_counted(measure: bool) -> None:
    x, y = table()
    fit = train(x, y, plait.Sgd(batch=10, measure=measure))
    batches, parties = 11, len(WIDTHS)
    for record in fit.history[:-1]:
        assert record.numbers_down == parties * (ROWS + 3 * (batches + 1))
        assert record.numbers_up == parties * (ROWS + ROWS * measure + 1)
    closing = parties * (1 + ROWS * (not measure))
    assert fit.history[-1].numbers_up == parties * (ROWS + ROWS * measure + 1) + closing


def test_unmeasured_epochs_report_the_losses_met_and_the_end_is_exact() -> None:
    x, y = table()
    method = plait.Sgd(step=0.3, batch=10, measure=False)
    exact = train(x, y, plait.Sgd(step=0.3, batch=10))
    fit = train(x, y, method)
    np.testing.assert_array_equal(np.concatenate(fit.weights), np.concatenate(exact.weights))
    assert fit.objective == pytest.approx(exact.objective, abs=1e-12)
    assert fit.history[0].objective > exact.history[0].objective


def test_a_run_that_its_time_breaks_off_within_an_epoch_reports_where_it_stands() -> None:
    x, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        fit = plait.fit(
            parts_of(x), y, method=plait.Sgd(batch=1), stopping=plait.Stopping(max_seconds=0.02), fit_intercept=False
        )
    rounds = [r.round for r in fit.history]
    assert rounds == list(range(1, len(rounds) + 1))
    theta = np.concatenate(fit.weights)
    assert fit.objective == pytest.approx(objective(x, y, theta, 0.5e-4 * theta @ theta), abs=1e-12)


def test_a_start_that_is_good_enough_needs_no_round() -> None:
    x, y = table()
    fit = plait.fit(
        parts_of(x), y, method=plait.Sgd(start=0.0), stopping=plait.Stopping(objective=1.0), fit_intercept=False
    )
    assert fit.rounds == 0
    assert fit.objective < 1.0


def test_too_large_a_step_is_called_diverged() -> None:
    x, y = table()
    with pytest.raises(plait.DivergedError, match=r"smaller Sgd\(step\)"):
        train(100 * x, y, plait.Sgd(step=1e6), rounds=50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "Sgd\\(step\\) must be positive"),
        ({"batch": 0}, "Sgd\\(batch\\) must be at least 1. Found 0"),
        ({"decay": -1.0}, "Sgd\\(decay\\) must be finite and not negative"),
        ({"momentum": 1.0}, "Sgd\\(momentum\\) must be from 0 to below 1"),
        ({"seed": -1}, "Sgd\\(seed\\) must not be negative"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(plait.SettingError, match=message):
        plait.Sgd(**options)
