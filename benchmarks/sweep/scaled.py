"""The same problem in units in which an interior-point solver works well.

Columns get spread 1 and, where there is an intercept, mean 0; so do the labels of a regression.  The optimum is the
same:  x = s u / unit,  b = s c + centre - mean^T x,  and the objective is divided by `factor`.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.sweep.problems import Array, Loss, Problem


@dataclass(frozen=True)
class Norm:
    """strength * ||stretch * u[members]||, or the bound ||stretch * u[members]|| <= strength."""

    strength: float
    members: Array
    stretch: Array


@dataclass(frozen=True)
class Scaled:
    """Design (N, d), labels (N,), the loss times `gain`, and penalties with one strength per column (d,)."""

    problem: Problem
    design: Array
    y: Array
    loss: Loss
    gain: float
    factor: float
    spread: float
    centre: float
    mean: Array
    unit: Array
    ridge: Array
    l1: Array
    lower: Array
    upper: Array
    groups: tuple[Norm, ...]
    balls: tuple[Norm, ...]

    def back(self, u: Array, c: float) -> tuple[Array, float]:
        """Weights and intercept in the problem's own units; weights are moved into their constraints."""
        x = self.spread * u / self.unit
        for terms, block in zip(self.problem.terms, self.problem.blocks, strict=True):
            x[block] = terms.nearest(x[block])
        return x, float(self.spread * c + self.centre - self.mean @ x) if self.problem.intercept else 0.0

    def there(self, x: Array, b: float) -> tuple[Array, float]:
        """The inverse of `back`."""
        return x * self.unit / self.spread, (b - self.centre + float(self.mean @ x)) / self.spread


def scaled(problem: Problem) -> Scaled:
    """Choose the units."""
    w, table = problem.weights, problem.table
    mean = w @ table if problem.intercept else np.zeros(table.shape[1])
    design = table - mean
    unit = np.sqrt(w @ design**2)
    unit = np.where(unit > 1e-12 * np.maximum(np.sqrt(w @ table**2), 1e-300), unit, 1.0)
    centre, spread, gain, factor, loss = _label_units(problem)
    per_column = {name: np.empty(table.shape[1]) for name in ("ridge", "l1", "lower", "upper")}
    groups, balls = [], []
    for terms, block in zip(problem.terms, problem.blocks, strict=True):
        per_column["ridge"][block] = terms.ridge * (spread / unit[block]) ** 2 / factor
        per_column["l1"][block] = terms.l1 * spread / unit[block] / factor
        per_column["lower"][block] = terms.lower * unit[block] / spread
        per_column["upper"][block] = terms.upper * unit[block] / spread
        if terms.group > 0:
            for g in terms.members:
                at = block.start + g
                groups.append(Norm(terms.group * np.sqrt(g.size) * spread / factor, at, 1 / unit[at]))
        if np.isfinite(terms.radius):
            at = np.arange(block.start, block.stop)
            balls.append(Norm(terms.radius / spread, at, 1 / unit[at]))
    return Scaled(
        problem, design / unit, (problem.y - centre) / spread, loss, gain, factor, spread, centre, mean, unit,
        **per_column, groups=tuple(groups), balls=tuple(balls),
    )  # fmt: skip


def _label_units(problem: Problem) -> tuple[float, float, float, float, Loss]:
    """Centre and spread of the labels, the loss's coefficient, what the objective is divided by, and the loss."""
    loss, y, w = problem.loss, problem.y, problem.weights
    if loss.name not in ("squared", "huber", "pinball"):
        return 0.0, 1.0, 1.0, 1.0, loss
    centre = float(np.median(y)) if problem.intercept else 0.0
    spread = float(np.sqrt(w @ (y - centre) ** 2)) or 1.0
    if loss.name == "pinball":
        return centre, spread, 1.0, spread, loss
    if loss.name == "squared":
        return centre, spread, 1.0, spread**2, loss
    factor = spread * min(spread, loss.shape)
    return centre, spread, spread**2 / factor, factor, Loss("huber", loss.shape / spread)
