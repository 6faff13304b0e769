"""An independent solver for  mean loss + penalty + constraints:  a log-barrier method with a certified gap.

It shares no code with plait.  A smooth loss enters by its derivatives, a piecewise linear one by one slack per sample;
L1 and group norms enter by their epigraphs.  After the last centring at parameter `tau` the objective is within
nu / tau of the optimum, nu the number of barrier terms (Boyd and Vandenberghe, Convex Optimization, 11.2).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class SmoothLoss:
    """Value, first and second derivative in z."""

    value: Callable[[Array, Array], Array]
    first: Callable[[Array, Array], Array]
    second: Callable[[Array, Array], Array]


@dataclass(frozen=True)
class PiecewiseLoss:
    """max over k of  slope_k(y) z + offset_k(y)."""

    pieces: Callable[[Array], list[tuple[Array, Array]]]

    def value(self, z: Array, y: Array) -> Array:
        return np.max([a * z + c for a, c in self.pieces(y)], axis=0)


def _sigmoid(t: Array) -> Array:
    return 0.5 * (1 + np.tanh(t / 2))


HUBER_DELTA, QUANTILE = 0.8, 0.3

LOSSES: dict[str, SmoothLoss | PiecewiseLoss] = {
    "Logistic": SmoothLoss(
        lambda z, y: np.maximum(-y * z, 0) + np.log1p(np.exp(-np.abs(z))),
        lambda z, y: -y * _sigmoid(-y * z),
        lambda z, y: _sigmoid(z) * _sigmoid(-z),
    ),
    "Squared": SmoothLoss(lambda z, y: 0.5 * (y - z) ** 2, lambda z, y: z - y, lambda z, y: np.ones_like(z)),
    "SquaredHinge": SmoothLoss(
        lambda z, y: np.where(y * z < 1, (1 - y * z) ** 2, 0.0),
        lambda z, y: np.where(y * z < 1, 2 * (z - y), 0.0),
        lambda z, y: np.where(y * z < 1, 2.0, 0.0),
    ),
    "Huber": SmoothLoss(
        lambda z, y: np.where(
            np.abs(z - y) < HUBER_DELTA, (z - y) ** 2 / 2, HUBER_DELTA * np.abs(z - y) - HUBER_DELTA**2 / 2
        ),
        lambda z, y: np.sign(z - y) * np.minimum(np.abs(z - y), HUBER_DELTA),
        lambda z, y: np.where(np.abs(z - y) < HUBER_DELTA, 1.0, 0.0),
    ),
    "Poisson": SmoothLoss(
        lambda z, y: np.exp(z) - y * z, lambda z, y: np.exp(z) - y, lambda z, y: np.exp(z) + np.zeros_like(y)
    ),
    "Hinge": PiecewiseLoss(lambda y: [(-y, np.ones_like(y)), (np.zeros_like(y), np.zeros_like(y))]),
    "Pinball": PiecewiseLoss(
        lambda y: [(np.full_like(y, -QUANTILE), QUANTILE * y), (np.full_like(y, 1 - QUANTILE), (QUANTILE - 1) * y)]
    ),
}


@dataclass(frozen=True)
class Terms:
    """ridge/2 ||x||^2 + l1 ||x||_1 + sum of weight_g ||x_g||,  lower <= x <= upper,  ||x|| <= radius."""

    ridge: float = 0.0
    l1: float = 0.0
    groups: tuple[tuple[float, tuple[int, ...]], ...] = ()
    lower: float | tuple[float, ...] = -np.inf
    upper: float | tuple[float, ...] = np.inf
    radius: float = np.inf

    def value(self, x: Array) -> float:
        norms = sum(weight * np.linalg.norm(x[list(index)]) for weight, index in self.groups)
        return float(self.ridge / 2 * x @ x + self.l1 * np.abs(x).sum() + norms)

    def violation(self, x: Array) -> float:
        """How far x is outside the constraints."""
        outside = max(float(np.max(self.lower - x)), float(np.max(x - self.upper)), 0.0)
        return max(outside, float(np.linalg.norm(x)) - self.radius)


@dataclass(frozen=True)
class Problem:
    """Terms are per block of columns: (first column, one past the last, terms)."""

    loss: SmoothLoss | PiecewiseLoss
    d: Array
    y: Array
    blocks: tuple[tuple[int, int, Terms], ...]
    intercept: bool = False
    weights: Array | None = None

    def objective(self, x: Array, b: float = 0.0) -> float:
        losses = self.loss.value(self.d @ x + b, self.y)
        mean = losses.mean() if self.weights is None else self.weights @ losses / self.weights.sum()
        return float(mean + sum(terms.value(x[i:j]) for i, j, terms in self.blocks))


@dataclass
class _Barrier:
    """rows @ theta < bounds, and cones (radius index or -1, constant radius, members): ||theta[members]|| < radius."""

    rows: list[Array] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    cones: list[tuple[int, float, Array]] = field(default_factory=list)


class _Program:
    """theta = (x, b, epigraphs of |x_j| or of ||x_g||, slacks of a piecewise loss)."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        n = problem.d.shape[0]
        self.design = np.hstack([problem.d, np.ones((n, 1))]) if problem.intercept else problem.d
        self.width = self.design.shape[1]
        w = np.ones(n) if problem.weights is None else problem.weights
        self.w = w / w.sum()
        self.x0 = np.zeros(self.width)
        self.epigraphs: list[tuple[float, Array]] = []  # cost, members
        self.linear: list[tuple[list[int], list[float], float]] = []
        self.balls: list[tuple[float, Array]] = []
        self.ridge = np.zeros(self.width)
        for i, j, terms in problem.blocks:
            self._add(i, j, terms)
        self._assemble()

    def _add(self, i: int, j: int, terms: Terms) -> None:
        index = np.arange(i, j)
        self.ridge[i:j] = terms.ridge
        lower, upper = (np.broadcast_to(np.asarray(limit, dtype=float), j - i) for limit in (terms.lower, terms.upper))
        low, high = lower, upper
        if np.isfinite(terms.radius):
            self.balls.append((terms.radius, index))
            inside = terms.radius / np.sqrt(j - i)
            low, high = np.maximum(low, -inside), np.minimum(high, inside)
        for k, one_low, one_high in zip(index, low, high, strict=True):
            if np.isfinite(one_low) and np.isfinite(one_high):
                self.x0[k] = (one_low + one_high) / 2
            elif np.isfinite(one_low):
                self.x0[k] = one_low + 1e-2
            elif one_high <= 0:
                self.x0[k] = one_high - 1e-2
        if terms.l1 > 0:
            self.epigraphs += [(terms.l1, np.array([k])) for k in index]
        self.epigraphs += [(weight, i + np.array(members)) for weight, members in terms.groups if weight > 0]
        for k, one_low, one_high in zip(index, lower, upper, strict=True):
            if np.isfinite(one_low):
                self.linear.append(([k], [-1.0], -one_low))
            if np.isfinite(one_high):
                self.linear.append(([k], [1.0], one_high))

    def _assemble(self) -> None:
        p, n = self.problem, self.design.shape[0]
        slacks = n if isinstance(p.loss, PiecewiseLoss) else 0
        e = self.width
        s = e + len(self.epigraphs)
        self.size, self.slack = s + slacks, s
        barrier = _Barrier()
        self.cost = np.zeros(self.size)
        start = np.concatenate([self.x0, np.zeros(self.size - self.width)])
        for k, (weight, members) in enumerate(self.epigraphs):
            self.cost[e + k] = weight
            start[e + k] = np.linalg.norm(self.x0[members]) + 1
            if members.size == 1:
                self.linear += [([members[0], e + k], [1.0, -1.0], 0.0), ([members[0], e + k], [-1.0, -1.0], 0.0)]
            else:
                barrier.cones.append((e + k, 0.0, members))
        barrier.cones += [(-1, radius, members) for radius, members in self.balls]
        for columns, values, bound in self.linear:
            row = np.zeros(self.size)
            row[columns] = values
            barrier.rows.append(row)
            barrier.bounds.append(bound)
        rows = np.array(barrier.rows).reshape(-1, self.size)
        bounds = np.array(barrier.bounds)
        if isinstance(p.loss, PiecewiseLoss):
            self.cost[s:] = self.w
            z = self.design @ self.x0
            start[s:] = p.loss.value(z, p.y) + 1
            for slope, offset in p.loss.pieces(p.y):
                block = np.zeros((n, self.size))
                block[:, : self.width] = slope[:, None] * self.design
                block[np.arange(n), s + np.arange(n)] = -1
                rows, bounds = np.vstack([rows, block]), np.concatenate([bounds, -offset])
        self.rows, self.bounds, self.cones, self.start = rows, bounds, barrier.cones, start

    @property
    def nu(self) -> int:
        return self.bounds.size + 2 * len(self.cones)

    def smooth_part(self, theta: Array) -> tuple[float, Array, Array]:
        """The objective with its gradient and Hessian."""
        x = theta[: self.width]
        value = float(self.cost @ theta + self.ridge @ (x * x) / 2)
        gradient, hessian = self.cost.copy(), np.zeros((self.size, self.size))
        gradient[: self.width] += self.ridge * x
        hessian[np.arange(self.width), np.arange(self.width)] += self.ridge
        loss, y = self.problem.loss, self.problem.y
        if isinstance(loss, SmoothLoss):
            z = self.design @ x
            value += float(self.w @ loss.value(z, y))
            gradient[: self.width] += self.design.T @ (self.w * loss.first(z, y))
            curved = (self.w * loss.second(z, y))[:, None] * self.design
            hessian[: self.width, : self.width] += self.design.T @ curved
        return value, gradient, hessian

    def barrier(self, theta: Array) -> tuple[float, Array, Array]:
        """-sum of log slack, infinite outside, with its gradient and Hessian."""
        gap = self.bounds - self.rows @ theta
        if gap.size and gap.min() <= 0:
            return np.inf, theta, np.empty(0)
        value = -float(np.log(gap).sum())
        gradient = self.rows.T @ (1 / gap)
        hessian = self.rows.T @ (self.rows / (gap * gap)[:, None])
        for at, radius, members in self.cones:
            r = radius if at < 0 else theta[at]
            x = theta[members]
            q = r * r - x @ x
            if q <= 0 or r <= 0:
                return np.inf, theta, np.empty(0)
            value -= float(np.log(q))
            index = members if at < 0 else np.append(members, at)
            dq = -2 * x if at < 0 else np.append(-2 * x, 2 * r)
            ddq = np.diag(np.full(index.size, -2.0))
            if at >= 0:
                ddq[-1, -1] = 2.0
            gradient[index] -= dq / q
            hessian[np.ix_(index, index)] += np.outer(dq, dq) / q**2 - ddq / q
        return value, gradient, hessian


