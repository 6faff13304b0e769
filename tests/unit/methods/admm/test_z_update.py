"""The joint update of scores and intercept."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import plait
from plait.methods.admm.z_update import increasing_root, update_scores_and_intercept
from plait.problem.losses import Loss

LOSSES = [
    plait.Logistic(),
    plait.Squared(),
    plait.SquaredHinge(),
    plait.Hinge(),
    plait.Huber(),
    plait.Poisson(),
    plait.Pinball(0.8),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("size", [0.01, 0.5, 20.0])
def test_scores_and_intercept_are_jointly_optimal(loss: Loss, size: float) -> None:
    rng = np.random.default_rng(51)
    n = 60
    target = 2 * rng.standard_normal(n)
    labels = rng.choice([-1.0, 1.0], n) if loss.classifies else rng.poisson(2.0, n).astype(float)
    step = size * rng.uniform(0.2, 2.0, n)
    step[:5] = 0.0  # weightless samples

    def cost(z: np.ndarray, b: float) -> float:
        heavy = step > 0
        pull = (z - target - b)[heavy]
        return float(np.sum(loss.value(z, labels)[heavy] * step[heavy] / step[heavy].max()) + 0 * b) + float(
            np.sum(pull**2) / (2 * step[heavy].max())
        )

    z, b = update_scores_and_intercept(loss, target, step, labels, 0.0)
    best = minimize_scalar(lambda at: cost(loss.prox(target + at, step, labels), at), bracket=(b - 1, b + 1))
    assert cost(z, b) <= best.fun + 1e-9 * (1 + abs(best.fun))
    assert z[:5] == pytest.approx(target[:5] + b)


@pytest.mark.parametrize("start", [-1e4, -1.0, 0.0, 3.0, 1e4])
def test_the_start_does_not_matter(start: float) -> None:
    rng = np.random.default_rng(52)
    target, labels = rng.standard_normal(40), rng.choice([-1.0, 1.0], 40)
    reference = update_scores_and_intercept(plait.Logistic(), target, np.ones(40), labels, 0.0)[1]
    assert update_scores_and_intercept(plait.Logistic(), target, np.ones(40), labels, start)[1] == pytest.approx(
        reference, abs=1e-9
    )


def test_long_arrays_solved_in_blocks_agree_with_short_ones() -> None:
    rng = np.random.default_rng(6)
    v, step = 20 * rng.standard_normal(50_000), np.exp(6 * rng.standard_normal(50_000))
    y = np.where(rng.random(50_000) < 0.5, 1.0, -1.0)
    loss = plait.Logistic()
    z = loss.prox(v, step, y)
    np.testing.assert_allclose(z[:100], loss.prox(v[:100], step[:100], y[:100]), rtol=1e-13)
    residual = (z - v + step * loss.gradient(z, y)) / (1 + np.abs(v) + step)
    np.testing.assert_allclose(residual, 0, atol=1e-14)


@pytest.mark.parametrize("jump", [0.0, 1e-3])
def test_a_root_is_found_where_the_function_is_flat_or_jumps(jump: float) -> None:
    def f(b: float) -> float:
        return float(jump * np.sign(b - 1 / 3) + (b - 1 / 3) ** 31)

    assert increasing_root(f, 0.0, 1e6) == pytest.approx(1 / 3, abs=1e-6)
