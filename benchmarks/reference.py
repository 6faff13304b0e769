"""Reference optima by a Newton method of its own, each with a proof of how good it is: a duality gap.

For any a with a_i in (0, 1), the dual value  -(1/N) sum_i [a_i log a_i + (1 - a_i) log(1 - a_i)] - R*(...)  lies below
the optimum; a_i = 1 / (1 + exp(y_i z_i)) makes the two meet there.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import entr, expit

_DENSE = 1500
_GOAL = 1e-11


@dataclass(frozen=True)
class Optimum:
    """The least objective found, and how far above the true one it can be, relative."""

    value: float
    gap: float


def minimise(table: Any, y: np.ndarray, kind: str, strength: float) -> Optimum:
    """The optimum of the judge's problem."""
    if kind == "l2":
        x = _newton(table, y, strength, np.zeros(table.shape[1]), np.zeros(table.shape[1]))
        return _certified(table, y, x, kind, strength)
    return _minimise_l1(table, y, strength)


def _value(table: Any, y: np.ndarray, x: np.ndarray, ridge: float, linear: np.ndarray) -> float:
    return float(np.logaddexp(0, -y * (table @ x)).mean() + ridge / 2 * (x @ x) + linear @ x)


def _newton(table: Any, y: np.ndarray, ridge: float, linear: np.ndarray, x: np.ndarray, steps: int = 60) -> np.ndarray:
    """argmin of mean logistic loss + ridge/2 ||x||^2 + linear^T x, by damped (truncated) Newton steps."""
    value = _value(table, y, x, ridge, linear)
    for _ in range(steps):
        z = table @ x
        gradient = table.T @ (-y * expit(-y * z)) / y.size + ridge * x + linear
        w = expit(z) * expit(-z) / y.size
        step = -_solve(table, w, ridge, gradient)
        slope = float(gradient @ step)
        if -slope <= _GOAL * 1e-2 * value:
            return x + step
        length = 1.0
        while (new := _value(table, y, x + length * step, ridge, linear)) > value + 1e-4 * length * slope:
            length /= 2
            if length < 1e-10:
                return x
        x, value = x + length * step, new
    return x


def _solve(table: Any, w: np.ndarray, ridge: float, rhs: np.ndarray) -> np.ndarray:
    """(D^T diag(w) D + ridge I)^{-1} rhs: a factor where it is small, else conjugate gradients."""
    d = table.shape[1]
    if d <= _DENSE:
        scaled = table.multiply(w[:, None]).tocsr() if hasattr(table, "multiply") else table * w[:, None]
        h = table.T @ scaled
        h = h.toarray() if hasattr(h, "toarray") else h
        h[np.diag_indices(d)] += max(ridge, 1e-12 * np.trace(h) / d)
        return scipy.linalg.solve(h, rhs, assume_a="pos")
    square = table.multiply(table) if hasattr(table, "multiply") else table * table
    diagonal = square.T @ w + ridge
    apply = LinearOperator((d, d), matvec=lambda v: table.T @ (w * (table @ v)) + ridge * v)
    precondition = LinearOperator((d, d), matvec=lambda v: v / diagonal)
    return cg(apply, rhs, rtol=1e-4, maxiter=2000, M=precondition)[0]


def _minimise_l1(table: Any, y: np.ndarray, strength: float) -> Optimum:
    """L-BFGS-B on x = p - q, p, q >= 0, then Newton steps on the support that it finds, until the gap closes."""
    d = table.shape[1]

    def value_and_gradient(pq: np.ndarray) -> tuple[float, np.ndarray]:
        z = table @ (pq[:d] - pq[d:])
        g = table.T @ (-y * expit(-y * z)) / y.size
        return float(np.logaddexp(0, -y * z).mean() + strength * pq.sum()), np.concatenate([g, -g]) + strength

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-9, "maxcor": 30}
    found = scipy.optimize.minimize(
        value_and_gradient, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * d), options=options
    )
    x = found.x[:d] - found.x[d:]
    best = _certified(table, y, x, "l1", strength)
    for _ in range(20):
        if best.gap <= _GOAL:
            break
        on = np.flatnonzero(x)
        polished = np.zeros(d)
        polished[on] = _newton(table[:, on], y, 0.0, strength * np.sign(x[on]), x[on])
        polished[np.sign(polished) != np.sign(x)] = 0.0
        there = _certified(table, y, polished, "l1", strength)
        x, best = polished, min(best, there, key=lambda o: (o.gap, o.value))
    return best


def _certified(table: Any, y: np.ndarray, x: np.ndarray, kind: str, strength: float) -> Optimum:
    """The objective at x and its duality gap."""
    z = table @ x
    a = expit(-y * z)
    slope = table.T @ (y * a) / y.size
    primal = float(np.logaddexp(0, -y * z).mean())
    if kind == "l2":
        primal += strength / 2 * float(x @ x)
        dual = float((entr(a) + entr(1 - a)).mean()) - float(slope @ slope) / (2 * strength)
    else:
        primal += strength * float(np.abs(x).sum())
        a = a * min(1.0, strength / float(np.abs(slope).max()))
        dual = float((entr(a) + entr(1 - a)).mean())
    return Optimum(primal, max(primal - dual, 0.0) / primal)