def solve(problem: Problem, gap: float = 1e-10) -> tuple[float, Array, float]:
    """The optimal objective to a relative gap, with x and b."""
    program = _Program(problem)
    theta, tau = program.start, 1.0
    for _ in range(60):
        theta = _centre(program, theta, tau)
        value = program.smooth_part(theta)[0]
        if program.nu / tau <= gap * max(abs(value), 1e-3):
            break
        tau *= 8
    x = theta[: problem.d.shape[1]]
    b = float(theta[problem.d.shape[1]]) if problem.intercept else 0.0
    return problem.objective(x, b), x, b


def _centre(program: _Program, theta: Array, tau: float) -> Array:
    """Newton's method with backtracking on  tau * objective + barrier."""

    def merit(at: Array) -> float:
        inside = program.barrier(at)[0]
        return np.inf if np.isinf(inside) else tau * program.smooth_part(at)[0] + inside

    for _ in range(80):
        f, g, h = program.smooth_part(theta)
        fb, gb, hb = program.barrier(theta)
        gradient, hessian = tau * g + gb, tau * h + hb
        scale = 1 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
        scaled = hessian * np.outer(scale, scale) + 1e-14 * np.eye(program.size)
        move = -scale * np.linalg.solve(scaled, scale * gradient)
        slope = float(gradient @ move)
        if -slope <= 1e-9:
            break
        here, length = tau * f + fb, 1.0
        while length > 1e-12 and not merit(theta + length * move) <= here + 0.1 * length * slope + 1e-13 * abs(here):
            length /= 2
        if length <= 1e-12:
            break
        theta = theta + length * move
    return theta
