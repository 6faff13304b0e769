"""plait.fit with its default method against the independent oracle, for every loss and penalty."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso, LogisticRegression, QuantileRegressor, Ridge
from sklearn.svm import LinearSVC

import plait
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from tests import oracle
from tests.oracle import Problem, Terms

ROWS, WIDTH = 100, 20
SPLITS = {1: [20], 2: [10, 10], 3: [8, 6, 6], 10: [2] * 10}
STOPPING = plait.Stopping(max_rounds=5000, tol=1e-7)

LOSSES: dict[str, Loss] = {
    "Logistic": plait.Logistic(),
    "Squared": plait.Squared(),
    "SquaredHinge": plait.SquaredHinge(),
    "Huber": plait.Huber(oracle.HUBER_DELTA),
    "Poisson": plait.Poisson(),
    "Hinge": plait.Hinge(),
    "Pinball": plait.Pinball(oracle.QUANTILE),
}


def pairs_of(width: int) -> list[int]:
    return [j // 2 for j in range(width)]


def pair_terms(alpha: float, width: int) -> tuple[tuple[float, tuple[int, ...]], ...]:
    return tuple((alpha * np.sqrt(2), (j, j + 1)) for j in range(0, width, 2))


@dataclass(frozen=True)
class Choice:
    """A penalty and its terms, for a party of a given width; `apart` if the sum over parties depends on the split."""

    penalty: Callable[[int], Penalty]
    terms: Callable[[int], Terms]
    apart: bool = False


PENALTIES = {
    "none": Choice(lambda _: plait.NoPenalty(), lambda _: Terms()),
    "L2": Choice(lambda _: plait.L2(1e-2), lambda _: Terms(ridge=1e-2)),
    "L1": Choice(lambda _: plait.L1(0.03), lambda _: Terms(l1=0.03)),
    "elastic net": Choice(lambda _: plait.ElasticNet(0.04, 0.5), lambda _: Terms(l1=0.02, ridge=0.02)),
    "group lasso": Choice(lambda w: plait.GroupLasso(0.03, pairs_of(w)), lambda w: Terms(groups=pair_terms(0.03, w))),
    "sparse group lasso": Choice(
        lambda w: plait.L1(0.015) + plait.GroupLasso(0.015, pairs_of(w)),
        lambda w: Terms(l1=0.015, groups=pair_terms(0.015, w)),
    ),
    "bounds per column": Choice(
        lambda w: plait.Box(np.linspace(-0.3, 0.05, w), 0.2) + plait.L1(0.005),
        lambda w: Terms(l1=0.005, lower=tuple(np.linspace(-0.3, 0.05, w)), upper=0.2),
        apart=True,
    ),
    "box": Choice(lambda _: plait.Box(-0.3, 0.2), lambda _: Terms(lower=-0.3, upper=0.2)),
    "box without zero": Choice(
        lambda _: plait.Box(0.05, 1.0) + plait.L2(0.01), lambda _: Terms(lower=0.05, upper=1.0, ridge=0.01)
    ),
    "non-negative": Choice(lambda _: plait.NonNegative(), lambda _: Terms(lower=0.0)),
    "ball": Choice(lambda _: plait.Ball(0.5), lambda _: Terms(radius=0.5), apart=True),
    "L1, non-negative": Choice(lambda _: plait.L1(0.02) + plait.NonNegative(), lambda _: Terms(l1=0.02, lower=0.0)),
    "L1 in a ball": Choice(
        lambda _: plait.L1(0.02) + plait.Ball(0.5), lambda _: Terms(l1=0.02, radius=0.5), apart=True
    ),
    "group lasso, positive, in a ball": Choice(
        lambda w: plait.GroupLasso(0.02, pairs_of(w)) + plait.Ball(0.5) + plait.NonNegative(),
        lambda w: Terms(groups=pair_terms(0.02, w), radius=0.5, lower=0.0),
        apart=True,
    ),
}


@cache
def data(loss: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    mixing = np.eye(WIDTH) + 0.4 * rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)
    x = rng.standard_normal((ROWS, WIDTH)) @ mixing
    x[rng.random((ROWS, WIDTH)) < 0.3] = 0.0
    truth = rng.standard_normal(WIDTH) * (rng.random(WIDTH) < 0.5)
    noise = rng.standard_normal(ROWS)
    if LOSSES[loss].classifies:
        return x, np.where(x @ truth + 2 * noise > 0, 1.0, -1.0)
    if loss == "Poisson":
        return x, rng.poisson(np.exp(0.3 * (x @ truth))).astype(float)
    return x, x @ truth + noise + 0.5


def blocks(widths: list[int], choice: Choice) -> tuple[tuple[int, int, Terms], ...]:
    ends = np.cumsum(widths)
    return tuple((int(e - w), int(e), choice.terms(w)) for w, e in zip(widths, ends, strict=True))


@cache
def optimum(loss: str, penalty: str, parties: int, intercept: bool = False) -> float:
    x, y = data(loss)
    problem = Problem(oracle.LOSSES[loss], x, y, blocks(SPLITS[parties], PENALTIES[penalty]), intercept)
    return oracle.solve(problem, 1e-9)[0]


def train(loss: str, penalty: str, parties: int, form: str, intercept: bool = False) -> tuple[float, plait.Fit]:
    """The objective at plait's weights, recomputed by the oracle, after a check of the constraints."""
    x, y = data(loss)
    widths, choice = SPLITS[parties], PENALTIES[penalty]
    parts = np.split(x, np.cumsum(widths)[:-1], axis=1)
    fit = plait.fit(
        parts if form == "dense" else [sp.csr_matrix(part) for part in parts],
        y,
        loss=LOSSES[loss],
        penalty=[choice.penalty(w) for w in widths],
        stopping=STOPPING,
        fit_intercept=intercept,
    )
    weights = np.concatenate(fit.weights)
    problem = Problem(oracle.LOSSES[loss], x, y, blocks(widths, choice), intercept)
    assert max(t.violation(weights[i:j]) for i, j, t in problem.blocks) <= 1e-10
    objective = problem.objective(weights, fit.intercept)
    assert fit.objective == pytest.approx(objective, rel=1e-12)
    return objective, fit


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_any_number_of_parties_reaches_the_pooled_optimum(loss: str, penalty: str) -> None:
    for parties in SPLITS:
        best = optimum(loss, penalty, parties if PENALTIES[penalty].apart else 1)
        # Columns are columns: with kinks, where runs are long, one split in CSR form is enough.
        forms = ("dense", "csr") if LOSSES[loss].smooth or parties == 2 else ("dense",)
        for form in forms:
            objective, fit = train(loss, penalty, parties, form)
            assert fit.converged, f"{parties} parties, {form}: {fit.reason}"
            assert abs(objective - best) <= 1e-6 * abs(best), f"{parties} parties, {form}: {fit.rounds} rounds"


