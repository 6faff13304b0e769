"""Verdicts and what they are made of: levels, medians over seeds, exponents, words for numbers."""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

import numpy as np

from reproduction.plans import Plan
from reproduction.records import Measured, Trail

FEW = 10
"""Epochs that count as a few."""
NO_MODEL = math.log(2)
"""The log loss of no model at all."""
HUGE = "over 1e300"
"""For what the paper's accounting gives beyond the range of numbers."""


class Verdict(StrEnum):
    HOLDS = "holds"
    PARTLY = "partly"
    FAILS = "does not hold here"


@dataclass(frozen=True)
class Claim:
    """What the paper says and where, what was measured, the verdict, its rule, and the figure that shows it."""

    says: str
    where: str
    measured: str
    verdict: Verdict
    rule: str
    figure: str


def clean(m: Measured) -> float:
    """ADMM's test log loss without noise, at the last epoch of Fig. 3."""
    return at_end(m, 0.0)


def at_end(m: Measured, sigma: float) -> float:
    """The median over seeds of the test log loss after the last epoch."""
    return median(m.noisy_losses(sigma))


def median_trail(m: Measured, sigma: float) -> list[float]:
    """The median over seeds of the test log loss, epoch by epoch."""
    return [float(v) for v in np.median([n.trail.test for n in m.noise if n.sigma == sigma], axis=0)]


def moderate(plan: Plan, m: Measured) -> float | None:
    """The largest noise level that beats the first party alone within a few epochs and at the end."""
    useful = [
        s for s in plan.sigmas if s > 0 and at_end(m, s) < m.baselines.alone and (beats_alone(m, s) or math.inf) <= FEW
    ]
    return max(useful, default=None)


def beats_alone(m: Measured, sigma: float) -> int | None:
    below = [epoch for epoch, loss in enumerate(median_trail(m, sigma)) if loss < m.baselines.alone]
    return below[0] if below else None


def slope(trail: Trail) -> float:
    """The exponent p of min V ~ T^p over the last nine tenths of a run."""
    v = np.minimum.accumulate(trail.lyapunov)
    t = np.arange(1, v.size + 1)
    late = t >= v.size / 10
    return float(np.polyfit(np.log(t[late]), np.log(v[late]), 1)[0])


def needed_rho(m: Measured) -> dict[str, float]:
    """The smallest rho with gamma_m = 1 + rho lambda_min >= 2 lambda_max for each party; infinite without full rank."""
    return {h.party: math.inf if h.rank < h.columns else (2 * h.largest - 1) / h.smallest for h in m.facts.holdings}


def number(value: float, infinite: str = "infinite") -> str:
    """Three digits, or a power of ten, or words for what no number can say."""
    if not math.isfinite(value):
        return infinite
    return f"{value:.3g}" if value < 1e4 else f"{value:.0e}"


def digits(value: float) -> str:
    """A loss to compare with others like it: four decimals while they mean something."""
    return f"{value:.4f}" if abs(value) < 100 else number(value)


def graded(holds: bool, partly: bool) -> Verdict:
    return Verdict.HOLDS if holds else Verdict.PARTLY if partly else Verdict.FAILS


def ratio(slow: int | None, fast: int | None) -> float:
    """How many times as many epochs; infinite where the slow one never arrives, 0 where the fast one does not."""
    if fast is None:
        return 0.0
    return math.inf if slow is None else slow / max(fast, 1)


def epoch_of(value: int | None) -> str:
    return "never" if value is None else str(value)
