"""The parties' sides of a private pass: helpers, who protect their features, and unprotected parties."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from plait._types import Array
from plait.errors import PrivacyError, ProtocolError
from plait.messages import Broadcast, Share
from plait.methods.base import Block, CoordinatorSide, Method, PartySide, Task
from plait.methods.private.pass_messages import FOLDS, Step, held_out, kept_weights, untagged
from plait.privacy.clipping import ClippedRows
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.helper_fit import Helper, HelperFit, Lesson, fit_helper, sketch_helper
from plait.privacy.mechanisms.helper_mixing import Layout
from plait.privacy.mechanisms.recommended import Recommended


@dataclass(frozen=True)
class Unprotected(Method):
    """An unprotected party in a private pass: it trains by `inner`, on all records and without each fold."""

    inner: Method

    def party_side(self, block: Block) -> PartySide:
        return OpenSide(self.inner, block)

    def lengths(self, rows: int) -> frozenset[int]:
        return self.inner.lengths(rows) | {rows}

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.inner.coordinator_side(task)


@dataclass(frozen=True)
class OpenState:
    """The training under way and its state, and the weights (d,) that were trained on all records."""

    step: int
    inner: Any
    trained: Array


class OpenSide(PartySide):
    """Answers the trainings one after another; the first is the one that counts."""

    def __init__(self, method: Method, block: Block) -> None:
        self._method = method
        self._block = block
        self._side = lru_cache(maxsize=1)(self._make)

    def _make(self, step: int) -> PartySide:
        weights = kept_weights(self._block.weights, held_out(self._block.features.rows, step))
        return self._method.party_side(replace(self._block, weights=weights))

    def start(self) -> OpenState:
        return OpenState(0, self._side(0).start(), np.zeros(self._block.features.columns))

    def respond(self, state: OpenState, broadcast: Broadcast) -> tuple[OpenState, Share]:
        step = int(broadcast.scalars[0])
        if step == Step.SCORES:
            return state, Share(broadcast.round, self._held_scores(state))
        if not 0 <= step <= FOLDS:
            raise ProtocolError(f"an unprotected party trains and scores. Found a request for step {step}.")
        side = self._side(step)
        before = state.inner if step == state.step else side.start()
        inner, share = side.respond(before, untagged(broadcast))
        trained = side.weights(inner) if step == 0 else state.trained
        return OpenState(step, inner, trained), replace(share, round=broadcast.round)

    def _held_scores(self, state: OpenState) -> Array:
        features = self._block.features
        x = self._side(state.step).weights(state.inner)
        return np.where(held_out(features.rows, state.step), features.forward(x), 0.0)

    def weights(self, state: OpenState) -> Array:
        return state.trained


@dataclass(frozen=True)
class Protected(Method):
    """A helper in a private pass, under its mechanism; `sketch` where several helpers may hold the same signal."""

    inner: Method
    mechanism: Recommended
    book: Book
    sketch: bool

    def party_side(self, block: Block) -> PartySide:
        return HelperSide(self.mechanism, block, self.book, self.sketch)

    def lengths(self, rows: int) -> frozenset[int]:
        return self.inner.lengths(rows) | {rows}

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.inner.coordinator_side(task)


@dataclass(frozen=True)
class HelperState:
    """What the helper was told, labels and offset (N,), and what it fitted from releases alone."""

    labels: Array | None = None
    offset: Array | None = None
    weights: Array | None = None
    energy: float = 0.0
    factor: float = 1.0


class HelperSide(PartySide):
    """Learns from labels and an offset; nothing of its features leaves it but through its book."""

    def __init__(self, mechanism: Recommended, block: Block, book: Book, sketch: bool) -> None:
        self._mechanism = mechanism
        self._radius = mechanism.clip or 1.0
        self._rows = ClippedRows.of(block.features.matrix, self._radius)
        self._block = block
        self._book = book
        self._sketch = sketch
        # Noise grows with the bounds and the cost does not: a run that cannot be paid is refused before it begins.
        book.account.check(mechanism.plan(*self._rows.shape, 1.0, 1.0, sketch=sketch).cost, book.run)

    def start(self) -> HelperState:
        return HelperState()

    def respond(self, state: HelperState, broadcast: Broadcast) -> tuple[HelperState, Share]:
        step, number = int(broadcast.scalars[0]), broadcast.round
        if step == Step.LABELS:
            return HelperState(labels=broadcast.vector), Share(number)
        if step == Step.FIT:
            return self._fit(state, broadcast)
        if step == Step.SKETCH:
            return state, self._sketched(state, broadcast)
        if step == Step.FACTOR:
            return replace(state, factor=float(np.clip(broadcast.scalars[1], 0.0, 1.0))), Share(number)
        raise PrivacyError(
            f"party {self._book.party!r} protects its features and takes part in a private pass only. Found a request "
            f"for step {step}. Nothing was released."
        )

    def _lesson(self, state: HelperState) -> Lesson:
        if state.labels is None or state.offset is None:
            raise ProtocolError("a helper must be told labels and offset before it is asked. Found neither.")
        return Lesson(self._block.loss, state.labels, state.offset, self._rows.shape[0] * self._block.weights)

    def _helper(self, lesson: Lesson) -> Helper:
        return Helper.of(self._rows, self._block.penalty, self._mechanism, lesson, self._book, self._sketch)

    def _fit(self, state: HelperState, broadcast: Broadcast) -> tuple[HelperState, Share]:
        offset = broadcast.vector
        told = replace(state, offset=np.full(self._rows.shape[0], broadcast.scalars[1]) if offset is None else offset)
        lesson = self._lesson(told)
        fit = fit_helper(self._helper(lesson), lesson)
        plan = fit.plan
        terms = [fit.energy, plan.sketch_mu, plan.sketch(1, 1.0).sensitivity if plan.sketch_mu else 0.0]
        return replace(told, weights=fit.weights, energy=fit.energy), Share(
            broadcast.round, fit.scores, np.array(terms)
        )

    def _sketched(self, state: HelperState, broadcast: Broadcast) -> Share:
        lesson = self._lesson(state)
        helper = self._helper(lesson)
        if state.weights is None or not helper.plan.sketch_mu:
            raise ProtocolError(
                "a sketch must be paid for in the helper's plan and follow its fit. Found it asked for."
            )
        fit = HelperFit(state.weights, state.energy, helper.plan)
        buckets = int(broadcast.scalars[1])
        if not 1 <= buckets <= lesson.records:
            raise PrivacyError(
                f"a sketch must have 1 to {lesson.records} buckets. Found {buckets}; nothing was released."
            )
        layout = Layout.of(self._book.run, lesson.records, buckets)
        found = sketch_helper(helper, fit, lesson.curvature(fit.plan.gradient.bound), layout)
        return Share(broadcast.round, None, np.array([*found.sums, found.energy, found.sigma]))

    def weights(self, state: HelperState) -> Array:
        if state.weights is None:
            return np.zeros(self._rows.shape[1])
        return state.factor * state.weights / self._radius
