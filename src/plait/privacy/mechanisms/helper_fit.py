"""The recommended private mode: one pass, with differential privacy for every helper's rows.

    1. The parties that protect nothing fit their columns together. The label party sends every helper the labels and
       an offset: for each row the score of a model that did not see it, or a constant where nothing about its
       own columns may leave it.
    2. Each helper draws where its rows lie (`row_frame`), then a noisy Gram matrix and a few noisy gradients, and takes
       its weights from those alone: see `noisy_newton`. Its weights are private; so is all that is computed from them
       and from public values.
    3. With several helpers, each sends a noisy sketch of its score, and the label party chooses the mixing factors.

The score of row i is own_i + sum_k alpha_k (D_k,i . weights_k + shift_k): the intercept takes the shifts.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plait._types import Array
from plait.privacy.accounting import Cost
from plait.privacy.clipping import ClippedRows
from plait.privacy.ledger.canonical import canonical_digest
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.helper_mixing import CLIP, Layout, Sketch
from plait.privacy.mechanisms.noisy_newton import SPARSE, NoisyNewton
from plait.privacy.mechanisms.recommended import Plan, Recommended
from plait.privacy.mechanisms.row_frame import FramedRows, dense
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

LEAST_CURVATURE = 0.08
"""Rows on which the loss is almost flat keep this part of the largest curvature."""
LEAST_SECANT = 0.3
"""The least part of the curvature that counts for large scores: below it, noise in the weights would feed on itself."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """What the label party tells every helper; all of it is public to the helper.

    labels, offset (N,), and weights (N,): how much each row's loss counts in the sum over rows, 1 by default.
    shifts: whether the model has an intercept, which takes what a helper adds to every score.

    With `even`, row i counts b / B_i beside that: B_i is the largest slope that its present score can have under any
    label, and b the smallest B_i at the offset.  Every slope is then at most b, and none is clipped.  The factor does
    not depend on the row's own label, so that the expected slope at the true model stays 0.
    """

    loss: Loss
    labels: Array
    offset: Array
    weights: Array
    even: bool = False
    shifts: bool = False

    @property
    def records(self) -> int:
        return self.labels.size

    @property
    def mass(self) -> float:
        """What all rows count together: N where they count alike.  The penalty counts as often."""
        return float(self._counted(self.offset).sum())

    def gradient_bound(self, clip: float) -> float:
        """A bound on every weighted slope; `clip` is imposed on a loss that has none."""
        slope = self.loss.slope() if self._least is None else self._least
        return (clip if slope is None else slope) * float(self.weights.max())

    def slopes(self, scores: Array) -> Array:
        z = self.offset + scores
        return self._counted(z) * self.loss.gradient(z, self.labels)

    def sampling(self, bound: float) -> float:
        """The variance of a gradient between samples of rows, as a multiple of the Gram matrix of curvatures.

        About 1 for a log likelihood; from the slopes at the offset, clipped at `bound`.
        """
        slopes = np.clip(np.nan_to_num(self.slopes(np.zeros(self.records))), -bound, bound)
        return float(slopes @ slopes) / float(self.curvature(bound).sum())

    def secant(self, spread: float) -> float:
        """The slopes' mean rise per unit of score, as a part of the curvature at the offset.

        For scores that vary normally by `spread` (a standard deviation) beside the offset.  Losses flatten far from
        it, so that the curvature at the offset says too much of scores that vary by several units.
        """
        if not self.loss.smooth or spread <= 0:
            return 1.0
        nodes, shares = np.polynomial.hermite_e.hermegauss(9)  # points: exact for polynomials up to degree 17
        sums = np.array([self.slopes(np.full(self.records, spread * x)).sum() for x in nodes])
        rise = float((shares * nodes) @ sums) / float(shares.sum())
        if not math.isfinite(rise):  # a slope that overflows is that of a loss that does not flatten
            return 1.0
        return float(np.clip(rise / (spread * float(self.curvature(np.inf).sum())), LEAST_SECANT, 1.0))

    def _reach(self, z: Array) -> Array:
        """B_i (N,): the largest slope at these scores, whatever the label."""
        classes = [np.full(self.records, label) for label in np.unique(self.labels)]
        reach: Array = np.max([np.abs(self.loss.gradient(z, y)) for y in classes], axis=0)
        return reach

    @cached_property
    def _least(self) -> float | None:
        """b, where the loss has classes and a bounded slope; None where all rows count alike."""
        if not self.even or not self.loss.classifies or self.loss.slope() is None:
            return None
        return float(self._reach(self.offset).min())

    def _counted(self, z: Array) -> Array:
        """How much each row's loss counts at these scores (N,)."""
        if self._least is None:
            return self.weights
        reach = self._reach(z)
        return self.weights * np.divide(self._least, reach, out=np.ones_like(reach), where=reach > 0)

    def curvature(self, bound: float) -> Array:
        """The weighted second derivatives at the offset, floored; a loss with kinks has one unit everywhere."""
        counted = self._counted(self.offset)
        if not self.loss.smooth:
            return counted + 0.0
        found = counted * self.loss.hessian(self.offset, self.labels)
        # Beyond the clip the clipped slope is constant; a non-convex loss may bend downwards.  The last digits of a
        # slope at the bound do not count.
        found = np.where(np.abs(self.slopes(np.zeros(self.records))) <= bound * (1 + 1e-12), found, 0.0)
        top = float(found.max())
        return np.maximum(found, LEAST_CURVATURE * top) if top > 0 else counted + 0.0


