from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import BudgetError, InputError, PrivacyError, SettingError
from plait.privacy.accounting import delta_of
from plait.privacy.combine import Sketch, posterior_mean, shares
from plait.privacy.ledger import Budget, Ledger, fingerprint
from plait.privacy.newton import NoisyNewton
from plait.privacy.noise import InsecureTestNoise
from plait.privacy.onepass import fit_one_pass
from plait.privacy.own import SoftLogistic, label_noise_factor, out_of_fold_scores
from plait.privacy.recommended import Recommended
from plait.privacy.rows import Adjacency


def data(n: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    own, other = rng.standard_normal((n, 4)) / 2, rng.standard_normal((n, 5)) / 2
    z = own @ [2, -1, 0, 1] + other @ [3, -3, 2, 0, 1]
    return own, other, (rng.random(n) < 1 / (1 + np.exp(-z))).astype(float)


def log_loss(z: np.ndarray, t: np.ndarray) -> float:
    return float(np.mean(np.logaddexp(0, z) - t * z))


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
    # The sum of squares from the noise that is really added, without rounding or grid.
    factor = adjacency.factor
    mu2 = factor * 0.25**2 / plan.gram.sigma**2 + gradients * (factor / plan.gradient.sigma) ** 2
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
    assert words == "every record's features are protected with epsilon = 1.00, delta = 1e-05 (replace one record)"


def test_with_a_large_budget_the_pass_comes_close_to_pooled_training() -> None:
    from sklearn.linear_model import LogisticRegression

    own, other, t = data(6000)
    model = fit_one_pass(own[:4000], [other[:4000]], t[:4000], Recommended(20.0), InsecureTestNoise(0), radii=(3, 3))
    z = model.score(own[4000:], [other[4000:]])
    pooled = LogisticRegression(C=1.0).fit(np.hstack([own, other])[:4000], t[:4000])
    reference = log_loss(pooled.decision_function(np.hstack([own, other])[4000:]), t[4000:])
    alone = LogisticRegression(C=1.0).fit(own[:4000], t[:4000])
    local = log_loss(alone.decision_function(own[4000:]), t[4000:])
    assert log_loss(z, t[4000:]) < reference + 0.25 * (local - reference)


def test_the_same_noise_gives_the_same_model_and_other_noise_another() -> None:
    own, other, t = data(500)

    def fit(seed: int) -> np.ndarray:
        return fit_one_pass(own, [other], t, Recommended(1.0), InsecureTestNoise(seed)).helpers[0].weights

    assert np.array_equal(fit(0), fit(0))
    assert not np.array_equal(fit(0), fit(1))


def test_identical_helpers_share_one_signal() -> None:
    own, other, t = data(6000)
    fit = fit_one_pass(own, [other, other], t, Recommended(8.0), InsecureTestNoise(0), radii=(3, 3, 3))
    assert 0.8 < fit.shares.sum() < 1.3


def test_helpers_with_different_signals_are_both_used() -> None:
    own, other, t = data(6000)
    halves = [other[:, :2], other[:, 2:]]
    fit = fit_one_pass(own, halves, t, Recommended(8.0), InsecureTestNoise(0), radii=(3, 3, 3))
    assert fit.shares.sum() > 1.4


def test_without_an_offset_a_helper_sees_nothing_of_the_own_features() -> None:
    own, other, t = data(800)

    def helper(own_rows: np.ndarray) -> np.ndarray:
        fit = fit_one_pass(own_rows, [other], t, Recommended(1.0), InsecureTestNoise(0), send_offset=False)
        return fit.helpers[0].weights

    assert np.array_equal(helper(own), helper(own[::-1]))


def test_parties_with_different_records_are_refused() -> None:
    own, other, t = data(100)
    with pytest.raises(InputError, match="same records"):
        fit_one_pass(own, [other[:50]], t, Recommended(1.0, delta=1e-6), InsecureTestNoise(0))


def test_an_overfitting_own_model_still_leaves_residuals() -> None:
    rng = np.random.default_rng(0)
    rows, t = rng.standard_normal((60, 100)), rng.integers(0, 2, 60).astype(float)
    scores = out_of_fold_scores(rows, t, SoftLogistic(), 0.1)
    assert log_loss(scores, t) > 0.5


def test_exact_gradients_of_a_quadratic_reach_its_optimum() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((20, 4))
    hessian, optimum = a.T @ a, rng.standard_normal(4)
    newton = NoisyNewton.of(hessian, 0.0)
    state = newton.start()
    for _ in range(3):
        state = newton.step(state, hessian @ (state.weights - optimum), 0.0, 0.0)
    assert np.allclose(state.weights, optimum)
    assert newton.energy(optimum) == pytest.approx(float(optimum @ hessian @ optimum))


def test_noise_without_signal_is_shrunk_away() -> None:
    newton = NoisyNewton.of(np.eye(3), 0.0)
    state = newton.step(newton.start(), np.full(3, 1000.0), 1000.0, 0.0)
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
    alpha = shares([float(s1 @ s1), float(s2 @ s2)], sketches)
    assert alpha == pytest.approx([1 / 1.6, 1 / 1.6], abs=0.02)


def test_every_helper_is_charged_once_and_the_next_run_beyond_the_budget_is_refused(tmp_path: Path) -> None:
    own, other, t = data(400)
    ledgers = [Ledger(tmp_path, name, fingerprint(name.encode()), Budget(1.0)) for name in ("bank", "shop")]

    def fit(run: str) -> object:
        return fit_one_pass(own, [other, other], t, Recommended(1.0), InsecureTestNoise(0), run=run, ledgers=ledgers)

    fit("first")
    fit("first")
    for ledger in ledgers:
        assert len(ledger.charges()) == 1
        assert ledger.spent().epsilon(1e-5) == pytest.approx(1.0, rel=1e-3)
        assert ledger.spent().delta(1.0) <= 1e-5
    with pytest.raises(BudgetError):
        fit("second")


@pytest.mark.parametrize("change", [{"penalty": 2.0}, {"send_offset": False}, {"radii": (1.0, 2.0)}])
def test_a_fit_that_releases_anything_else_pays_again(tmp_path: Path, change: dict[str, object]) -> None:
    own, other, t = data(400)
    ledger = Ledger(tmp_path, "bank", fingerprint(b"bank"), Budget(5.0))

    def fit(**settings_: object) -> None:
        fit_one_pass(own, [other], t, Recommended(1.0), InsecureTestNoise(0), ledgers=[ledger], **settings_)  # type: ignore[arg-type]

    fit()
    fit(**change)
    assert len(ledger.charges()) == 2


def test_only_noisy_targets_raise_the_penalty() -> None:
    assert label_noise_factor(np.array([0.0, 1.0, 1.0])) == 1.0
    assert label_noise_factor(np.array([-0.6, 1.6, 1.6])) > 3
