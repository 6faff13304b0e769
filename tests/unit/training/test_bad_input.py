"""Bad input is refused before round 1, with the party and the column in the message."""

from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import plait

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 4))
Y = np.array([0.0, 1, 0, 1, 0, 1, 1, 0])


def _with(value: float, row: int, column: int) -> np.ndarray:
    x = X.copy()
    x[row, column] = value
    return x


def _damaged_csr() -> Any:
    x = sp.csr_matrix(X)
    x.indices[-1] = np.int32(-2147483648)  # what a column number just above 2**31 becomes in 32 bits
    return x


def _never(_: plait.Round) -> NoReturn:
    raise AssertionError("a round was run")


FRAME = pd.DataFrame(_with(np.nan, 3, 2), columns=["age", "income", "debt", "years"])
FIT_CASES = {
    "rows that do not match": ({"bank": X, "shop": X[:5]}, Y, r"8 rows at 'bank' and 5 at 'shop'"),
    "NaN": ({"bank": X, "shop": _with(np.nan, 2, 1)}, Y, r"'shop'.*nan in column '1', row 2"),
    "infinity": ({"bank": _with(np.inf, 5, 3), "shop": X}, Y, r"'bank'.*inf in column '3', row 5"),
    "NaN in a frame": ({"bank": FRAME, "shop": X}, Y, r"'bank'.*column 'debt', row 3"),
    "NaN in CSR": ({"bank": sp.csr_matrix(_with(np.nan, 2, 1))}, Y, r"'bank'.*nan in column '1', row 2"),
    "text": ({"bank": pd.DataFrame({"age": ["old"] * 8})}, Y, r"'bank' must bring numbers. Column 'age'"),
    "constant labels": ({"bank": X}, np.ones(8), r"at least two values. Found only 1"),
    "labels of another loss": ({"bank": X}, np.arange(8), r"Logistic needs labels -1/\+1 or 0/1. Found 0, 1, 2"),
    "text labels": ({"bank": X}, ["yes", "no"] * 4, r"labels must be numbers"),
    "labels that are missing": ({"bank": X}, np.r_[np.nan, Y[1:]], r"labels must be finite. Found nan in row 0"),
    "too few labels": ({"bank": X}, Y[:7], r"7 labels for 8 rows"),
    "a table of labels": ({"bank": X}, np.c_[Y, Y], r"one number per row"),
    "no party": ({}, Y, r"at least one party"),
    "a party without columns": ({"bank": X, "shop": X[:, :0]}, Y, r"'shop' must hold at least one column"),
    "a party without rows": ({"bank": X[:0]}, Y, r"'bank' must hold at least one row"),
    "one dimension": ({"bank": X[:, 0]}, Y, r"'bank'.*one dimension, length 8"),
    "complex numbers": ({"bank": X + 1j}, Y, r"'bank' must bring real numbers"),
    "overflown sparse indices": ({"bank": _damaged_csr()}, Y, r"'bank' must bring a sound CSR.*overflowed"),
    "overflown CSC indices": ({"bank": _damaged_csr().T}, Y[:4], r"'bank' must bring a sound CSC.*overflowed"),
    "something else": (X.tobytes(), Y, r"list of matrices or a dict"),
}


@pytest.mark.parametrize("case", FIT_CASES, ids=str)
def test_fit_refuses(case: str) -> None:
    parts, y, message = FIT_CASES[case]
    with pytest.raises(plait.InputError, match=message):
        plait.fit(parts, y, callbacks=[_never])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": plait.Poisson()}, r"Poisson needs labels >= 0. Found -1"),
        ({"sample_weight": np.ones(7)}, r"one sample weight per row"),
        ({"sample_weight": -np.ones(8)}, r"not negative. Found -1"),
        ({"sample_weight": np.zeros(8)}, r"must not all be zero"),
        ({"penalty": {"bank": plait.L2(1.0)}}, r"penalty must name exactly the parties \['bank', 'shop'\]"),
        ({"penalty": [plait.L2(1.0)]}, r"one per party \(2\). Found 1"),
        ({"penalty": 0.1}, r"penalty"),
        ({"penalty": plait.GroupLasso(1.0, [0, 0, 1])}, r"party 'bank'.*Found 3 for 4 columns"),
        ({"method": plait.Subspace(), "loss": plait.Hinge()}, r"Subspace needs a smooth loss"),
    ],
)
def test_fit_refuses_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(plait.PlaitError, match=message):
        plait.fit({"bank": X, "shop": X}, 2 * Y - 1, callbacks=[_never], **options)


