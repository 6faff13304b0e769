"""The demonstration: three departments, one model, and what it gains over each of them alone."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from plait._types import Array
from plait.errors import DivergedError
from plait.estimators import VerticalLogisticRegression
from plait.methods.admm.jacobi import Jacobi
from plait.methods.admm.proximal import Proximal
from plait.methods.base import Method
from plait.methods.subspace.method import Subspace
from plait.problem.penalties import L2
from plait.training.convergence import ConvergenceWarning
from plait.training.fit import fit
from plait.training.history import Round
from plait.training.loop import Observer
from plait.training.stopping import Stopping

STORY = """\
A hospital wants to tell malignant from benign tumours. Imaging holds the sizes
of the cell nuclei, the laboratory their texture, pathology their shape; the
clinic holds the diagnoses and coordinates. Nobody shows their columns.
"""
ALPHA = 1e-2  # strength of L2, per row: not tuned; 341 rows and 30 columns need some
_REACHED = 1e-10  # relative suboptimality at which a curve of the picture ends: ten digits are all that one can see
_SMALLEST = 1e-13  # relative suboptimality drawn: below, rounding errors of the objective itself show
HOLDINGS = {
    "imaging": ("radius", "perimeter", "area"),
    "laboratory": ("texture", "smoothness", "symmetry", "fractal dimension"),
    "pathology": ("compactness", "concavity", "concave points"),
}
METHODS: dict[str, Method] = {
    "subspace": Subspace(),
    "proximal ADMM": Proximal(),
    "Jacobi ADMM (the paper)": Jacobi(),
}


@dataclass(frozen=True)
class DemoTables:
    """Standardised training and test tables (N, 30), labels (N,), and which columns each party holds."""

    train: Array
    test: Array
    y_train: Array
    y_test: Array
    parties: dict[str, list[int]]


@dataclass(frozen=True)
class Score:
    """How well one model does on the test rows, and what training it cost: rounds, and numbers sent per row."""

    model: str
    log_loss: float
    auc: float
    accuracy: float
    sent: str
    rounds: int | None = None


@dataclass(frozen=True)
class MethodCurve:
    """The relative gap to the pooled optimum after every round of one method."""

    method: str
    gaps: tuple[float, ...]
    diverged: bool


def load_tables(seed: int = 1) -> DemoTables:
    """The breast cancer data that come with scikit-learn; 60% of the rows for training."""
    data = load_breast_cancer()
    train, test, y_train, y_test = train_test_split(
        data.data, data.target, test_size=0.4, random_state=seed, stratify=data.target
    )
    mean, spread = train.mean(axis=0), train.std(axis=0)
    parties = {
        party: [i for i, name in enumerate(data.feature_names) if any(word in name for word in words)]
        for party, words in HOLDINGS.items()
    }
    return DemoTables((train - mean) / spread, (test - mean) / spread, y_train, y_test, parties)


def train_jointly(tables: DemoTables, callbacks: Sequence[Observer] = ()) -> tuple[Score, VerticalLogisticRegression]:
    """One model over all parties by plait."""
    model = VerticalLogisticRegression(
        parties=tables.parties, penalty=L2(ALPHA), method=METHODS["subspace"], callbacks=tuple(callbacks)
    )
    model.fit(tables.train, tables.y_train)
    history = model.fits_[0].history
    messages = len(tables.y_train) * len(tables.parties)
    sent = sum(r.numbers_up for r in history) / messages
    columns = list(range(tables.train.shape[1]))
    score = _score("together, by plait", model, tables, columns, f"{sent:.0f} each")
    return replace(score, rounds=len(history)), model


def train_references(tables: DemoTables) -> tuple[list[Score], float]:
    """Each party alone, then the pooled table, by scikit-learn; and the pooled optimum."""
    everything = list(range(tables.train.shape[1]))
    scores = [_score(f"{party} alone", _pooled_model(tables, c), tables, c, "0") for party, c in tables.parties.items()]
    pooled = _pooled_model(tables, everything)
    scores.append(_score("pooled, scikit-learn", pooled, tables, everything, "all columns"))
    signs = 2 * tables.y_train - 1
    losses = np.logaddexp(0, -signs * pooled.decision_function(tables.train))
    return scores, float(losses.mean() + ALPHA / 2 * (pooled.coef_**2).sum())


def compare_methods(tables: DemoTables, optimum: float, rounds: int = 60) -> list[MethodCurve]:
    """Every method's way to the pooled optimum; one that diverges is shown as far as it went."""
    parts = {party: tables.train[:, columns] for party, columns in tables.parties.items()}
    curves = []
    for name, method in METHODS.items():
        seen: list[Round] = []
        diverged = False
        rule = Stopping(max_rounds=rounds, tol=0, objective=optimum * (1 + _REACHED))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fit(
                    parts,
                    tables.y_train,
                    penalty=L2(ALPHA),
                    method=method,
                    stopping=rule,
                    fit_intercept=True,
                    callbacks=[seen.append],
                )
        except DivergedError:
            diverged = True
        gaps = tuple(max(r.objective / optimum - 1, _SMALLEST) for r in seen)
        curves.append(MethodCurve(name, gaps, diverged))
    return curves


def _pooled_model(tables: DemoTables, columns: list[int]) -> Any:
    c = 1 / (ALPHA * len(tables.y_train))
    model = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-12, max_iter=1000)
    return model.fit(tables.train[:, columns], tables.y_train)


def _score(name: str, model: Any, tables: DemoTables, columns: list[int], sent: str) -> Score:
    p = model.predict_proba(tables.test[:, columns])[:, 1]
    y = tables.y_test
    auc, accuracy = float(roc_auc_score(y, p)), float(accuracy_score(y, p > 0.5))
    return Score(name, float(log_loss(y, p)), auc, accuracy, sent)
