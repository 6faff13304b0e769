"""Where several models are equally good, the weights are the least: those of `numpy.linalg.lstsq`."""

from typing import Any

import numpy as np
import pytest

import plait
from plait.data.parts import equal_weights
from plait.errors import ProtocolError
from plait.messages import Broadcast
from plait.methods.base import Block, Task
from plait.methods.subspace.least_norm import ambiguous
from plait.methods.subspace.messages import StepProposal
from plait.methods.subspace.party import SubspaceParty
from plait.problem.features import Features

RNG = np.random.default_rng(8)
THIN = RNG.normal(size=(40, 6))
RANK_10 = RNG.normal(size=(300, 10)) @ RNG.normal(size=(10, 100))
TABLES = {
    "more columns than rows": RNG.normal(size=(10, 30)),
    "scales": RNG.normal(size=(30, 50)) * 10.0 ** RNG.uniform(-2, 2, 50),
    "every column three times": np.hstack([THIN, THIN, THIN]),
    "a column in other units": np.hstack([THIN, 5 * THIN[:, :1]]),
    "rank 10 of 100": RANK_10,
    "a constant column": np.hstack([np.ones((40, 1)), THIN]),
}


def least(X: Any, y: Any, weights: Any, fit_intercept: bool) -> Any:
    """The least-norm weights (d,) of the weighted least squares problem."""
    if fit_intercept:
        X, y = X - np.average(X, axis=0, weights=weights), y - np.average(y, weights=weights)
    root = np.sqrt(weights)
    return np.linalg.lstsq(root[:, None] * X, root * y, rcond=1e-9)[0]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_unpenalised_least_squares_has_the_least_weights(name: str, weighted: bool, fit_intercept: bool) -> None:
    X = TABLES[name]
    rng = np.random.default_rng(9)
    y = rng.normal(size=len(X)) + 3
    weights = rng.integers(0, 4, len(X)).astype(float) if weighted else np.ones(len(X))
    model = plait.VerticalRegression(3, penalty="none", fit_intercept=fit_intercept, tol=1e-12)
    model.fit(X, y, sample_weight=weights)
    expected = least(X, y, weights, fit_intercept)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("method", [plait.Subspace(sums_only=True), plait.Subspace(memory=2)], ids=str)
def test_the_least_weights_need_only_sums(method: plait.Method) -> None:
    X, y = TABLES["more columns than rows"], RNG.normal(size=10)
    parts = np.array_split(X, 3, axis=1)
    fit = plait.fit(parts, y, loss="squared", penalty="none", fit_intercept=True, method=method)
    found = np.array([c.weight for c in fit.coefficients()])
    np.testing.assert_allclose(found, least(X, y, np.ones(10), True), atol=1e-6)
    np.testing.assert_allclose(fit.scores(parts), y, atol=1e-6)


def test_rows_without_weight_have_no_say() -> None:
    X, y = TABLES["more columns than rows"], RNG.normal(size=10)
    weights = np.where(np.arange(10) < 6, 1.0, 0.0)
    parts = np.array_split(X, 3, axis=1)
    fit = plait.fit(
        parts,
        y,
        loss="squared",
        penalty="none",
        fit_intercept=True,
        sample_weight=weights,
        stopping=plait.Stopping(tol=1e-10),
    )
    found = np.array([c.weight for c in fit.coefficients()])
    np.testing.assert_allclose(found, least(X[:6], y[:6], np.ones(6), True), atol=1e-6)


def test_parties_with_a_penalty_keep_their_weights() -> None:
    X, y = np.hstack([THIN, THIN]), RNG.normal(size=40)
    parts, penalties = [X[:, :2], X[:, 2:7], X[:, 7:]], [plait.L2(0.1), plait.NoPenalty(), plait.NoPenalty()]
    fit = plait.fit(
        parts, y, loss="squared", penalty=penalties, fit_intercept=False, stopping=plait.Stopping(tol=1e-13)
    )
    stacked = np.vstack([X, np.sqrt(0.1 * 40) * np.eye(2, 12)])
    expected = np.linalg.lstsq(stacked, np.append(y, [0, 0]), rcond=1e-9)[0]
    np.testing.assert_allclose([c.weight for c in fit.coefficients()], expected, atol=1e-6)


def test_counts_have_the_least_weights_too() -> None:
    X, counts = np.hstack([THIN, THIN]) / 4, RNG.poisson(2.0, size=40).astype(float)
    thin = plait.VerticalRegression(loss="poisson", penalty="none", tol=1e-12).fit(THIN / 4, counts)
    both = plait.VerticalRegression(3, loss="poisson", penalty="none", tol=1e-12).fit(X, counts)
    np.testing.assert_allclose(both.coef_, np.tile(thin.coef_ / 2, 2), atol=1e-6)


def test_a_unique_optimum_costs_no_round_more() -> None:
    parts = (THIN[:, :3], THIN[:, 3:])
    task = Task(plait.Squared(), np.zeros(40), equal_weights(40), ("a", "b"), True)
    images = tuple(part @ RNG.normal(size=(3, 5)) for part in parts)
    assert not ambiguous(task, 6, tuple(image.T for image in images))
    shared = np.hstack([images[1], parts[0][:, :1] + images[1][:, :1]])
    assert ambiguous(task, 6, (images[0].T, shared.T))


def test_a_run_without_rounds_left_keeps_a_best_model() -> None:
    X, y = TABLES["more columns than rows"], RNG.normal(size=10)
    rounds = plait.VerticalRegression(3, penalty="none").fit(X, y).n_iter_
    short = plait.VerticalRegression(3, penalty="none", max_rounds=rounds - 3).fit(X, y)
    assert short.n_iter_ == rounds - 3
    np.testing.assert_allclose(short.predict(X), y, atol=1e-6)


def orders(asks: float, *coefficients: float) -> Any:
    return StepProposal(asks, 5, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, np.array(coefficients), np.empty(0)).pack()


@pytest.mark.threat("coordinator", "vectors that are no gradients", "only where no penalty bounds the weights")
@pytest.mark.parametrize(
    ("loss", "penalty"), [(plait.Logistic(), plait.NoPenalty()), (plait.Squared(), plait.L2(0.1))], ids=str
)
def test_directions_are_answered_only_where_there_may_be_several_models(loss: Any, penalty: Any) -> None:
    party = SubspaceParty(Block(Features(THIN), penalty, loss, equal_weights(40)))
    state, _ = party.respond(party.start(), Broadcast(1, np.full(40, -0.01), orders(0.0)))
    with pytest.raises(ProtocolError, match="directions only where weights have no penalty"):
        party.check(state, Broadcast(2, np.ones(40), orders(2.0)))


@pytest.mark.threat("coordinator", "many directions in one round", "every direction takes a round of its own")
def test_every_direction_takes_a_round() -> None:
    party = SubspaceParty(Block(Features(THIN), plait.NoPenalty(), plait.Squared(), equal_weights(40)))
    state, _ = party.respond(party.start(), Broadcast(1, np.full(40, -0.01), orders(0.0)))
    party.check(state, Broadcast(2, np.ones(40), orders(2.0)))
    state, share = party.respond(state, Broadcast(2, np.ones(40), orders(2.0)))
    np.testing.assert_allclose(share.vector, THIN @ THIN.T @ np.ones(40))
    with pytest.raises(ProtocolError, match="round 2"):
        party.check(state, Broadcast(2, np.ones(40), orders(2.0)))
