"""The coordinator's half of the subspace method."""

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np

from plait._replace import replace
from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import CoordinatorSide, Measured, Task, balanced, vector_of
from plait.methods.subspace import least_search
from plait.methods.subspace.bounds import Bounds
from plait.methods.subspace.checks import answer_form, check_said
from plait.methods.subspace.coordinator_state import Groups, SubspaceState
from plait.methods.subspace.images import Images, largest, rounded_off
from plait.methods.subspace.judgement import bounded, completed
from plait.methods.subspace.messages import (
    DIRECTION,
    GRADIENT,
    QUESTION,
    Answer,
    Description,
    StepProposal,
    add_answers,
    add_reports,
)
from plait.methods.subspace.point import Point, equal_ones, moved_scores
from plait.methods.subspace.questions import Spans, Trial
from plait.methods.subspace.span import best_shift
from plait.methods.subspace.step_products import step_products, vector_places
from plait.problem.row_blocks import sum_of_sizes

_COARSE = 1e-6  # of a vector's largest number: larger steps between numbers count as coarse
_UNBALANCED = 1e-3  # of all slopes: what a minimum over the intercept may leave of their sum
_NO_NUMBERS = np.empty(0)
_SET_ASIDE = 1e6  # times the rounding of steps of int16, once finer vectors come: they hardly count then
_IDLE = 1e-13  # of the objective: what a step gains by rounding alone


