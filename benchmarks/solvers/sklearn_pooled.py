"""scikit-learn's LogisticRegression, Lasso and Ridge on the pooled table."""

from typing import Any

from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from benchmarks.objective import Problem
from benchmarks.solvers.pooled import Pooled

_PENALTIES = {
    "lbfgs": ("l2",),
    "newton-cg": ("l2",),
    "newton-cholesky": ("l2",),
    "liblinear": ("l1", "l2"),
    "saga": ("l1", "l2"),
}
_WIDEST_HESSIAN = 6000


class SklearnPooled(Pooled):
    def __init__(self, solver: str, dense: bool = False) -> None:
        self.solver = solver
        self.dense = dense
        self.name = f"scikit-learn {solver}" + (", dense" if dense else "")

    def refuses(self, problem: Problem) -> str | None:
        if problem.loss != "logistic":
            return "it is logistic regression"
        if problem.kind not in _PENALTIES[self.solver]:
            return f"{self.solver} has no {problem.kind} penalty"
        if self.solver == "newton-cholesky" and problem.columns > _WIDEST_HESSIAN:
            return f"a Hessian with {problem.columns:,} columns does not fit"
        return super().refuses(problem)

    def estimator(self, problem: Problem, effort: int) -> Any:
        return LogisticRegression(
            C=1 / (problem.strength * problem.rows),
            l1_ratio=1.0 if problem.kind == "l1" else 0.0,
            solver=self.solver,
            fit_intercept=False,
            tol=1e-14,
            max_iter=effort,
            random_state=0,
        )


SKLEARN = [SklearnPooled(s) for s in _PENALTIES] + [SklearnPooled(s, dense=True) for s in ("lbfgs", "newton-cholesky")]


class SklearnSquared(Pooled):
    name = "scikit-learn Lasso or Ridge"

    def refuses(self, problem: Problem) -> str | None:
        return None if problem.loss == "squared" else "it is for squared losses"

    def estimator(self, problem: Problem, effort: int) -> Any:
        if problem.kind == "l1":
            return Lasso(alpha=problem.strength, fit_intercept=False, tol=1e-14, max_iter=effort)
        return Ridge(alpha=problem.strength * problem.rows, fit_intercept=False)
