"""Fits that once went wrong, each as it was found: small enough to be read, and kept so that they stay right."""

from collections.abc import Callable, Iterator

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from benchmarks.sweep.cases import Case
from benchmarks.sweep.mixtures import grouped
from benchmarks.sweep.problems import Array, Loss, Problem, Terms
from benchmarks.sweep.tables import standardised

LOGISTIC, SQUARED, HINGE, HUBER = Loss("logistic"), Loss("squared"), Loss("hinge"), Loss("huber")
UPPER_DECILE = Loss("pinball", 0.9)


def _halves(columns: Array, parties: int) -> tuple[Array, ...]:
    return tuple(np.array_split(columns, parties, axis=1))


def _same(loss: Loss, columns: Array, y: Array, parties: int, terms: Terms, intercept: bool = False) -> Problem:
    return Problem(loss, _halves(columns, parties), y, (terms,) * parties, intercept)


def _diabetes() -> tuple[Array, Array]:
    x, y = load_diabetes(return_X_y=True)
    return x, y


def _breast() -> tuple[Array, Array]:
    x, y = load_breast_cancer(return_X_y=True)
    return standardised(x), 2.0 * y - 1


def first_intercept(loss: Loss, terms: Terms, offset: float) -> Problem:
    """Labels far from 0: the intercept has a long way to go."""
    x, y = _diabetes()
    return _same(loss, x, y + offset, 3, terms, intercept=True)


def wide_target() -> Problem:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 6))
    return _same(UPPER_DECILE, x, 2e5 + 1e5 * rng.normal(size=300), 2, Terms(ridge=1e-4), intercept=True)


def walls(*terms: Terms) -> Problem:
    """Breast cancer, three parties of ten columns, some of them with constraints."""
    x, y = _breast()
    return Problem(LOGISTIC, _halves(x, 3), y, terms, intercept=True)


def weighted_groups() -> Problem:
    x, y = _breast()
    weights = np.random.default_rng(2).exponential(size=y.size)
    terms = (Terms(), grouped(15, group=1e-2))
    return Problem(Loss("squared_hinge"), _halves(x, 2), y, terms, True, weights)


def overlap(loss: Loss, terms: Terms) -> Problem:
    """B = A + 1e-3 noise, ten columns each; the labels come from A alone."""
    rng = np.random.default_rng(1)
    a = rng.normal(size=(2000, 10))
    b = a + 1e-3 * rng.normal(size=a.shape)
    y = a @ rng.normal(size=10) + rng.normal(size=2000)
    return Problem(loss, (a, b), np.where(y > 0, 1.0, -1.0) if loss.classifies else y, (terms, terms))


def five_copies() -> Problem:
    rng = np.random.default_rng(4)
    a = rng.normal(size=(500, 10))
    parts = tuple(a + 1e-5 * rng.normal(size=a.shape) for _ in range(5))
    y = np.where(a @ rng.normal(size=10) + rng.normal(size=500) > 0, 1.0, -1.0)
    return Problem(LOGISTIC, parts, y, (Terms(l1=1e-6),) * 5)


def many_columns() -> Problem:
    """A standardised table of 68 columns, ten parties."""
    rng = np.random.default_rng(5)
    x = standardised(rng.normal(size=(800, 20)) @ rng.normal(size=(20, 68)) + 0.1 * rng.normal(size=(800, 68)))
    y = np.where(x[:, :5].sum(axis=1) + rng.normal(size=800) > 0, 1.0, -1.0)
    return _same(LOGISTIC, x, y, 10, Terms(l1=1e-3), intercept=True)


def quantile_of_two() -> Problem:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    return _same(UPPER_DECILE, x, 150 + 50 * rng.normal(size=60), 2, Terms(), intercept=True)


def repeated_groups() -> Problem:
    """Hinge and group lasso on columns that every party holds."""
    rng = np.random.default_rng(7)
    a = rng.normal(size=(200, 6))
    y = np.where(a @ rng.normal(size=6) + rng.normal(size=200) > 0, 1.0, -1.0)
    return Problem(HINGE, (a, a, a), y, (grouped(6, group=1e-2),) * 3, True)


def small_lasso(loss: Loss, intercept: bool) -> Problem:
    rng = np.random.default_rng(306)
    x = rng.normal(size=(3, 6))
    y = rng.normal(size=3)
    if loss.classifies:
        y = np.where(y > np.median(y), 1.0, -1.0)
    return _same(loss, x, y, 2, Terms(l1=0.01), intercept)


def ten_by_thirty() -> Problem:
    rng = np.random.default_rng(8)
    return _same(SQUARED, rng.normal(size=(10, 30)), rng.normal(size=10), 3, Terms(l1=0.01))