@pytest.mark.parametrize("penalty", [plait.L1, plait.L2, plait.ElasticNet, plait.LogPenalty])
@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf])
def test_negative_penalties_are_refused_when_written(penalty: Any, alpha: float) -> None:
    with pytest.raises(plait.SettingError, match=rf"{penalty.__name__}\(alpha\) must be finite and not negative"):
        penalty(alpha)


TABLE = pd.DataFrame(X, columns=["age", "income", "debt", "years"])
PARTY_CASES = {
    "an unknown column": ({"bank": ["age", "wealth"]}, TABLE, r"'bank' names the unknown column 'wealth'.*'age'"),
    "names for an array": ({"bank": ["age"]}, X, r"'bank' names the column 'age', but the table's columns have no"),
    "a position too far": ({"bank": [0, 4]}, X, r"'bank'.*by position below 4. Found 4"),
    "something else": ({"bank": [0, 1.5]}, X, r"'bank'.*Found 1.5"),
    "a column twice": ({"bank": ["age", "age"]}, TABLE, r"column 'age'.*'bank' names it twice"),
    "two owners": (
        {"bank": ["age", "income"], "shop": ["income", "debt", "years"]},
        TABLE,
        r"column 'income'.*both 'bank' and 'shop'",
    ),
    "two owners by position": ({"bank": slice(0, 3), "shop": slice(2, 4)}, X, r"column 2.*both 'bank' and 'shop'"),
    "no owner": ({"bank": ["age", "debt"]}, TABLE, r"Found none for 'income', 'years'"),
    "an empty party": ({"bank": slice(0, 4), "shop": []}, X, r"'shop' must hold at least one column"),
    "too many parties": (5, X, r"between 1 and the number of columns \(4\). Found 5"),
    "no parties": ({}, X, r"parties must be None"),
    "a sentence": ("bank", X, r"parties must be None"),
    "NaN": ({"bank": slice(0, 2), "shop": slice(2, 4)}, _with(np.nan, 1, 3), r"'shop'.*column '3', row 1"),
    "infinity in a frame": ({"bank": slice(0, 4)}, TABLE.replace(X[2, 1], np.inf), r"'bank'.*'income', row 2"),
    "overflown sparse indices": (2, _damaged_csr(), r"X must bring a sound CSR"),
}


@pytest.mark.parametrize("case", PARTY_CASES, ids=str)
def test_estimators_refuse(case: str) -> None:
    parties, x, message = PARTY_CASES[case]
    with pytest.raises(plait.PlaitError, match=message):
        plait.VerticalLogisticRegression(parties, callbacks=(_never,)).fit(x, Y)


def test_a_prediction_from_bad_rows_names_party_and_column() -> None:
    model = plait.VerticalRegression({"bank": [0, 1], "shop": [2, 3]}).fit(X, X[:, 0])
    with pytest.raises(plait.InputError, match=r"'shop'.*column '2', row 0"):
        model.predict(_with(np.nan, 0, 2))


@pytest.mark.parametrize("estimator", [plait.VerticalLogisticRegression, plait.VerticalSVC])
def test_classifiers_need_two_classes(estimator: Any) -> None:
    with pytest.raises(plait.InputError, match="at least two classes"):
        estimator().fit(X, np.ones(8))
    with pytest.raises(plait.InputError, match="zero weights for class"):
        estimator().fit(X, Y, sample_weight=Y)


def test_regressions_refuse_text_and_labels_that_the_loss_cannot_take() -> None:
    with pytest.raises(plait.InputError, match="labels must be numbers"):
        plait.VerticalRegression().fit(X, ["a", "b"] * 4)
    with pytest.raises(plait.InputError, match="Poisson needs labels >= 0"):
        plait.VerticalRegression(loss="poisson").fit(X, X[:, 0])
