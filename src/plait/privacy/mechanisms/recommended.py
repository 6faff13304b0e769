"""The recommended mechanism: the rows' noisy mean and spread, one noisy Gram matrix and a few noisy gradients."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from plait._checks import need_types
from plait.errors import PrivacyError, SettingError
from plait.privacy.accounting import Cost, check_delta, check_epsilon, mu_of
from plait.privacy.clipping import Adjacency
from plait.privacy.mechanisms.base import GuaranteedMechanism, Schedule
from plait.privacy.mechanisms.joint_sensitivity import MOST_FREE, Joint
from plait.privacy.mechanisms.releases import NoisyGradient, NoisyGram, NoisyScores, NoisySketch
from plait.privacy.mechanisms.row_frame import FramePlan
from plait.privacy.mechanisms.wording import protected


@dataclass(frozen=True)
class Recommended(GuaranteedMechanism):
    """(epsilon, delta) differential privacy of every row of one helper's columns.

    The helper learns in one pass, after the unprotected parties have trained.  It releases where its rows lie, one
    noisy Gram matrix and a few noisy gradients.  Options named `*_share` are parts of the budget, as fractions of mu^2.

    Parameters
    ----------
    epsilon : float
        The total epsilon of the run.
    delta : float, default=1e-5
        The total delta; below 1 / N.
    adjacency : Adjacency, default=Adjacency.REPLACE
        What may differ between two tables that are hard to tell apart: one row replaced, or set to zeros.
    gradients : int, default=12
        How many noisy gradients are released.  Later ones get a larger part of the budget.
    gram_share : float, default=0.33
        The part for the Gram matrix beside the gradients, at most 1/3.  It costs nothing where adjacency is REPLACE.
    frame_share : float, default=0.1
        The part for where the rows lie: their mean and their spread, by which they are centred and scaled.  Nothing is
        spent on it with few rows, where it would be mostly noise, in a model without an intercept, or with ZERO_OUT.
    sketch_share : float, default=0.3
        The part for a sketch of the scores.  Only several helpers need it: without it they would count the same signal
        twice.
    score_share : float, default=0.0
        The part for one noisy score per row; 0 releases none.
    score_bound : float, default=2.0
        Where those scores are clipped.
    clip : float, default=None
        The public norm to which longer rows are shortened; None is 1.
    gradient_clip : float, default=1.0
        The largest slope of the loss that counts, for a loss whose slope has no bound.
    even : bool, default=True
        A row counts less the larger its slope can be at its present score, whatever its label.  All rows then have one
        small bound, and the noise is smaller.  It matters for losses of classes whose slope has a bound.
    """

    schedule: ClassVar[Schedule] = Schedule.ONE_PASS

    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.REPLACE
    gradients: int = 12
    gram_share: float = 0.33
    frame_share: float = 0.1
    sketch_share: float = 0.3
    score_share: float = 0.0
    score_bound: float = 2.0
    clip: float | None = None
    gradient_clip: float = 1.0
    even: bool = True

    def __post_init__(self) -> None:
        need_types(self)
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if self.gradients < 1:
            raise SettingError(f"`gradients` must be at least 1. Found {self.gradients}.")
        for name in ("frame_share", "sketch_share", "score_share"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingError(f"`{name}` must lie in [0, 1). Found {getattr(self, name)}.")
        if not self.frame_share + self.sketch_share + self.score_share < 1:
            raise SettingError(
                "`frame_share`, `sketch_share` and `score_share` must leave something for the gradients. Found "
                f"{self.frame_share} + {self.sketch_share} + {self.score_share}."
            )
        if not 0 < self.gram_share <= MOST_FREE:
            raise SettingError(f"`gram_share` must be positive and at most 1/3. Found {self.gram_share}.")
        for name in ("score_bound", "gradient_clip", "clip"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise SettingError(f"`{name}` must be positive and finite. Found {value}.")

    @property
    def guarantee(self) -> str:
        """The guarantee in words."""
        return protected(self.epsilon, self.delta, self.adjacency)

    def plan(
        self,
        records: int,
        width: int,
        weight_bound: float,
        gradient_bound: float,
        *,
        sketch: bool,
        shifts: bool = False,
    ) -> "Plan":
        """The releases that together cost at most (epsilon, delta) for `records` rows of `width` columns.

        `shifts`: whether the model has an intercept, to which a helper's shift is added.
        """
        check_delta(self.delta, records)
        framed = shifts and self._framed(records, width)

        def build(mu: float) -> Plan:
            sketch_share = self.sketch_share if sketch else 0.0
            frame_share = self.frame_share if framed else 0.0
            rest = 1 - sketch_share - self.score_share - frame_share
            scores = mu * math.sqrt(self.score_share)
            return Plan(
                frame=FramePlan.for_mu(mu * math.sqrt(frame_share), records, width) if framed else None,
                joint=Joint.for_mu(
                    mu * math.sqrt(rest),
                    self.gram_share,
                    self.gradients,
                    (width + framed, weight_bound),
                    gradient_bound,
                    self.adjacency,
                    records,
                ),
                sketch_mu=mu * math.sqrt(sketch_share),
                scores=NoisyScores.for_mu(scores, records, self.score_bound, self.adjacency) if scores else None,
                records=records,
            )

        return _largest(build, self.epsilon, self.delta)

    def _framed(self, records: int, width: int) -> bool:
        """Whether a frame is worth its cost, decided by public numbers alone."""
        if self.adjacency is not Adjacency.REPLACE or not self.frame_share:
            return False
        mu = mu_of(self.epsilon, self.delta) * math.sqrt(self.frame_share)
        return FramePlan.for_mu(mu, records, width).useful


@dataclass(frozen=True)
class Plan:
    """What a helper will release, in order, and what that costs in total.

    `Recommended.plan` makes it.

    Parameters
    ----------
    frame : FramePlan or None
        The noisy mean and spread of the rows; None where rows stay as they are.
    joint : Joint
        The noisy Gram matrix and the noisy gradients, whose cost is counted together.
    sketch_mu : float
        What the sketch may cost, in Gaussian differential privacy; 0 where there is none.
    scores : NoisyScores or None
        The noisy scores; None where none are released.
    records : int
        How many rows the helper has.
    """

    frame: FramePlan | None
    joint: Joint
    sketch_mu: float
    scores: NoisyScores | None
    records: int

    @property
    def gram(self) -> NoisyGram:
        """How the Gram matrix is released."""
        return self.joint.gram

    @property
    def gradients(self) -> tuple[NoisyGradient, ...]:
        """How each gradient is released."""
        return self.joint.gradients

    @property
    def slope_bound(self) -> float:
        """Where slopes are clipped in every gradient."""
        return self.gradients[0].bound

    def sketch(self, buckets: int, bound: float) -> NoisySketch:
        """The sketch release that this plan pays for."""
        return NoisySketch.for_mu(self.sketch_mu, buckets, bound, self.gram.adjacency)

    @property
    def cost(self) -> Cost:
        """What all releases cost together."""
        cost = sum(self.joint.charges, Cost())
        if self.frame:
            cost += self.frame.cost
        if self.sketch_mu:
            # The number of buckets is chosen later, and is never larger than that of rows.
            cost += Cost(mu=self.sketch_mu, slack=self.sketch(self.records, 1.0).cost.slack)
        return cost + self.scores.cost if self.scores else cost


def _largest(build: Callable[[float], Plan], epsilon: float, delta: float) -> Plan:
    """The plan with the largest mu whose cost, discrete noise included, stays within budget."""
    slack = build(mu_of(epsilon, delta)).cost.slack
    if slack > epsilon / 100:
        raise PrivacyError(
            f"The discrete noise may cost at most a hundredth of epsilon. Found {slack:.1e} for epsilon = "
            f"{epsilon:g}. Release fewer numbers."
        )
    mu = mu_of(epsilon - slack, delta * math.exp(-slack))
    mu *= mu / build(mu).cost.mu  # leaves room for the cost of rounding to the grid
    plan = build(mu)
    while plan.cost.delta(epsilon) > delta:
        mu *= 1 - 1e-9  # a billionth: too little to matter in the noise
        plan = build(mu)
    return plan