class SubspaceCoordinator(CoordinatorSide):
    """Sends the gradient, asks about steps, and minimises the objective over the span of the images it has received."""

    def __init__(
        self, task: Task, memory: int, groups: Groups, stiffness: float = 1.0, judge: Task | None = None
    ) -> None:
        """groups: parties that take a common step; of a group's shares, the first party may bring the sum."""
        self.task = task
        self.judge = task if judge is None else judge
        """The task whose optimum is bounded from below: without the rounding off of kinks."""
        self.stiffness = stiffness
        self.memory = memory
        self.groups = groups
        self._none = Images((), task.rows, task.workspace)
        self.ones = self._none.and_these([equal_ones(task.rows)] * task.fit_intercept)
        self._known: Point | None = None

    def start(self) -> SubspaceState:
        task, groups = self.task, len(self.groups)
        zero = np.broadcast_to(np.float64(0.0), (task.rows,))  # one number that stands for all takes no memory
        b = best_shift(task, zero) if task.fit_intercept else 0.0
        z = np.broadcast_to(np.float64(b), (task.rows,))
        value = self._at(z).value
        return SubspaceState(
            z=z,
            intercept=b,
            shares=(zero,) * groups,
            images=(self._none,) * groups,
            noise=(np.empty(0),) * groups,
            drift=(0.0,) * groups,
            reached=(0.0,) * groups,
            measured=Measured(0, value, 0.0, np.nan),
            coefficients=(np.empty(0),) * groups,
            scales=(1.0,) * groups,
            products=(np.zeros((1, 0)),) * groups,
            start_score=b,
            memory=self.memory,
            bounds=Bounds(value if self.judge is task else self.judge.mean_loss(z)),
        )

    def _at(self, z: Array) -> Point:
        """The loss at scores that are asked about several times in a row."""
        if self._known is None or self._known.z is not z:
            self._known = Point.at(self.task, z)
        return self._known

    def _gradient(self, state: SubspaceState) -> Array:
        g = self._at(state.z).gradient
        return balanced(g, self.task.workspace) if self.task.fit_intercept else g

    def told(self, state: SubspaceState, vector: Array) -> SubspaceState:
        told = balanced(vector, self.task.workspace) if self.task.fit_intercept else vector
        return replace(state, told=self.task.workspace.kept(told), rounded=True)

    def requests(self, state: SubspaceState) -> dict[str, Broadcast]:
        if state.spans is not None:
            return self._messages(state, None, [span.asked for span in state.spans.spans], QUESTION)
        if state.least is not None:
            return self._messages(state, state.least.directions[-1], list(state.coefficients), DIRECTION)
        return self._messages(state, self._gradient(state), list(state.coefficients))

    def closing(self, state: SubspaceState) -> dict[str, Broadcast]:
        # Where a round is under way the parties have taken the last step already.
        none = [np.empty(0)] * len(self.groups)
        taken = none if state.spans is not None else list(state.coefficients)
        if state.least is not None and state.least.reached:
            for i in state.least.groups:
                taken[i] = state.least.coefficients
        return self._messages(state, self._gradient(state), taken, closing=True)

    def settling(self, state: SubspaceState) -> SubspaceState | None:
        # The vectors of the round under way have come: its questions cost none, and few weights too many are left.
        under_way = state.spans is not None and state.measured.round > 0  # before round 1 all weights are 0
        return state if under_way else least_search.begun(self.task, state)

    def _messages(
        self, state: SubspaceState, g: Array | None, c: list[Array], asks: float = GRADIENT, closing: bool = False
    ) -> dict[str, Broadcast]:
        number = state.measured.round + (not closing)
        says = {}
        for i, group in enumerate(self.groups):
            if asks == QUESTION and state.spans is not None and not state.spans.spans[i].kinks:
                continue
            if asks == DIRECTION and not state.free[i]:
                continue
            orders = StepProposal(
                asks=asks,
                memory=state.memory,
                start=state.start_score,
                intercept=float(self.task.fit_intercept),
                stiffness=self.stiffness,
                width=state.width,
                counted=min(state.counted, state.memory),
                scale=state.scales[i],
                coefficients=c[i],
                gram_row=_NO_NUMBERS if asks else state.gram_row,
                outlook=_NO_NUMBERS if asks else self.outlook(state, i),
            )
            form = answer_form(self.task.rows, len(self._past(state, i)) + 1, int(state.memory), asks, closing)
            says.update({name: Broadcast(number, g, orders.pack(), closing, expects=form) for name in group})
        return says

    def outlook(self, state: SubspaceState, i: int) -> Array:
        """What group i is told of what a hidden gradient would have shown; nothing where it is open."""
        return _NO_NUMBERS

    def _past(self, state: SubspaceState, i: int) -> Images:
        """The images of group i's basis but for the newest, (k, N)."""
        images = state.images[i]
        return self._none.and_these([state.shares[i], *images.vectors]) if state.dropped else images

    def absorb(self, state: SubspaceState, shares: Mapping[str, Share]) -> tuple[SubspaceState, Measured | None]:
        if state.spans is not None:
            return self._answered(state, state.spans, shares), None
        if state.least is not None:
            return least_search.continued(self.task, self.groups, state, state.least, shares)
        past = [self._past(state, i) for i in range(len(self.groups))]
        said = {
            name: Description.unpack(shares[name].scalars, len(images) + 1)
            for group, images in zip(self.groups, past, strict=True)
            for name in group
            if name in shares
        }
        state = replace(state, bounds=self._bounded(state, said))
        before = completed(self.task, self.judge, state, self._at(state.z), said)
        reports = [add_reports([said[name] for name in group if name in said]) for group in self.groups]
        grouped = [[shares[name] for name in group if name in shares] for group in self.groups]
        new = [self.task.workspace.kept(reduce(np.add, (vector_of(share) for share in each))) for each in grouped]
        sizes = [largest(v) for v in new]
        for group, report, table, most in zip(self.groups, reports, state.products, sizes, strict=True):
            check_said(group, report, table.shape[1], most)
        lost = [self._lost(each) + rounded_off(most) for each, most in zip(grouped, sizes, strict=True)]
        steps = [(share.step or 0.0, vector_of(share)) for each in grouped for share in each]
        state = replace(
            state,
            measured=before,
            coarse=state.coarse or any(step > _COARSE * largest(v) for step, v in steps if step),
            width=sum(r.width for r in reports),
            free=tuple(r.free == r.width for r in reports),
            free_width=sum(r.free for r in reports if r.free == r.width),
        )
        noise = [
            np.concatenate([[drift + rounded_off(most)] * state.dropped, old, [v]])
            for old, v, drift, most in zip(state.noise, lost, state.drift, state.reached, strict=True)
        ]
        here, shares_of = self._at(state.z), state.shares
        known = state.gram_known, vector_places(state, len(self.ones))
        spans = Spans.of(self.task, here, self.ones, past, new, noise, reports, shares_of, *known).solved(self.task)
        if spans.done:
            # From the least weights no step leads away that gains only rounding.
            idle = state.searched and spans.origin - spans.best.value <= _IDLE * abs(spans.origin)
            return self._moved(state, spans, spans.sure if idle else spans.best), before
        return replace(state, spans=spans), before

    def _lost(self, shares: Sequence[Share]) -> float:
        """The variance, at a row, of what rounding on the way left out of these shares' sum."""
        return float(sum((share.step or 0.0) ** 2 / 12 for share in shares))

    def _answered(self, state: SubspaceState, spans: Spans, shares: Mapping[str, Share]) -> SubspaceState:
        """Go on with what parties said about the step, or take it."""
        answers: list[Answer | None] = [
            add_answers([Answer.unpack(shares[name].scalars, len(span.images)) for name in group if name in shares])
            if group[0] in shares
            else None
            for group, span in zip(self.groups, spans.spans, strict=True)
        ]
        spans = spans.heard(self.task, answers, len(self.groups) < len(self.task.parties)).solved(self.task)
        if not spans.done:
            return replace(state, spans=spans)
        return self._moved(state, spans, spans.best)

    def _moved(self, state: SubspaceState, spans: Spans, best: Trial) -> SubspaceState:
        """The state after this step."""
        moves = [
            span.moved(c, scale) for span, c, scale in zip(spans.spans, best.coefficients, best.scales, strict=True)
        ]
        best = self._centred(best)
        assert best.scores is not None
        self._known = best.known
        memory = state.memory
        before = state.measured
        images = [s.images.newest(min(memory, len(s.images) - state.dropped)) for s in spans.spans]
        noise = [s.noise[-min(memory, len(old) + 1) :] for old, s in zip(state.noise, spans.spans, strict=True)]
        products, row = step_products(state, spans.spans, best.coefficients)
        shares = self._added(state.shares, moves)
        # In short numbers the coordinator believes in falls that are rounding: there those that parties confirm count.
        gained = spans.origin - best.value
        fell = state.confirmed - before.objective if state.coarse else gained
        poor = state.poor + 1 if spans.poor else 0
        return replace(
            state,
            z=best.scores,
            intercept=state.intercept + best.intercept,
            shares=shares,
            images=tuple(images),
            noise=tuple(noise),
            drift=tuple(
                drift + float(c**2 @ span.noise)
                for drift, span, c in zip(state.drift, spans.spans, best.coefficients, strict=True)
            ),
            reached=tuple(max(before, largest(share)) for before, share in zip(state.reached, shares, strict=True)),
            measured=Measured(before.round + 1, best.value, 0.0, np.nan),
            coefficients=tuple(best.coefficients),
            scales=tuple(best.scales),
            products=products,
            dropped=state.dropped or len(state.images[0]) >= memory,
            counted=state.counted_after(poor, self.judge is not self.task),
            poor=poor,
            gram_row=row,
            bounds=state.bounds.fallen(fell),
            gained=gained,
            confirmed=before.objective,
            told=None,
            spans=None,
            gram_known=spans.valley.gram,
        )

    def _centred(self, best: Trial) -> Trial:
        """With the intercept at its minimum: Newton's method creeps where the loss is flat between far kinks."""
        task, known = self.task, best.known
        if known is None or not task.fit_intercept or task.loss.bends_slowly or not task.loss.convex:
            return best
        if abs(float(known.gradient.sum())) <= _UNBALANCED * sum_of_sizes(known.gradient):
            return best
        shift = best_shift(task, known.z)
        there = Point.at(task, moved_scores(task, known.z, equal_ones(known.z.size), shift))
        if not there.value < known.value:
            return best
        value, intercept = best.value + there.value - known.value, best.intercept + shift
        return replace(best, intercept=intercept, value=value, scores=there.z, known=there)

    def _added(self, shares: Sequence[Array], moves: Sequence[Array]) -> tuple[Array, ...]:
        """Each group's part of the scores, moved."""
        return tuple(moved_scores(self.task, share, move) for share, move in zip(shares, moves, strict=True))

    def _bounded(self, state: SubspaceState, said: Mapping[str, Description]) -> Bounds:
        return bounded(self.judge, state, self._gradient(state) if state.told is None else state.told, said)

    def closed(self, state: SubspaceState, shares: Mapping[str, Share]) -> Measured:
        said = {name: Description.unpack(s.scalars, 0) for name, s in shares.items()}
        corrected = replace(self._corrected(state, shares), bounds=self._bounded(state, said))
        return replace(completed(self.task, self.judge, corrected, self._at(corrected.z), said), paused=False)

    def reopened(self, state: SubspaceState, shares: Mapping[str, Share]) -> SubspaceState:
        state = self._corrected(state, shares)
        none = (np.empty(0),) * len(self.groups)
        # What rounding hid is known now: only rounds after this show whether the run has arrived.
        bounds = replace(state.bounds, falls=()) if state.coarse else state.bounds
        state = replace(state, coefficients=none, spans=None, least=None, gram_row=np.empty(0))
        noise = tuple(_SET_ASIDE * each for each in state.noise) if state.coarse else state.noise
        return replace(state, bounds=bounds, noise=noise, coarse=False)

    def _corrected(self, state: SubspaceState, shares: Mapping[str, Share]) -> SubspaceState:
        """With what the parties found missing in the coordinator's scores."""
        zero = np.broadcast_to(np.float64(0.0), (self.task.rows,))
        missing: list[Array] = [
            sum((v for name in group if name in shares and (v := shares[name].vector) is not None), start=zero)
            for group in self.groups
        ]
        if not any(v.any() for v in missing):
            return state
        found = self._added(state.shares, missing)
        drift = tuple(self._lost([shares[name] for name in group if name in shares]) for group in self.groups)
        return replace(state, shares=found, z=sum(missing, state.z), drift=drift)

    def current(self, state: SubspaceState) -> Measured:
        return state.measured

    def intercept(self, state: SubspaceState) -> float:
        return state.intercept

    def known_scores(self, state: SubspaceState) -> Array:
        return state.z
