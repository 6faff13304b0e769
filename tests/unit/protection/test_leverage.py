"""Leverage: against QR, against a real attack on coin-flip labels, and the limits that follow."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from plait.errors import PrivacyError
from plait.protection.leverage import check_rows, check_width, label_exposure, leverages


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_leverages_are_the_diagonal_of_the_hat_matrix(kind: type) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 6)) * (rng.random((500, 6)) < 0.5)
    x = np.column_stack([x, x[:, 0] - x[:, 1]])  # linearly dependent
    for intercept in (False, True):
        wide = np.column_stack([np.ones(500), x[:, :6]]) if intercept else x[:, :6]
        q, _ = np.linalg.qr(wide)
        found = leverages(kind(x), intercept)
        np.testing.assert_allclose(found.rows, (q**2).sum(axis=1), atol=1e-10)


@pytest.mark.parametrize(("rows", "columns"), [(2000, 20), (300, 100)])
def test_the_rule_predicts_how_often_an_attack_reads_a_label(rows: int, columns: int) -> None:
    """Least squares on D^T y, y coin flips: the share of rows read is the mean of the rule."""
    rng = np.random.default_rng(1)
    data = rng.standard_normal((rows, columns))
    y = np.sign(rng.standard_normal((rows, 400)))
    guessed = data @ np.linalg.solve(data.T @ data, data.T @ y)
    read = float(np.mean(np.sign(guessed) == y))
    predicted = float(label_exposure(leverages(data, intercept=False).rows).mean())
    deviation = 0.5 / np.sqrt(400 * rows)
    assert abs(read - predicted) < 6 * deviation + 0.002  # the rule treats the other rows' part as normal
    assert read > 0.5 + 0.3 * np.sqrt(columns / rows)  # the attack is not an idle one


def test_exposure_at_its_ends() -> None:
    np.testing.assert_allclose(label_exposure(np.array([0.0, 0.5, 1.0])), [0.5, norm.cdf(1), 1.0])


def test_a_row_that_stands_alone_is_refused() -> None:
    rng = np.random.default_rng(2)
    data = (rng.random((1000, 4)) < 0.3) * 1.0
    check_rows(leverages(data))
    rare = np.column_stack([data, np.eye(1, 1000, 17)[0]])  # a category that one row has
    found = leverages(rare)
    assert found.refused.tolist() == [17]
    with pytest.raises(PrivacyError, match=r"Found 1 rows above it \(rows 17; largest 1.000\)"):
        check_rows(found)
    assert "largest leverage 1 " in str(found)


def test_many_columns_are_warned_of_and_too_many_refused() -> None:
    assert check_width(10_000, 100) is None
    warned = check_width(10_000, 101)
    assert warned is not None
    assert "probability 0.540" in warned
    with pytest.raises(PrivacyError, match="at most 10%"):
        check_width(10_000, 1001)
