"""A round at the coordinator where penalties have kinks or walls: propose a step, ask what it costs, propose again.

Parties have described their penalties near y.  The coordinator minimises the loss and that description, and asks the
parties with kinks what their penalty would be after the step: a few numbers each way, no vector.  An answer that
disagrees becomes one more piece of the description.  The step that is taken was either asked about or is a chord
between points whose penalties are known, so that the objective never grows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import block_diag

from plait._types import Array
from plait.methods.base import Task
from plait.methods.certified.messages import Answer, Description
from plait.methods.certified.pieces import Pieces
from plait.methods.certified.span import PieceMinimum, Point, minimise_pieces

QUESTIONS = 6  # in a round; each costs a latency, and most rounds need one
_GOOD = 0.5  # of the predicted decrease: a step that reaches so much is taken
_AS_GOOD = 0.9  # of the predicted decrease: if all parties' own points y reach so much, nobody is asked
_POOR = 0.1  # of the predicted decrease: below it parties are told not to count on the others in the next round
_NOTHING = 1e-14  # of the objective: a decrease that rounding hides
_HELD = 0.3  # of what all steps promise: those that leave weights at rest are preferred down to here
_WHOLE = 0.05  # steps this close to 1 become 1, so that what rests at y rests exactly; costs 0.25 % of the gain
_SEEN = 1e-9  # eigenvalues of a sum of projectors below this are zero


@dataclass(frozen=True)
class Trial:
    """A step: coefficients and scale per group, the shift of the intercept, the objective and the scores (N,) there."""

    coefficients: list[Array]
    scales: list[float]
    intercept: float
    value: float
    scores: Array
    known: Point | None = None


@dataclass(frozen=True)
class Tangent:
    """constant + slopes^T c, to which the penalty's curvature is added."""

    constant: float
    slopes: Array

    @staticmethod
    def at(c: Array, value: float, slopes: Array, curvature: Array) -> "Tangent":
        """What touches a penalty with this value and these slopes at c."""
        r = slopes - curvature @ c
        return Tangent(value - float(r @ c) - float(c @ (curvature @ c)) / 2, r)


@dataclass(frozen=True)
class Span:
    """One group: images (k+1, N) and their noise (k+1,), its report, its part of the scores (N,).

    free      (k+1, q): coefficients c = free q leave weights at rest where they are
    tangents  the pieces of its penalty; walls, rows of a bound and a normal in c
    asked     the coefficients it is asked about
    """

    images: Array
    noise: Array
    report: Description
    share: Array
    free: Array
    tangents: tuple[Tangent, ...]
    walls: Array
    asked: Array

    @property
    def kinks(self) -> bool:
        return self.report.kinks > 0

    @property
    def held(self) -> bool:
        """Whether some steps are left out because they would disturb weights at rest."""
        return self.free.shape[1] < len(self.images)

    def freed(self) -> "Span":
        """With all steps, and a parabola for what those cost that disturb weights at rest."""
        if not self.held:
            return self
        report = replace(self.report, curvature=self.report.curvature + self.report.disturbed)
        tangents = (
            Tangent.at(self.whole, report.reached, report.slopes[1], report.curvature),
            Tangent(report.penalty, report.slopes[0]),
        )
        return replace(self, report=report, tangents=tangents, free=np.eye(len(self.images)))

    @property
    def whole(self) -> Array:
        """The coefficients of the group's own point y."""
        return np.append(np.zeros(len(self.images) - 1), 1.0)

    def moved(self, c: Array, scale: float = 1.0) -> Array:
        """By how much the group's scores change, (N,)."""
        move = c @ self.images
        return move if scale == 1 else scale * (self.share + move) - self.share

    def parabola(self, c: Array) -> float:
        """A smooth penalty after the step c."""
        r = self.report
        return r.penalty + float(r.slopes[0] @ c) + float(c @ (r.curvature @ c)) / 2


def _span(images: Array, noise: Array, report: Description, share: Array) -> Span:
    size = len(images)
    origin = Tangent(report.penalty, report.slopes[0])
    none = np.empty((0, size + 1))
    if not report.kinks:
        return Span(images, noise, report, share, np.eye(size), (origin,), none, np.zeros(size))
    end = np.append(np.zeros(size - 1), 1.0)
    tangents = (Tangent.at(end, report.reached, report.slopes[1], report.curvature), origin)
    norms = np.sqrt(np.einsum("kn,kn->k", images[:-1], images[:-1]))
    values, vectors = np.linalg.eigh(report.resting[:-1, :-1])
    free = vectors[:, values < _SEEN] / np.where(norms > 0, norms, 1.0)[:, None]
    return Span(images, noise, report, share, block_diag(free, 1.0), tangents, none, end)


