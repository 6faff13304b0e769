"""A round at the coordinator where penalties have kinks or walls: propose a step, ask what it costs, propose again.

Every party has stated a parabola for its penalty near y.  The coordinator minimises the loss and these parabolas over
all coefficients, and asks the parties with kinks what their penalty would be after the step: a few numbers each way,
no vector.  They answer with the true penalty and with a parabola seen from there, and the coordinator minimises again.
The step that is taken was either asked about or is a chord between points whose penalties are known, so that the
objective never grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from plait._replace import replace
from plait._types import Array
from plait.methods.base import Task
from plait.methods.subspace.images import Images
from plait.methods.subspace.messages import Answer, Description, Model
from plait.methods.subspace.newton import Minimum
from plait.methods.subspace.point import Point, equal_ones, moved_scores
from plait.methods.subspace.products import gram_of
from plait.methods.subspace.span import PRECISE, lower, lowest
from plait.methods.subspace.valley import Valley
from plait.problem.row_blocks import vector_by_parts

QUESTIONS = 16  # in a round; each costs a latency, and most rounds need two to six
LEAST = 10  # questions: after so many a round may end although kinks are still rounded off
_ENOUGH = 0.02  # of what a minimisation has gained: a Newton step that promises less is left to the next question
_TRUST = 0.03  # of what the round has gained: where the loss bends by less along a step, its parabola is believed
_MORE = 0.2  # of what has been gained: what another question must promise
_LEFT = 0.1  # of what has been gained: what a better rounding of kinks may still add at the end of a round
_POOR = 0.1  # of what was promised first: below it parties are told not to count on the others in the next round
_ROUNDING = 1e-14  # of the objective, ten times what a sum is off by: of steps this close the last one counts
_WHOLE = 0.05  # steps this close to 1 become 1, so that what rests at y rests exactly; costs 0.25 % of the gain


@dataclass(frozen=True)
class Trial:
    """A step: coefficients and scale per group, the shift of the intercept, the objective and the penalties there.

    scores are (N,), None where the loss was taken from its parabola; then the objective is not sure.
    """

    coefficients: list[Array]
    scales: list[float]
    intercept: float
    value: float
    penalty: float
    scores: Array | None
    known: Point | None = None


@dataclass(frozen=True)
class Span:
    """One group: images (k+1, N) and their noise (k+1,), its report, its part of the scores (N,), its model."""

    images: Images
    noise: Array
    report: Description
    share: Array
    model: Model
    asked: Array
    """The coefficients (k+1,) it is asked about."""

    @property
    def kinks(self) -> bool:
        return self.report.kinks > 0

    @property
    def whole(self) -> Array:
        """The coefficients of the group's own point y."""
        c = np.zeros(len(self.images))
        c[-1] = 1.0
        return c

    def moved(self, c: Array, scale: float = 1.0) -> Array:
        """By how much the group's scores change, (N,)."""
        images, share = self.images, self.share
        move = images.newest(1).combined(c[-1:]) if not c[:-1].any() else images.combined(c)
        if scale == 1:
            return move

        def part(rows: slice) -> Array:
            return np.asarray(scale * (share[rows] + move[rows]) - share[rows])

        return vector_by_parts(part, images.rows, images.workspace)


