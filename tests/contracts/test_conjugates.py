"""Conjugates of every convex penalty and loss, beside a numerical maximisation that shares no code with plait."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import plait
from plait.problem.conjugates import conjugate, loss_conjugate, reach
from plait.problem.losses import Loss
from tests.contracts.test_penalty_contract import CONVEX, NONCONVEX, WIDTH, Case
from tests.oracle import Problem, SmoothLoss, Terms, solve

LINEAR = SmoothLoss(
    lambda z, y: -WIDTH * y * z, lambda z, y: -WIDTH * y + np.zeros_like(z), lambda z, y: np.zeros_like(z)
)
"""The mean over the rows of an identity is -v^T x."""
LOSSES = [
    plait.Logistic(),
    plait.Squared(),
    plait.SquaredHinge(),
    plait.Hinge(),
    plait.Huber(0.7),
    plait.Poisson(),
    plait.Pinball(0.2),
]


def supremum(terms: Terms, v: np.ndarray) -> float:
    """sup over x of  v^T x - terms(x), by a barrier method."""
    return -solve(Problem(LINEAR, np.eye(WIDTH), v, ((0, WIDTH, terms),)), gap=1e-11)[0]


def within(terms: Terms, radius: np.ndarray) -> Terms:
    lower, upper = np.broadcast_to(terms.lower, WIDTH), np.broadcast_to(terms.upper, WIDTH)
    return Terms(
        terms.ridge,
        terms.l1,
        terms.groups,
        tuple(np.maximum(lower, -radius)),
        tuple(np.minimum(upper, radius)),
        terms.radius,
    )


@pytest.fixture(params=CONVEX, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return CONVEX[request.param]


def slopes() -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [spread * rng.standard_normal(WIDTH) for spread in (0.05, 0.4, 3.0)]


def test_conjugate_is_the_supremum_wherever_it_is_finite(case: Case) -> None:
    for v in slopes():
        t = reach(case.penalty, v)
        assert 0 <= t <= 1
        if t == 0:  # without a penalty only v = 0 has a finite conjugate
            assert conjugate(case.penalty, 0 * v) == 0
            continue
        inside = t * (1 - 1e-3) * v  # strictly, so that the barrier method ends
        assert conjugate(case.penalty, inside) == pytest.approx(supremum(case.terms, inside), rel=1e-8, abs=1e-8)
        assert np.isfinite(conjugate(case.penalty, t * v))


def test_conjugate_is_infinite_beyond_its_reach(case: Case) -> None:
    for v in slopes():
        t = reach(case.penalty, v)
        if t < 1:
            assert conjugate(case.penalty, (t + 1e-9) * v) == np.inf


def test_conjugate_with_a_radius_bounds_the_supremum_and_is_exact_for_single_weights(case: Case) -> None:
    radius = np.linspace(0.4, 1.5, WIDTH)
    for v in slopes():
        bound = conjugate(case.penalty, v, radius)
        best = supremum(within(case.terms, radius), v)
        assert bound >= best - 1e-8 * (1 + abs(best))
        assert bound <= conjugate(case.penalty, v)
        if case.penalty.separable:
            assert bound == pytest.approx(best, rel=1e-8, abs=1e-8)


def test_fenchel_and_young_agree_at_a_proximal_point(case: Case) -> None:
    """x = prox(v) makes (v - x) a slope of the penalty at x, so that both sides of the inequality are equal."""
    for v in slopes():
        x = case.penalty.prox(v, 1.0)
        slope = v - x
        t = reach(case.penalty, slope)
        assert t >= 1 - 1e-12
        gap = case.penalty.value(x) + conjugate(case.penalty, t * slope) - slope @ x
        assert abs(gap) <= 1e-10 * (1 + abs(slope @ x))


@pytest.mark.parametrize("name", NONCONVEX)
def test_nonconvex_penalties_have_no_lower_bound(name: str) -> None:
    with pytest.raises(plait.SettingError, match="convex"):
        conjugate(NONCONVEX[name], np.ones(WIDTH))


def labels_and_slopes(loss: Loss, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    y = rng.choice([-1.0, 1.0], n) if loss.classifies else rng.poisson(2.0, n).astype(float)
    g = loss.gradient(2 * rng.standard_normal(n), y)
    return y, g


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_weighted_loss_conjugate_is_the_supremum(loss: Loss) -> None:
    n = 12
    y, g = labels_and_slopes(loss, n)
    w = np.random.default_rng(6).uniform(0.1, 3.0, n)
    w[[2, 7]] = 0.0
    g = (1 - 1e-12) * w * g  # rounding must not lead beyond the steepest slope
    best = 0.0
    for i in np.flatnonzero(w):

        def cost(z: float, i: int = int(i)) -> float:
            return float(w[i] * loss.value(np.array([z]), y[[i]])[0] - g[i] * z)

        best -= min(
            minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 1e-11}).fun
            for ends in ((-60.0, 0.0), (0.0, 60.0), (-3.0, 3.0))
        )
    assert loss_conjugate(loss, g, y, w) == pytest.approx(best, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_a_sample_without_weight_has_no_slope(loss: Loss) -> None:
    y, g = labels_and_slopes(loss, 4)
    w = np.array([0.5, 0.0, 0.3, 0.2])
    g = w * g
    kept = w > 0
    assert loss_conjugate(loss, g, y, w) == loss_conjugate(loss, g[kept], y[kept], w[kept])
    assert loss_conjugate(loss, g + np.array([0, 1e-9, 0, 0]), y, w) == np.inf


@pytest.mark.parametrize("loss", [x for x in LOSSES if not isinstance(x, plait.Squared)], ids=str)
def test_loss_conjugate_is_infinite_where_the_loss_has_no_such_slope(loss: Loss) -> None:
    y = np.ones(1)
    impossible = {plait.Poisson: -1.5, plait.Logistic: 0.5, plait.Hinge: 0.5, plait.SquaredHinge: 0.5}.get(
        type(loss), 5.0
    )
    assert loss_conjugate(loss, np.array([impossible]), y, np.ones(1)) == np.inf
