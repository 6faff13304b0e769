"""The paper's data set with ten parties; needs PLAIT_DATA, a folder that holds a9a/a9a.xz."""

import lzma
import os
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

import plait

FILE = Path(os.environ.get("PLAIT_DATA", "")) / "a9a" / "a9a.xz"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "PLAIT_DATA" not in os.environ or not FILE.exists(), reason="PLAIT_DATA names no folder with a9a/a9a.xz"
    ),
]
OPTIMUM = 0.324506924713757  # logistic, L2(1e-4), no intercept, pooled


@pytest.fixture(scope="module")
def a9a() -> tuple[sp.csr_matrix, np.ndarray]:
    return load_svmlight_file(BytesIO(lzma.decompress(FILE.read_bytes())), n_features=123)


def ten(x: sp.csr_matrix) -> list[sp.csr_matrix]:
    return [x[:, columns] for columns in np.array_split(np.arange(123), 10)]


def test_proximal_converges_with_ten_parties(a9a: tuple[sp.csr_matrix, np.ndarray]) -> None:
    x, y = a9a
    fit = plait.fit(ten(x), y, penalty=plait.L2(1e-4), stopping=plait.Stopping(max_rounds=600, tol=1e-6))
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
        [x[:, :66], x[:, 66:]], y, penalty=plait.L2(1e-4), stopping=plait.Stopping(max_rounds=600, tol=1e-7)
    )
    assert fit.objective == pytest.approx(OPTIMUM, rel=1e-6)
