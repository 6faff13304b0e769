import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from plait.errors import PrivacyError, SettingError
from plait.privacy.accounting import delta_of
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.mechanisms.helper_mixing import Sketch, mixing_factors, posterior_mean
from plait.privacy.mechanisms.joint_sensitivity import Joint
from plait.privacy.mechanisms.noisy_newton import PRIOR_VARIANCE, NoisyNewton
from plait.privacy.mechanisms.recommended import Recommended
from plait.problem.penalties import L1, L2, NoPenalty


def largest_shift_square(gram: float, gradient: float, gradients: int, adjacency: Adjacency) -> float:
    """By search over |a|, |a'| and the angle between q a and q' a', with |q| = |q'| = 1."""
    length = np.linspace(0, 1, 41)
    r, s, cosine = np.meshgrid(length, length if adjacency is Adjacency.REPLACE else [0.0], np.linspace(-1, 1, 201))
    y = r * s * cosine
    moved = gradients * (r**2 + s**2 - 2 * y) / gradient**2 + (r**4 + s**4 - 2 * y**2) / gram**2
    return float(moved.max())


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("share", [0.05, 0.25, 1 / 3])
def test_what_was_charged_covers_every_neighbour_after_every_release(adjacency: Adjacency, share: float) -> None:
    joint = Joint.for_mu(0.7, share, 6, (4, 0.25), 2.0, adjacency, 10_000)
    spent = np.cumsum([charge.mu**2 for charge in joint.charges])
    for k, square in enumerate(spent):
        found = largest_shift_square(joint.gram.sigma / 0.25, joint.gradient.sigma / 2.0, k, adjacency)
        assert found <= square <= found * 1.002
    assert spent[-1] == pytest.approx(0.7**2, rel=1e-3)


def test_random_neighbours_move_what_is_released_by_no_more_than_is_charged() -> None:
    rng = np.random.default_rng(5)
    joint = Joint.for_mu(1.0, 0.25, 1, (3, 0.5), 1.0, Adjacency.REPLACE, 4)
    weights = np.array([0.5, 0.1, 0.3, 0.2])
    worst = 0.0
    for _ in range(3000):
        rows = rng.standard_normal((4, 3))
        other = rows.copy()
        other[0] = rng.choice([-1.0, 1.0]) * rows[0] + rng.exponential() * rng.standard_normal(3)
        q = rng.uniform(-1.5, 1.5, 4)
        p = q.copy()
        p[0] = rng.choice([q[0], -q[0], 1.0])
        one, two = ClippedRows.of(rows), ClippedRows.of(other)
        gram = joint.gram.value(one, weights) - joint.gram.value(two, weights)
        gradient = joint.gradient.value(one, q) - joint.gradient.value(two, p)
        shift = (gram @ gram) / joint.gram.grid.sigma**2 + (gradient @ gradient) / joint.gradient.grid.sigma**2
        worst = max(worst, float(shift))
    assert 0.8 < worst <= sum(c.mu**2 for c in joint.charges)


@settings(deadline=None, max_examples=60)
@given(
    st.floats(0.05, 20.0),
    st.integers(1, 300),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from(list(Adjacency)),
)
def test_a_plan_never_costs_more_than_asked(
    epsilon: float, width: int, gradients: int, sketch: bool, adjacency: Adjacency
) -> None:
    mechanism = Recommended(epsilon, adjacency=adjacency, gradients=gradients)
    plan = mechanism.plan(30_000, width, 0.25, 1.0, sketch=sketch)
    assert plan.cost.delta(epsilon) <= 1e-5
    # The largest squared shift from the noise that is really added, over rows of any length and angle.
    mu2 = largest_shift_square(plan.gram.sigma / 0.25, plan.gradient.sigma, gradients, adjacency)
    if sketch:
        query = plan.sketch(50, 0.3)
        mu2 += (query.sensitivity * 0.3 / query.sigma) ** 2
    assert delta_of(epsilon, float(np.sqrt(mu2))) <= 1e-5
    assert delta_of(epsilon, float(np.sqrt(mu2)) * 1.02) > 1e-5


