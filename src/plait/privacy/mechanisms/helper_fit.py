"""The recommended private mode: one pass, with differential privacy for every helper's rows.

    1. The parties that protect nothing fit their columns together. The label party sends every helper the labels and
       an offset: for each row the score of a model that did not see it. The offset is a constant where nothing about
       the label party's own columns may leave it.
    2. Each helper draws the noisy mean and spread of its rows (`row_frame`), then a noisy Gram matrix and a few noisy
       gradients. It computes its weights from these alone (`noisy_newton`). So its weights are differentially private,
       and so is all that is computed from them and from public values.
    3. With several helpers, each sends a noisy sketch of its score, and the label party chooses the mixing factors
       alpha_k (`helper_mixing`).

The score of row i is own_i + sum_k alpha_k (D_k,i . weights_k + shift_k). The shifts are added to the intercept.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
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
"""The least curvature of a row, as a fraction of the largest one: on some rows the loss is almost flat."""
EXTREME = 1e100
"""The largest slope and curvature of a lesson, and the inverse of the least one: their squares are still doubles."""
LEAST_SECANT = 0.3
"""The least value of `Lesson.secant`: below it, noise in the weights would make the next steps larger still."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """What the label party tells every helper; all of it is public to the helper.

    labels    (N,)
    offset    (N,), added to the helper's score of each row
    weights   (N,), the factor of each row's loss in the sum over rows, 1 by default
    shifts    whether the model has an intercept, to which a helper's shift is added

    With `even`, the loss of row i is also multiplied by b / B_i.  B_i is the largest slope of the loss at the row's
    present score, whatever the label, and b is the smallest B_i at the offset.  Every slope is then at most b, and none
    is clipped.  The factor does not depend on the row's own label, so the expected slope at the true model stays 0.
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
        """The sum of all rows' factors at the offset, N where all are 1.  The penalty is multiplied by it."""
        return float(self._counted(self.offset).sum())

    def gradient_bound(self, clip: float) -> float:
        """A bound on every weighted slope; for a loss whose slope has no bound, slopes are clipped at `clip`."""
        slope = self.loss.slope() if self._least is None else self._least
        return (clip if slope is None else slope) * float(self.weights.max())

    def slopes(self, scores: Array) -> Array:
        z = self.offset + scores
        return self._counted(z) * self.loss.gradient(z, self.labels)

    def sampling(self, bound: float) -> float:
        """The variance of a gradient over random draws of the rows, as a multiple of the Gram matrix of curvatures.

        sum_i slope_i^2 / sum_i curvature_i at the offset, slopes clipped at `bound`; about 1 for a log likelihood.
        """
        slopes = np.clip(np.nan_to_num(self.slopes(np.zeros(self.records))), -bound, bound)
        return float(slopes @ slopes) / float(self.curvature(bound).sum())

    def secant(self, spread: float) -> float:
        """The slopes' mean rise per unit of score, as a fraction of the curvature at the offset, at most 1.

        It is for normal scores of standard deviation `spread` around the offset.  Losses are flatter far from the
        offset, so the curvature at the offset is too large for scores that vary by several units.
        """
        if not self.loss.smooth or spread <= 0:
            return 1.0
        nodes, shares = np.polynomial.hermite_e.hermegauss(9)  # 9 points: exact for polynomials up to degree 17
        sums = np.array([self.slopes(np.full(self.records, spread * x)).sum() for x in nodes])
        rise = float((shares * nodes) @ sums) / float(shares.sum())
        if not math.isfinite(rise):  # only a loss that does not become flatter has slopes that overflow
            return 1.0
        return float(np.clip(rise / (spread * float(self.curvature(np.inf).sum())), LEAST_SECANT, 1.0))

    def _reach(self, z: Array) -> Array:
        """B_i (N,): the largest slope at these scores, whatever the label."""
        classes = [np.full(self.records, label) for label in np.unique(self.labels)]
        reach: Array = np.max([np.abs(self.loss.gradient(z, y)) for y in classes], axis=0)
        return reach

    @cached_property
    def _least(self) -> float | None:
        """b, where `even` applies: the loss has classes and a bounded slope; else None."""
        if not self.even or not self.loss.classifies or self.loss.slope() is None:
            return None
        return float(self._reach(self.offset).min()) or None

    def _counted(self, z: Array) -> Array:
        """The factor (N,) of each row's loss at these scores (N,)."""
        if self._least is None:
            return self.weights
        reach = self._reach(z)
        return self.weights * np.divide(self._least, reach, out=np.ones_like(reach), where=reach > 0)

    def curvature(self, bound: float) -> Array:
        """The weighted second derivatives (N,) at the offset, floored; for a loss with kinks, the rows' factors."""
        counted = self._counted(self.offset)
        if not self.loss.smooth:
            return counted + 0.0
        found = counted * self.loss.hessian(self.offset, self.labels)
        # A clipped slope is constant, so its curvature is 0; the factor 1 + 1e-12 is for rounding of a slope at the
        # bound.  A loss that is not convex may have negative curvature.
        found = np.where(np.abs(self.slopes(np.zeros(self.records))) <= bound * (1 + 1e-12), found, 0.0)
        top = float(found.max())
        return np.maximum(found, LEAST_CURVATURE * top) if top > 0 else counted + 0.0


