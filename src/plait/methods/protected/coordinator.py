"""The coordinator's half of the subspace method."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
from scipy.linalg import block_diag

from plait._types import Array
from plait.messages import Broadcast, Share
from plait.methods.base import CoordinatorSide, Measured, Task, vector_of
from plait.methods.protected.checks import answer_form
from plait.methods.protected.messages import FAR, NO_BOUND, NUMBERS, Bound, Orders, Report, add_reports
from plait.methods.protected.party import MODELS
from plait.methods.protected.span import PRECISE, ROUGH, Scores, minimise_over_box, minimise_over_span

_WITH_KINKS = 10
_LOOK_BACK, _CAUTION = 3, 2.0
_LONG_LOOK_BACK, _GREAT_CAUTION = 8, 50.0


@dataclass(frozen=True)
class BoundedState:
    """z (N,), b, and per group (each party, or all together) the images of the last steps (k, N) and their noise."""

    z: Array
    intercept: float
    images: tuple[Array, ...]
    noise: tuple[Array, ...]
    """The covariance (k, k) of what rounding on the way left out of the images, at each sample."""
    measured: Measured
    coefficients: tuple[Array, ...]
    start_score: float = 0.0
    width: float = 0.0
    models: int = MODELS
    gram_row: Array = field(default_factory=lambda: np.empty(0))
    left: float = np.inf
    """What could still be gained before the last step, as far as known."""
    decreases: tuple[float, ...] = ()
    """By how much the objective fell in the last rounds."""
    gains: tuple[float, ...] = ()
    """What the parties hoped to gain in the last rounds."""


@dataclass(frozen=True)
class Candidate:
    """A step, one coefficient vector per group, and an upper bound on the objective that it reaches.

    The loss that it leads to, where it was computed on the way.
    """

    coefficients: list[Array]
    intercept: float
    bound: float
    known: Scores | None = None


class BoundedCoordinator(CoordinatorSide):
    """Minimises over the span of what it has received."""

    def __init__(self, task: Task, memory: int, sums_only: bool, stiffness: float = 1.0) -> None:
        self.task = task
        self.stiffness = stiffness
        self.memory = memory
        together = sums_only or len(task.parties) == 1
        self.groups: tuple[tuple[str, ...], ...] = (
            (task.parties,) if together else tuple((name,) for name in task.parties)
        )
        self.ones = np.ones((int(task.fit_intercept), task.rows))
        self._known: Scores | None = None

    def start(self) -> BoundedState:
        task, groups = self.task, len(self.groups)
        z = np.zeros(task.rows)
        b = self._best_intercept(z)
        measured = Measured(0, task.mean_loss(z + b), 0.0, np.nan)
        empty = (np.empty((0, task.rows)),) * groups
        exact = (np.empty((0, 0)),) * groups
        return BoundedState(z + b, b, empty, exact, measured, (np.empty(0),) * groups, start_score=b)

    def _best_intercept(self, z: Array) -> float:
        """How far to shift all scores."""
        if not self.task.fit_intercept:
            return 0.0
        here = Scores.at(self.task, z)
        return float(minimise_over_span(self.task, here, self.ones, np.zeros(1), np.zeros((1, 1))).coefficients[0])

    def _at(self, z: Array) -> Scores:
        """The loss at scores that are asked about several times in a row."""
        if self._known is None or self._known.z is not z:
            self._known = Scores.at(self.task, z)
        return self._known

    def requests(self, state: BoundedState) -> dict[str, Broadcast]:
        return self._messages(state, closing=False)

    def closing(self, state: BoundedState) -> dict[str, Broadcast]:
        return self._messages(state, closing=True)

    def _messages(self, state: BoundedState, closing: bool) -> dict[str, Broadcast]:
        g = self._at(state.z).gradient
        number = state.measured.round + (not closing)
        rest = (state.models, state.start_score, float(self.task.fit_intercept), self.stiffness, state.width)
        form = answer_form(self.task.rows, len(state.images[0]) + 1, state.models, closing, NUMBERS, MODELS)
        memory = self._memory(state.models > 1)
        return {
            name: Broadcast(number, g, Orders(memory, *rest, c, state.gram_row).pack(), closing, expects=form)
            for group, c in zip(self.groups, state.coefficients, strict=True)
            for name in group
        }

    def absorb(self, state: BoundedState, shares: Mapping[str, Share]) -> tuple[BoundedState, Measured | None]:
        said = {name: Report.unpack(shares[name].scalars, len(state.images[0]) + 1) for name in self.task.parties}
        before = self._completed(state, said)
        reports = [add_reports([said[name] for name in group]) for group in self.groups]
        new = [reduce(np.add, (vector_of(shares[name]) for name in group)) for group in self.groups]
        images = [np.vstack([old, v]) for old, v in zip(state.images, new, strict=True)]
        lost = [sum((shares[name].step or 0.0) ** 2 / 12 for name in group) for group in self.groups]
        noise = [block_diag(old, v) for old, v in zip(state.noise, lost, strict=True)]
        fixed = np.zeros((len(self.ones),) * 2)
        best = self._best(state, before, images, block_diag(*noise, fixed), reports)
        steps = [c @ i for c, i in zip(best.coefficients, images, strict=True)]
        self._known = best.known
        memory = self._memory(any(r.kinks for r in reports))
        kept = [np.vstack([i[:-1], s])[-memory:] for i, s in zip(images, steps, strict=True)]
        left_out = [_moved(v, c)[-memory:, -memory:] for v, c in zip(noise, best.coefficients, strict=True)]
        return BoundedState(
            z=sum(steps, state.z + best.intercept) if best.known is None else best.known.z,
            intercept=state.intercept + best.intercept,
            images=tuple(kept),
            noise=tuple(left_out),
            measured=Measured(before.round + 1, best.bound, 0.0, np.nan),
            coefficients=tuple(best.coefficients),
            start_score=state.start_score,
            width=sum(r.width for r in reports),
            models=MODELS if any(r.kinks for r in reports) else 1,
            gram_row=self._gram_row(reports, best.coefficients),
            left=before.dual * abs(before.objective),
            decreases=(*state.decreases, before.objective - best.bound)[-_LONG_LOOK_BACK:],
            gains=(*state.gains, sum(r.gain for r in reports))[1 - _LOOK_BACK :],
        ), before

    def _best(
        self, state: BoundedState, before: Measured, images: list[Array], noise: Array, reports: list[Report]
    ) -> Candidate:
        """The step with the least upper bound on the objective; never worse than staying."""
        z = state.z
        if not any(r.kinks for r in reports):
            return self._span(z, images, noise, [r.models[0] for r in reports], PRECISE)
        stay = Candidate([np.zeros(len(i)) for i in images], 0.0, before.objective)
        models = zip(*(r.models for r in reports), strict=True)
        spans = [self._span(z, images, noise, list(m), ROUGH) for m in models if max(a.constant for a in m) < NO_BOUND]
        hulls = [self._hull(z, images, reports, far) for far in (False, True)]
        return min([*spans, *hulls, stay], key=lambda c: c.bound)

    def _span(self, z: Array, images: list[Array], noise: Array, models: list[Bound], precision: float) -> Candidate:
        """Over all coefficients, with a parabola above each penalty."""
        free = len(self.ones)
        basis = np.vstack([*images, self.ones])
        r = np.concatenate([*(m.r for m in models), np.zeros(free)])
        k = block_diag(*(m.k for m in models), np.zeros((free, free)))
        best = minimise_over_span(self.task, self._at(z), basis, r, k, precision, noise)
        *c, b = np.split(best.coefficients, np.cumsum([len(i) for i in images]))
        return Candidate(c, float(b.sum()), best.value + sum(m.constant for m in models), best.known)

    def _hull(self, z: Array, images: list[Array], reports: list[Report], far: bool) -> Candidate:
        """Between x and x + d, or as far as x + FAR d, where a convex penalty lies below its chord."""
        lengths = [FAR if far and r.beyond < NO_BOUND else 1.0 for r in reports]
        newest = np.stack([length * i[-1] for length, i in zip(lengths, images, strict=True)])
        ends = [r.beyond if length == FAR else r.reached for length, r in zip(lengths, reports, strict=True)]
        chord = np.array([end - r.penalty for end, r in zip(ends, reports, strict=True)])
        best = minimise_over_box(self.task, self._at(z), newest, chord)
        b = self._best_intercept(best.scores)
        reach = best.coefficients * lengths
        c = [np.append(np.zeros(len(i) - 1), a) for i, a in zip(images, reach, strict=True)]
        penalty = float(chord @ best.coefficients) + sum(r.penalty for r in reports)
        return Candidate(c, b, self.task.mean_loss(best.scores + b) + penalty)

    def _memory(self, kinks: bool) -> int:
        """A penalty with kinks takes several minimisations a round, and gains little from a long memory."""
        return min(self.memory, _WITH_KINKS) if kinks else self.memory

    def _gram_row(self, reports: list[Report], coefficients: list[Array]) -> Array:
        """The new step's products with the past ones and with itself, in the penalty's metric, over all parties."""
        rows = [
            np.append((r.models[0].k @ c)[:-1], c @ r.models[0].k @ c)
            for r, c in zip(reports, coefficients, strict=True)
        ]
        return np.sum(rows, axis=0)

    def _completed(self, state: BoundedState, said: Mapping[str, Report]) -> Measured:
        """The state with the parties' own account of it; `dual` is what may still be gained, relative.

        A party's gain is what it alone could still reach; together they can reach up to M times that.  With kinks the
        gain counts on the others' help and goes up and down; there the last few have to be small, or the decreases
        very small for long.
        """
        total = add_reports([replace(r, models=()) for r in said.values()])
        objective = self._at(state.z).value + total.penalty
        left = len(said) * total.gain
        if total.kinks and len(said) > 1:
            left = _CAUTION * max(*state.gains, total.gain, 0.0)
            if len(state.decreases) == _LONG_LOOK_BACK:
                left = min(left, _GREAT_CAUTION * max(state.decreases))
        dual = left / max(abs(objective), 1e-300)
        return replace(state.measured, objective=objective, lyapunov=total.stationarity, dual=dual)

    def closed(self, state: BoundedState, shares: Mapping[str, Share]) -> Measured:
        measured = self._completed(state, {name: Report.unpack(s.scalars, 1) for name, s in shares.items()})
        return replace(measured, dual=state.left / max(abs(measured.objective), 1e-300))

    def current(self, state: BoundedState) -> Measured:
        return state.measured

    def intercept(self, state: BoundedState) -> float:
        return state.intercept

    def known_scores(self, state: BoundedState) -> Array:
        return state.z


def _moved(covariance: Array, c: Array) -> Array:
    """The covariance (k, k) of vectors of which the last has become the sum of all, with these coefficients (k,)."""
    moved = covariance.copy()
    moved[-1] = moved[:, -1] = covariance @ c
    moved[-1, -1] = c @ covariance @ c
    return moved