def test_releasing_scores_is_paid_from_the_same_budget() -> None:
    plan = Recommended(1.0, score_share=0.3).plan(1000, 5, 0.25, 1.0, sketch=False)
    assert plan.scores is not None
    assert plan.cost.delta(1.0) <= 1e-5
    free = Recommended(1.0).plan(1000, 5, 0.25, 1.0, sketch=False)
    assert plan.gradient.sigma > free.gradient.sigma


def test_delta_must_be_below_one_over_n() -> None:
    with pytest.raises(PrivacyError, match="1/N"):
        Recommended(1.0, delta=1e-2).plan(1000, 5, 0.25, 1.0, sketch=False)


@pytest.mark.parametrize(
    "settings_",
    [{"epsilon": 0.0}, {"epsilon": 1.0, "delta": 0.0}, {"epsilon": 1.0, "gradients": 0},
     {"epsilon": 1.0, "gram_share": 0.9}, {"epsilon": 1.0, "score_share": 1.5},
     {"epsilon": 1.0, "score_bound": 0.0}],
)  # fmt: skip
def test_impossible_settings_are_refused(settings_: dict[str, float]) -> None:
    with pytest.raises(SettingError):
        Recommended(**settings_)  # type: ignore[arg-type]


def test_the_guarantee_is_stated_in_words() -> None:
    words = Recommended(1.0).guarantee
    assert words == "every customer's features are protected with epsilon = 1.00, delta = 1e-5 (replace one row)"


def test_exact_gradients_of_a_quadratic_reach_its_optimum() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((20, 4))
    hessian, optimum = a.T @ a, rng.standard_normal(4)
    newton = NoisyNewton.of(hessian, 0.0)
    state = newton.start()
    for _ in range(3):
        state = newton.step(state, hessian @ (state.weights - optimum), 0.0, NoPenalty())
    assert np.allclose(state.weights, optimum)
    assert newton.energy(optimum) == pytest.approx(float(optimum @ hessian @ optimum))


def test_noise_without_signal_is_shrunk_away() -> None:
    newton = NoisyNewton.of(np.eye(3), 0.0)
    state = newton.step(newton.start(), np.full(3, 1000.0), 1000.0, NoPenalty())
    assert np.abs(state.weights).max() < 0.01


def test_the_posterior_of_a_correlation_moves_from_one_half_to_the_estimate() -> None:
    assert posterior_mean(0.9, 100.0) == pytest.approx(0.5, abs=0.01)
    assert posterior_mean(0.7, 1e-2) == pytest.approx(0.7, abs=0.01)
    assert posterior_mean(50.0, 0.1) > 0.99


def test_shares_solve_the_two_helper_problem() -> None:
    rng = np.random.default_rng(2)
    base = rng.standard_normal((2, 40_000))
    s1, s2 = base[0], 0.6 * base[0] + 0.8 * base[1]
    sketches = [Sketch(s, float(s @ s), 1e-9) for s in (s1, s2)]
    alpha = mixing_factors([float(s1 @ s1), float(s2 @ s2)], sketches)
    assert alpha == pytest.approx([1 / 1.6, 1 / 1.6], abs=0.02)


def test_one_step_minimises_the_penalised_problem_that_the_module_states() -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((20, 4))
    hessian, gradient, sigma = a.T @ a, 5 * rng.standard_normal(4), 3.0
    newton = NoisyNewton.of(hessian, 0.0)
    prior = sigma**2 / PRIOR_VARIANCE * np.linalg.inv(hessian)
    for penalty, value in [(L2(0.3), lambda u: 0.15 * u @ u), (L1(0.3), lambda u: 0.3 * np.abs(u).sum())]:
        found = newton.step(newton.start(), gradient, sigma, penalty, 7.0).weights

        def objective(u: np.ndarray, value=value) -> float:  # type: ignore[no-untyped-def]
            gap = u + np.linalg.solve(hessian, gradient)
            return float(gap @ hessian @ gap / 2 + u @ prior @ u / 2 + 7.0 * value(u))

        oracle = minimize(objective, np.zeros(4), method="Powell", options={"xtol": 1e-10, "ftol": 1e-14})
        assert objective(found) <= oracle.fun + 1e-9
