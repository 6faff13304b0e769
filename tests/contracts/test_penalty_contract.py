"""One suite over every penalty and every sum of penalties: value, proximal map, Jacobian, gradient, refusals."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar

import plait
from plait.methods.base import Block
from plait.problem.penalties import Box, Penalty
from tests.oracle import LOSSES, Problem, Terms, solve

WIDTH = 6
GROUPS = (0, 1, 0, 2, 2, 2)


def group_terms(alpha: float) -> tuple[tuple[float, tuple[int, ...]], ...]:
    return ((alpha * np.sqrt(2), (0, 2)), (alpha, (1,)), (alpha * np.sqrt(3), (3, 4, 5)))


@dataclass(frozen=True)
class Case:
    penalty: Penalty
    terms: Terms


CONVEX = {
    "none": Case(plait.NoPenalty(), Terms()),
    "L2": Case(plait.L2(0.7), Terms(ridge=0.7)),
    "L1": Case(plait.L1(0.4), Terms(l1=0.4)),
    "elastic net": Case(plait.ElasticNet(0.8, 0.25), Terms(l1=0.2, ridge=0.6)),
    "elastic net, all L2": Case(plait.ElasticNet(0.8, 0.0), Terms(ridge=0.8)),
    "elastic net, all L1": Case(plait.ElasticNet(0.8, 1.0), Terms(l1=0.8)),
    "group lasso": Case(plait.GroupLasso(0.3, GROUPS), Terms(groups=group_terms(0.3))),
    "box": Case(plait.Box(-0.5, 0.25), Terms(lower=-0.5, upper=0.25)),
    "box without zero": Case(plait.Box(0.3, 2.0), Terms(lower=0.3, upper=2.0)),
    "non-negative": Case(plait.NonNegative(), Terms(lower=0.0)),
    "ball": Case(plait.Ball(0.9), Terms(radius=0.9)),
    "box, one pair a column": Case(
        plait.Box([-1.0, 0.0, 0.2, -np.inf, -np.inf, -0.3], [0.5, np.inf, 0.4, 0.0, np.inf, 0.3]),
        Terms(lower=(-1.0, 0.0, 0.2, -np.inf, -np.inf, -0.3), upper=(0.5, np.inf, 0.4, 0.0, np.inf, 0.3)),
    ),
    "L1 + L2": Case(plait.L1(0.4) + plait.L2(0.5), Terms(l1=0.4, ridge=0.5)),
    "L1 + L1": Case(plait.L1(0.1) + plait.L1(0.2), Terms(l1=0.3)),
    "L1 + box": Case(plait.L1(0.2) + plait.Box(-0.4, 0.3), Terms(l1=0.2, lower=-0.4, upper=0.3)),
    "elastic net + box, one lower bound a column": Case(
        plait.ElasticNet(0.4, 0.5) + plait.Box(np.linspace(-0.5, 0.1, WIDTH), 0.3),
        Terms(l1=0.2, ridge=0.2, lower=tuple(np.linspace(-0.5, 0.1, WIDTH)), upper=0.3),
    ),
    "L1 + non-negative": Case(plait.L1(0.2) + plait.NonNegative(), Terms(l1=0.2, lower=0.0)),
    "L1 + ball": Case(plait.L1(0.2) + plait.Ball(0.6), Terms(l1=0.2, radius=0.6)),
    "elastic net + ball": Case(plait.ElasticNet(0.6, 0.5) + plait.Ball(0.6), Terms(l1=0.3, ridge=0.3, radius=0.6)),
    "L2 + box": Case(plait.L2(2.0) + plait.Box(-0.1, 0.3), Terms(ridge=2.0, lower=-0.1, upper=0.3)),
    "L2 + ball": Case(plait.L2(1.0) + plait.Ball(0.5), Terms(ridge=1.0, radius=0.5)),
    "ball + non-negative": Case(plait.Ball(0.8) + plait.NonNegative(), Terms(radius=0.8, lower=0.0)),
    "box + box": Case(plait.Box(-1.0, 0.4) + plait.Box(-0.2, 3.0), Terms(lower=-0.2, upper=0.4)),
    "group lasso + L2": Case(plait.GroupLasso(0.3, GROUPS) + plait.L2(0.4), Terms(groups=group_terms(0.3), ridge=0.4)),
    "group lasso + group lasso": Case(
        plait.GroupLasso(0.1, GROUPS) + plait.GroupLasso(0.2, GROUPS), Terms(groups=group_terms(0.3))
    ),
    "sparse group lasso": Case(plait.L1(0.2) + plait.GroupLasso(0.15, GROUPS), Terms(l1=0.2, groups=group_terms(0.15))),
    "sparse group lasso + sparse group lasso": Case(
        2 * (plait.L1(0.05) + plait.GroupLasso(0.05, GROUPS)) + (plait.GroupLasso(0.05, GROUPS) + plait.L1(0.1)),
        Terms(l1=0.2, groups=group_terms(0.15)),
    ),
    "sparse group lasso + L2": Case(
        plait.ElasticNet(0.4, 0.5) + plait.GroupLasso(0.15, GROUPS),
        Terms(l1=0.2, ridge=0.2, groups=group_terms(0.15)),
    ),
    "sparse group lasso + non-negative": Case(
        plait.GroupLasso(0.15, GROUPS) + plait.NonNegative() + plait.L1(0.2),
        Terms(l1=0.2, groups=group_terms(0.15), lower=0.0),
    ),
    "sparse group lasso + L2 + ball + non-negative": Case(
        plait.L1(0.1) + plait.GroupLasso(0.15, GROUPS) + plait.L2(0.1) + plait.Ball(0.7) + plait.NonNegative(),
        Terms(l1=0.1, groups=group_terms(0.15), ridge=0.1, radius=0.7, lower=0.0),
    ),
    "group lasso + signs": Case(
        plait.GroupLasso(0.2, GROUPS)
        + plait.Box([0, 0, -np.inf, -np.inf, 0, 0], [np.inf, np.inf, np.inf, 0, 0, np.inf]),
        Terms(
            groups=group_terms(0.2),
            lower=(0, 0, -np.inf, -np.inf, -1e-12, 0),
            upper=(np.inf, np.inf, np.inf, 0, 1e-12, np.inf),
        ),
    ),
    "group lasso + non-negative": Case(
        plait.GroupLasso(0.2, GROUPS) + plait.NonNegative(), Terms(groups=group_terms(0.2), lower=0.0)
    ),
    "group lasso + ball": Case(
        plait.GroupLasso(0.2, GROUPS) + plait.Ball(0.7), Terms(groups=group_terms(0.2), radius=0.7)
    ),
    "group lasso + L2 + ball + non-negative": Case(
        plait.GroupLasso(0.2, GROUPS) + plait.L2(0.1) + plait.Ball(0.7) + plait.NonNegative(),
        Terms(groups=group_terms(0.2), ridge=0.1, radius=0.7, lower=0.0),
    ),
}
NONCONVEX = {
    "log": plait.LogPenalty(0.5, 0.3),
    "strong log": plait.LogPenalty(30.0, 0.3),
    "log + L2": plait.LogPenalty(0.5, 0.3) + plait.L2(0.2),
    "log + box": plait.LogPenalty(0.5, 0.3) + plait.Box(-0.4, 0.6),
    "strong log + box": plait.LogPenalty(30.0, 0.3) + plait.Box(0.2, 5.0),
}


@pytest.fixture(params=CONVEX, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    return CONVEX[request.param]


@pytest.mark.parametrize("step", [0.05, 1.0, 7.0])
def test_prox_is_the_constrained_minimiser(case: Case, step: float) -> None:
    rng = np.random.default_rng(int(10 * step))
    for spread in (0.2, 1.0, 5.0):
        v = spread * rng.standard_normal(WIDTH)
        t = case.terms
        scaled = Terms(
            ridge=t.ridge * step / WIDTH,
            l1=t.l1 * step / WIDTH,
            groups=tuple((w * step / WIDTH, members) for w, members in t.groups),
            lower=t.lower,
            upper=t.upper,
            radius=t.radius,
        )
        problem = Problem(LOSSES["Squared"], np.eye(WIDTH), v, ((0, WIDTH, scaled),))
        best, x_best, _ = solve(problem, gap=1e-13)
        x = case.penalty.prox(v, step)
        assert t.violation(x) <= 1e-14
        assert problem.objective(x) <= best + 1e-12 * (1 + abs(best))
        assert np.abs(x - x_best).max() <= 1e-5 * (1 + spread)


def test_value_is_the_sum_of_its_terms(case: Case) -> None:
    x = case.penalty.prox(np.linspace(-1, 2, WIDTH), 0.1)
    assert case.penalty.value(x) == pytest.approx(case.terms.value(x), rel=1e-14, abs=1e-15)


def _steps(penalty: Penalty) -> list[float | np.ndarray]:
    steps: list[float | np.ndarray] = [0.05, 2.0]
    return [*steps, np.linspace(0.1, 2.0, WIDTH)] if penalty.separable else steps


def _agrees_with_differences(penalty: Penalty, step: float | np.ndarray, v: np.ndarray) -> None:
    h = 1e-6
    numeric = np.column_stack(
        [(penalty.prox(v + h * e, step) - penalty.prox(v - h * e, step)) / (2 * h) for e in np.eye(WIDTH)]
    )
    jacobian = penalty.prox_jacobian(v, step)
    full = np.diag(jacobian) if jacobian.ndim == 1 else jacobian
    assert np.abs(full - numeric).max() <= 1e-6


def test_jacobian_of_the_prox_agrees_with_differences(case: Case) -> None:
    rng = np.random.default_rng(3)
    for step in _steps(case.penalty):
        for spread in (0.3, 2.0):
            _agrees_with_differences(case.penalty, step, spread * rng.standard_normal(WIDTH))


@pytest.mark.parametrize("name", NONCONVEX)
def test_nonconvex_prox_is_the_global_minimiser(name: str) -> None:
    penalty = NONCONVEX[name]
    feasible = penalty.feasible if isinstance(penalty.feasible, Box) else Box()
    rng = np.random.default_rng(0)
    for step in (0.05, 1.0, 4.0):
        v = 3 * rng.standard_normal(40)
        x = penalty.prox(v, step)
        for one, at in zip(v, x, strict=True):

            def cost(r: float, one: float = one, step: float = step) -> float:
                return penalty.value(np.array([r])) + (r - one) ** 2 / (2 * step)

            low, high = (float(limit[0]) for limit in feasible.bounds(1))
            low, high = max(low, -12.0), min(high, 12.0)
            grid = np.linspace(low, high, 400)
            start = grid[np.argmin([cost(r) for r in grid])]
            gap = grid[1] - grid[0]
            found = minimize_scalar(
                cost, bounds=(max(low, start - gap), min(high, start + gap)), method="bounded", options={"xatol": 1e-12}
            )
            best = min(found.fun, cost(low), cost(high))
            assert low <= at <= high
            assert cost(at) <= best + 1e-12 * (1 + abs(best))


@pytest.mark.parametrize("name", ["log", "log + L2", "log + box"])
def test_jacobian_of_a_nonconvex_prox_agrees_with_differences(name: str) -> None:
    penalty = NONCONVEX[name]
    for step in _steps(penalty):
        _agrees_with_differences(penalty, step, 2 * np.random.default_rng(1).standard_normal(WIDTH))


@pytest.mark.parametrize(
    "penalty",
    [plait.NoPenalty(), plait.L2(0.3), plait.LogPenalty(0.5, 0.3), plait.LogPenalty(0.5, 0.3) + plait.L2(1.0)],
)
def test_gradient_of_a_smooth_penalty_agrees_with_differences(penalty: Penalty) -> None:
    assert penalty.smooth
    for spread in (0.01, 0.3, 5.0):
        x = spread * np.random.default_rng(2).standard_normal(WIDTH)
        numeric = approx_fprime(x, penalty.value, 1e-7 * spread)
        assert penalty.gradient(x) == pytest.approx(numeric, abs=1e-5)


@pytest.mark.parametrize("name", [n for n, c in CONVEX.items() if not c.penalty.smooth])
def test_penalty_with_kinks_or_constraints_is_not_called_smooth(name: str) -> None:
    terms = CONVEX[name].terms
    bounds = np.concatenate([np.ravel(limit) for limit in (terms.lower, terms.upper, terms.radius)])
    assert terms.l1 or terms.groups or np.isfinite(bounds).any()


@pytest.mark.parametrize("penalty", [c.penalty for c in CONVEX.values()] + list(NONCONVEX.values()), ids=str)
def test_extreme_inputs_stay_finite(penalty: Penalty) -> None:
    v = np.array([1e150, -1e150, 1e-300, -1e-300, 0.0, 1.0])
    for step in (1e-300, 1e-8, 1.0, 1e8, 1e150):
        x = penalty.prox(v, step)
        assert np.isfinite(x).all()
        assert np.isfinite(penalty.prox_jacobian(v, step)).all()
        assert not np.isnan(penalty.value(x))


@pytest.mark.parametrize(
    "make",
    [
        lambda: plait.L2(-1.0),
        lambda: plait.L2(np.nan),
        lambda: plait.L2(np.inf),
        lambda: plait.L1(-1e-9),
        lambda: plait.ElasticNet(-1.0, 0.5),
        lambda: plait.ElasticNet(1.0, 1.5),
        lambda: plait.ElasticNet(1.0, -0.1),
        lambda: plait.GroupLasso(-1.0, [0, 0]),
        lambda: plait.LogPenalty(-1.0),
        lambda: plait.LogPenalty(1.0, scale=0.0),
        lambda: plait.Box(1.0, 0.0),
        lambda: plait.Box(np.nan, 0.0),
        lambda: plait.Box(np.inf, np.inf),
        lambda: plait.Box(-np.inf, -np.inf),
        lambda: plait.Box([0.0, 1.0], [1.0, 0.0]),
        lambda: plait.Box([0.0, 1.0], [1.0, 2.0, 3.0]),
        lambda: plait.Box([0.0, 1.0]) + plait.Box(upper=[1.0, 2.0, 3.0]),
        lambda: plait.GroupLasso(0.1, [0.2, 0.7, 1.1]),
        lambda: -1.0 * plait.L1(0.1),
        lambda: np.nan * plait.L1(0.1),
        lambda: plait.Ball(0.0),
        lambda: plait.Ball(-1.0),
        lambda: plait.Ball(np.inf),
    ],
)
def test_impossible_parameters_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(plait.SettingError, match="Found"):
        make()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (plait.L1(0.1) + plait.GroupLasso(0.1, GROUPS), plait.LogPenalty(0.1)),
        (plait.L1(0.1) + plait.GroupLasso(0.1, GROUPS), plait.GroupLasso(0.1, (0, 0, 0, 1, 1, 1))),
        (plait.L1(0.1) + plait.GroupLasso(0.1, GROUPS), plait.Box(-1.0, 1.0)),
        (plait.L1(0.1), plait.LogPenalty(0.1)),
        (plait.LogPenalty(0.1), plait.LogPenalty(0.2)),
        (plait.GroupLasso(0.1, GROUPS), plait.GroupLasso(0.1, (0, 0, 0, 1, 1, 1))),
        (plait.GroupLasso(0.1, GROUPS), plait.Box(-1.0, 1.0)),
        (plait.GroupLasso(0.1, GROUPS) + plait.L2(0.1), plait.Box(0.0, 1.0)),
        (plait.LogPenalty(0.1), plait.Ball(1.0)),
        (plait.Box(0.0, 1.0), plait.Ball(1.0)),
        (plait.Box(0.0, 1.0), plait.Box(2.0, 3.0)),
    ],
    ids=str,
)
def test_sums_without_a_closed_prox_are_refused_when_written(left: Penalty, right: Penalty) -> None:
    for a, b in ((left, right), (right, left)):
        with pytest.raises(plait.SettingError):
            a + b


def test_only_penalties_add() -> None:
    for wrong in (3, 1.5, "l1", None):
        with pytest.raises(TypeError):
            plait.L1(0.1) + wrong  # type: ignore[operator]
        with pytest.raises(TypeError):
            wrong + plait.L1(0.1)  # type: ignore[operator]


def test_a_box_without_bounds_is_no_constraint() -> None:
    assert plait.Box().smooth
    assert (plait.L2(0.1) + plait.Box([-np.inf] * 2, np.inf)).quadratic
    assert not plait.Box(upper=[np.inf, 3.0]).smooth


def test_the_builtin_sum_adds_penalties() -> None:
    assert sum([plait.L1(0.1), plait.L2(0.2), plait.L2(0.1)]) == plait.L1(0.1) + plait.L2(0.2) + plait.L2(0.1)


@pytest.mark.parametrize("penalty", [c.penalty for c in CONVEX.values()] + list(NONCONVEX.values()), ids=str)
def test_a_factor_multiplies_the_penalty_and_keeps_its_constraints(penalty: Penalty) -> None:
    x = penalty.prox(np.linspace(-1, 2, WIDTH), 0.1)
    for factor in (0, 2, 0.3, np.float64(4.0), np.float32(0.5)):
        for scaled in (factor * penalty, penalty * factor):
            assert scaled.value(x) == pytest.approx(float(factor) * penalty.value(x), rel=1e-14, abs=1e-300)
            assert scaled.feasible == penalty.feasible


def test_a_named_penalty_times_a_factor_keeps_its_name() -> None:
    assert 2 * plait.L1(0.1) == plait.L1(0.2)
    assert plait.L2(0.1) * 3 == plait.L2(0.1 * 3)
    with pytest.raises(TypeError):
        plait.L1(0.1) * "2"  # type: ignore[operator]


def test_bounds_must_fit_the_columns() -> None:
    x = np.random.default_rng(0).standard_normal((10, 3))
    with pytest.raises(plait.InputError, match=r"one number, or one per column. Found 2 for 3 columns"):
        plait.fit({"a": x[:, :2], "b": x}, x[:, 0], loss="squared", penalty=plait.Box([0.0, -1.0], 2.0))


def test_sums_do_not_depend_on_their_order() -> None:
    parts = [plait.L2(0.1), plait.L1(0.3), plait.L2(0.2), plait.NonNegative()]
    v = np.linspace(-2, 2, WIDTH)
    forward, backward = parts[0] + parts[1] + parts[2] + parts[3], parts[3] + parts[2] + parts[1] + parts[0]
    assert forward.prox(v, 0.7) == pytest.approx(backward.prox(v, 0.7), rel=1e-15)


def test_groups_must_name_every_column() -> None:
    x = np.random.default_rng(0).standard_normal((10, 3))
    y = np.where(x[:, 0] > 0, 1.0, -1.0)
    with pytest.raises(plait.InputError, match=r"'b'.*one group per column. Found 2 for 3 columns"):
        plait.fit(
            {"a": x[:, :2], "b": x}, y, penalty={"a": plait.L2(1.0), "b": plait.GroupLasso(0.1, [0, 1]) + plait.L2(0.1)}
        )


@pytest.mark.parametrize("name", CONVEX)
def test_stationarity_of_a_convex_penalty_is_the_papers_prox_form(name: str) -> None:
    case = CONVEX[name]
    x = case.penalty.prox(np.linspace(-1, 1, WIDTH), 0.3)
    g = np.linspace(0.4, -0.2, WIDTH)
    scaled = Problem(
        LOSSES["Squared"],
        np.eye(WIDTH),
        x - g,
        (
            (
                0,
                WIDTH,
                Terms(
                    case.terms.ridge / WIDTH,
                    case.terms.l1 / WIDTH,
                    tuple((w / WIDTH, m) for w, m in case.terms.groups),
                    case.terms.lower,
                    case.terms.upper,
                    case.terms.radius,
                ),
            ),
        ),
    )
    target = solve(scaled, gap=1e-13)[1]
    block = Block(None, case.penalty, plait.Squared(), np.ones(1))  # type: ignore[arg-type]
    assert block.stationarity(x, g) == pytest.approx(float((x - target) @ (x - target)), abs=1e-5)
