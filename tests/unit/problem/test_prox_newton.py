"""The inner solver: optimality conditions on easy, singular, duplicated and badly scaled quadratics."""

from dataclasses import replace

import numpy as np
import pytest

import plait
from plait.problem.penalties import Penalty
from plait.problem.prox_newton import CompositeProblem, Quadratic, _solve

WIDTH = 12
GROUPS = [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4]

PENALTIES: dict[str, Penalty] = {
    "L1": plait.L1(0.3),
    "elastic net": plait.ElasticNet(0.5, 0.6),
    "group lasso": plait.GroupLasso(0.2, GROUPS),
    "group lasso, positive, in a ball": plait.GroupLasso(0.1, GROUPS) + plait.Ball(0.8) + plait.NonNegative(),
    "box": plait.Box(-0.3, 0.2),
    "non-negative": plait.NonNegative(),
    "ball": plait.Ball(0.7),
    "L1 in a box": plait.L1(0.1) + plait.Box(-0.4, 0.4),
    "L1 in a ball": plait.L1(0.1) + plait.Ball(0.7),
    "log": plait.LogPenalty(0.5, 0.4),
    "log in a box": plait.LogPenalty(0.5, 0.4) + plait.Box(-0.2, 1.0),
}


def design(kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    d = rng.standard_normal((40, WIDTH))
    if kind == "duplicated":
        d[:, 6:] = d[:, :6]
    if kind == "singular":
        d = d[:7]
    if kind == "one zero column":
        d[:, 3] = 0
    if kind == "scaled":
        d = d * np.geomspace(1e-2, 1e2, WIDTH)
    return d


def formed(q: np.ndarray) -> Quadratic:
    return Quadratic(lambda x: q @ x, np.diag(q).copy(), lambda on: q[np.ix_(on, on)], q.shape[0])


def products_only(d: np.ndarray) -> Quadratic:
    return Quadratic(lambda x: d.T @ (d @ x), np.sum(d * d, axis=0), lambda on: pytest.fail("formed a block"), -1)


KINDS = ["random", "duplicated", "singular", "one zero column", "scaled"]


def stationarity(penalty: Penalty, x: np.ndarray, gradient: np.ndarray, scale: float, step: float) -> float:
    """The largest entry of the prox-gradient residual, per unit of step: zero exactly at a stationary point."""
    return float(np.abs(x - penalty.prox(x - step * gradient, step * scale)).max() / step)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("kind", KINDS)
def test_solution_is_stationary(name: str, kind: str) -> None:
    penalty, d = PENALTIES[name], design(kind)
    q = d.T @ d
    rng = np.random.default_rng(1)
    linear = d.T @ (d @ rng.standard_normal(WIDTH) + rng.standard_normal(d.shape[0]))
    problem = CompositeProblem(penalty, formed(q))
    x = problem.solve(linear, 20.0, np.zeros(WIDTH), 1e-11)
    step = 1 / np.linalg.eigvalsh(q)[-1]
    assert stationarity(penalty, x, q @ x - linear, 20.0, step) <= 1e-9 * np.abs(linear).max()


@pytest.mark.parametrize("name", [n for n in PENALTIES if PENALTIES[n].convex])
@pytest.mark.parametrize("kind", KINDS)
def test_products_alone_reach_the_same_objective(name: str, kind: str) -> None:
    penalty, d = PENALTIES[name], design(kind)
    if kind == "scaled" and not penalty.separable:
        pytest.skip("gradient steps of one length take too long here; a Gram matrix is needed")
    q = d.T @ d
    linear = d.T @ np.random.default_rng(2).standard_normal(d.shape[0])

    def value(x: np.ndarray) -> float:
        return 3.0 * penalty.value(x) + float(x @ (q @ x / 2 - linear))

    a = CompositeProblem(penalty, formed(q)).solve(linear, 3.0, np.zeros(WIDTH), 1e-11)
    b = CompositeProblem(penalty, products_only(d)).solve(linear, 3.0, np.ones(WIDTH), 1e-9)
    assert value(b) == pytest.approx(value(a), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", PENALTIES)
def test_warm_start_at_the_solution_stays_there(name: str) -> None:
    penalty, d = PENALTIES[name], design("random")
    q = d.T @ d
    linear = d.T @ np.random.default_rng(3).standard_normal(40)
    calls = 0

    def apply(x: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        return q @ x

    problem = CompositeProblem(penalty, replace(formed(q), apply=apply))
    x = problem.solve(linear, 1.0, np.zeros(WIDTH), 1e-11)
    calls = 0
    again = problem.solve(linear, 1.0, x, 1e-10)
    assert again == pytest.approx(x, abs=1e-8)
    assert calls <= 4


def test_every_column_is_solved_however_small_it_is() -> None:
    """Scaling a column scales its weight inversely when the penalty does not mind: here, a sign."""
    rng = np.random.default_rng(4)
    s = np.geomspace(1e-6, 1e6, WIDTH)
    base = rng.standard_normal((40, WIDTH))
    q = base.T @ base
    linear = base.T @ (base @ rng.standard_normal(WIDTH))
    q_scaled = q * np.outer(s, s)
    plain = CompositeProblem(plait.NonNegative(), formed(q))
    scaled = CompositeProblem(plait.NonNegative(), formed(q_scaled))
    x = plain.solve(linear, 1.0, np.zeros(WIDTH), 1e-11)
    x_scaled = scaled.solve(linear * s, 1.0, np.zeros(WIDTH), 1e-11)
    assert s * x_scaled == pytest.approx(x, abs=1e-7)


@pytest.mark.parametrize("name", PENALTIES)
def test_no_data_at_all_leaves_the_penalty_alone(name: str) -> None:
    penalty, q = PENALTIES[name], np.zeros((WIDTH, WIDTH))
    problem = CompositeProblem(penalty, formed(q))
    x = problem.solve(np.zeros(WIDTH), 1.0, np.full(WIDTH, 0.1), 1e-11)
    assert np.isfinite(x).all()
    assert penalty.value(x) <= penalty.value(penalty.prox(np.full(WIDTH, 0.1), 1e-9)) + 1e-12


def test_a_singular_system_has_its_least_solution_and_says_nothing(recwarn: pytest.WarningsRecorder) -> None:
    nearly = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-16]])
    np.testing.assert_allclose(_solve(nearly, np.array([2.0, 2.0])), [1.0, 1.0])
    np.testing.assert_allclose(_solve(np.diag([2.0, 0.0]), np.array([4.0, 0.0])), [2.0, 0.0], atol=1e-15)
    assert not recwarn.list


def test_a_system_with_missing_numbers_has_no_finite_solution() -> None:
    assert np.isnan(_solve(np.array([[np.nan, 0.0], [0.0, 1.0]]), np.ones(2))).all()
    assert np.isnan(_solve(np.array([[np.inf, 0.0], [0.0, 1.0]]), np.ones(2))).any()