@dataclass(frozen=True)
class Spans:
    """All groups, the images of their free coefficients (K, N), and how the questions have gone."""

    spans: tuple[Span, ...]
    origin: float
    basis: Array = field(default_factory=lambda: np.empty((0, 0)))
    best: Trial | None = None
    asked_intercept: float = 0.0
    predicted: float = np.inf
    first_predicted: float = np.inf
    questions: int = 0
    done: bool = False

    @staticmethod
    def of(
        images: Sequence[Array],
        noise: Sequence[Array],
        reports: Sequence[Description],
        shares: Sequence[Array],
        objective: float,
    ) -> "Spans":
        spans = tuple(_span(*each) for each in zip(images, noise, reports, shares, strict=True))
        return Spans(spans, objective)

    @property
    def chosen(self) -> Trial:
        """The best step found."""
        assert self.best is not None
        return self.best

    @property
    def poor(self) -> bool:
        """Whether the step gains far less than was predicted at first."""
        if self.best is None or not np.isfinite(self.first_predicted):
            return False
        return self.origin - self.best.value < _POOR * self.first_predicted

    def solved(self, task: Task, here: Point, ones: Array) -> "Spans":
        """With a step to ask about, or done."""
        now = self if self.basis.size else self._begun(here, ones)
        now, found = now._minimised(task, here, ones)
        if now.questions == 0 and any(s.held for s in now.spans):
            # Steps that disturb weights at rest are worth a try where they promise much more.
            freed, other = (
                replace(now, spans=tuple(s.freed() for s in now.spans))._begun(here, ones)._minimised(task, here, ones)
            )
            if now.origin - found.value < _HELD * (now.origin - other.value):
                now, found = freed, other
        predicted = now.origin - found.value
        now = now._asking(found)
        now = replace(now, predicted=predicted, first_predicted=min(now.first_predicted, max(predicted, 0.0)))
        if now.questions == 0:
            now = now._with_ends(task, here)
        assert now.best is not None
        gained = now.origin - now.best.value
        hidden = predicted <= _NOTHING * abs(now.origin)
        if (gained >= _AS_GOOD * predicted and not hidden) or (hidden and now.questions):
            return replace(now, done=True)
        return now

    def _minimised(self, task: Task, here: Point, ones: Array) -> tuple["Spans", PieceMinimum]:
        now = self
        free = block_diag(*(s.free for s in now.spans), np.eye(len(ones)))
        lost = np.concatenate([*(s.noise for s in now.spans), np.zeros(len(ones))])
        found = minimise_pieces(task, here, now.basis, now._pieces(len(ones)), noise=(free.T * lost) @ free)
        return now, found

    def _begun(self, here: Point, ones: Array) -> "Spans":
        basis = np.vstack([*(s.free.T @ s.images for s in self.spans), ones])
        still = [np.zeros(len(s.images)) for s in self.spans]
        origin = here.value + sum(s.report.penalty for s in self.spans)
        stay = Trial(still, [1.0] * len(still), 0.0, origin, here.z, here)
        return replace(self, basis=basis, best=stay, origin=origin)

    def _pieces(self, free: int) -> Pieces:
        widths = [s.free.shape[1] for s in self.spans]
        ends = np.cumsum(widths)
        total = int(ends[-1]) + free
        constants, slopes, group, walls, bounds = [], [], [], [], []
        for g, (span, end, width) in enumerate(zip(self.spans, ends, widths, strict=True)):
            for tangent in span.tangents:
                row = np.zeros(total)
                row[end - width : end] = tangent.slopes @ span.free
                constants.append(tangent.constant)
                slopes.append(row)
                group.append(float(g))
            for wall in span.walls:
                row = np.zeros(total)
                row[end - width : end] = wall[1:] @ span.free
                walls.append(row)
                bounds.append(wall[0])
        curvature = block_diag(*(s.free.T @ s.report.curvature @ s.free for s in self.spans), np.zeros((free, free)))
        return Pieces(
            curvature,
            np.array(constants),
            np.array(slopes),
            np.array(group),
            np.array(walls).reshape(-1, total),
            np.array(bounds),
        )

    def _asking(self, found: PieceMinimum) -> "Spans":
        """The step as it is asked about."""
        *parts, b = np.split(found.coefficients, np.cumsum([s.free.shape[1] for s in self.spans]))
        spans = []
        for span, q in zip(self.spans, parts, strict=True):
            if span.kinks and abs(q[-1] - 1) <= _WHOLE:
                q = np.append(q[:-1], 1.0)
            spans.append(replace(span, asked=span.free @ q))
        return replace(self, spans=tuple(spans), asked_intercept=float(b.sum()))

    def _with_ends(self, task: Task, here: Point) -> "Spans":
        """With the step to every party's own point y as a candidate: what rests there rests exactly."""
        assert self.best is not None
        c = [s.whole if s.kinks else s.asked for s in self.spans]
        penalty = sum(s.report.reached if s.kinks else s.parabola(s.asked) for s in self.spans)
        ends = self._candidate(task, here, c, [1.0] * len(c), penalty)
        better = ends.value <= self.best.value + _NOTHING * abs(self.best.value)
        return replace(self, best=ends) if better else self

    def _candidate(self, task: Task, here: Point, c: list[Array], scales: list[float], penalty: float) -> Trial:
        z = here.z + self.asked_intercept
        for span, part, scale in zip(self.spans, c, scales, strict=True):
            z = z + span.moved(part, scale)
        known = Point.at(task, z)
        return Trial(c, scales, self.asked_intercept, known.value + penalty, z, known)

    def heard(self, task: Task, here: Point, answers: Sequence[Answer | None]) -> "Spans":
        """With the parties' answers: a candidate whose objective is known, and better pieces."""
        assert self.best is not None
        c, scales, penalty, spans = [], [], 0.0, []
        for span, answer in zip(self.spans, answers, strict=True):
            if answer is None:
                c.append(span.asked)
                scales.append(1.0)
                penalty += span.parabola(span.asked)
                spans.append(span)
                continue
            part = answer.fraction * span.asked
            c.append(part)
            scales.append(answer.scale)
            penalty += answer.penalty
            if answer.scale == 1:
                tangent = Tangent.at(part, answer.penalty, answer.slopes, span.report.curvature)
                span = replace(span, tangents=(*span.tangents, tangent))
            if answer.fraction < 1:
                span = replace(span, walls=np.vstack([span.walls, answer.wall]))
            spans.append(span)
        found = self._candidate(task, here, c, scales, penalty)
        # A step whose gain rounding hides still halves the digits that slopes lack, on which the lower bound rests.
        hidden = self.predicted <= _NOTHING * abs(self.origin)
        slack = 4 * _NOTHING * abs(self.origin) if hidden else 0.0
        best = found if found.value < self.best.value + slack else self.best
        now = replace(self, spans=tuple(spans), best=best, questions=self.questions + 1)
        gained = now.origin - best.value
        if gained >= _GOOD * now.predicted or hidden:
            return replace(now, done=True)
        if now.questions >= QUESTIONS:
            return now._with_chords(task, here)
        return now

    def _with_chords(self, task: Task, here: Point) -> "Spans":
        """Done, with the best of the chords between x and y as one more candidate: sure descent."""
        assert self.best is not None
        count = len(self.spans)
        newest = np.stack([s.images[-1] for s in self.spans])
        start = sum(s.report.penalty for s in self.spans)
        chord = np.array([s.report.reached - s.report.penalty for s in self.spans])
        walls = np.vstack([np.eye(count), -np.eye(count)])
        bounds = np.concatenate([np.ones(count), np.zeros(count)])
        none = np.zeros((count, count))
        pieces = Pieces(none, np.array([start]), chord[None], np.zeros(1), walls, bounds)
        found = minimise_pieces(task, here, newest, pieces)
        t = np.clip(found.coefficients, 0.0, 1.0)
        c = [a * s.whole for a, s in zip(t, self.spans, strict=True)]
        still = replace(self, asked_intercept=0.0)
        chords = still._candidate(task, here, c, [1.0] * count, start + float(chord @ t))
        best = chords if chords.value < self.best.value else self.best
        return replace(self, best=best, done=True)
