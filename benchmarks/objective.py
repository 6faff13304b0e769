"""The one judge: what is minimised, what its least value is, and how far a model is from it.

    minimise over x   (1/N) sum_i loss((D x)_i; y_i) + strength * R(x),     D = [D_1 ... D_M],  no intercept

with R(x) = ||x||^2 / 2 ("l2") or ||x||_1 ("l1"), and log(1 + exp(-y z)) or (z - y)^2 / 2.  Nothing here uses plait.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.reference import LOSSES, Optimum, minimise

OPTIMA = Path(__file__).parent / "results" / "optima.json"


@dataclass(frozen=True)
class Problem:
    """The parties' columns (N, d_m), labels (N,), which the logistic loss wants as -1/+1, and the penalty."""

    name: str
    parts: tuple[Any, ...]
    y: np.ndarray
    kind: str
    strength: float
    loss: str = "logistic"

    @cached_property
    def pooled(self) -> Any:
        """All columns in one table, in the parties' own format."""
        if sp.issparse(self.parts[0]):
            return sp.hstack(self.parts, format="csr")
        return np.hstack(self.parts)

    @property
    def rows(self) -> int:
        return self.y.size

    @property
    def columns(self) -> int:
        return sum(p.shape[1] for p in self.parts)

    @property
    def sparse(self) -> bool:
        return sp.issparse(self.parts[0])

    @property
    def data_bytes(self) -> int:
        """What the parties' tables take in memory."""
        arrays = [a for p in self.parts for a in ((p.data, p.indices, p.indptr) if self.sparse else (p,))]
        return sum(a.nbytes for a in arrays)

    def hash(self) -> str:
        """Names the numbers that go in, and nothing else: how the columns are divided does not change the optimum."""
        loss = "" if self.loss == "logistic" else f"{self.loss} "
        digest = hashlib.sha256(f"{loss}{self.kind} {self.strength!r} {self.pooled.shape}".encode())
        table = self.pooled
        for array in (table.data, table.indices, table.indptr) if self.sparse else (table,):
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        digest.update(np.ascontiguousarray(self.y, dtype=np.float64).view(np.uint8).data)
        return digest.hexdigest()[:16]


class Judge:
    """Objective and relative suboptimality of any model of one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.optimum = _optimum(problem)

    def objective(self, x: np.ndarray) -> float:
        """The objective at pooled weights x (d,)."""
        p = self.problem
        penalty = float(x @ x) / 2 if p.kind == "l2" else float(np.abs(x).sum())
        return float(LOSSES[p.loss].value(p.pooled @ x, p.y).mean()) + p.strength * penalty

    def suboptimality(self, objective: float) -> float:
        """(F - F*) / F*."""
        return objective / self.optimum.value - 1

    def goal(self, suboptimality: float) -> float:
        """The objective that a relative suboptimality stands for."""
        return self.optimum.value * (1 + suboptimality)


def _optimum(problem: Problem) -> Optimum:
    """From the cache if these very numbers were solved before, else solved and stored."""
    known = json.loads(OPTIMA.read_text()) if OPTIMA.exists() else {}
    key = problem.hash()
    if key in known:
        return Optimum(known[key]["value"], known[key]["gap"])
    found = minimise(problem.pooled, problem.y, problem.kind, problem.strength, problem.loss)
    known[key] = {
        "problem": problem.name,
        "rows": problem.rows,
        "columns": problem.columns,
        "penalty": f"{problem.kind}({problem.strength:g})",
        "value": found.value,
        "gap": found.gap,
    }
    OPTIMA.parent.mkdir(parents=True, exist_ok=True)
    OPTIMA.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    return found
