"""Whole numbers for columns and gradients: within their norms, and within the stated error."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import InputError
from plait.protection.fixed_point import encode_columns, encode_gradient, encoding_error
from plait.protection.parameters import COUNTS, REALS


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array, sp.csr_matrix])
def test_zero_and_one_columns_are_exact_in_every_form(kind: type) -> None:
    dense = (np.random.default_rng(0).random((400, 5)) < 0.2) * np.array([1.0, 0.1, 3.7, -2.0, 0.0])
    columns = encode_columns(kind(dense))
    assert columns.parameters is COUNTS
    assert columns.exact.all()
    values = columns.values.toarray() if sp.issparse(columns.values) else columns.values
    np.testing.assert_allclose(values / columns.scale, dense, rtol=1e-15)
    np.testing.assert_array_equal(np.stack([columns.column(j) for j in range(5)], axis=1), values)


@given(
    st.integers(1, 3000),
    st.floats(-30, 30),
    st.sampled_from(["normal", "lognormal", "counts", "one large"]),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_norms_stay_below_their_bounds_and_errors_too(rows: int, power: float, law: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    column = {
        "normal": rng.standard_normal(rows),
        "lognormal": rng.lognormal(sigma=3, size=rows),
        "counts": rng.integers(-5, 100_000, rows).astype(float),
        "one large": np.eye(1, rows)[0] * 1e5 + rng.random(rows),
    }[law] * 10.0**power
    g = rng.standard_normal(rows) * 10.0**-power
    columns = encode_columns(column[:, None])
    whole, exponent = encode_gradient(g, columns.parameters)
    assert np.linalg.norm(columns.values) < 2.0**columns.parameters.column_bits
    assert np.linalg.norm(whole.astype(float)) < 2.0**columns.parameters.gradient_bits
    product = np.array([sum(int(x) * int(y) for x, y in zip(columns.column(0), whole, strict=True))])
    error = np.abs(columns.decode(product, exponent) - column @ g)
    rounding = 1e-12 * np.abs(column) @ np.abs(g)
    assert error <= encoding_error(columns, float(np.abs(g).sum()), exponent) + rounding
    assert error <= 2.0**-20 * np.linalg.norm(column) * np.linalg.norm(g) * np.sqrt(rows)


def test_tables_that_cannot_be_encoded_are_refused() -> None:
    for bad in (np.array([[np.nan]]), np.array([[np.inf]]), np.ones(3), np.ones((0, 2)), np.ones((3, 0))):
        with pytest.raises(InputError):
            encode_columns(bad)
    with pytest.raises(InputError, match="Use mlwe-128-reals"):
        encode_columns(np.random.default_rng(0).random((5_000_000, 1)), COUNTS)
    with pytest.raises(InputError, match="finite"):
        encode_gradient(np.array([1.0, np.nan]), REALS)


@pytest.mark.parametrize("seed", range(4))
def test_a_gradient_rounded_inward_stays_within_its_bounds_and_sums_to_zero(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bound = rng.random(500) * [1, 1e-6, 1e3, 1][seed] + 1e-12
    bound[:2] = bound.sum() if seed == 3 else bound[:2]  # two rows outweigh all others
    g = np.where(rng.random(500) < 0.5, bound, -bound)
    g[0] -= g.sum()
    whole, exponent = encode_gradient(g, COUNTS, inward=True)
    assert (np.abs(np.ldexp(whole.astype(float), exponent)) <= np.abs(g)).all()
    assert whole.sum() == 0
    assert np.abs(np.ldexp(whole.astype(float), exponent) - g).max() <= 2.0**-25 * np.linalg.norm(g)
    nearest, exponent = encode_gradient(g, COUNTS)
    assert (np.abs(np.ldexp(nearest.astype(float), exponent)) > np.abs(g)).any()
