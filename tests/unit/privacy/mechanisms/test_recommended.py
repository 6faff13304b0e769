from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm

from plait.errors import PrivacyError, SettingError
from plait.privacy.accounting import delta_of
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.mechanisms.helper_fit import Lesson
from plait.privacy.mechanisms.helper_mixing import Sketch, mixing_factors, posterior_mean
from plait.privacy.mechanisms.joint_sensitivity import Joint
from plait.privacy.mechanisms.noisy_newton import NoisyNewton
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.mechanisms.soft_logistic import SoftLogistic
from plait.problem.losses import Hinge, Huber, Logistic, Loss, Squared
from plait.problem.penalties import L1, L2, NoPenalty


def largest_shift_square(gram: float, gradients: list[float], adjacency: Adjacency) -> float:
    """By search over |a|, |a'| and the angle between q a and q' a', with |q| = |q'| = 1, given each release's sigma."""
    length = np.linspace(0, 1, 41)
    r, s, cosine = np.meshgrid(length, length if adjacency is Adjacency.REPLACE else [0.0], np.linspace(-1, 1, 201))
    y = r * s * cosine
    moved = sum(g**-2 for g in gradients) * (r**2 + s**2 - 2 * y) + (r**4 + s**4 - 2 * y**2) / gram**2
    return float(moved.max())


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("share", [0.05, 0.25, 1 / 3])
def test_what_was_charged_covers_every_neighbour_after_every_release(adjacency: Adjacency, share: float) -> None:
    joint = Joint.for_mu(0.7, share, 6, (4, 0.25), 2.0, adjacency, 10_000)
    spent = np.cumsum([charge.mu**2 for charge in joint.charges])
    for k, square in enumerate(spent):
        sigmas = [g.sigma / 2.0 for g in joint.gradients[:k]]
        found = largest_shift_square(joint.gram.sigma / 0.25, sigmas, adjacency)
        assert found <= square <= found * 1.002
    assert spent[-1] == pytest.approx(0.7**2, rel=1e-3)


def test_random_neighbours_move_what_is_released_by_no_more_than_is_charged() -> None:
    rng = np.random.default_rng(5)
    joint = Joint.for_mu(1.0, 0.25, 1, (3, 0.5), 1.0, Adjacency.REPLACE, 4)
    weights = np.array([0.5, 0.1, 0.3, 0.2])
    row, column = np.triu_indices(3)
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
        release = joint.gradients[0]
        gradient = release.value(one, q) - release.value(two, p)
        noise = np.where(row == column, joint.gram.grid.sigma, joint.gram.beside.sigma)
        shift = np.sum((gram / noise) ** 2) + (gradient @ gradient) / release.grid.sigma**2
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
    framed = mechanism.plan(30_000, width, 0.25, 1.0, sketch=sketch, shifts=True)
    assert framed.cost.delta(epsilon) <= 1e-5
    assert framed.frame is None or adjacency is Adjacency.REPLACE
    # The largest squared shift from the noise that is really added, over rows of any length and angle.
    assert len(plan.gradients) == gradients
    mu2 = largest_shift_square(plan.gram.sigma / 0.25, [g.sigma for g in plan.gradients], adjacency)
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
    assert all(paid.sigma > alone.sigma for paid, alone in zip(plan.gradients, free.gradients, strict=True))


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
    newton = NoisyNewton.of(hessian, 0.0, 1.0)
    state = newton.start()
    for _ in range(3):
        state = newton.step(state, hessian @ (state.weights - optimum), 0.0, NoPenalty())
    assert np.allclose(state.weights, optimum)
    assert newton.energy(optimum) == pytest.approx(float(optimum @ hessian @ optimum))


def test_noise_without_signal_is_shrunk_away() -> None:
    newton = NoisyNewton.of(np.eye(3), 0.0, 3.0)
    state = newton.step(newton.start(), np.full(3, 1000.0), 1000.0, NoPenalty())
    assert np.abs(state.weights).max() < 0.01


