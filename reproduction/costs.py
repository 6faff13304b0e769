"""What the noise levels shown would cost in privacy, by the paper's accounting and by the exact one."""

from dataclasses import dataclass

from plait.privacy.accountants import ExactAccountant, PaperAccountant
from plait.privacy.mechanisms.paper import PaperMechanism
from reproduction.plans import Plan
from reproduction.records import Measured

DELTA = 1e-5


@dataclass(frozen=True)
class LevelCost:
    """One noise level at the party to which it means most: where sensitivity over noise is largest.

    sensitivity   the paper's C (Lemma 1), with b_1 as measured in the run without noise
    step          epsilon of one round by the paper's Theorem 3, which asks for at most 1
    paper, exact  epsilon of all rounds at DELTA: by the paper's corollary, and exactly, both taking C for granted
    """

    sigma: float
    sensitivity: float
    step: float
    paper: float
    exact: float


def costs(plan: Plan, m: Measured, rounds: int) -> list[LevelCost]:
    """For every positive noise level; the paper's lambda is 1 in units of the summed loss."""
    widths = [h.columns for h in m.facts.holdings]
    bound = next(r.bound for r in m.theory.replays if r.rho == m.race.rho)
    mechanism = PaperMechanism(1.0, DELTA, bound, m.race.rho, len(widths), penalty=1.0)
    sensitivity = max(mechanism.sensitivity(width) for width in widths)
    paper, exact = PaperAccountant(), ExactAccountant()
    return [
        LevelCost(
            sigma,
            sensitivity,
            paper.step_epsilon(sigma / sensitivity, rounds, DELTA),
            paper.epsilon(sigma / sensitivity, rounds, DELTA),
            exact.epsilon(sigma / sensitivity, rounds, DELTA),
        )
        for sigma in plan.sigmas
        if sigma > 0
    ]