@dataclass(frozen=True, eq=False)
class Helper:
    """A helper before its fit: its rows, its penalty, the releases it will make, and where they are charged.

    `known` is the digest of all that these releases depend on; it names the plan in the ledger.
    """

    rows: ClippedRows
    penalty: Penalty
    plan: Plan
    book: Book
    known: bytes

    @classmethod
    def of(
        cls, rows: ClippedRows, penalty: Penalty, mechanism: Recommended, lesson: Lesson, book: Book, sketch: bool
    ) -> "Helper":
        """The helper with a plan that its budget covers to the end, or a refusal before anything is computed."""
        bound = lesson.gradient_bound(mechanism.gradient_clip)
        curvature = float(lesson.curvature(bound).max())
        plan = mechanism.plan(*rows.shape, curvature, bound, sketch=sketch, shifts=lesson.shifts)
        known = canonical_digest(book.run, book.party, rows, penalty, mechanism, lesson, plan)
        book.account.check(plan.cost, book.run, known.hex())
        return cls(rows, penalty, plan, book, known)


@dataclass(frozen=True, eq=False)
class HelperFit:
    """A helper's private weights (for its clipped rows) and what they cost; all else here is private, too.

    shift    what is added to every score beside D_i . weights
    energy   sum_i w_i score_i^2, w_i the curvatures
    """

    weights: Array
    shift: float
    energy: float
    plan: Plan
    scores: Array | None = None

    @property
    def cost(self) -> Cost:
        return self.plan.cost


def fit_helper(helper: Helper, lesson: Lesson) -> HelperFit:
    """A helper's weights from noisy releases of its rows."""
    plan, book = helper.plan, helper.book
    known, name = helper.known, helper.known.hex()
    framed = frame_rows(helper)
    rows = framed.rows
    curvature = lesson.curvature(plan.slope_bound)
    charges = plan.joint.charges
    triangle = book.draw(
        0, "Gram", charges[0], plan.gram, known, lambda stream: plan.gram.release(rows, curvature, stream), name
    )
    newton = newton_of(plan, framed, triangle, lesson)
    state = newton.start()
    for k, query in enumerate(plan.gradients, start=1):
        slopes = lesson.slopes(framed.forward(state.weights))
        gradient = book.draw(
            k,
            "gradient",
            charges[k],
            query,
            (known, state.weights),
            lambda stream, query=query, slopes=slopes: query.release(rows, slopes, stream),  # type: ignore[misc]
            name,
        )
        state = newton.step(state, framed.scale * gradient, framed.scale * query.sigma, helper.penalty, lesson.mass)
    weights, shift = framed.parted(state.weights)
    scores = _scores(helper, framed, state.weights, shift)
    return HelperFit(weights, shift, newton.energy(state.weights), plan, scores)


