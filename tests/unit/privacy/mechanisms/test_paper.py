import math

import numpy as np
import pytest
from scipy.optimize import minimize

from plait.errors import InputError, PrivacyError, SettingError
from plait.privacy.accounting import delta_of
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.mechanisms.noisy_admm import MechanismA, column_sensitivity
from plait.privacy.mechanisms.paper import (
    ColumnNoise,
    NoPrivacy,
    PaperMechanism,
    PaperNoise,
    check_unit_rows,
    minimise_on_ball,
    to_ball,
)
from plait.privacy.noise import InsecureTestNoise, Release


def paper(**changes: float) -> PaperMechanism:
    settings = {"epsilon": 1.0, "delta": 1e-5, "bound": 1.0, "rho": 356.0, "parties": 2, "penalty": 1e-3}
    return PaperMechanism(**{**settings, **changes})  # type: ignore[arg-type]


def test_the_papers_constants_are_reproduced() -> None:
    assert paper().sensitivity(64) == pytest.approx(0.0939, rel=1e-2)
    assert paper(rho=60.0, parties=3).sensitivity(512) == pytest.approx(0.0177, rel=1e-2)
    assert paper().scale(64) == pytest.approx(4.845 * 0.0939, rel=1e-2)


def test_the_papers_sensitivity_lemma_is_false() -> None:
    # Unit rows, one column differs by one sign, and the share moves by 6.4 times the claimed bound.
    rng = np.random.default_rng(0)
    n, d = 4000, 64
    one = rng.standard_normal((n, d))
    one[:, 0] = 0.0
    one[:2, 0] = 0.0
    one /= np.linalg.norm(one, axis=1)[:, None]
    one[:2, 1:] *= math.sqrt(0.75)
    one[:2, 0] = 0.5
    two = one.copy()
    two[1, 0] = -0.5
    check_unit_rows(one)
    check_unit_rows(two)
    z = np.zeros(n)
    z[:2] = 0.6 / math.sqrt(2)

    def share(matrix: np.ndarray) -> np.ndarray:
        gram = matrix.T @ matrix + 1e-3 / 356 * np.eye(d)
        return matrix @ np.linalg.solve(gram, matrix.T @ z)

    assert np.linalg.norm(share(one) - share(two)) > 6 * paper().sensitivity(d)


def test_nothing_is_guaranteed_and_says_so() -> None:
    for mechanism in (paper(), PaperNoise(1.0), NoPrivacy()):
        assert math.isinf(mechanism.cost.mu)
        assert mechanism.guarantee.startswith("none")


@pytest.mark.parametrize("change", [{"epsilon": 1.5}, {"epsilon": 0.0}, {"rho": 0.0}, {"bound": -1.0}])
def test_settings_outside_the_papers_theorem_are_refused(change: dict[str, float]) -> None:
    settings = {"epsilon": 1.0, "delta": 1e-5, "bound": 1.0, "rho": 1.0, "parties": 2, "penalty": 1e-3}
    with pytest.raises(SettingError):
        PaperMechanism(**{**settings, **change})  # type: ignore[arg-type]


def test_the_noise_has_the_pseudo_inverse_covariance_of_a_rank_deficient_matrix() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((30, 3)) @ rng.standard_normal((3, 5))
    noise = ColumnNoise.of(matrix.T @ matrix)
    assert noise.rank == 3
    stream = InsecureTestNoise(0).stream(Release("r", "p", 0, "paper", ""))
    assert np.allclose(noise.factor @ noise.factor.T, np.linalg.pinv(matrix.T @ matrix))
    draws = np.array([noise.sample(2.0, stream) for _ in range(200)])
    assert np.mean((matrix @ draws.T) ** 2) * 30 == pytest.approx(3 * 4, rel=0.2)
    projector = matrix @ np.linalg.pinv(matrix)
    assert np.allclose(projector @ matrix @ draws[0], matrix @ draws[0])
    with pytest.raises(InputError, match="rank 0"):
        ColumnNoise.of(np.zeros((2, 2)))


def test_rows_of_another_norm_are_refused() -> None:
    with pytest.raises(PrivacyError, match="row 1"):
        check_unit_rows(np.array([[1.0, 0.0], [0.0, 0.0]]))


@pytest.mark.parametrize("radius", [0.1, 1.0, 100.0])
def test_the_secular_equation_solves_the_ball_problem(radius: float) -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((6, 4))
    hessian, linear = a.T @ a, rng.standard_normal(4) * 3
    x = minimise_on_ball(hessian, linear, radius)
    oracle = minimize(
        lambda v: v @ hessian @ v / 2 + linear @ v,
        np.zeros(4),
        jac=lambda v: hessian @ v + linear,
        constraints={"type": "ineq", "fun": lambda v: radius**2 - v @ v, "jac": lambda v: -2 * v},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.linalg.norm(x) <= radius * (1 + 1e-12)
    assert np.allclose(x, oracle.x, atol=1e-5 * max(1, radius))


def test_projection_keeps_short_vectors_and_shortens_long_ones() -> None:
    assert np.array_equal(to_ball(np.array([0.6, 0.0]), 1.0), [0.6, 0.0])
    assert to_ball(np.array([3.0, 4.0]), 1.0) == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("kappa", [0.1, 1.0, 20.0])
def test_no_neighbour_moves_mechanism_a_beyond_its_sensitivity(adjacency: Adjacency, kappa: float) -> None:
    mechanism = MechanismA(1.0, 5, kappa, adjacency=adjacency, radius=3.0)
    rng = np.random.default_rng(3)
    worst = 0.0
    for _ in range(200):
        n, d = int(rng.integers(2, 12)), int(rng.integers(1, 5))
        one = rng.standard_normal((n, d)) * 2
        two = one.copy()
        two[0] = 0.0 if adjacency is Adjacency.ZERO_OUT else rng.choice([-1.0, 1.0]) * one[0] * rng.uniform(0, 1)
        s = rng.standard_normal(n) * 3
        moved = mechanism.value(ClippedRows.of(one), s) - mechanism.value(ClippedRows.of(two), s)
        worst = max(worst, float(np.linalg.norm(moved)))
    assert 0 < worst <= mechanism.sensitivity


def test_mechanism_a_stays_within_its_budget() -> None:
    mechanism = MechanismA(2.0, 10, 1.0)
    assert mechanism.cost(5000).times(10).delta(2.0) <= 1e-5
    exact = math.sqrt(10) * mechanism.sensitivity / mechanism.grid(5000).sigma
    assert delta_of(2.0, exact * 1.01) > 1e-5
    rows = ClippedRows.of(np.eye(3))
    stream = InsecureTestNoise(0).stream(Release("r", "p", 0, "a", ""))
    assert mechanism.release(rows, np.ones(3), stream).shape == (3,)


def test_mechanism_a_without_strong_convexity_is_refused() -> None:
    with pytest.raises(SettingError, match="kappa"):
        MechanismA(1.0, 5, 0.0)


def test_hiding_a_column_costs_almost_as_much_as_hiding_the_party() -> None:
    assert column_sensitivity(180.0, math.sqrt(5192), 100.0) == pytest.approx(177, abs=0.7)