@pytest.mark.parametrize("penalty", [p for p in PENALTIES if p not in ("sparse group lasso", "bounds per column")])
@pytest.mark.parametrize("loss", ["Hinge", "Pinball"])
def test_losses_with_kinks_reach_the_optimum_on_sparse_columns(loss: str, penalty: str) -> None:
    for parties in SPLITS:
        objective, _ = train(loss, penalty, parties, "csr")
        best = optimum(loss, penalty, parties if PENALTIES[penalty].apart else 1)
        assert abs(objective - best) <= 1e-6 * abs(best)


@pytest.mark.parametrize("penalty", ["L2", "L1", "non-negative"])
@pytest.mark.parametrize("loss", LOSSES)
def test_intercept_reaches_the_pooled_optimum(loss: str, penalty: str) -> None:
    best = optimum(loss, penalty, 1, intercept=True)
    assert best < optimum(loss, penalty, 1) * (1 - 1e-5)
    for parties in (1, 3):
        objective, _ = train(loss, penalty, parties, "dense", intercept=True)
        assert abs(objective - best) <= 1e-6 * abs(best)


def test_parties_may_have_different_penalties() -> None:
    x, y = data("Logistic")
    parts = {"bank": x[:, :8], "shop": x[:, 8:14], "clinic": x[:, 14:]}
    penalty = {"clinic": plait.Ball(0.3), "bank": plait.L1(0.02), "shop": plait.L2(0.05) + plait.NonNegative()}
    fit = plait.fit(parts, y, penalty=penalty, stopping=STOPPING, fit_intercept=False)
    terms = ((0, 8, Terms(l1=0.02)), (8, 14, Terms(ridge=0.05, lower=0.0)), (14, 20, Terms(radius=0.3)))
    best = oracle.solve(Problem(oracle.LOSSES["Logistic"], x, y, terms))[0]
    assert fit.objective == pytest.approx(best, rel=1e-7)
    assert list(fit.weights) == ["bank", "shop", "clinic"]


class TestOracle:
    """The oracle itself against scikit-learn, where scikit-learn solves the same problem."""

    def check(self, loss: str, terms: Terms, coefficients: np.ndarray, intercept: float) -> None:
        x, y = data(loss)
        problem = Problem(oracle.LOSSES[loss], x, y, ((0, WIDTH, terms),), intercept=intercept != 0)
        assert oracle.solve(problem)[0] == pytest.approx(problem.objective(coefficients, intercept), rel=1e-8)

    def test_ridge(self) -> None:
        x, y = data("Squared")
        model = Ridge(alpha=0.01 * ROWS, tol=1e-12).fit(x, y)
        self.check("Squared", Terms(ridge=0.01), model.coef_, model.intercept_)

    def test_lasso(self) -> None:
        x, y = data("Squared")
        model = Lasso(alpha=0.03, tol=1e-12, max_iter=100_000).fit(x, y)
        self.check("Squared", Terms(l1=0.03), model.coef_, model.intercept_)

    def test_logistic(self) -> None:
        x, y = data("Logistic")
        model = LogisticRegression(C=1 / (0.01 * ROWS), tol=1e-12, max_iter=10_000).fit(x, y)
        self.check("Logistic", Terms(ridge=0.01), model.coef_[0], model.intercept_[0])

    def test_quantile(self) -> None:
        x, y = data("Pinball")
        model = QuantileRegressor(alpha=0.03, quantile=oracle.QUANTILE).fit(x, y)
        self.check("Pinball", Terms(l1=0.03), model.coef_, model.intercept_)

    @pytest.mark.parametrize("loss", ["Hinge", "SquaredHinge"])
    def test_support_vectors(self, loss: str) -> None:
        x, y = data(loss)
        kind = "hinge" if loss == "Hinge" else "squared_hinge"
        model = LinearSVC(C=1 / (0.01 * ROWS), loss=kind, tol=1e-10, max_iter=10**6, fit_intercept=False).fit(x, y)
        self.check(loss, Terms(ridge=0.01), model.coef_[0], 0.0)
