"""The party's x-update: every solver against a dense reference, in every shape."""

import numpy as np
import pytest
import scipy.sparse as sp

import plait
from plait.methods.admm import x_update
from plait.methods.admm.x_update import Composite, DualRidge, IterativeRidge, LocalSolver, PrimalRidge, choose_solver
from plait.problem.features import Features
from plait.problem.penalties import Penalty
from tests.oracle import LOSSES, Problem, Terms, solve

RIDGE_SOLVERS = [PrimalRidge, DualRidge, IterativeRidge, Composite]


def matrix(kind: str) -> np.ndarray:
    rng = np.random.default_rng(3)
    d = rng.standard_normal({"tall": (50, 8), "wide": (8, 50), "duplicated": (50, 8), "deficient": (8, 50)}[kind])
    if kind == "duplicated":
        d[:, 4:] = d[:, :4]
    if kind == "deficient":
        d[4:] = d[:4]
    return d


def update(solver: LocalSolver, kappa: float, centre: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return solver.solve(kappa, centre, shift, solver.features.adjoint(shift))


def ridge_reference(d: np.ndarray, ridge: float, kappa: float, centre: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Least squares on the stacked system: the least-norm minimiser when there is no ridge."""
    rows = np.vstack([np.sqrt(kappa) * d, np.sqrt(ridge) * np.eye(d.shape[1])])
    right = np.concatenate([np.sqrt(kappa) * (d @ centre - shift), np.zeros(d.shape[1])])
    return np.linalg.lstsq(rows, right, rcond=None)[0]


@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", ["tall", "wide", "duplicated", "deficient"])
@pytest.mark.parametrize("solver", RIDGE_SOLVERS)
def test_ridge_update_is_the_stacked_least_squares_solution(solver: type[LocalSolver], kind: str, form: str) -> None:
    d = matrix(kind)
    features = Features(d if form == "dense" else sp.csr_matrix(d))
    rng = np.random.default_rng(1)
    one = solver(features, plait.L2(0.3))
    for kappa in (1e-3, 0.2, 30.0):  # one solver, one factorisation, many weights
        centre, shift = rng.standard_normal(d.shape[1]), rng.standard_normal(d.shape[0])
        expected = ridge_reference(d, 0.3, kappa, centre, shift)
        assert update(one, kappa, centre, shift) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("kind", ["tall", "wide", "duplicated", "deficient"])
@pytest.mark.parametrize("solver", RIDGE_SOLVERS)
def test_update_without_penalty_fits_as_well_as_least_squares(solver: type[LocalSolver], kind: str) -> None:
    d = matrix(kind)
    rng = np.random.default_rng(2)
    centre, shift = rng.standard_normal(d.shape[1]), rng.standard_normal(d.shape[0])
    x = update(solver(Features(d), plait.NoPenalty()), 0.7, centre, shift)
    best = ridge_reference(d, 0.0, 0.7, centre, shift)
    target = d @ centre - shift
    assert np.linalg.norm(d @ x - target) <= np.linalg.norm(d @ best - target) + 1e-7
    if solver in (PrimalRidge, DualRidge):
        assert x == pytest.approx(best, abs=1e-8)


@pytest.mark.parametrize(
    ("penalty", "terms"),
    [
        (plait.L1(0.2), Terms(l1=0.2)),
        (plait.ElasticNet(0.4, 0.5), Terms(l1=0.2, ridge=0.2)),
        (plait.Box(-0.3, 0.3), Terms(lower=-0.3, upper=0.3)),
        (plait.Ball(0.5), Terms(radius=0.5)),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["tall", "wide", "duplicated"])
@pytest.mark.parametrize("limit", [4096, 4])
def test_composite_update_is_optimal(
    penalty: Penalty, terms: Terms, kind: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plait.problem.features.GRAM_LIMIT", limit)
    d = matrix(kind)
    n, width = d.shape
    rng = np.random.default_rng(6)
    centre, shift = rng.standard_normal(width), rng.standard_normal(n)
    x = update(choose_solver(Features(d), penalty), 0.5, centre, shift)
    # mean of (z - y)^2 / 2 over n rows, y = D centre - shift, is the update's objective divided by kappa n.
    scaled = Terms(terms.ridge / (0.5 * n), terms.l1 / (0.5 * n), (), terms.lower, terms.upper, terms.radius)
    problem = Problem(LOSSES["Squared"], d, d @ centre - shift, ((0, width, scaled),))
    assert terms.violation(x) <= 1e-12
    assert problem.objective(x) <= solve(problem, 1e-11)[0] * (1 + 1e-7) + 1e-9


@pytest.mark.parametrize(
    ("shape", "penalty", "limit", "expected"),
    [
        ((50, 8), plait.L2(1.0), 4096, PrimalRidge),
        ((8, 50), plait.L2(1.0), 4096, DualRidge),
        ((50, 8), plait.L2(1.0), 10, PrimalRidge),
        ((8, 50), plait.L2(1.0), 10, DualRidge),
        ((50, 40), plait.L2(1.0), 10, IterativeRidge),
        ((50, 8), plait.NoPenalty(), 4096, PrimalRidge),
        ((50, 8), plait.L1(1.0), 4096, Composite),
        ((8, 50), plait.Box(0.0, 1.0), 4, Composite),
    ],
)
def test_solver_follows_penalty_and_shape(
    shape: tuple[int, int], penalty: Penalty, limit: int, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plait.problem.features.GRAM_LIMIT", limit)
    assert type(choose_solver(Features(np.ones(shape)), penalty)) is expected


@pytest.mark.parametrize("solver", [PrimalRidge, IterativeRidge])
@pytest.mark.parametrize("ridge", [0.0, 1e-4])
def test_badly_scaled_columns_are_all_fitted(solver: type[LocalSolver], ridge: float) -> None:
    rng = np.random.default_rng(8)
    s = np.geomspace(1e-6, 1e6, 7)
    d = rng.standard_normal((60, 7)) * s
    centre, shift = np.zeros(7), rng.standard_normal(60)
    kappa = 1 / 60

    def cost(x: np.ndarray) -> float:
        return ridge / 2 * float(x @ x) + kappa / 2 * float(np.sum((d @ x + shift) ** 2))

    # The same problem in columns of unit size, solved by least squares.
    rows = np.vstack([np.sqrt(kappa) * d / s, np.sqrt(ridge) * np.diag(1 / s)])
    best = np.linalg.lstsq(rows, np.concatenate([-np.sqrt(kappa) * shift, np.zeros(7)]), rcond=None)[0] / s
    x = update(solver(Features(d), plait.L2(ridge)), kappa, centre, shift)
    assert cost(x) <= cost(best) * (1 + 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [plait.L2(1e-2), plait.L1(4e-3), plait.NonNegative() + plait.L1(4e-3)], ids=str)
def test_two_hundred_thousand_columns_without_forming_anything_dense(
    penalty: Penalty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plait.problem.features.GRAM_LIMIT", 100)
    rng = np.random.default_rng(9)
    d = sp.random(300, 200_000, density=1e-3, format="csr", random_state=rng)
    shift = rng.standard_normal(300)
    assert np.abs(d.T @ shift / 300).max() > 8e-3
    solver = choose_solver(Features(d), penalty)
    for name in ("toarray", "todense"):
        monkeypatch.setattr(
            type(d),
            name,
            lambda m, *_, **__: pytest.fail("made dense") if m.shape[1] > 1000 else np.asarray(m @ np.eye(m.shape[1])),
        )
    x = update(solver, 1 / 300, np.zeros(200_000), shift)
    gradient = d.T @ (d @ x + shift) / 300
    step = 300 / sp.linalg.svds(d, k=1, return_singular_vectors=False)[0] ** 2
    gap = np.abs(x - penalty.prox(x - step * gradient, step)).max() / step
    assert gap <= 1e-6 * np.abs(d.T @ shift / 300).max()


def test_conjugate_gradients_solve_a_singular_system() -> None:
    rng = np.random.default_rng(1)
    a = rng.standard_normal((5, 9))
    q, right = a.T @ a, a.T @ rng.standard_normal(5)
    x = x_update.conjugate_gradients(lambda v: q @ v, right, np.zeros(9), lambda r: r, 1e-12)
    assert q @ x == pytest.approx(right, abs=1e-9)
