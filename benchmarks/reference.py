"""Reference optima by a Newton method of its own, each with a proof of how good it is: a duality gap.

For any slopes g (N,), the dual value  -(1/N) sum_i loss*(g_i) - R*(-D^T g / N)  lies below the optimum; the slopes of
the loss at the optimum make the two meet there.
"""

from dataclasses import dataclass
from typing import Any, Protocol

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


class Loss(Protocol):
    """A loss, row by row: its value, its slope, its curvature and its conjugate, all of (N,)."""

    def value(self, z: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    def slope(self, z: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    def curvature(self, z: np.ndarray, y: np.ndarray) -> np.ndarray: ...

    def conjugate(self, g: np.ndarray, y: np.ndarray) -> np.ndarray: ...


class Logistic:
    """log(1 + exp(-y z)), y = -1 or +1."""

    def value(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.logaddexp(0, -y * z)

    def slope(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * expit(-y * z)

    def curvature(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return expit(z) * expit(-z)

    def conjugate(self, g: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -entr(-g * y) - entr(1 + g * y)


class Squared:
    """(z - y)^2 / 2."""

    def value(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (z - y) ** 2 / 2

    def slope(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return z - y

    def curvature(self, z: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.ones_like(z)

    def conjugate(self, g: np.ndarray, y: np.ndarray) -> np.ndarray:
        return g**2 / 2 + g * y


LOSSES: dict[str, Loss] = {"logistic": Logistic(), "squared": Squared()}


def minimise(table: Any, y: np.ndarray, kind: str, strength: float, loss: str = "logistic") -> Optimum:
    """The optimum of the judge's problem."""
    if kind == "l2":
        x = _newton(table, y, LOSSES[loss], strength, np.zeros(table.shape[1]), np.zeros(table.shape[1]))
        return _certified(table, y, LOSSES[loss], x, kind, strength)
    return _minimise_l1(table, y, LOSSES[loss], strength)


def _newton(
    table: Any, y: np.ndarray, loss: Loss, ridge: float, linear: np.ndarray, x: np.ndarray, steps: int = 60
) -> np.ndarray:
    """argmin of mean loss + ridge/2 ||x||^2 + linear^T x, by damped (truncated) Newton steps."""

    def at(x: np.ndarray) -> float:
        return float(loss.value(table @ x, y).mean() + ridge / 2 * (x @ x) + linear @ x)

    value = at(x)
    for _ in range(steps):
        z = table @ x
        gradient = table.T @ loss.slope(z, y) / y.size + ridge * x + linear
        step = -_solve(table, loss.curvature(z, y) / y.size, ridge, gradient)
        slope = float(gradient @ step)
        if -slope <= _GOAL * 1e-2 * value:
            return x + step
        length = 1.0
        while (new := at(x + length * step)) > value + 1e-4 * length * slope:
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


def _minimise_l1(table: Any, y: np.ndarray, loss: Loss, strength: float) -> Optimum:
    """L-BFGS-B on x = p - q, p, q >= 0, then Newton steps on the support that it finds, until the gap closes."""
    d = table.shape[1]

    def value_and_gradient(pq: np.ndarray) -> tuple[float, np.ndarray]:
        z = table @ (pq[:d] - pq[d:])
        g = table.T @ loss.slope(z, y) / y.size
        return float(loss.value(z, y).mean() + strength * pq.sum()), np.concatenate([g, -g]) + strength

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-9, "maxcor": 30}
    found = scipy.optimize.minimize(
        value_and_gradient, np.zeros(2 * d), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * d), options=options
    )
    x = found.x[:d] - found.x[d:]
    best = _certified(table, y, loss, x, "l1", strength)
    for _ in range(20):
        if best.gap <= _GOAL:
            break
        on = np.flatnonzero(x)
        polished = np.zeros(d)
        polished[on] = _newton(table[:, on], y, loss, 0.0, strength * np.sign(x[on]), x[on])
        polished[np.sign(polished) != np.sign(x)] = 0.0
        there = _certified(table, y, loss, polished, "l1", strength)
        x, best = polished, min(best, there, key=lambda o: (o.gap, o.value))
    return best


def _certified(table: Any, y: np.ndarray, loss: Loss, x: np.ndarray, kind: str, strength: float) -> Optimum:
    """The objective at x and its duality gap."""
    z = table @ x
    g = loss.slope(z, y)
    pull = table.T @ g / y.size
    primal = float(loss.value(z, y).mean())
    if kind == "l2":
        primal += strength / 2 * float(x @ x)
        dual = -float(loss.conjugate(g, y).mean()) - float(pull @ pull) / (2 * strength)
    else:
        primal += strength * float(np.abs(x).sum())
        g = g * min(1.0, strength / float(np.abs(pull).max()))
        dual = -float(loss.conjugate(g, y).mean())
    return Optimum(primal, max(primal - dual, 0.0) / primal)