@dataclass(frozen=True, eq=False)
class Helper:
    """A helper before its fit: its rows (N, d), its penalty, the releases it will make, and where they are charged.

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
        """The helper with its plan; BudgetError, before anything is computed, where its budget is too small."""
        bound = lesson.gradient_bound(mechanism.gradient_clip)
        curvature = float(lesson.curvature(bound).max())
        _need_moderate(lesson, bound, curvature)
        plan = mechanism.plan(*rows.shape, curvature, bound, sketch=sketch, shifts=lesson.shifts)
        known = canonical_digest(book.run, book.party, rows, penalty, mechanism, lesson, plan)
        book.account.check(plan.cost, book.run, known.hex())
        return cls(rows, penalty, plan, book, known)


def _need_moderate(lesson: Lesson, *bounds: float) -> None:
    """ProtocolError for a lesson whose noise no double could hold: a label party that is not honest may send one."""
    told = (lesson.labels, lesson.offset, lesson.weights)
    if not (all(np.isfinite(each).all() for each in told) and all(1 / EXTREME < b < EXTREME for b in bounds)):
        raise ProtocolError(
            f"labels, offset and weights must be numbers with slopes and curvatures between {1 / EXTREME:g} and "
            f"{EXTREME:g}. Found others. Nothing was released."
        )


@dataclass(frozen=True, eq=False)
class HelperFit:
    """A helper's weights (d,) for its clipped rows, and what they cost.  All fields are differentially private.

    shift    what is added to every score beside D_i . weights
    energy   sum_i w_i score_i^2, w_i the curvatures, from the noisy Gram matrix
    scores   (N,), noisy; None where none are released
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
    """A helper's weights, from a noisy Gram matrix and noisy gradients of its rows."""
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
    """The rows that all later releases use: centred and scaled by two releases, where the plan pays for them."""
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
    """Noisy, clipped scores (N,) without the shift; None where the plan does not pay for them."""
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
    """A noisy sketch of sqrt(curvature) * score (N,), by which the label party compares helpers."""
    framed = frame_rows(helper)
    weights, rows = framed.joined(fit.weights, fit.shift), framed.rows
    # The bound is positive also where all scores are 0.
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
    # The last number is the energy divided by the bound: see NoisySketch.
    return Sketch(released[:-1], float(released[-1]) * bound, query.sigma)


def best_constant(loss: Loss, labels: Array, weights: Array) -> float:
    """The constant score with the least weighted loss, 0 where it is infinite; it tells nothing about features."""
    from scipy.optimize import brentq  # imported only where it is used: it loads slowly

    def pull(b: float) -> float:
        return float(weights @ loss.gradient(np.full(labels.size, b), labels))

    reach = 1.0
    while pull(-reach) * pull(reach) > 0 and reach < 1e6:  # a best score beyond a million counts as infinite
        reach *= 2
    return float(brentq(pull, -reach, reach)) if pull(-reach) * pull(reach) <= 0 else 0.0
