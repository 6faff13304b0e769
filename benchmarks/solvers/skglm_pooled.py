"""skglm and celer, made for L1, on the pooled table (optional: pip install 'plait[bench]')."""

from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix

from benchmarks.objective import Problem
from benchmarks.solvers.pooled import Pooled


class _ForL1(Pooled):
    """Stops at a tolerance, which is made finer until the judge is satisfied."""

    efforts = tuple(range(4, 37))
    options = "tol = 10^-(effort / 3)"

    def refuses(self, problem: Problem) -> str | None:
        if problem.kind != "l1":
            return f"{self.name} is made for penalties with kinks"
        if find_spec(self.name) is None:
            return f"{self.name} is not installed: pip install 'plait[bench]'"
        return super().refuses(problem)

    def table(self, problem: Problem) -> Any:
        return problem.pooled.tocsc() if problem.sparse else np.asfortranarray(problem.pooled)

    def warm_up(self) -> None:
        rng = np.random.default_rng(0)
        table, y = rng.standard_normal((50, 5)), np.where(rng.random(50) < 0.5, 1.0, -1.0)
        for loss in ("logistic", "squared"):
            for small in (np.asfortranarray(table), csc_matrix(table)):
                self.estimator(Problem("", (table,), y, "l1", 0.01, loss), self.efforts[0]).fit(small, y)


class SkglmPooled(_ForL1):
    name = "skglm"

    def estimator(self, problem: Problem, effort: int) -> Any:
        from skglm import Lasso, SparseLogisticRegression

        options = {"alpha": problem.strength, "tol": 10.0 ** -(effort / 3), "max_iter": 200, "fit_intercept": False}
        return Lasso(**options) if problem.loss == "squared" else SparseLogisticRegression(**options)


class CelerPooled(_ForL1):
    name = "celer"

    def estimator(self, problem: Problem, effort: int) -> Any:
        from celer import Lasso, LogisticRegression

        options = {"tol": 10.0 ** -(effort / 3), "max_iter": 200, "fit_intercept": False}
        if problem.loss == "squared":
            return Lasso(alpha=problem.strength, **options)
        return LogisticRegression(C=1 / (problem.strength * problem.rows), **options)
