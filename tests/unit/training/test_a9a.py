"""The paper's data set with ten parties; needs PLAIT_DATA, a folder that holds a9a/a9a.xz."""

import numpy as np
import pytest
import scipy.sparse as sp

import plait
from plait.data.datasets import Dataset

pytestmark = pytest.mark.slow
OPTIMUM = 0.324506924713757  # logistic, L2(1e-4), no intercept, pooled


@pytest.fixture(scope="module")
def a9a(a9a_data: Dataset) -> tuple[sp.csr_matrix, np.ndarray]:
    return sp.hstack(list(a9a_data.parts.values()), format="csr"), a9a_data.y


def ten(x: sp.csr_matrix) -> list[sp.csr_matrix]:
    return [x[:, columns] for columns in np.array_split(np.arange(123), 10)]


def test_proximal_converges_with_ten_parties(a9a: tuple[sp.csr_matrix, np.ndarray]) -> None:
    x, y = a9a
    fit = plait.fit(
        ten(x), y, penalty=plait.L2(1e-4), stopping=plait.Stopping(max_rounds=600, tol=1e-6), fit_intercept=False
    )
    assert fit.converged
    assert fit.objective == pytest.approx(OPTIMUM, rel=1e-6)


@pytest.mark.parametrize("rho", [0.01, 0.1])
def test_jacobi_is_reported_as_diverging_with_ten_parties(a9a: tuple[sp.csr_matrix, np.ndarray], rho: float) -> None:
    x, y = a9a
    rounds: list[plait.Round] = []
    with pytest.raises(plait.DivergedError, match="Proximal"):
        plait.fit(ten(x), y, penalty=plait.L2(1e-4), method=plait.Jacobi(rho=rho), callbacks=[rounds.append])
    assert len(rounds) <= 30


def test_two_parties_reach_the_published_optimum(a9a: tuple[sp.csr_matrix, np.ndarray]) -> None:
    x, y = a9a
    fit = plait.fit(
        [x[:, :66], x[:, 66:]],
        y,
        penalty=plait.L2(1e-4),
        stopping=plait.Stopping(max_rounds=600, tol=1e-7),
        fit_intercept=False,
    )
    assert fit.objective == pytest.approx(OPTIMUM, rel=1e-6)


@pytest.mark.parametrize(
    ("widths", "sums_only", "limits"),
    [([66, 57], False, (4, 8, 10)), ([66, 57], True, (4, 11, 13)), ([13] * 9 + [6], False, (6, 8, 13))],
    ids=["two parties", "two parties, sums only", "ten parties"],
)
def test_the_subspace_method_needs_few_rounds(
    a9a: tuple[sp.csr_matrix, np.ndarray], widths: list[int], sums_only: bool, limits: tuple[int, ...]
) -> None:
    x, y = a9a
    ends = np.cumsum(widths)
    parts = [x[:, end - width : end] for end, width in zip(ends, widths, strict=True)]
    stopping = plait.Stopping(tol=0.0, max_rounds=40, objective=OPTIMUM * (1 + 1e-6))
    fit = plait.fit(
        parts,
        y,
        penalty=plait.L2(1e-4),
        method=plait.Subspace(sums_only=sums_only),
        stopping=stopping,
        fit_intercept=False,
    )
    for precision, limit in zip((1e-3, 1e-4, 1e-6), limits, strict=True):
        reached = [r.round for r in fit.history if r.objective <= OPTIMUM * (1 + precision) + 1e-10]
        assert reached[0] <= limit
