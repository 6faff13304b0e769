"""One suite over every loss: derivatives, curvature, proximal map, labels, extreme inputs, sample weights."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import plait
from plait.problem.losses import Loss

LOSSES: dict[str, Loss] = {
    "logistic": plait.Logistic(),
    "squared": plait.Squared(),
    "squared hinge": plait.SquaredHinge(),
    "hinge": plait.Hinge(),
    "huber": plait.Huber(),
    "huber, wide": plait.Huber(25.0),
    "poisson": plait.Poisson(),
    "median": plait.Pinball(),
    "upper quantile": plait.Pinball(0.9),
    "cauchy": plait.Cauchy(),
    "cauchy, narrow": plait.Cauchy(0.2),
}
SMOOTH = [name for name, loss in LOSSES.items() if loss.smooth]
CONVEX = [name for name, loss in LOSSES.items() if loss.convex]


def labels_for(loss: Loss, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if loss.classifies:
        return rng.choice([-1.0, 1.0], count)
    return rng.poisson(2.0, count).astype(float) if isinstance(loss, plait.Poisson) else 3 * rng.standard_normal(count)


def scores(count: int, seed: int = 1) -> np.ndarray:
    return 3 * np.random.default_rng(seed).standard_normal(count)


@pytest.fixture(params=LOSSES, ids=str)
def loss(request: pytest.FixtureRequest) -> Loss:
    return LOSSES[request.param]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_agrees_with_differences(name: str) -> None:
    loss, h = LOSSES[name], 1e-5
    z, y = scores(200), labels_for(LOSSES[name], 200)
    numeric = (loss.value(z + h, y) - loss.value(z - h, y)) / (2 * h)
    assert loss.gradient(z, y) == pytest.approx(numeric, rel=1e-6, abs=2e-5 if "squared hinge" in name else 1e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_hessian_agrees_with_differences_of_the_gradient(name: str) -> None:
    loss, h = LOSSES[name], 1e-6
    z, y = scores(200), labels_for(LOSSES[name], 200)
    away = np.ones(200, dtype=bool)
    if isinstance(loss, plait.SquaredHinge):
        away = np.abs(y * z - 1) > 1e-3
    if isinstance(loss, plait.Huber):
        away = np.abs(np.abs(z - y) - loss.delta) > 1e-3
    numeric = (loss.gradient(z + h, y) - loss.gradient(z - h, y)) / (2 * h)
    assert loss.hessian(z, y)[away] == pytest.approx(numeric[away], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_together_are_those_one_by_one(name: str) -> None:
    loss = LOSSES[name]
    z, y = np.concatenate([scores(200), [0.0, 40.0, -40.0]]), labels_for(loss, 203)
    for found, alone in zip(loss.derivatives(z, y), (loss.value, loss.gradient, loss.hessian), strict=True):
        np.testing.assert_allclose(found, alone(z, y), rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("name", SMOOTH)
def test_curvature_bounds_the_hessian(name: str) -> None:
    loss = LOSSES[name]
    z, y = 10 * scores(2000), labels_for(loss, 2000)
    if loss.curvature is None:
        assert loss.hessian(np.array([50.0]), np.array([1.0]))[0] > 1e20
    else:
        assert np.abs(loss.hessian(z, y)).max() <= loss.curvature * (1 + 1e-12)


@pytest.mark.parametrize("name", [n for n in SMOOTH if LOSSES[n].convex])
def test_curvature_seen_in_the_gradient_is_the_hessian(name: str) -> None:
    loss = LOSSES[name]
    z, y = scores(500), labels_for(loss, 500)
    first = loss.gradient(np.full(500, 0.3), y)
    seen = loss.seen(loss.gradient(z, y), first, 0.3)
    assert seen.curvature == pytest.approx(loss.hessian(z, y), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", [n for n in LOSSES if LOSSES[n].smooth])
def test_scores_seen_in_two_gradients_move_as_the_scores_do(name: str) -> None:
    loss = LOSSES[name]
    y = labels_for(loss, 500)
    before, after = scores(500, seed=3), scores(500, seed=4)
    first = loss.gradient(np.full(500, 0.3), y)
    a, b = (loss.seen(loss.gradient(z, y), first, 0.3) for z in (before, after))
    known = a.known & b.known
    assert (b.score - a.score)[known] == pytest.approx((after - before)[known], rel=1e-6, abs=1e-6)


def test_curvature_seen_of_cauchy_majorises_an_inlier() -> None:
    loss = plait.Cauchy(0.7)
    r = np.linspace(-0.69, 0.69, 101)
    zero = np.zeros_like(r)
    weight = loss.seen(loss.gradient(r, zero), zero, 0.0).curvature
    assert weight == pytest.approx(np.where(r == 0, 1.0, loss.gradient(r, zero) / np.where(r == 0, 1.0, r)), rel=1e-9)


@pytest.mark.parametrize("name", [n for n in LOSSES if not LOSSES[n].smooth])
def test_loss_with_kinks_has_no_hessian(name: str) -> None:
    with pytest.raises(plait.SettingError, match="kinks"):
        LOSSES[name].hessian(np.zeros(1), np.ones(1))


@pytest.mark.parametrize("name", CONVEX)
def test_gradient_is_a_subgradient(name: str) -> None:
    loss = LOSSES[name]
    y = labels_for(loss, 100)
    for z in (scores(100), y):
        base, slope = loss.value(z, y), loss.gradient(z, y)
        for other in (scores(100, 5), z + 1e-3, z - 1e-3, -3 * z):
            assert (loss.value(other, y) >= base + slope * (other - z) - 1e-9 * (1 + np.abs(base))).all()


@pytest.mark.parametrize("step", [1e-3, 0.3, 1.0, 9.5, 1e3])
def test_prox_is_the_global_minimiser(loss: Loss, step: float) -> None:
    y, v = labels_for(loss, 30, seed=2), 3 * scores(30, seed=3)
    found = loss.prox(v, np.full(30, step), y)
    for v_i, y_i, z_i in zip(v, y, found, strict=True):

        def cost(z: float, v_i: float = v_i, y_i: float = y_i) -> float:
            return float(step * loss.value(np.array([z]), np.array([y_i]))[0] + (z - v_i) ** 2 / 2)

        low, high = min(v_i, y_i, -60.0), max(v_i, y_i, 60.0)
        grid = np.unique(np.concatenate([np.linspace(low, high, 600), [v_i, y_i, 1.0, -1.0]]))
        with np.errstate(over="ignore"):
            start = int(np.argmin(step * loss.value(grid, np.full(grid.size, y_i)) + (grid - v_i) ** 2 / 2))
        bounds = (grid[max(start - 1, 0)], grid[min(start + 1, grid.size - 1)])
        best = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 1e-10})
        assert cost(z_i) <= min(best.fun, cost(grid[start])) + 1e-12 * (1 + abs(best.fun))


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("step", [1e-9, 1e-3, 1.0, 1e3, 1e9])
def test_prox_solves_its_equation(name: str, step: float) -> None:
    loss = LOSSES[name]
    y, v = labels_for(loss, 500, seed=4), 10 * scores(500, seed=5)
    z = loss.prox(v, np.full(500, step), y)
    error = (z - v) + step * loss.gradient(z, y)
    curvature = 1 + step * np.maximum(loss.hessian(z, y), 0)
    assert (np.abs(error) <= 1e-12 * curvature * np.maximum(1, np.abs(z)) + 1e-12 * np.abs(v)).all()


@pytest.mark.parametrize("name", [n for n in LOSSES if not LOSSES[n].smooth])
def test_prox_at_a_kink_pulls_no_more_than_the_slopes_allow(name: str) -> None:
    loss, h = LOSSES[name], 1e-7
    y, v = labels_for(loss, 500, seed=4), 5 * scores(500, seed=5)
    for step in (1e-3, 0.5, 4.0):
        z = loss.prox(v, np.full(500, step), y)
        pull = (v - z) / step
        assert (pull >= loss.gradient(z - h, y) - 1e-9).all()
        assert (pull <= loss.gradient(z + h, y) + 1e-9).all()


def test_prox_with_step_zero_stays(loss: Loss) -> None:
    v, y = scores(50), labels_for(loss, 50)
    assert loss.prox(v, np.zeros(50), y) == pytest.approx(v, rel=1e-14, abs=1e-15)


def test_prox_takes_one_step_per_sample(loss: Loss) -> None:
    v, y, step = scores(50), labels_for(loss, 50), np.geomspace(1e-4, 1e4, 50)
    together = loss.prox(v, step, y)
    apart = [loss.prox(v[i : i + 1], step[i : i + 1], y[i : i + 1])[0] for i in range(50)]
    assert together == pytest.approx(np.array(apart), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("size", [1e3, 1e15, 1e100, 1e300])
def test_extreme_scores_give_numbers_and_no_warnings(loss: Loss, size: float) -> None:
    z = np.array([size, -size, 1 / size, -1 / size, 0.0, -0.0])
    for sign in (-1.0, 1.0):
        y = np.full(6, sign if not isinstance(loss, plait.Poisson) else 1.0 + sign)
        assert not np.isnan(loss.value(z, y)).any()
        assert not np.isnan(loss.gradient(z, y)).any()
        if loss.smooth:
            assert not np.isnan(loss.hessian(z, y)).any()
        for step in (0.0, 1e-300, 1e-12, 1.0, 1e12, 1e100):
            found = loss.prox(z, np.full(6, step), y)
            assert np.isfinite(found).all()


@pytest.mark.parametrize("size", [1e10, 1e100, 1e300])
def test_values_that_fit_are_finite(size: float) -> None:
    z, y = np.array([size, -size]), np.array([1.0, 1.0])
    for name in ("logistic", "hinge", "huber", "median", "cauchy"):
        assert np.isfinite(LOSSES[name].value(z, y)).all()
    r = size / 0.2
    assert plait.Cauchy(0.2).value(z[:1], np.zeros(1))[0] == pytest.approx(0.2**2 * np.log(r), rel=1e-12)


def test_prox_lies_between_the_input_and_the_minimum_however_large(loss: Loss) -> None:
    if not loss.convex or isinstance(loss, plait.Poisson):
        pytest.skip("no single finite minimum to lie below")
    y = np.ones(8)
    v = np.array([-1e300, -1e100, -1e16, -1e3, 2.0, 1e3, 1e100, 1e300])
    for step in (1e-8, 1.0, 1e8, 1e20, 1e100, 1e300):
        z = loss.prox(v, np.full(8, step), y)
        assert np.isfinite(z).all()
        low, high = np.minimum(v, 1.0), np.maximum(v, 1.0) if not isinstance(loss, plait.Logistic) else np.inf
        assert (z >= low).all()
        assert (z <= high).all()


@pytest.mark.parametrize("name", ["squared", "squared hinge", "huber, wide"])
def test_strong_pull_reaches_the_label_from_afar(name: str) -> None:
    loss = LOSSES[name]
    z = loss.prox(np.array([-1e16]), np.array([1e40]), np.array([1.0]))
    assert z[0] == pytest.approx(1.0, rel=1e-12)


def test_logistic_prox_at_huge_steps() -> None:
    # q (1 + exp q) = step at v = 0: the root grows like log(step).
    step = np.array([1e100, 1e300])
    q = plait.Logistic().prox(np.zeros(2), step, np.ones(2))
    assert np.log(q) + np.logaddexp(0, q) == pytest.approx(np.log(step), rel=1e-14)


def test_poisson_prox_at_huge_inputs() -> None:
    z = plait.Poisson().prox(np.array([1e300, -1e300, 5.0]), np.array([1.0, 1.0, 1e300]), np.array([0.0, 2.0, 3.0]))
    assert z == pytest.approx([np.log(1e300), -1e300, np.log(3.0)], rel=1e-12)


def test_cauchy_prox_ignores_a_gross_outlier_and_obeys_a_strong_pull() -> None:
    loss = plait.Cauchy()
    assert loss.prox(np.array([1e120]), np.array([1.0]), np.zeros(1))[0] == pytest.approx(1e120)
    assert loss.prox(np.array([1e100]), np.array([1e250]), np.zeros(1))[0] == pytest.approx(1e-150, rel=1e-10)


@pytest.mark.parametrize("name", [n for n in LOSSES if LOSSES[n].classifies])
def test_classifiers_take_signs_and_zero_one(name: str) -> None:
    loss = LOSSES[name]
    assert np.array_equal(loss.labels(np.array([0.0, 1.0, 1.0])), [-1.0, 1.0, 1.0])
    assert np.array_equal(loss.labels(np.array([-1.0, 1.0])), [-1.0, 1.0])
    with pytest.raises(plait.InputError, match=r"needs labels -1/\+1 or 0/1. Found 0, 1, 2"):
        loss.labels(np.array([0.0, 1.0, 2.0]))


def test_poisson_refuses_negative_counts() -> None:
    with pytest.raises(plait.InputError, match=r"labels >= 0. Found -1"):
        plait.Poisson().labels(np.array([0.0, -1.0]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: plait.Huber(0.0),
        lambda: plait.Huber(np.inf),
        lambda: plait.Cauchy(-1.0),
        lambda: plait.Pinball(0.0),
        lambda: plait.Pinball(1.0),
        lambda: plait.Pinball(np.nan),
    ],
)
def test_impossible_parameters_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(plait.SettingError, match="Found"):
        make()


@pytest.mark.parametrize("name", CONVEX)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_weight_two_is_a_row_twice_and_weight_zero_no_row(name: str, fit_intercept: bool) -> None:
    loss = LOSSES[name]
    rng = np.random.default_rng(7)
    x, w = rng.standard_normal((60, 4)), rng.choice([0.0, 1.0, 2.0, 3.0], 60)
    y = labels_for(loss, 60, seed=8)
    rows = np.repeat(np.arange(60), w.astype(int))

    def run(x: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> plait.Fit:
        return plait.fit(
            [x[:, :2], x[:, 2:]],
            y,
            loss=loss,
            penalty=plait.L2(0.1),
            sample_weight=weights,
            fit_intercept=fit_intercept,
            stopping=plait.Stopping(max_rounds=3000, tol=1e-9),
        )

    weighted, repeated = run(x, y, w), run(x[rows], y[rows], None)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-7)
    for a, b in zip(weighted.weights, repeated.weights, strict=True):
        assert a == pytest.approx(b, abs=2e-5)
