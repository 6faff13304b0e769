"""Laws that every proximal map of a convex function obeys, on inputs that Hypothesis chooses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import plait
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

CONVEX_LOSSES = [
    plait.Logistic(),
    plait.Squared(),
    plait.SquaredHinge(),
    plait.Hinge(),
    plait.Huber(0.7),
    plait.Poisson(),
    plait.Pinball(0.2),
]
GROUPS = [0, 0, 1, 1, 1]
PENALTIES = [
    plait.NoPenalty(),
    plait.L2(0.3),
    plait.L1(0.4),
    plait.ElasticNet(0.7, 0.3),
    plait.GroupLasso(0.5, GROUPS),
    plait.Box(-0.5, 2.0),
    plait.NonNegative(),
    plait.Ball(1.5),
    plait.L1(0.2) + plait.L2(0.1) + plait.Box(-1.0, 0.5),
    plait.L1(0.2) + plait.Ball(1.0) + plait.NonNegative(),
    plait.Box([-1.0, 0.0, -np.inf, 0.5, -2.0], [1.0, 0.0, np.inf, 2.0, np.inf]) + plait.L1(0.3),
    plait.GroupLasso(0.3, GROUPS) + plait.NonNegative(),
    plait.GroupLasso(0.3, GROUPS) + plait.L1(0.2),
    plait.GroupLasso(0.3, GROUPS) + plait.L1(0.2) + plait.L2(0.1) + plait.Ball(1.0) + plait.NonNegative(),
    plait.GroupLasso(0.3, GROUPS) + plait.Ball(1.0) + plait.NonNegative(),
]

scores = st.floats(-1e6, 1e6)
steps = st.floats(1e-6, 1e6)
weights = arrays(np.float64, 5, elements=st.floats(-50, 50))


def labels(loss: Loss) -> st.SearchStrategy[float]:
    if loss.classifies:
        return st.sampled_from([-1.0, 1.0])
    return st.integers(0, 50).map(float) if isinstance(loss, plait.Poisson) else st.floats(-100, 100)


def one(*values: float) -> tuple[np.ndarray, ...]:
    return tuple(np.array([v]) for v in values)


@pytest.mark.parametrize("loss", CONVEX_LOSSES, ids=str)
@given(data=st.data())
def test_loss_prox_is_monotone_and_moves_points_no_further_apart(loss: Loss, data: st.DataObject) -> None:
    a, b, step, y = data.draw(scores), data.draw(scores), data.draw(steps), data.draw(labels(loss))
    low, high = sorted((a, b))
    z_low, z_high = (float(loss.prox(*one(v, step, y))[0]) for v in (low, high))
    slack = 1e-9 * (1 + abs(low) + abs(high))
    assert -slack <= z_high - z_low <= high - low + slack


@pytest.mark.parametrize("loss", CONVEX_LOSSES, ids=str)
@given(data=st.data())
def test_no_other_score_is_cheaper_than_the_prox(loss: Loss, data: st.DataObject) -> None:
    v, other, step, y = data.draw(scores), data.draw(st.floats(-500, 500)), data.draw(steps), data.draw(labels(loss))

    def cost(z: float) -> float:
        return float(loss.value(*one(z, y))[0]) + (z - v) ** 2 / (2 * step)

    best = cost(float(loss.prox(*one(v, step, y))[0]))
    assert best <= cost(other) + 1e-9 * (1 + abs(cost(other)))


@given(a=st.floats(-1e6, 1e6), step=st.floats(0, 1e6), other=st.floats(-1e6, 1e6))
def test_no_other_score_is_cheaper_than_the_cauchy_prox(a: float, step: float, other: float) -> None:
    loss = plait.Cauchy(1.0)

    def cost(z: float) -> float:
        return step * float(loss.value(*one(z, 0.0))[0]) + (z - a) ** 2 / 2

    assert cost(float(loss.prox(*one(a, step, 0.0))[0])) <= cost(other) * (1 + 1e-12) + 1e-9


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@given(v=weights, w=weights, step=st.floats(1e-3, 1e3))
def test_penalty_prox_is_firmly_nonexpansive(penalty: Penalty, v: np.ndarray, w: np.ndarray, step: float) -> None:
    gap = penalty.prox(v, step) - penalty.prox(w, step)
    assert gap @ gap <= gap @ (v - w) + 1e-9 * (1 + v @ v + w @ w)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@given(v=weights, other=weights, step=st.floats(1e-3, 1e3))
def test_no_other_feasible_weights_are_cheaper_than_the_prox(
    penalty: Penalty, v: np.ndarray, other: np.ndarray, step: float
) -> None:
    if penalty.feasible is not None:
        other = penalty.feasible.project(other)

    def cost(x: np.ndarray) -> float:
        return penalty.value(x) + float((x - v) @ (x - v)) / (2 * step)

    assert cost(penalty.prox(v, step)) <= cost(other) * (1 + 1e-12) + 1e-9


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@given(v=weights, step=st.floats(1e-3, 1e3))
def test_eigenvalues_of_the_generalised_jacobian_lie_between_zero_and_one(
    penalty: Penalty, v: np.ndarray, step: float
) -> None:
    jacobian = penalty.prox_jacobian(v, step)
    full = np.diag(jacobian) if jacobian.ndim == 1 else jacobian
    values = np.linalg.eigvals(full)
    assert np.abs(values.imag).max() <= 1e-6
    assert values.real.min() >= -1e-9
    assert values.real.max() <= 1 + 1e-9


@given(
    alpha=st.floats(1e-3, 1e3),
    scale=st.floats(0.05, 20),
    ends=st.tuples(st.floats(-20, 20), st.floats(-20, 20)),
    ridge=st.floats(0, 3),
    v=st.floats(-100, 100),
    step=st.floats(1e-3, 1e3),
)
def test_no_weight_on_a_fine_grid_is_cheaper_than_the_prox_of_a_log_penalty_in_a_box(
    alpha: float, scale: float, ends: tuple[float, float], ridge: float, v: float, step: float
) -> None:
    penalty = plait.LogPenalty(alpha, scale) + plait.L2(ridge) + plait.Box(min(ends), max(ends))
    grid = np.linspace(min(ends), max(ends), 2001)

    def cost(x: np.ndarray) -> np.ndarray:
        log = alpha * scale**2 / 2 * np.log1p((x / scale) ** 2)
        return log + ridge / 2 * x**2 + (x - v) ** 2 / (2 * step)

    x = penalty.prox(np.array([v]), step)
    assert min(ends) <= x[0] <= max(ends)
    best = float(cost(grid).min())
    assert float(cost(x)[0]) <= best + 1e-10 * (1 + abs(best))
