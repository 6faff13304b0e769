"""The public data sets of the paper and of the field, split into parties: `plait.datasets.load("a9a")`.

A file is looked for in the folder that PLAIT_DATA names, then in the cache folder, and then downloaded where a public
source exists.  Whatever the way, its checksum must be right.
"""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._types import Array
from plait.data.files import PublicFile, read_public
from plait.errors import SettingError

__all__ = ["Dataset", "load", "names"]

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
_FATE = "https://raw.githubusercontent.com/FederatedAI/FATE/5a06d9e4c4cd7ab97a5c8357828adbffaca87785/examples/data"
A9A_TRAIN = PublicFile("a9a/a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906", f"{_LIBSVM}/a9a")
A9A_TEST = PublicFile(
    "a9a/a9a.t", "1f448a153f0320399a7e40836eb207655b0bde0f21fc941cc472193daa9f5de9", f"{_LIBSVM}/a9a.t"
)
GISETTE = PublicFile("gisette/gisette_rebuilt.npz", "82d6afe2526c8536e38478176feb955faaed0eda66b0a7e913428786e5949f87")
CREDIT = PublicFile(
    "default_credit/UCI_Credit_Card.csv",
    "a0f0ab49d6326671d6cd83be5c88dcf18007025fe9a53ecd699119c871176ca1",
    f"{_FATE}/UCI_Credit_Card.csv",
)


@dataclass(frozen=True)
class Dataset:
    """Training and test rows, party by party.

    Parameters
    ----------
    name : str
        What `load` calls it.
    parts : dict of str to matrix of shape (N, d_m)
        Party -> its columns of the training rows, dense or CSR.
    y : ndarray of shape (N,)
        The labels of the training rows, -1 or +1.
    test_parts : dict of str to matrix
        Party -> its columns of the test rows.
    y_test : ndarray
        The labels of the test rows, -1 or +1.
    description : str
        What it is, where it comes from, and what was done to it.
    """

    name: str
    parts: dict[str, Any]
    y: Array
    test_parts: dict[str, Any]
    y_test: Array
    description: str


def load(name: str) -> Dataset:
    """Read a public data set, split into parties.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    Dataset
        Training and test rows.

    Raises
    ------
    SettingError
        When there is no data set of that name.
    """
    if not isinstance(name, str) or name not in _LOADERS:
        raise SettingError(f"the data set must be one of {names()}. Found {name!r}.")
    return _LOADERS[name]()


def names() -> list[str]:
    """The data sets that `load` knows."""
    return list(_LOADERS)


def _a9a() -> Dataset:
    from sklearn.datasets import load_svmlight_file  # slow to load, and not needed by most

    x, y = load_svmlight_file(io.BytesIO(read_public(A9A_TRAIN)), n_features=123)
    x_test, y_test = load_svmlight_file(io.BytesIO(read_public(A9A_TEST)), n_features=123)
    return Dataset(
        "a9a",
        _cut(x, A=66, B=57),
        y,
        _cut(x_test, A=66, B=57),
        y_test,
        "Adult census incomes in LIBSVM's binary coding: 32,561 training and 16,281 test rows, 123 columns as CSR, "
        "split as in the paper. Party A: age, work, education, marital status, occupation, relationship; party B: "
        "race, sex, capital, hours, country. UCI Adult (Becker & Kohavi 1996, CC BY 4.0).",
    )


def _gisette() -> Dataset:
    with np.load(io.BytesIO(read_public(GISETTE)), allow_pickle=False) as arrays:
        x, x_test = arrays["X_train"].astype(np.float64), arrays["X_test"].astype(np.float64)
        y, y_test = arrays["y_train"].astype(np.float64), arrays["y_test"].astype(np.float64)
    low, span = x.min(axis=0), np.ptp(x, axis=0)
    x, x_test = (_to_unit(m, low, span) for m in (x, x_test))
    return Dataset(
        "gisette",
        _cut(x, A=2000, B=2000, C=1000),
        y,
        _cut(x_test, A=2000, B=2000, C=1000),
        y_test,
        "The digits 4 and 9, 6,000 training and 1,000 test rows, 5,000 columns. This is a REBUILD, not the official "
        "file: labels, test rows and the first 1,000 training columns are the published values, 1,867 further columns "
        "are recomputed exactly from MNIST, 1,899 label-independent probe columns have resampled training values and "
        "234 columns are too sparse to identify. The scale of 128 very sparse test columns (150 nonzero cells) and of "
        "34 of the first 1,000 training columns (53 cells) is guessed. Every column is scaled to [-1, 1] by its "
        "training minimum and maximum; one that is 0 throughout training is -1, as 0 is in every other column. UCI "
        "Gisette (Guyon et al. 2004, CC BY 4.0), MNIST.",
    )


def gisette_origins() -> npt.NDArray[np.uint8]:
    """Where each of the rebuilt gisette's 5,000 columns comes from.

    0 published values, 1 recomputed exactly from MNIST or constant zero, 2 a probe whose training values are resampled,
    3 too sparse to identify.
    """
    with np.load(io.BytesIO(read_public(GISETTE)), allow_pickle=False) as arrays:
        return arrays["col_status"]


def _credit() -> Dataset:
    rows = list(csv.reader(io.StringIO(read_public(CREDIT).decode())))
    columns, table = rows[0], np.array(rows[1:], dtype=np.float64)
    y = 2 * table[:, -1] - 1
    test = table[:, 0] % 5 == 0
    features = table[:, 1:-1]
    mean, spread = features[~test].mean(axis=0), features[~test].std(axis=0)
    scaled = (features - mean) / spread
    named = {name: i for i, name in enumerate(columns[1:-1])}
    partner = [i for name, i in named.items() if name.startswith("PAY_AMT") or name in _PERSON]
    bank = [i for i in named.values() if i not in partner]
    return Dataset(
        "credit",
        {"bank": scaled[~test][:, bank], "partner": scaled[~test][:, partner]},
        y[~test],
        {"bank": scaled[test][:, bank], "partner": scaled[test][:, partner]},
        y[test],
        "Credit card clients in Taiwan, and who defaults next month: 30,000 rows, every fifth of them for testing. "
        "The bank holds limit, bills and delays, a partner the person and the amounts paid. Columns are standardised "
        "by their training mean and deviation. UCI Default of Credit Card Clients (Yeh 2009, CC BY 4.0).",
    )


_PERSON = ("SEX", "EDUCATION", "MARRIAGE", "AGE")
_LOADERS: dict[str, Callable[[], Dataset]] = {"a9a": _a9a, "gisette": _gisette, "credit": _credit}


def _cut(x: Any, **widths: int) -> dict[str, Any]:
    """Consecutive columns, so many for each party."""
    ends = np.cumsum(list(widths.values()))
    return {party: x[:, end - width : end] for (party, width), end in zip(widths.items(), ends, strict=True)}


def _to_unit(x: Array, low: Array, span: Array) -> Array:
    """[low, low + span] to [-1, 1], in place; columns without a span to -1."""
    x -= low
    x *= np.divide(2.0, span, out=np.zeros_like(span), where=span > 0)
    x -= 1
    return x
