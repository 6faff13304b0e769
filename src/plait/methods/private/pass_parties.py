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


def _need_step(broadcast: Broadcast) -> None:
    if not broadcast.scalars.size >= 1 or abs(broadcast.scalars[0]) > FOLDS:
        raise ProtocolError("a message of a private pass must name its step. Found none.")


@dataclass(frozen=True)
class Unprotected(Method):
    """An unprotected party in a private pass: it trains by `inner`, on all rows and without each fold."""

    inner: Method

    def party_side(self, block: Block) -> PartySide:
        return OpenSide(self.inner, block)

    def exchanges(self, rounds: int, rows: int) -> int:
        return (FOLDS + 1) * (self.inner.exchanges(rounds, rows) + 1)

    def lengths(self, rows: int) -> frozenset[int]:
        return self.inner.lengths(rows) | {rows}

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.inner.coordinator_side(task)


@dataclass(frozen=True)
class OpenState:
    """The training under way and its state, and the weights (d,) that were trained on all rows."""

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

    def check(self, state: OpenState, broadcast: Broadcast) -> None:
        _need_step(broadcast)
        step = int(broadcast.scalars[0])
        if 0 <= step <= FOLDS:
            if broadcast.scalars.size < 3:
                raise ProtocolError("a message of a training must say its round and whether it closes. Found neither.")
            side = self._side(step)
            side.check(state.inner if step == state.step else side.start(), untagged(broadcast))

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

    def exchanges(self, rounds: int, rows: int) -> int:
        return 4  # labels, the fit, the sketch, and how much of it is used

    def party_side(self, block: Block) -> PartySide:
        return HelperSide(self.mechanism, block, self.book, self.sketch)

    def lengths(self, rows: int) -> frozenset[int]:
        return self.inner.lengths(rows) | {rows}

    def coordinator_side(self, task: Task) -> CoordinatorSide:
        return self.inner.coordinator_side(task)


_PLAN = (Step.LABELS, Step.FIT, Step.SKETCH, Step.FACTOR)
"""What a helper is asked for, in order; without a sketch the last two are left out."""


@dataclass(frozen=True)
class HelperState:
    """What the helper was told, and what it fitted from releases alone: weights (d,), shift and energy of its score.

    It was told labels and offset (N,), and with `shifts` that there is an intercept.
    """

    labels: Array | None = None
    offset: Array | None = None
    shifts: bool = False
    weights: Array | None = None
    shift: float = 0.0
    energy: float = 0.0
    factor: float = 1.0
    done: int = 0
    """The last step of the plan that was answered, 0 before the first."""


class HelperSide(PartySide):
    """Learns from labels and an offset; nothing of its features leaves it but through its book.

    A state machine: labels, fit, and where the plan has a sketch, sketch and factor.  Each is asked for once and in
    this order.  Whatever else is asked is refused before anything is computed.
    """

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

    def check(self, state: HelperState, broadcast: Broadcast) -> None:
        _need_step(broadcast)

    def respond(self, state: HelperState, broadcast: Broadcast) -> tuple[HelperState, Share]:
        step, number = self._next(state, broadcast), broadcast.round
        state = replace(state, done=step)
        if step == Step.LABELS:
            if broadcast.scalars.size > 1:
                self._book.account.check_receipt(int(broadcast.scalars[1]))
            return replace(state, labels=broadcast.vector), Share(number)
        if step == Step.FIT:
            return self._fit(state, broadcast)
        if step == Step.SKETCH:
            return state, self._sketched(state, broadcast)
        return replace(state, factor=float(np.clip(broadcast.scalars[1], 0.0, 1.0))), Share(number)

    def _next(self, state: HelperState, broadcast: Broadcast) -> Step:
        """The step that is asked for; PrivacyError unless it is the next one of the plan."""
        asked = int(broadcast.scalars[0]) if broadcast.scalars.size else None
        steps = _PLAN if self._sketch else _PLAN[:2]
        left = steps[steps.index(Step(state.done)) + 1 :] if state.done else steps
        if not left or asked != left[0]:
            raise PrivacyError(
                f"party {self._book.party!r} protects its features and takes the steps of a private pass, each once "
                f"and in order. Found a request for step {asked}, and {[s.name for s in left]} are left. Nothing was "
                "released."
            )
        return left[0]

    def _lesson(self, state: HelperState) -> Lesson:
        if state.labels is None or state.offset is None:
            raise ProtocolError("a helper must be told labels and offset before it is asked. Found neither.")
        weights = self._rows.shape[0] * self._block.weights
        return Lesson(self._block.loss, state.labels, state.offset, weights, self._mechanism.even, state.shifts)

    def _helper(self, lesson: Lesson) -> Helper:
        return Helper.of(self._rows, self._block.penalty, self._mechanism, lesson, self._book, self._sketch)

    def _fit(self, state: HelperState, broadcast: Broadcast) -> tuple[HelperState, Share]:
        offset, scalars = broadcast.vector, broadcast.scalars
        told = replace(
            state,
            offset=np.full(self._rows.shape[0], scalars[1]) if offset is None else offset,
            shifts=bool(scalars.size > 2 and scalars[2]),
        )
        lesson = self._lesson(told)
        helper = self._helper(lesson)
        fit = fit_helper(helper, lesson)
        plan = fit.plan
        receipt = self._book.account.receipt(helper.known.hex())
        sensitivity = plan.sketch(1, 1.0).sensitivity if plan.sketch_mu else 0.0
        terms = np.array([fit.energy, plan.sketch_mu, sensitivity, fit.shift, receipt])
        fitted = replace(told, weights=fit.weights, shift=fit.shift, energy=fit.energy)
        return fitted, Share(broadcast.round, fit.scores, terms)

    def _sketched(self, state: HelperState, broadcast: Broadcast) -> Share:
        lesson = self._lesson(state)
        helper = self._helper(lesson)
        if state.weights is None or not helper.plan.sketch_mu:
            raise ProtocolError(
                "a sketch must be paid for in the helper's plan and follow its fit. Found it asked for."
            )
        fit = HelperFit(state.weights, state.shift, state.energy, helper.plan)
        buckets = int(broadcast.scalars[1])
        if not 1 <= buckets <= lesson.records:
            raise PrivacyError(
                f"a sketch must have 1 to {lesson.records} buckets. Found {buckets}; nothing was released."
            )
        layout = Layout.of(self._book.run, lesson.records, buckets)
        found = sketch_helper(helper, fit, lesson.curvature(fit.plan.slope_bound), layout)
        return Share(broadcast.round, None, np.array([*found.sums, found.energy, found.sigma]))

    def weights(self, state: HelperState) -> Array:
        if state.weights is None:
            return np.zeros(self._rows.shape[1])
        return state.factor * state.weights / self._radius
