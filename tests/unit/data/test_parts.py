"""Bad input is refused before round 1, by party and column."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import plait
from plait.data.parts import read_labels, read_parts, read_weights
from tests.extras import polars as pl

X = np.arange(12.0).reshape(4, 3)
Y = np.array([0.0, 1.0, 0.0, 1.0])


def refused(parts: Any, y: Any = Y, **options: Any) -> str:
    with pytest.raises(plait.InputError) as caught:
        plait.fit(parts, y, **options)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, plait.PlaitError)
    return str(caught.value)


def test_rows_must_match() -> None:
    message = refused({"bank": X, "shop": X[:3]})
    assert "'bank'" in message
    assert "4 rows" in message
    assert "3 at 'shop'" in message


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("form", ["array", "pandas", "polars", "csr"])
def test_values_must_be_finite_and_the_place_is_named(bad: float, form: str) -> None:
    table = X.copy()
    table[2, 1] = bad
    names = ["age", "income", "debt"]
    forms = {
        "array": table,
        "pandas": pd.DataFrame(table, columns=names),
        "polars": pl.DataFrame(table, schema=names),
        "csr": sp.csr_matrix(table),
    }
    message = refused({"bank": X, "shop": forms[form]})
    assert "'shop'" in message
    assert ("'income'" if form in ("pandas", "polars") else "'1'") in message
    assert "row 2" in message


def test_text_columns_are_named() -> None:
    frame = pd.DataFrame({"age": [1, 2, 3, 4], "city": ["a", "b", "c", "d"]})
    message = refused({"bank": X, "shop": frame})
    assert "'shop'" in message
    assert "'city'" in message


def test_missing_values_in_a_nullable_column_are_refused() -> None:
    frame = pd.DataFrame({"age": pd.array([1, None, 3, 4], dtype="Int64")})
    assert "'age'" in refused({"shop": frame})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], "at least one party"),
        ({}, "at least one party"),
        (X, "list of matrices"),
        ("bank", "list of matrices"),
        ([X, X[:, :0]], "'party 1' must hold at least one column"),
        ([X[:0]], "at least one row"),
        ([X[:, 0]], "one dimension"),
        ([X.reshape(4, 3, 1)], "Found shape"),
        ([X + 1j], "real numbers"),
        ([sp.csr_matrix(X + 1j)], "real numbers"),
        ({1: X, "1": X}, "name of its own. Found '1' twice"),
    ],
)
def test_impossible_parts_are_refused(parts: Any, expected: str) -> None:
    assert expected in refused(parts)


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (Y[:3], "one label per row. Found 3 labels for 4 rows"),
        ([0, 1, np.nan, 1], "labels must be finite. Found nan in row 2"),
        ([1, 1, 1, 1], "at least two values. Found only 1"),
        (["a", "b", "a", "b"], "must be numbers"),
        (np.zeros((4, 2)), "shape (4, 2)"),
        ([0, 1, 2, 1], "needs labels -1/+1 or 0/1"),
    ],
)
def test_impossible_labels_are_refused(y: Any, expected: str) -> None:
    assert expected in refused([X], y)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([1.0, 1.0], "one sample weight per row"),
        ([1.0, -1.0, 1.0, 1.0], "not negative. Found -1"),
        ([1.0, np.nan, 1.0, 1.0], "finite"),
        ([0.0, 0.0, 0.0, 0.0], "not all be zero"),
    ],
)
def test_impossible_sample_weights_are_refused(weights: list[float], expected: str) -> None:
    assert expected in refused([X], Y, sample_weight=weights)


def test_overflowed_row_pointers_are_refused() -> None:
    matrix = sp.csr_matrix(X)
    matrix.indptr = matrix.indptr.copy()
    matrix.indptr[2] = -5
    assert "sound CSR matrix" in refused({"bank": matrix})


def test_column_indices_outside_the_matrix_are_refused() -> None:
    matrix = sp.csr_matrix(X)
    matrix.indices = matrix.indices.copy()
    matrix.indices[3] = 1000
    assert "'bank'" in refused({"bank": matrix})


def test_every_form_of_table_is_read_alike() -> None:
    names = ["a", "b", "c"]
    for table in (
        X,
        X.astype(np.float32),
        X.astype(int),
        X.tolist(),
        pd.DataFrame(X, columns=names),
        pl.DataFrame(X, schema=names),
        sp.csr_matrix(X),
        sp.csc_array(X),
        sp.coo_matrix(X),
    ):
        part = read_parts([table])[0]
        dense = part.matrix.toarray() if sp.issparse(part.matrix) else part.matrix
        assert dense.dtype == np.float64
        assert np.array_equal(dense, X)


def test_entries_that_occur_twice_in_a_sparse_matrix_are_added() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 3))
    y = np.where(x[:, 0] + rng.standard_normal(30) > 0, 1.0, -1.0)
    rows, columns = np.tile(np.repeat(np.arange(30), 3), 2), np.tile(np.arange(3), 60)
    halves = sp.csr_matrix(
        (
            np.tile(x.ravel() / 2, 2)[np.argsort(rows, kind="stable")],
            columns[np.argsort(rows, kind="stable")],
            np.arange(0, 181, 6),
        ),
        shape=(30, 3),
    )
    assert halves.nnz == 180
    for penalty in (plait.L2(0.1), plait.L1(0.05)):
        twice, once = (
            plait.fit([halves], y, penalty=penalty, fit_intercept=False),
            plait.fit([x], y, penalty=penalty, fit_intercept=False),
        )
        assert twice.objective == pytest.approx(once.objective, rel=1e-8)


def test_input_is_left_as_it_was() -> None:
    x, y = X.copy(), Y.copy()
    sparse = sp.csr_matrix(X)
    plait.fit([x, sparse], y, penalty=plait.L1(0.1), fit_intercept=True)
    assert np.array_equal(x, X)
    assert np.array_equal(y, Y)
    assert np.array_equal(sparse.toarray(), X)


def test_labels_may_be_a_column() -> None:
    assert np.array_equal(read_labels(Y[:, None], 4), Y)


def test_sample_weights_are_scaled_to_one() -> None:
    assert read_weights([1, 3, 0, 4], 4) == pytest.approx([0.125, 0.375, 0.0, 0.5])


def test_scores_want_the_parties_that_were_trained() -> None:
    fit = plait.fit([X, X[:, :1]], Y, penalty=plait.L2(1.0), fit_intercept=False)
    with pytest.raises(plait.InputError, match="2 parties"):
        fit.scores([X])
    with pytest.raises(plait.InputError, match="2 parties"):
        fit.scores([X, X, X])
    with pytest.raises(plait.InputError, match="'party 1' must bring the 1 columns"):
        fit.scores([X, X])
    named = plait.fit({"a": X, "b": X[:, :1]}, Y, penalty=plait.L2(1.0), fit_intercept=False)
    with pytest.raises(plait.InputError, match="'a', 'b'"):
        named.scores({"a": X, "c": X})
    assert named.scores({"b": X[:, :1], "a": X}) == pytest.approx(named.scores({"a": X, "b": X[:, :1]}))
