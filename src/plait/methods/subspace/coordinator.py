"""The coordinator's half of the subspace method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import CoordinatorSide, Measured, Task, balanced, vector_of
from plait.methods.subspace.bounds import Bounds
from plait.methods.subspace.checks import answer_form
from plait.methods.subspace.images import Images, largest
from plait.methods.subspace.least_norm import MOST_ROWS, LeastNorm, ambiguous
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
from plait.methods.subspace.questions import Spans, Trial
from plait.methods.subspace.span import Point, Products, best_shift, equal_ones, moved_scores

Groups = tuple[tuple[str, ...], ...]
_COARSE = 1e-6  # of a vector's largest number: larger steps between numbers count as coarse
_EPSILON = float(np.finfo(np.float64).eps)  # of a number: what double precision rounds off
_ULPS = 400  # roundings that a product D y goes through, with room: some columns cancel


@dataclass(frozen=True)
class SubspaceState:
    """z (N,), b, and per group (each party, or all together) its part of z and the images received, (k, N)."""

    z: Array
    intercept: float
    shares: tuple[Array, ...]
    images: tuple[Images, ...]
    noise: tuple[Array, ...]
    """The variance (k,) of what rounding on the way left out of each image, at each sample."""
    drift: tuple[float, ...]
    """The variance, at a sample, of what the coordinator's part of z lacks of the group's own scores."""
    measured: Measured
    coefficients: tuple[Array, ...]
    scales: tuple[float, ...]
    products: tuple[Array, ...]
    """Products (k+1, s) of x and of the directions with the last steps, in the penalty's metric, per group."""
    start_score: float = 0.0
    width: float = 0.0
    dropped: bool = False
    counted: float = np.inf
    """On how many of the others' last moves parties with kinks count."""
    memory: int = 0
    gram_row: Array = field(default_factory=lambda: np.empty(0))
    bounds: Bounds = field(default_factory=Bounds)
    confirmed: float = np.inf
    """The objective one round ago, as the parties confirmed it."""
    coarse: bool = False
    """Whether vectors travel in steps that show in the objective."""
    told: Array | None = None
    """The gradient (N,) as parties received it, where it was rounded on its way."""
    rounded: bool = False
    """Whether vectors are rounded on their way."""
    spans: Spans | None = None
    """A round under way: parties are being asked about a step."""
    moves: Array = field(default_factory=lambda: np.empty((0, 0)))
    """Where gradients are hidden: the last moves of all scores, (k, N)."""
    free: tuple[bool, ...] = ()
    """Which groups have no penalty."""
    free_width: float = 0.0
    """How many features these have."""
    least: LeastNorm | None = None
    """A search under way: for the least of equally good weights."""
    searched: bool = False
    """Whether there was one: a run that goes on from the least weights stays close to them."""
    products_known: Products | None = None
    """Products of the last round's vectors, group by group, and of the constant."""