def frame_rows(helper: Helper) -> FramedRows:
    """The rows as all later releases see them: centred and scaled by two releases, where the plan pays for these."""
    plan, rows, last = helper.plan.frame, helper.rows, len(helper.plan.gradients)
    if plan is None:
        return FramedRows.plain(rows)
    mean, spread, name = plan.mean, plan.spread, helper.known.hex()
    total = helper.book.draw(
        last + 3, "mean", mean.cost, mean, helper.known, lambda stream: mean.release(rows, stream), name
    )
    centre = plan.centre(total)
    apart = np.sum((dense(rows.matrix) - centre) ** 2, axis=1)
    sums = helper.book.draw(
        last + 4,
        "spread",
        spread.cost,
        spread,
        (helper.known, centre),
        lambda stream: spread.release(apart, rows.bits, stream),
        name,
    )
    return FramedRows.of(rows, centre, plan.radius(sums))


def newton_of(plan: Plan, framed: FramedRows, triangle: Array, lesson: Lesson) -> NoisyNewton:
    """The steps that follow from a released Gram matrix, in units of the helper's own rows."""
    square = framed.scale**2
    return NoisyNewton.of(
        square * plan.gram.full(triangle),
        square * plan.gram.sigma,
        float(lesson.curvature(plan.slope_bound).sum()),
        sampling=lesson.sampling(plan.slope_bound),
        secant=lesson.secant,
        largest=SPARSE / square,
        free=framed.constant,
    )


def _scores(helper: Helper, framed: FramedRows, weights: Array, shift: float) -> Array | None:
    """One noisy, clipped score per row, without the shift, where the plan pays for it."""
    query = helper.plan.scores
    if query is None:
        return None
    released = helper.book.draw(
        len(helper.plan.gradients) + 2,
        "scores",
        query.cost,
        query,
        (helper.known, weights),
        lambda stream: query.release(framed.rows, framed.scale * weights, stream),
        helper.known.hex(),
    )
    return released - shift


def sketch_helper(helper: Helper, fit: HelperFit, curvature: Array, layout: Layout) -> Sketch:
    """A noisy sketch of sqrt(curvature) * score: all that a helper tells about its score."""
    framed = frame_rows(helper)
    weights, rows = framed.joined(fit.weights, fit.shift), framed.rows
    # A bound above 0 where all scores are 0.
    bound = max(CLIP * float(np.sqrt(fit.energy / rows.shape[0])), 1e-6)
    query = fit.plan.sketch(layout.buckets, bound)
    scores = np.sqrt(curvature) * framed.forward(weights)
    released = helper.book.draw(
        len(fit.plan.gradients) + 1,
        "sketch",
        query.cost,
        query,
        (helper.known, curvature, fit.weights, fit.shift, layout),
        lambda stream: query.release(scores, layout.bucket, layout.sign, rows.bits, stream),
        helper.known.hex(),
    )
    # The energy is a sum of squares in units of B, the sums are in units of B: bring both to squares.
    return Sketch(released[:-1], float(released[-1]) * bound, query.sigma)


def best_constant(loss: Loss, labels: Array, weights: Array) -> float:
    """The score that, given to every row, has the least loss: it tells nothing about features."""
    from scipy.optimize import brentq  # loaded when needed: few runs do, and it loads slowly

    def pull(b: float) -> float:
        return float(weights @ loss.gradient(np.full(labels.size, b), labels))

    reach = 1.0
    while pull(-reach) * pull(reach) > 0 and reach < 1e6:  # a score of a million has no finite best value
        reach *= 2
    return float(brentq(pull, -reach, reach)) if pull(-reach) * pull(reach) <= 0 else 0.0
