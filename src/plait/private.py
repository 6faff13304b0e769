"""`plait.fit` in the recommended private mode: unprotected parties first, then every helper in one pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait.data.parts import Part
from plait.history import History, Round
from plait.losses import Loss
from plait.penalties import Penalty
from plait.privacy.book import Book
from plait.privacy.onepass import Helper, Lesson, OnePass, best_constant, fit_helpers, out_of_fold
from plait.privacy.policy import Mechanism, Policy
from plait.privacy.recommended import Recommended
from plait.privacy.rows import ClippedRows
from plait.types import Array


@dataclass(frozen=True)
class Problem:
    """What is to be trained: checked parts, labels and weights (N,), and one penalty per party."""

    parts: tuple[Part, ...]
    labels: Array
    weights: Array
    loss: Loss
    penalties: Mapping[str, Penalty]
    fit_intercept: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def rows(self) -> int:
        return self.labels.size

    def only(self, parts: Sequence[Part], kept: NDArray[np.bool_] | None = None) -> "Problem":
        """The same problem for some of the parties and, with `kept`, some of the rows."""
        total = float(self.weights.sum())
        if kept is None:
            return Problem(tuple(parts), self.labels, self.weights, self.loss, self.penalties, self.fit_intercept)
        cut = tuple(Part(p.name, p.matrix[kept], p.columns) for p in parts)
        weights = self.weights[kept] * (total / float(self.weights[kept].sum()))
        return Problem(cut, self.labels[kept], weights, self.loss, self.penalties, self.fit_intercept)


@dataclass(frozen=True)
class Model:
    """Weights per party and the intercept."""

    weights: Mapping[str, Array]
    intercept: float

    def scores(self, parts: Sequence[Part]) -> Array:
        total = np.full(parts[0].matrix.shape[0], self.intercept)
        for part in parts:
            total += part.matrix @ self.weights[part.name]
        return total


@dataclass(frozen=True)
class PrivateModel:
    """The whole model of a private pass, what crossed the wire, and the scores that were released, if any."""

    model: Model
    history: History
    released: Mapping[str, Array]


Trainer = Callable[[Problem], Model]


def fit_in_one_pass(
    problem: Problem, policy: Policy, mechanisms: Mapping[str, Mechanism], books: Mapping[str, Book], train: Trainer
) -> PrivateModel:
    """Train the parties that protect nothing with `train`, then every other one under its own mechanism."""
    chosen = {name: m for name, m in mechanisms.items() if isinstance(m, Recommended)}
    open_parts = [p for p in problem.parts if p.name not in chosen]
    helped = [p for p in problem.parts if p.name in chosen]
    constant = best_constant(problem.loss, problem.labels, problem.weights) if problem.fit_intercept else 0.0
    own = train(problem.only(open_parts)) if open_parts else Model({}, constant)
    lesson = Lesson(
        problem.loss,
        problem.labels,
        _offset(problem, open_parts, policy, constant, train),
        problem.rows * problem.weights,
    )
    sketch = len(helped) > 1 and not policy.disjoint
    helpers = [
        Helper.of(
            ClippedRows.of(p.matrix, chosen[p.name].clip or 1.0),
            problem.penalties[p.name],
            chosen[p.name],
            lesson,
            books[p.name],
            sketch,
        )
        for p in helped
    ]
    found = fit_helpers(helpers, lesson, policy.run)
    weights = dict(own.weights)
    for part, share, fit in zip(helped, found.shares, found.helpers, strict=True):
        weights[part.name] = share * fit.weights / (chosen[part.name].clip or 1.0)
    ordered = {name: weights[name] for name in problem.names}
    released = {p.name: f.scores for p, f in zip(helped, found.helpers, strict=True) if f.scores is not None}
    return PrivateModel(Model(ordered, own.intercept), _history(problem.rows, policy.offset, found), released)


def _offset(problem: Problem, parts: Sequence[Part], policy: Policy, constant: float, train: Trainer) -> Array:
    """One number per record from the unprotected columns, or a constant that tells nothing about them."""
    if not (parts and policy.offset):
        return np.full(problem.rows, constant)
    return out_of_fold(problem.rows, lambda held: train(problem.only(parts, ~held)).scores(parts))


def _history(rows: int, offset: bool, found: OnePass) -> History:
    """One round; its objective is not known, because nobody released it."""
    down = len(found.helpers) * rows * (2 if offset else 1)
    sketches = [f.plan.sketch_mu for f in found.helpers if f.plan.sketch_mu]
    up = len(sketches) + sum(0 if f.scores is None else f.scores.size for f in found.helpers)
    return History(Round(0), [Round(1, numbers_down=down, numbers_up=up, bytes_down=8 * down, bytes_up=8 * up)])