class SubspaceCoordinator(CoordinatorSide):
    """Minimises over the span of what it has received."""

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
        value = task.mean_loss(z)
        return SubspaceState(
            z=z,
            intercept=b,
            shares=(zero,) * groups,
            images=(self._none,) * groups,
            noise=(np.empty(0),) * groups,
            drift=(0.0,) * groups,
            measured=Measured(0, value, 0.0, np.nan),
            coefficients=(np.empty(0),) * groups,
            scales=(1.0,) * groups,
            products=(np.zeros((1, 0)),) * groups,
            start_score=b,
            memory=self.memory,
            bounds=Bounds(self.judge.mean_loss(z)),
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
        if state.least is not None:
            return None if state.least.done else state
        groups = tuple(i for i, free in enumerate(state.free) if free)
        parts = tuple(state.shares[i] for i in groups)
        if state.searched or state.spans is not None or state.rounded or self.task.rows > MOST_ROWS:
            return None
        images = tuple(state.images[i].matrix for i in groups)
        if not any(part.any() for part in parts) or not ambiguous(self.task, state.free_width, images):
            return None
        return replace(state, least=LeastNorm.of(self.task, groups, parts), searched=True)

    def _sought(
        self, state: SubspaceState, least: LeastNorm, shares: Mapping[str, Share]
    ) -> tuple[SubspaceState, Measured]:
        """One step further in the search for the least weights; where it ends, these are taken."""
        groups = [[shares[name] for name in self.groups[i] if name in shares] for i in least.groups]
        least = least.heard(self.task, tuple(reduce(np.add, (vector_of(s) for s in each)) for each in groups))
        before = replace(state.measured, gap=state.bounds.gap(state.measured.objective))
        coefficients = [np.empty(0) if i in least.groups else c for i, c in enumerate(state.coefficients)]
        measured = replace(state.measured, round=before.round + 1)
        state = replace(state, least=least, coefficients=tuple(coefficients), measured=measured)
        if not least.reached:
            return state, before
        parts = dict(zip(least.groups, least.parts(), strict=True))
        found = tuple(parts.get(i, share) for i, share in enumerate(state.shares))
        moved = reduce(np.add, found) - reduce(np.add, state.shares)
        shift = -float(self.task.weights @ moved) if self.task.fit_intercept else 0.0
        return replace(state, shares=found, z=state.z + moved + shift, intercept=state.intercept + shift), before

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
                gram_row=np.empty(0) if asks else state.gram_row,
                outlook=np.empty(0) if asks else self.outlook(state, i),
            )
            form = answer_form(self.task.rows, len(self._past(state, i)) + 1, int(state.memory), asks, closing)
            says.update({name: Broadcast(number, g, orders.pack(), closing, expects=form) for name in group})
        return says

    def outlook(self, state: SubspaceState, i: int) -> Array:
        """What group i is told of what a hidden gradient would have shown; nothing where it is open."""
        return np.empty(0)

    def _past(self, state: SubspaceState, i: int) -> Images:
        """The images of group i's basis but for the newest, (k, N)."""
        images = state.images[i]
        return self._none.and_these([state.shares[i], *images.vectors]) if state.dropped else images

    def absorb(self, state: SubspaceState, shares: Mapping[str, Share]) -> tuple[SubspaceState, Measured | None]:
        if state.spans is not None:
            return self._answered(state, state.spans, shares), None
        if state.least is not None:
            return self._sought(state, state.least, shares)
        past = [self._past(state, i) for i in range(len(self.groups))]
        said = {
            name: Description.unpack(shares[name].scalars, len(images) + 1)
            for group, images in zip(self.groups, past, strict=True)
            for name in group
            if name in shares
        }
        state = replace(state, bounds=self._bounded(state, said))
        before = self._completed(state, said)
        reports = [add_reports([said[name] for name in group if name in said]) for group in self.groups]
        grouped = [[shares[name] for name in group if name in shares] for group in self.groups]
        new = [self.task.workspace.kept(reduce(np.add, (vector_of(share) for share in each))) for each in grouped]
        lost = [
            sum((share.step or 0.0) ** 2 / 12 for share in each) + _rounding(v)
            for each, v in zip(grouped, new, strict=True)
        ]
        steps = [(share.step or 0.0, vector_of(share)) for each in grouped for share in each]
        state = replace(
            state,
            measured=before,
            coarse=state.coarse or any(step > _COARSE * largest(v) for step, v in steps),
            width=sum(r.width for r in reports),
            free=tuple(r.free == r.width for r in reports),
            free_width=sum(r.free for r in reports if r.free == r.width),
        )
        noise = [
            np.concatenate([[drift] * state.dropped, old, [v]])
            for old, v, drift in zip(state.noise, lost, state.drift, strict=True)
        ]
        here, shares_of = self._at(state.z), state.shares
        known = state.products_known, self._places(state)
        spans = Spans.of(self.task, here, self.ones, past, new, noise, reports, shares_of, *known).solved(self.task)
        if spans.done:
            return self._moved(state, spans, spans.best), before
        return replace(state, spans=spans), before

    def _places(self, state: SubspaceState) -> npt.NDArray[np.intp]:
        """Where each vector of all groups' bases, and the constant, was in the last round; -1 for a new one, or x."""
        if state.products_known is None:
            return np.empty(0, dtype=np.intp)
        free = len(self.ones)
        each = (len(state.products_known.gram) - free) // len(self.groups)
        places: list[int] = []
        for i, images in enumerate(state.images):
            last = (i + 1) * each
            places += [*[-1] * state.dropped, *range(last - len(images), last), -1]
        return np.array([*places, *range(each * len(self.groups), each * len(self.groups) + free)], dtype=np.intp)

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
        assert best.scores is not None
        self._known = best.known
        memory = state.memory
        before = state.measured
        images = [s.images.newest(min(memory, len(s.images) - state.dropped)) for s in spans.spans]
        noise = [np.append(old, s.noise[-1])[-memory:] for old, s in zip(state.noise, spans.spans, strict=True)]
        products, row = self._products(state, spans, best.coefficients)
        # In short numbers the coordinator believes in falls that are rounding: there those that parties confirm count.
        fell = state.confirmed - before.objective if state.coarse else before.objective - best.value
        return replace(
            state,
            z=best.scores,
            intercept=state.intercept + best.intercept,
            shares=self._added(state.shares, moves),
            images=tuple(images),
            noise=tuple(noise),
            drift=tuple(
                drift + float(c**2 @ span.noise)
                for drift, span, c in zip(state.drift, spans.spans, best.coefficients, strict=True)
            ),
            measured=Measured(before.round + 1, best.value, 0.0, np.nan),
            coefficients=tuple(best.coefficients),
            scales=tuple(best.scales),
            products=products,
            dropped=state.dropped or len(state.images[0]) >= memory,
            counted=0.0 if spans.poor else 2 * state.counted + 1,
            gram_row=row,
            bounds=state.bounds.fallen(fell),
            confirmed=before.objective,
            told=None,
            spans=None,
            products_known=spans.valley.carried(),
        )

    def _added(self, shares: Sequence[Array], moves: Sequence[Array]) -> tuple[Array, ...]:
        """Each group's part of the scores, moved."""
        return tuple(moved_scores(self.task, share, move) for share, move in zip(shares, moves, strict=True))

    def _products(
        self, state: SubspaceState, spans: Spans, coefficients: list[Array]
    ) -> tuple[tuple[Array, ...], Array]:
        """Each group's products after the step, and the new step's with the last ones and itself, over all groups."""
        grown, total = [], np.zeros(0)
        for old, span, c in zip(state.products, spans.spans, coefficients, strict=True):
            report, along = span.report, span.report.along
            k = report.model.k
            if span.kinks:
                along, k = np.zeros(old.shape[1]), np.zeros_like(k)
            table = np.vstack([old, along[len(along) - old.shape[1] :]])
            rows = table if state.dropped else table[1:]
            past, itself = c @ rows, k @ c
            on_x = float(itself[0]) if state.dropped else float(np.sum(past))
            step = np.append(past, c @ itself)
            total = step if not total.size else total + step
            x_row = np.append(table[0] + past, on_x + c @ itself)
            own = np.column_stack([table[1:], itself[1:] if state.dropped else itself])
            grown.append(np.vstack([x_row, own[-state.memory :]])[:, -state.memory :])
        return tuple(grown), total

    def _bounded(self, state: SubspaceState, said: Mapping[str, Description]) -> Bounds:
        """What is known about the optimum, with this round's dual point."""
        judge = self.judge
        if not judge.loss.convex:
            return state.bounds
        g = self._gradient(state) if state.told is None else state.told
        return state.bounds.with_dual(judge, g, list(said.values()))

    def _completed(self, state: SubspaceState, said: Mapping[str, Description]) -> Measured:
        """The state, whose bounds are this round's, with the parties' own account of it."""
        reports = list(said.values())
        missing = sum(r.drift_size for r in reports)
        curvature = float(np.max(self._at(state.z).curvature)) if missing else 0.0
        believed = self._at(state.z).value + sum(r.penalty for r in reports)
        objective = believed + sum(r.drift_slope for r in reports) + curvature * missing**2 / 2
        bounds = state.bounds
        hoped = len(self.task.parties) * sum(r.gain for r in reports) if self.judge is self.task else np.inf
        # What rounding left out is sent in the end; the last measurement then has the true objective.
        judged = believed
        if self.judge is not self.task:
            judged += self.judge.mean_loss(state.z) - self._at(state.z).value
        gap, estimate = bounds.gap(judged), bounds.estimate(judged, hoped, self.task.loss.convex, state.coarse)
        lyapunov = sum(r.stationarity for r in reports)
        return replace(state.measured, objective=objective, lyapunov=lyapunov, gap=gap, estimate=estimate, dual=gap)

    def closed(self, state: SubspaceState, shares: Mapping[str, Share]) -> Measured:
        said = {name: Description.unpack(s.scalars, 0) for name, s in shares.items()}
        bounds = self._bounded(state, said)
        state = replace(self._corrected(state, shares), bounds=bounds)
        return self._completed(state, said)

    def reopened(self, state: SubspaceState, shares: Mapping[str, Share]) -> SubspaceState:
        state = self._corrected(state, shares)
        none = (np.empty(0),) * len(self.groups)
        return replace(state, coefficients=none, spans=None, least=None, gram_row=np.empty(0))

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
        return replace(state, shares=found, z=sum(missing, state.z), drift=(0.0,) * len(self.groups))

    def current(self, state: SubspaceState) -> Measured:
        return state.measured

    def intercept(self, state: SubspaceState) -> float:
        return state.intercept

    def known_scores(self, state: SubspaceState) -> Array:
        return state.z


def _rounding(*vectors: Array) -> float:
    """The variance, at a sample, of what double precision leaves out of the sum of these vectors."""
    return (_ULPS * _EPSILON * sum(map(largest, vectors))) ** 2
