import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from plait.errors import PrivacyError, SettingError
from plait.privacy.accountants import (
    Accountant,
    ExactAccountant,
    PaperAccountant,
    RdpAccountant,
    ZcdpAccountant,
    calibrate,
)
from plait.privacy.accounting import (
    Cost,
    check_delta,
    compose,
    delta_of,
    epsilon_of,
    log_delta,
    mu_of,
    noise_multiplier,
)

DELTA = 1e-5
ACCOUNTANTS: list[Accountant] = [ExactAccountant(), PaperAccountant(), ZcdpAccountant(), RdpAccountant()]

# rounds, epsilon, paper, zCDP, RDP, exact: computed by others, before this code existed.
TABLE = [
    (1, 0.5, 9.690, 9.700, 7.667, 7.032),
    (1, 1.0, 4.845, 4.901, 4.045, 3.731),
    (1, 3.0, 1.615, 1.698, 1.493, 1.391),
    (1, 8.0, 0.606, 0.690, 0.638, 0.600),
    (10, 0.5, 173.1, 30.68, 24.25, 22.24),
    (10, 1.0, 88.25, 15.50, 12.79, 11.80),
    (10, 3.0, 31.65, 5.369, 4.722, 4.397),
    (10, 8.0, 13.86, 2.183, 2.016, 1.898),
    (50, 0.5, 407.5, 68.59, 54.22, 49.72),
    (50, 8.0, 31.96, 4.882, 4.509, 4.244),
    (100, 1.0, 299.9, 49.01, 40.45, 37.31),
    (100, 3.0, 107.0, 16.98, 14.93, 13.91),
]


def delta_by_integration(epsilon: float, mu: float) -> float:
    """The hockey-stick divergence of N(mu, 1) and N(0, 1), integrated where it is positive."""
    start = epsilon / mu + mu / 2

    def excess(x: float) -> float:
        return float(norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x))

    return quad(excess, start, start + 40, points=[start, start + 1, start + 5], limit=400)[0]


def delta_by_mpmath(epsilon: float, mu: float) -> mpmath.mpf:
    with mpmath.workdps(80):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@pytest.mark.parametrize(("rounds", "epsilon", "paper", "zcdp", "rdp", "exact"), TABLE)
def test_noise_multipliers_match_the_independent_table(
    rounds: int, epsilon: float, paper: float, zcdp: float, rdp: float, exact: float
) -> None:
    assert noise_multiplier(epsilon, DELTA, rounds) == pytest.approx(exact, rel=1e-3)
    assert calibrate(PaperAccountant(), epsilon, DELTA, rounds) == pytest.approx(paper, rel=1.5e-3)
    assert calibrate(ZcdpAccountant(), epsilon, DELTA, rounds) == pytest.approx(zcdp, rel=1e-3)
    assert calibrate(RdpAccountant(), epsilon, DELTA, rounds) == pytest.approx(rdp, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "mu"), [(0.5, 0.1422), (1, 0.2681), (2, 0.5016), (3, 0.7191), (8, 1.666), (20, 3.448)]
)
def test_mu_matches_the_independent_table(epsilon: float, mu: float) -> None:
    assert mu_of(epsilon, DELTA) == pytest.approx(mu, rel=5e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_delta_equals_the_integrated_hockey_stick(epsilon: float, mu: float) -> None:
    assert delta_of(epsilon, mu) == pytest.approx(delta_by_integration(epsilon, mu), rel=1e-6, abs=1e-14)


@settings(deadline=None, max_examples=200)
@given(st.floats(0.0, 100.0), st.floats(1e-3, 30.0))
def test_log_delta_agrees_with_eighty_digit_arithmetic(epsilon: float, mu: float) -> None:
    exact = delta_by_mpmath(epsilon, mu)
    if exact > mpmath.mpf("1e-60"):
        assert log_delta(epsilon, mu) == pytest.approx(float(mpmath.log(exact)), rel=1e-9, abs=1e-10)


@pytest.mark.parametrize(("epsilon", "rounds"), [(0.5, 1), (1.0, 10), (8.0, 10), (3.0, 50)])
def test_epsilon_agrees_with_the_privacy_loss_distribution_of_dp_accounting(epsilon: float, rounds: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dp_accounting
        from dp_accounting.pld import PLDAccountant

        event = dp_accounting.SelfComposedDpEvent(
            dp_accounting.GaussianDpEvent(noise_multiplier(epsilon, DELTA, rounds)), rounds
        )
        oracle = PLDAccountant().compose(event).get_epsilon(DELTA)
    assert oracle == pytest.approx(epsilon, rel=2e-3)


@settings(deadline=None, max_examples=100)
@given(st.floats(0.01, 50.0), st.floats(-40.0, -1.0), st.integers(1, 1000))
def test_calibration_never_gives_less_privacy_than_asked(epsilon: float, log10_delta: float, rounds: int) -> None:
    delta = 10.0**log10_delta
    multiplier = noise_multiplier(epsilon, delta, rounds)
    assert delta_by_mpmath(epsilon, math.sqrt(rounds) / multiplier) <= delta * (1 + 1e-9)
    assert delta_by_mpmath(epsilon, math.sqrt(rounds) / multiplier * 1.001) > delta


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(ACCOUNTANTS), st.floats(0.05, 20.0), st.integers(1, 200))
def test_every_accountant_is_calibrated_from_the_safe_side(accountant: Accountant, epsilon: float, rounds: int) -> None:
    multiplier = calibrate(accountant, epsilon, DELTA, rounds)
    assert accountant.epsilon(multiplier, rounds, DELTA) <= epsilon
    assert accountant.epsilon(multiplier * 0.999, rounds, DELTA) > epsilon


@settings(deadline=None, max_examples=60)
@given(st.floats(0.2, 50.0), st.integers(1, 200))
def test_no_comparison_beats_the_exact_account_where_its_theorem_holds(multiplier: float, rounds: int) -> None:
    exact = ExactAccountant().epsilon(multiplier, rounds, DELTA)
    assert ZcdpAccountant().epsilon(multiplier, rounds, DELTA) >= exact
    assert RdpAccountant().epsilon(multiplier, rounds, DELTA) >= exact
    if PaperAccountant().step_epsilon(multiplier, rounds, DELTA) <= 1:
        assert PaperAccountant().epsilon(multiplier, rounds, DELTA) >= exact


def test_the_classical_sigma_is_wrong_for_a_large_epsilon() -> None:
    multiplier = calibrate(PaperAccountant(), 9.0, DELTA, 1)
    assert delta_of(9.0, 1 / multiplier) == pytest.approx(1.36e-5, rel=0.01)


@settings(deadline=None, max_examples=100)
@given(st.floats(0.01, 6.0), st.floats(-30.0, -1.0))
def test_epsilon_and_mu_are_inverse(mu: float, log10_delta: float) -> None:
    delta = 10.0**log10_delta
    epsilon = epsilon_of(mu, delta)
    if 1e-6 < epsilon < 100:
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-6)


