"""plait over three parties against scikit-learn on the pooled table: the same problem, the same answer."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.datasets import load_breast_cancer, load_diabetes

from plait._types import Array
from plait.problem.losses import Hinge, Logistic, Loss, Pinball, Poisson, Squared, SquaredHinge
from plait.problem.penalties import L1, L2, ElasticNet, NonNegative, Penalty
from plait.training.fit import fit
from plait.training.stopping import Stopping

PARTIES = 3  # the fewest of whom a sum does not tell one party the other's part
TITLE = f"plait over {PARTIES} parties, scikit-learn on the pooled table"
HEADINGS = ("problem", "scikit-learn", "objective gap", "weight gap", "rounds", "plait", "sklearn")
_STOP = Stopping(max_rounds=5000, tol=1e-7)  # relative gap: finer than the weight gaps that the table shows


@dataclass(frozen=True)
class Case:
    """One problem; `build` makes the scikit-learn estimator that solves it on N rows."""

    name: str
    loss: Loss
    penalty: Penalty
    reference: str
    build: Callable[[int], Any]
    intercept: bool = True


@dataclass(frozen=True)
class Row:
    """The outcome, both objectives by the same formula.

    gap          (plait's objective - scikit-learn's) / scikit-learn's: negative where plait's is lower
    weight_gap   the largest difference between two weights
    """

    case: Case
    gap: float
    weight_gap: float
    rounds: int
    seconds: float
    reference_seconds: float

    def cells(self) -> tuple[str, ...]:
        figures = (f"{self.gap:+.0e}", f"{self.weight_gap:.0e}", str(self.rounds))
        times = (f"{self.seconds:.2f} s", f"{self.reference_seconds:.2f} s")
        return (self.case.name, self.case.reference, *figures, *times)


def compare(case: Case) -> Row:
    """Solve one case both ways; the first PARTIES-th of the columns belongs to the first party, and so on."""
    x, y = classification() if case.loss.classifies else regression()
    parts = np.array_split(x, PARTIES, axis=1)
    began = time.perf_counter()
    ours = fit(parts, y, loss=case.loss, penalty=case.penalty, stopping=_STOP, fit_intercept=case.intercept)
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    theirs = case.build(len(y)).fit(x, y)
    reference_seconds = time.perf_counter() - began
    weights, reference = np.concatenate(list(ours.weights)), np.ravel(theirs.coef_)
    a = _objective(case, x, y, weights, ours.intercept)
    b = _objective(case, x, y, reference, float(np.ravel(theirs.intercept_)[0]) if case.intercept else 0.0)
    far = float(np.abs(weights - reference).max())
    return Row(case, (a - b) / abs(b), far, ours.rounds, seconds, reference_seconds)


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [HEADINGS, tuple("---" for _ in HEADINGS), *(r.cells() for r in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@cache
def classification() -> tuple[Array, Array]:
    """The breast cancer data, standardised: 569 x 30."""
    x, y = load_breast_cancer(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), 2.0 * y - 1


@cache
def regression() -> tuple[Array, Array]:
    """The diabetes data, standardised, the target in units of 50: 442 x 10."""
    x, y = load_diabetes(return_X_y=True)
    return (x - x.mean(axis=0)) / x.std(axis=0), y / 50


def _objective(case: Case, x: Array, y: Array, weights: Array, intercept: float) -> float:
    return float(case.loss.value(x @ weights + intercept, y).mean()) + case.penalty.value(weights)


CASES = (
    Case(
        "logistic + L2",
        Logistic(),
        L2(1e-3),
        "LogisticRegression",
        lambda n: linear_model.LogisticRegression(C=1e3 / n, solver="newton-cholesky", tol=1e-12),
    ),
    Case(
        "logistic + L1",
        Logistic(),
        L1(1e-2),
        "LogisticRegression, l1",
        lambda n: linear_model.LogisticRegression(
            C=1e2 / n, l1_ratio=1, solver="liblinear", fit_intercept=False, tol=1e-10, max_iter=10_000
        ),
        intercept=False,
    ),
    Case(
        "squared hinge + L2",
        SquaredHinge(),
        L2(1e-2),
        "LinearSVC",
        lambda n: svm.LinearSVC(C=1e2 / n, fit_intercept=False, tol=1e-12, max_iter=100_000, dual=False),
        intercept=False,
    ),
    Case(
        "hinge + L2",
        Hinge(),
        L2(1e-2),
        "LinearSVC, hinge",
        lambda n: svm.LinearSVC(C=1e2 / n, loss="hinge", fit_intercept=False, tol=1e-10, max_iter=1_000_000),
        intercept=False,
    ),
    Case("squared + L2", Squared(), L2(1e-2), "Ridge", lambda n: linear_model.Ridge(alpha=1e-2 * n)),
    Case("squared + L1", Squared(), L1(5e-2), "Lasso", lambda n: linear_model.Lasso(alpha=5e-2, tol=1e-12)),
    Case(
        "squared + elastic net",
        Squared(),
        ElasticNet(0.1, 0.5),
        "ElasticNet",
        lambda n: linear_model.ElasticNet(alpha=0.1, l1_ratio=0.5, tol=1e-12),
    ),
    Case(
        "squared + L2, >= 0",
        Squared(),
        L2(1e-2) + NonNegative(),
        "Ridge, positive",
        lambda n: linear_model.Ridge(alpha=1e-2 * n, positive=True, tol=1e-12),
    ),
    Case(
        "Poisson + L2",
        Poisson(),
        L2(1e-2),
        "PoissonRegressor",
        lambda n: linear_model.PoissonRegressor(alpha=1e-2, solver="newton-cholesky", tol=1e-12),
    ),
    Case(
        "80% quantile + L1",
        Pinball(0.8),
        L1(5e-2),
        "QuantileRegressor",
        lambda n: linear_model.QuantileRegressor(quantile=0.8, alpha=5e-2),
    ),
)