@pytest.mark.parametrize("power", [0.0, -1.0])
@pytest.mark.parametrize("strength", [2.0, 0.3, 0.01])
def test_weights_are_kept_nearly_as_if_their_variances_were_known(strength: float, power: float) -> None:
    """In a score, at most a tenth more squared error than the posterior mean with the true variances has."""
    rng = np.random.default_rng(8)
    values = np.geomspace(5.0, 500.0, 60)
    newton = NoisyNewton.of(np.diag(values), 0.0, float(values.sum()))
    deviations = np.sqrt(strength * values.sum() * values**power / (values ** (power + 1)).sum())
    sigma = 50.0 * np.sqrt(strength)
    kept = (deviations * values) ** 2 / ((deviations * values) ** 2 + sigma**2)
    found, oracle = [], []
    for _ in range(100):
        true, told = deviations * rng.standard_normal(60), sigma * rng.standard_normal(60)
        state = newton.step(newton.start(), told - values * true, sigma, NoPenalty())
        found.append(values @ (state.weights - true) ** 2)
        oracle.append(values @ (kept * (true - told / values) - true) ** 2)
    assert np.mean(found) < 1.1 * np.mean(oracle)


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


@pytest.mark.parametrize("free", [False, True])
def test_one_step_minimises_the_penalised_problem_that_the_module_states(free: bool) -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((20, 4))
    hessian, gradient, sigma = a.T @ a, 5 * rng.standard_normal(4), 3.0
    newton = NoisyNewton.of(hessian, 0.0, 6.0, sampling=0.7, free=free)
    values, vectors = np.linalg.eigh(hessian)
    told = -vectors.T @ gradient
    noise = sigma**2 + 0.7 * values
    kept, whole = np.zeros(4), 0.0
    for power, often in [(0.0, 2), (-0.5, 1), (-1.0, 1)]:
        for variance, chance in [(2.0, 5), (2 * 0.1**0.5, 1), (0.2, 1), (0.2 * 0.1**0.5, 1), (0.02, 1), (0.0063246, 1)]:
            tau2 = variance * 6.0 * values**power / (values ** (power + 1)).sum()
            likely = often * chance * norm.pdf(told, 0, np.sqrt(tau2 * values**2 + noise)).prod()
            kept += likely * tau2 * values**2 / (tau2 * values**2 + noise)
            whole += likely
    kept /= whole
    prior = (vectors * (values * (1 / kept - 1))) @ vectors.T
    for penalty, value in [(L2(0.3), lambda u: 0.15 * u @ u), (L1(0.3), lambda u: 0.3 * np.abs(u).sum())]:
        found = newton.step(newton.start(), gradient, sigma, penalty, 7.0).weights

        def objective(u: np.ndarray, value=value) -> float:  # type: ignore[no-untyped-def]
            gap = u + np.linalg.solve(hessian, gradient)
            return float(gap @ hessian @ gap / 2 + u @ prior @ u / 2 + 7.0 * value(u[:-1] if free else u))

        oracle = minimize(objective, np.zeros(4), method="Powell", options={"xtol": 1e-10, "ftol": 1e-14})
        assert objective(found) <= oracle.fun + 1e-9


def test_cleaned_eigenvalues_are_nearer_to_what_the_true_matrix_has_along_the_noisy_eigenvectors() -> None:
    rng = np.random.default_rng(6)
    d, sigma = 40, 1.0
    true = np.diag(np.r_[[60.0, 25.0, 12.0], np.linspace(8.0, 0.0, d - 3)])
    raw, cleaned = [], []
    for _ in range(20):
        upper = np.triu(rng.standard_normal((d, d)) / np.sqrt(2), 1)
        noisy = true + sigma * (upper + upper.T + np.diag(rng.standard_normal(d)))
        newton = NoisyNewton.of(noisy, sigma, 1.0)
        wanted = np.einsum("ij,ik,kj->j", newton.vectors, true, newton.vectors)
        raw.append(np.mean((np.linalg.eigvalsh(noisy) - wanted) ** 2))
        cleaned.append(np.mean((newton.values - wanted) ** 2))
        assert (newton.values > 0).all()
    assert np.mean(cleaned) < 0.3 * np.mean(raw)