@dataclass(frozen=True)
class Spans:
    """All groups, where the last minimisation over their images ended, and how the questions have gone."""

    spans: tuple[Span, ...]
    vectors: Images
    """All groups' images and the constant, where there is one."""
    valley: Valley
    here: Point
    origin: float
    best: Trial
    sure: Trial
    """The best step whose loss has been computed."""
    asked_intercept: float = 0.0
    promised: float = np.inf
    """The decrease that the first models promised."""
    questions: int = 0
    left: float = np.inf
    """By how much a better rounding of kinks may still lower the penalties of the last step."""
    done: bool = False

    @staticmethod
    def of(
        task: Task,
        here: Point,
        ones: Images,
        past: Sequence[Images],
        newest: Sequence[Array],
        noise: Sequence[Array],
        reports: Sequence[Description],
        shares: Sequence[Array],
        before: Array | None,
        places: npt.NDArray[np.intp],
    ) -> "Spans":
        """past: per group its vectors (k, N); newest: per group the one (N,) that has come.

        places (K,): where each vector was among those of the last round, whose products are `before`; -1: new.
        """
        vectors, images = Images.gathered(past, newest, ones)
        spans = tuple(
            Span(i, n, r, share, r.model, np.zeros(len(i)))
            for i, n, r, share in zip(images, noise, reports, shares, strict=True)
        )
        lost = np.concatenate([*noise, np.zeros(len(ones))])
        smooth = _block_diagonal([s.model.k for s in spans], len(vectors))
        valley = Valley.of(
            task, here, vectors, smooth, np.diag(lost) if lost.any() else None, gram_of(task, vectors, before, places)
        )
        penalty = sum(r.penalty for r in reports)
        origin = here.value + penalty
        stay = Trial([np.zeros(len(i)) for i in images], [1.0] * len(spans), 0.0, origin, penalty, here.z, here)
        return Spans(spans, vectors, valley, here, origin, stay, stay)

    @property
    def _hidden(self) -> float:
        """What rounding may add to an objective, or take from it: of steps this close the last one counts."""
        return _ROUNDING * abs(self.origin)

    @property
    def poor(self) -> bool:
        """Whether the step gains far less than was promised at first."""
        hoped = max(self.promised, sum(s.report.gain for s in self.spans))
        return self.origin - self.best.value < _POOR * hoped

    def solved(self, task: Task) -> "Spans":
        """With a step to ask about, or done."""
        free = self.valley.kept.size - sum(len(s.images) for s in self.spans)
        r = np.concatenate([*(s.model.r for s in self.spans), np.zeros(free)])
        k = _block_diagonal([s.model.k for s in self.spans], self.valley.kept.size)
        if not any(s.kinks for s in self.spans):
            valley, found = lowest(task, self.valley, r, k)
            return replace(self, valley=valley, best=self._taken(found), done=True)
        gained = self.origin - self.best.value
        small = max(_TRUST * gained, PRECISE * abs(self.origin)) if task.loss.bends_slowly else None
        valley, c, value = lower(task, self.valley, r, k, _ENOUGH, small)
        promise = self.origin - value - sum(s.model.constant for s in self.spans)
        now = replace(self, valley=valley)._asking(c)
        if now.questions == 0:
            return replace(now, promised=max(promise, 0.0))._with_ends(task)
        gained = now.origin - now.best.value
        enough = now.left <= _LEFT * gained or now.questions >= LEAST
        if now.questions == QUESTIONS or (enough and promise <= (1 + _MORE) * gained):
            return now._ended(task)
        return now

    def _taken(self, found: Minimum) -> Trial:
        """The minimum itself, where every penalty is a parabola."""
        *c, b = self._parts(found.coefficients)
        constant = sum(s.model.constant for s in self.spans)
        return Trial(c, [1.0] * len(c), float(b.sum()), found.value + constant, np.nan, found.scores, found.known)

    def _parts(self, c: Array) -> list[Array]:
        """Coefficients (K,) group by group, and that of the constant, if there is one."""
        each = len(self.spans[0].images)
        ends = range(0, each * len(self.spans) + 1, each)
        return [*(c[a:b] for a, b in pairwise(ends)), c[ends[-1] :]]

    def _asking(self, found: Array) -> "Spans":
        """The step, of coefficients (K,), as it is asked about."""
        *parts, b = self._parts(found)
        spans = []
        for span, c in zip(self.spans, parts, strict=True):
            if span.kinks and abs(c[-1] - 1) <= _WHOLE:
                c = c.copy()
                c[-1] = 1.0
            spans.append(replace(span, asked=c))
        return replace(self, spans=tuple(spans), asked_intercept=float(b.sum()))

    def _with_ends(self, task: Task) -> "Spans":
        """With the step to every party's own point y as a candidate: what rests there rests exactly."""
        c = [s.whole if s.kinks else s.asked for s in self.spans]
        penalty = sum(s.report.reached if s.kinks else s.model.value(s.asked) for s in self.spans)
        ends = self._candidate(task, c, [1.0] * len(c), penalty)
        return replace(self, best=ends, sure=ends) if ends.value < self.best.value else self

    def _candidate(self, task: Task, c: list[Array], scales: list[float], penalty: float) -> Trial:
        if all(scale == 1 for scale in scales):
            free = len(self.vectors) - sum(part.size for part in c)
            together = self.vectors.combined(np.concatenate([*c, np.full(free, self.asked_intercept)]))
            z = moved_scores(task, self.here.z, together)
        else:
            z = self.here.z + self.asked_intercept
            for span, part, scale in zip(self.spans, c, scales, strict=True):
                z = moved_scores(task, z, span.moved(part, scale))
        known = Point.at(task, z)
        return Trial(c, scales, self.asked_intercept, known.value + penalty, penalty, z, known)

    def _believed(self, c: list[Array], penalty: float) -> Trial:
        """The same with the loss's parabola: no row is looked at."""
        free = self.valley.kept.size - sum(len(s.images) for s in self.spans)
        loss = self.valley.parabola(np.concatenate([*c, np.full(free, self.asked_intercept)]))
        return Trial(c, [1.0] * len(c), self.asked_intercept, loss + penalty, penalty, None)

    def heard(self, task: Task, answers: Sequence[Answer | None], sums: bool) -> "Spans":
        """With the parties' answers: a candidate whose objective is known, and better models."""
        c, scales, penalty, spans, known = [], [], 0.0, [], True
        for span, answer in zip(self.spans, answers, strict=True):
            if answer is None:
                c.append(span.asked)
                scales.append(1.0)
                itself = span.model.value(span.asked)
                known &= itself >= -self._hidden  # no penalty is below 0: of a huge step the sum is rounding alone
                penalty += itself
                spans.append(span)
                continue
            c.append(answer.fraction * span.asked)
            scales.append(answer.scale)
            penalty += answer.penalty
            known &= not sums or (answer.fraction == 1 and answer.scale == 1)
            spans.append(replace(span, model=answer.model))
        left = sum(answer.left for answer in answers if answer is not None)
        now = replace(self, spans=tuple(spans), questions=self.questions + 1, left=left)
        if not known:
            return now
        if all(a is None or (a.fraction == 1 and a.scale == 1) for a in answers):
            found = self._believed(c, penalty)
            return replace(now, best=found) if found.value < self.best.value + self._hidden else now
        found = self._candidate(task, c, scales, penalty)
        best = found if found.value < self.best.value else self.best
        return replace(now, best=best, sure=found if found.value < self.sure.value else self.sure)

    def _ended(self, task: Task) -> "Spans":
        """Done, and the loss of the step computed where it was only believed.

        Where little was gained, the best of the chords between x and y is one more candidate: sure descent.
        """
        if self.best.scores is None:
            best = self.best
            found = replace(self, asked_intercept=best.intercept)._candidate(
                task, best.coefficients, best.scales, best.penalty
            )
            return replace(self, best=found if found.value < self.sure.value + self._hidden else self.sure)._ended(task)
        if not self.poor:
            return replace(self, done=True)
        newest = Images(tuple(s.images.vectors[-1] for s in self.spans), self.here.z.size, task.workspace)
        start = sum(s.report.penalty for s in self.spans)
        chord = np.array([s.report.reached - s.report.penalty for s in self.spans])
        free = self.valley.kept.size - sum(len(s.images) for s in self.spans)
        t, b = _over_box(task, self.here, newest, chord, free)
        c = [a * s.whole for a, s in zip(t, self.spans, strict=True)]
        chords = replace(self, asked_intercept=b)._candidate(task, c, [1.0] * len(c), start + float(chord @ t))
        best = chords if chords.value < self.best.value else self.best
        return replace(self, best=best, done=True)