def test_composition_adds_squares() -> None:
    assert compose([3.0, 4.0]) == 5.0
    assert compose([]) == 0.0
    assert (Cost(mu=3.0) + Cost(mu=4.0)).mu == 5.0
    assert Cost(mu=0.5, pure=0.1, slack=1e-9).times(4) == Cost(mu=1.0, pure=0.4, slack=4e-9)


def test_slack_raises_epsilon_and_the_result_holds() -> None:
    cost = Cost(mu=0.5, slack=1e-3)
    epsilon = cost.epsilon(DELTA)
    assert epsilon > epsilon_of(0.5, DELTA) + 1e-3
    assert math.exp(1e-3) * delta_of(epsilon - 1e-3, 0.5) <= DELTA * (1 + 1e-12)
    assert cost.delta(epsilon) <= DELTA * (1 + 1e-12)


def test_a_pure_cost_adds_to_epsilon() -> None:
    assert Cost(pure=1.0).epsilon(DELTA) == 1.0
    assert Cost(mu=0.5, pure=1.0).epsilon(DELTA) == pytest.approx(1.0 + epsilon_of(0.5, DELTA))
    assert Cost(mu=0.5, pure=1.0).delta(0.9) == 1.0


def test_no_guarantee_stays_none_under_composition() -> None:
    assert (Cost(mu=math.inf) + Cost(mu=0.1)).epsilon(DELTA) == math.inf
    assert Cost(mu=math.inf).delta(10.0) == 1.0


def test_epsilon_is_zero_when_delta_covers_everything() -> None:
    assert epsilon_of(0.01, 0.5) == 0.0
    assert np.isclose(delta_of(0.0, 0.01), 2 * norm.cdf(0.005) - 1)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, 1e4])
def test_absurd_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(SettingError, match="epsilon"):
        mu_of(epsilon, DELTA)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan])
def test_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(SettingError, match="delta"):
        mu_of(1.0, delta)


def test_delta_of_one_over_n_is_refused() -> None:
    check_delta(1e-5, records=32561)
    with pytest.raises(PrivacyError, match="1/N"):
        check_delta(1e-3, records=1000)


def test_no_rounds_is_refused() -> None:
    with pytest.raises(SettingError, match="rounds"):
        noise_multiplier(1.0, DELTA, 0)
