"""Search directions against dense algebra: what a party assumes the others can do."""

import numpy as np
import pytest

import plait
from plait.methods.subspace.curvature import Curvature
from plait.methods.subspace.direction import Others, newton_direction, with_constant
from plait.methods.subspace.kinked_step import Curved, kinked_step
from plait.problem.features import Features

ROWS, RIDGE = 400, 1e-4


def indicators(rng: np.random.Generator, levels: int) -> np.ndarray:
    return np.eye(levels)[rng.integers(0, levels, ROWS)]


def nobody() -> Others:
    return Others(np.empty((0, ROWS)), (), np.empty((0, 0)), np.empty((0, 0)), np.empty(0))


def at(x: np.ndarray, rng: np.random.Generator) -> tuple[Curvature, np.ndarray, np.ndarray]:
    w, h = rng.random(ROWS) / ROWS, np.full(x.shape[1], RIDGE)
    return Curvature(Features(x), w, h, RIDGE), w, h


def test_a_full_set_of_indicators_leaves_the_constant_to_be_shared() -> None:
    rng = np.random.default_rng(0)
    x = np.hstack([indicators(rng, 4), rng.standard_normal((ROWS, 2))])
    curvature, w, h = at(x, rng)
    gradient = rng.standard_normal(6)
    others = with_constant(curvature, nobody())
    assert others.names == (-1,)
    found = newton_direction(curvature, w, h, gradient, others, late=False)
    # The joint minimiser over the own columns and a constant that costs nothing.
    wide = np.hstack([x, np.ones((ROWS, 1))])
    joint = np.linalg.lstsq(wide.T @ (w[:, None] * wide) + np.diag([*h, 0.0]), np.append(-gradient, 0.0), rcond=None)
    np.testing.assert_allclose(found.step, joint[0][:6], rtol=1e-6)


def test_columns_that_hold_no_constant_leave_none() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((ROWS, 5))
    curvature, _, _ = at(x - x.mean(axis=0), rng)
    assert with_constant(curvature, nobody()).names == ()


def test_an_intercept_is_not_taken_twice() -> None:
    rng = np.random.default_rng(2)
    curvature, _, _ = at(indicators(rng, 3), rng)
    once = with_constant(curvature, nobody())
    assert with_constant(curvature, once) is once


def test_parties_with_indicators_agree_quickly() -> None:
    """Five parties, each with two full sets of indicators, so that ten constants have to be shared out."""
    rng = np.random.default_rng(0)
    n, levels = 3000, 6
    latent, score, parts = rng.standard_normal((n, 2)), np.full(n, -1.0), []
    for _ in range(5):
        sets = []
        for _ in range(2):
            value = latent @ rng.standard_normal(2) + rng.standard_normal(n)
            sets.append(np.eye(levels)[np.digitize(value, np.quantile(value, [0.3, 0.6, 0.8, 0.9, 0.97]))])
            score += sets[-1] @ rng.standard_normal(levels) * 0.7
        parts.append(np.hstack(sets))
    y = (score + rng.logistic(size=n) > 0).astype(float)
    job = {"penalty": plait.L2(1e-4), "method": plait.Subspace()}
    best = plait.fit(parts, y, **job, stopping=plait.Stopping(tol=1e-12, max_rounds=300), fit_intercept=False).objective
    fit = plait.fit(
        parts,
        y,
        **job,
        stopping=plait.Stopping(tol=0.0, max_rounds=60, objective=best * (1 + 1e-6)),
        fit_intercept=False,
    )
    reached = [r.round for r in fit.history if r.objective <= best * (1 + 1e-4)]
    assert fit.objective == pytest.approx(best, rel=2e-6)
    assert reached[0] <= 5  # 7 where every party answers as if it alone carried the constant


@pytest.mark.parametrize("penalty", [plait.L1(0.1), plait.GroupLasso(0.1, (0, 0, 1)), plait.Ball(1.0)])
def test_a_curvature_that_rounding_made_negative_gives_a_finite_step(penalty: plait.Penalty) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((ROWS, 3)), np.full(ROWS, 1 / ROWS)
    gram = x.T @ (w[:, None] * x)
    h = Curved(Features(x), w, gram, 1.01 * np.linalg.inv(gram))
    assert np.linalg.eigvalsh(h.block(np.arange(3)))[0] > 0
    y = kinked_step(penalty, np.zeros(3), np.array([1.0, -2.0, 0.5]), h)
    assert np.isfinite(y).all()
