"""The benchmarks' judge against scikit-learn, and one solver on one data set."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks import objective
from benchmarks.datasets.small import breast_cancer
from benchmarks.solvers import Limits
from benchmarks.solvers.partitioned_lbfgs import PartitionedLbfgs
from benchmarks.solvers.plait_methods import SEPARATE


@pytest.fixture(autouse=True)
def _cache_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "OPTIMA", tmp_path / "optima.json")


def problem(kind: str, strength: float = 1e-3) -> objective.Problem:
    parts, y = breast_cancer()
    return objective.Problem("breast_cancer", parts, y, kind, strength)


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_the_reference_optimum_is_that_of_scikit_learn_and_proven(kind: str) -> None:
    p = problem(kind)
    judge = objective.Judge(p)
    pooled = LogisticRegression(
        C=1 / (1e-3 * p.rows),
        l1_ratio=float(kind == "l1"),
        solver="liblinear",
        tol=1e-10,
        max_iter=100_000,
        fit_intercept=False,
    ).fit(p.pooled, p.y)
    assert judge.optimum.value == pytest.approx(judge.objective(pooled.coef_[0]), rel=1e-7)
    assert judge.optimum.gap < 1e-9


def test_the_reference_optimum_is_solved_once_for_the_same_numbers() -> None:
    first = objective.Judge(problem("l2"))
    stored = objective.OPTIMA.read_text()
    again = objective.Judge(problem("l2"))
    assert again.optimum == first.optimum
    assert objective.OPTIMA.read_text() == stored
    assert objective.Judge(problem("l2", 2e-3)).optimum != first.optimum


@pytest.mark.parametrize("solver", [SEPARATE, PartitionedLbfgs()])
def test_a_curve_comes_down_to_the_goal_and_counts_what_is_sent(solver) -> None:
    p = problem("l2")
    curve = solver.curve(p, objective.Judge(p), Limits(rounds=60, seconds=60))
    reached = curve.first(1e-4)
    assert reached is not None
    assert reached.bytes >= 8 * 2 * p.rows * len(p.parts) * reached.rounds
    assert np.all(np.diff([point.bytes for point in curve.points]) > 0)
    assert curve.to(1e-4) is not None
    assert curve.remarks == []
