"""The optimum of a pooled problem from an independent solver, with a certificate of its own.

Losses of lines and parabolas are one conic programme; where all is linear, a simplex solver polishes its answer.
Logistic and Poisson are Newton steps, each a conic programme with the penalty as it is.  `gap` is the distance between
the objective and a lower bound, both computed afresh in the problem's own units: that is what the reference is trusted
for, whatever the solver said.
"""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.sweep.certificate import lower_bound
from benchmarks.sweep.conic import solve_parabola, solve_piecewise
from benchmarks.sweep.problems import Array, Problem
from benchmarks.sweep.scaled import Scaled, scaled
from benchmarks.sweep.simplex import linear, solve_linear

_ENOUGH = 1e-11  # a thousandth of what a reference is asked for
_WIDE = 200  # columns; fewer are no trouble to the solver
_GOOD, _PATIENCE = 1e-9, 3  # a tenth of what is asked for will do once three steps in a row do not halve the gap
_NEWTON = 60  # steps; full ones converge quadratically, and 60 halvings of the distance would do as well


@dataclass(frozen=True)
class Reference:
    """Weights (d,), intercept, slopes of the loss (N,), the objective there and how far the optimum can lie below."""

    x: Array
    b: float
    slopes: Array
    value: float
    gap: float
    proved: bool
    scale: float

    @property
    def relative(self) -> float:
        """The certified gap in units of `scale`."""
        return self.gap / self.scale


def reference(problem: Problem) -> Reference:
    """Solve, polish and certify; of a wide table with L1 only the columns that matter are given to the solver."""
    n, d = problem.table.shape
    plain = all(t.l1 > 0 and t.group == 0 and np.isinf(t.radius) and t.lower <= 0 <= t.upper for t in problem.terms)
    return _by_columns(problem) if plain and d > max(_WIDE, 2 * n) else _whole(problem)


def _by_columns(problem: Problem) -> Reference:
    """Add the columns whose slope exceeds their L1 strength until there is none; the certificate counts all."""
    strength = np.concatenate([np.full(p.shape[1], t.l1) for t, p in zip(problem.terms, problem.parts, strict=True)])
    pull = np.abs(problem.table.T @ (problem.weights * problem.loss.slope(np.zeros(problem.y.size), problem.y)))
    chosen = np.zeros(strength.size, dtype=bool)
    chosen[np.argsort(-pull / strength)[: problem.y.size]] = True
    while True:
        parts = tuple(p[:, chosen[block]] for p, block in zip(problem.parts, problem.blocks, strict=True))
        found = _whole(replace(problem, parts=parts))
        x = np.zeros(strength.size)
        x[chosen] = found.x
        pull = np.abs(problem.table.T @ (problem.weights * found.slopes))
        missing = ~chosen & (pull > strength * (1 + 1e-12))
        if not missing.any():
            return _certified(problem, x, found.b, found.slopes)
        chosen |= missing


def _whole(problem: Problem) -> Reference:
    s = scaled(problem)
    if problem.loss.name in ("logistic", "poisson"):
        u, c = np.zeros(problem.table.shape[1]), _start(problem)
        best = None
    else:
        u, c, slopes = solve_piecewise(s)
        best = _certified(problem, *s.back(u, c), slopes)
        if best.relative > _ENOUGH and linear(s):
            vertex = solve_linear(s)
            other = best if vertex is None else _certified(problem, *s.back(*vertex[:2]), vertex[2])
            best = min(best, other, key=lambda r: r.gap)
    if problem.loss.smooth:
        stale = 0
        for _ in range(_NEWTON):
            u, c, moved = _newton(s, u, c)
            found = _certified(problem, *s.back(u, c), None)
            stale = 0 if best is None or found.gap < 0.5 * best.gap else stale + 1
            if best is None or found.gap < best.gap:
                best = found
            if not moved or best.relative < _ENOUGH or (stale >= _PATIENCE and best.relative < _GOOD):
                break
    assert best is not None
    return best


def relative_scale(problem: Problem, value: float) -> float:
    """In what unit gaps are measured: the optimum, but at least a millionth of what the best constant model costs."""
    return max(abs(value), 1e-6 * _constant_model(problem), 1e-300)


def _certified(problem: Problem, x: Array, b: float, slopes: Array | None) -> Reference:
    if slopes is None:
        slopes = problem.loss.slope(problem.table @ x + b, problem.y)
    value = problem.objective(x, b)
    bound = lower_bound(problem, x, b, slopes)
    gap = max(value - bound.value, 0.0) if np.isfinite(value) else np.inf
    return Reference(x, b, slopes, value, gap, bound.proved, relative_scale(problem, value))


def _constant_model(problem: Problem) -> float:
    """The loss of the best constant score above its least possible value; of score 0 without an intercept."""
    y, w, loss = problem.y, problem.weights, problem.loss
    mean = float(w @ y)
    match loss.name if problem.intercept else "":
        case "squared":
            z = mean
        case "huber" | "pinball":
            z = float(np.quantile(y, loss.shape if loss.name == "pinball" else 0.5))
        case "poisson":
            z = float(np.log(max(mean, 1e-12)))
        case "":
            z = 0.0
        case _:
            z = (
                float(np.sign(mean))
                if loss.name != "logistic"
                else float(2 * np.arctanh(np.clip(mean, -1 + 1e-12, 1 - 1e-12)))
            )
    return problem.loss_at(np.full(y.size, z)) - float(w @ loss.floor(y))


def _start(problem: Problem) -> float:
    """Poisson starts at the mean count, where its parabola is a good one."""
    if problem.loss.name == "poisson" and problem.intercept:
        return float(np.log(max(float(problem.weights @ problem.y), 1e-6)))
    return 0.0


def _newton(s: Scaled, u: Array, c: float) -> tuple[Array, float, bool]:
    """One Newton step on the loss with the penalty as it is, shortened until the objective falls."""
    w, d = s.gain * s.problem.weights, u.size
    z = s.design @ u + c
    design = np.hstack([s.design, np.ones((z.size, 1))]) if s.problem.intercept else s.design
    here = np.r_[u, c] if s.problem.intercept else u
    root = np.sqrt(w * s.loss.bend(z, s.y))[:, None] * design
    root = np.linalg.qr(root, mode="r") if root.shape[0] > root.shape[1] else root
    gradient = design.T @ (w * s.loss.slope(z, s.y)) - root.T @ (root @ here)
    target = solve_parabola(s, root, gradient)
    before, length = _value(s, u, c), 1.0
    while length > 1e-9:
        there = here + length * (target - here)
        u_new, c_new = there[:d], float(there[d]) if s.problem.intercept else 0.0
        if _value(s, u_new, c_new) <= before + 1e-15 * abs(before):
            return u_new, c_new, True
        length /= 2
    return u, c, False


def _value(s: Scaled, u: Array, c: float) -> float:
    x, b = s.back(u, c)
    value = s.problem.objective(x, b)
    return value if np.isfinite(value) else np.inf