def test_averaging_by_precision_loses_nothing_of_the_budget() -> None:
    """Twelve gradients of a known quadratic tell as much as one that had their whole budget."""
    joint = Joint.for_mu(0.7, 0.25, 12, (4, 0.25), 1.0, Adjacency.REPLACE, 10_000)
    newton = NoisyNewton.of(np.eye(4), 0.0, 4.0)
    state = newton.start()
    for release in joint.gradients:
        state = newton.step(state, np.zeros(4), release.sigma, NoPenalty())
    assert 1 / np.sqrt(state.precision) == pytest.approx(2 / 0.7, rel=1e-3), "sigma = 2 B / mu"


@pytest.mark.parametrize("loss", [Logistic(), SoftLogistic(-0.6, 1.6), Hinge(), Huber()])
def test_no_slope_exceeds_the_bound_of_even_rows_at_any_score(loss: Loss) -> None:
    rng = np.random.default_rng(7)
    offset = rng.uniform(-5, 5, 200)
    values = [loss.low, loss.high] if isinstance(loss, SoftLogistic) else [-1.0, 1.0]
    labels = rng.choice(values, 200)
    lesson = Lesson(loss, labels, offset, rng.uniform(0.2, 2.0, 200), even=True)
    for moved in (-40.0, -3.0, -0.07, 0.0, 0.2, 40.0):
        assert np.abs(lesson.slopes(np.full(200, moved))).max() <= lesson.gradient_bound(1.0) * (1 + 1e-12)
    other = replace(lesson, labels=np.where(labels == values[0], values[1], values[0]))
    still = np.zeros(200)
    counted = lesson.slopes(still) * loss.gradient(offset, other.labels)
    assert np.allclose(counted, other.slopes(still) * loss.gradient(offset, labels)), "not by the row's own label"
    assert lesson.gradient_bound(1.0) <= Lesson(loss, labels, offset, lesson.weights).gradient_bound(1.0)


def test_even_logistic_rows_need_half_of_the_noise() -> None:
    labels, offset = np.array([1.0, -1.0, 1.0]), np.array([0.0, 2.0, -3.0])
    assert Lesson(Logistic(), labels, offset, np.ones(3), even=True).gradient_bound(1.0) == pytest.approx(0.5)


def test_even_rows_expect_no_slope_at_the_true_model_however_far_the_score_has_moved() -> None:
    z = np.linspace(-6, 6, 13)
    p = 1 / (1 + np.exp(-z))
    sides = [Lesson(Logistic(), np.full(13, y), np.zeros(13), np.ones(13), even=True) for y in (-1.0, 1.0)]
    both = [replace(side, labels=np.append(side.labels, [-1.0, 1.0]), offset=np.zeros(15), weights=np.ones(15))
            for side in sides]  # fmt: skip
    moved = np.append(z, [0.0, 0.0])
    expected = (1 - p) * both[0].slopes(moved)[:13] + p * both[1].slopes(moved)[:13]
    assert np.allclose(expected, 0, atol=1e-12)


def test_the_secant_is_that_of_numerical_integration_and_1_for_a_quadratic() -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    labels = np.array([-1.0, 1.0])
    lesson = Lesson(Logistic(), labels, np.zeros(2), np.ones(2))
    rise, _ = quad(lambda s: s / (1 + np.exp(-s)) * norm.pdf(s, scale=1.5), -12, 12)
    assert lesson.secant(1.5) == pytest.approx(rise / 1.5**2 / 0.25, rel=1e-3)
    assert replace(lesson, loss=Squared()).secant(3.0) == pytest.approx(1.0)
    assert lesson.secant(0.0) == 1.0
    assert lesson.secant(100.0) == 0.3, "a floor: noise in the weights must not feed on itself"
