"""skglm's sparse logistic regression on the pooled table (optional: pip install 'plait[bench]')."""

from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.objective import Problem
from benchmarks.solvers.pooled import Pooled


class SkglmPooled(Pooled):
    name = "skglm"
    efforts = tuple(range(2, 13))
    options = "tol = 10^-effort"

    def refuses(self, problem: Problem) -> str | None:
        if problem.kind != "l1":
            return "skglm is made for penalties with kinks"
        if find_spec("skglm") is None:
            return "skglm is not installed: pip install 'plait[bench]'"
        return super().refuses(problem)

    def table(self, problem: Problem) -> Any:
        return problem.pooled.tocsc() if problem.sparse else np.asfortranarray(problem.pooled)

    def estimator(self, problem: Problem, effort: int) -> Any:
        from skglm import SparseLogisticRegression

        return SparseLogisticRegression(alpha=problem.strength, tol=10.0**-effort, max_iter=200, fit_intercept=False)

    def warm_up(self) -> None:
        from scipy.sparse import csc_matrix
        from skglm import SparseLogisticRegression

        rng = np.random.default_rng(0)
        table, y = rng.standard_normal((50, 5)), np.where(rng.random(50) < 0.5, 1.0, -1.0)
        for small in (np.asfortranarray(table), csc_matrix(table)):
            SparseLogisticRegression(alpha=0.01, fit_intercept=False).fit(small, y)