def _block_diagonal(blocks: Sequence[Array], size: int) -> Array:
    """The blocks along the diagonal of a matrix (size, size), and zeros."""
    whole, at = np.zeros((size, size)), 0
    for block in blocks:
        end = at + len(block)
        whole[at:end, at:end] = block
        at = end
    return whole


def _over_box(task: Task, here: Point, vectors: Images, slopes: Array, free: int) -> tuple[Array, float]:
    """t (M,) in [0, 1] and a shift b of all scores that lower  loss(z + b + t^T vectors) + slopes^T t.

    Coordinate descent on the loss's parabola at z, then halved until it holds.
    """
    vectors = vectors.and_these([equal_ones(here.z.size)] * free)
    slopes = np.append(slopes, np.zeros(free))
    h = vectors.gram(here.curvature)
    gradient = vectors.dot(here.gradient) + slopes
    t = np.zeros(slopes.size)
    most = np.append(np.ones(slopes.size - free), np.full(free, np.inf))
    least = np.append(np.zeros(slopes.size - free), np.full(free, -np.inf))
    for _ in range(_SWEEPS):
        for j in np.flatnonzero(np.diag(h) > 0):
            t[j] = np.clip(t[j] - (gradient[j] + h[j] @ t) / h[j, j], least[j], most[j])
    for _ in range(_HALVINGS):
        if task.mean_loss(moved_scores(task, here.z, vectors.combined(t))) + float(slopes @ t) < here.value:
            break
        t = t / 2
    return t[: t.size - free], float(t[t.size - free :].sum())


_SWEEPS, _HALVINGS = 50, 30  # over the parties; of a step that the loss's curvature at z misjudges