def digits_hinge() -> Problem:
    x, y = load_digits(return_X_y=True)
    return _same(HINGE, x / 16.0, np.where(y >= 5, 1.0, -1.0), 3, Terms(l1=1e-3), intercept=True)


def gene_table() -> Problem:
    """As many rows and columns as the leukaemia table that the lasso is often shown on."""
    rng = np.random.default_rng(9)
    x = standardised(rng.normal(size=(72, 30)) @ rng.normal(size=(30, 7129)) + rng.normal(size=(72, 7129)))
    y = np.where(x[:, :20].mean(axis=1) + 0.2 * rng.normal(size=72) > 0, 1.0, -1.0)
    return _same(LOGISTIC, x, y, 3, Terms(l1=1e-2))


def exact_fit() -> Problem:
    rng = np.random.default_rng(10)
    x = rng.normal(size=(100, 4))
    return _same(SQUARED, x, x @ rng.normal(size=4) + 2, 2, Terms(), intercept=True)


def least_norm() -> Problem:
    rng = np.random.default_rng(11)
    return _same(SQUARED, rng.normal(size=(20, 40)), rng.normal(size=20), 2, Terms())


def low_rank_ridge() -> Problem:
    rng = np.random.default_rng(12)
    x = rng.normal(size=(300, 10)) @ rng.normal(size=(10, 100))
    return _same(SQUARED, x, x[:, 0] + rng.normal(size=300), 3, Terms(ridge=1e-4))


def low_labels() -> Problem:
    rng = np.random.default_rng(13)
    x = rng.normal(size=(100, 6))
    return _same(HUBER, x, 5 + rng.normal(size=100), 2, Terms())


def plain_l1(strength: float) -> Problem:
    x, y = _breast()
    return _same(LOGISTIC, x, y, 3, Terms(l1=strength))


L2_, NN = Terms(ridge=1e-3), Terms(ridge=1e-3, lower=0.0)
FOUND: dict[str, Callable[[], Problem]] = {
    "1 huber, target + 1000": lambda: first_intercept(HUBER, Terms(ridge=1e-4), 1000.0),
    "1 huber and l1": lambda: first_intercept(HUBER, Terms(l1=0.01), 0.0),
    "1 pinball, target 2e5": wide_target,
    "1 huber, target + 1e6": lambda: first_intercept(HUBER, Terms(ridge=1e-4), 1e6),
    "1 pinball, target + 1e6": lambda: first_intercept(UPPER_DECILE, Terms(ridge=1e-4), 1e6),
    "2 one non-negative": lambda: walls(L2_, L2_, NN),
    "2 two non-negative": lambda: walls(L2_, NN, NN),
    "2 one ball": lambda: walls(L2_, L2_, Terms(ridge=1e-3, radius=0.1)),
    "2 one box": lambda: walls(L2_, L2_, Terms(ridge=1e-3, lower=-0.05, upper=0.05)),
    "2 one loose ball": lambda: walls(L2_, L2_, Terms(ridge=1e-3, radius=1e3)),
    "2 none and groups, weighted": weighted_groups,
    "3 overlap, l2(1e-8)": lambda: overlap(LOGISTIC, Terms(ridge=1e-8)),
    "3 overlap, squared": lambda: overlap(SQUARED, Terms()),
    "3 overlap, l1(1e-4)": lambda: overlap(LOGISTIC, Terms(l1=1e-4)),
    "4 five copies": five_copies,
    "4 pinball of two columns": quantile_of_two,
    "4 hinge and groups, repeated": repeated_groups,
    "5 3 x 6 lasso": lambda: small_lasso(SQUARED, False),
    "5 3 x 6 huber": lambda: small_lasso(HUBER, True),
    "5 3 x 6 logistic": lambda: small_lasso(LOGISTIC, True),
    "5 10 x 30 lasso": ten_by_thirty,
    "5 digits hinge": digits_hinge,
    "6 breast l1(1e-2)": lambda: plain_l1(1e-2),
    "6 breast l1(1e-3)": lambda: plain_l1(1e-3),
    "7 72 x 7129": gene_table,
    "8 exact fit": exact_fit,
    "8 least norm": least_norm,
    "9 huber around 5": low_labels,
}


def reproductions(seed: int) -> Iterator[Case]:
    """All of them; the seed changes nothing."""
    for name, build in FOUND.items():
        yield _found(name, build)
    for precision in ("float64", "float32", "int16"):
        yield _found(f"4 68 columns {precision}", many_columns, precision=precision)
    yield _found("8 low-rank ridge, tol 1e-12", low_rank_ridge, tol=1e-12)
    yield _found("2 one non-negative, tol 1e-9", FOUND["2 one non-negative"], tol=1e-9)


def _found(name: str, build: Callable[[], Problem], precision: str = "float64", tol: float = 1e-6) -> Case:
    return Case(f"found | {name}", build, "found", "found", precision=precision, tol=tol)
