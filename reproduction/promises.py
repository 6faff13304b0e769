"""The paper's promises, of privacy and of convergence, beside what was measured."""

import math
from collections.abc import Sequence

import numpy as np

from reproduction.costs import DELTA, costs
from reproduction.plans import Plan
from reproduction.records import Measured
from reproduction.theory import EXAMPLE_RHO, SUFFICIENT_RHO
from reproduction.verdicts import HUGE, Claim, Verdict, beats_alone, graded, moderate, needed_rho, number, slope

CONTAINED = 10.0


def promises(both: Sequence[tuple[Plan, Measured]]) -> list[Claim]:
    """Privacy first, then the theory."""
    return [
        _cost_contained(both),
        _guarantee(both),
        _lyapunov(both),
        _lower_bound(both),
        _achievable(both),
        _sufficient(both[0][1]),
    ]


def _cost_contained(both: Sequence[tuple[Plan, Measured]]) -> Claim:
    words, good = [], 0
    for p, m in both:
        sigma = moderate(p, m)
        if sigma is None:
            continue
        epochs = beats_alone(m, sigma) or p.noisy
        cost = next(c for c in costs(p, m, epochs) if c.sigma == sigma)
        good += cost.paper <= CONTAINED
        words.append(
            f"{p.data}, sigma = {sigma:g}, {epochs} epochs: epsilon = {number(cost.paper, HUGE)} by the paper's "
            f"accounting, {number(cost.exact)} by the exact one for the same sensitivity, which is itself no bound"
        )
    return Claim(
        "The privacy cost is well contained, as the algorithm converges in a few epochs.",
        "Experiments, end; Corollary 1",
        "; ".join(words) or "no useful noise level",
        graded(good == 2, good == 1),
        f"holds if at the largest useful noise level, for as few epochs as beat the first party alone, the paper's own "
        f"accounting gives epsilon <= {CONTAINED:g} (delta = {DELTA:g}) on both data sets; partly if on one",
        "privacy table",
    )


def _guarantee(both: Sequence[tuple[Plan, Measured]]) -> Claim:
    allowed = math.e / (1 + math.e)
    rates = [m.support.right / m.support.games for _, m in both]
    return Claim(
        "Each round is (epsilon, delta)-differentially private with epsilon <= 1.",
        "Theorem 3",
        "; ".join(
            f"{p.data}, party {m.support.party}, sigma = {m.support.sigma:g}: one share tells a table from the same "
            f"with one entry {m.support.change:g} larger in {m.support.right} of {m.support.games} games"
            for p, m in both
        ),
        Verdict.FAILS if max(rates) > allowed + 0.1 else Verdict.HOLDS,
        f"epsilon = 1 lets nobody be right in more than {allowed:.0%} of games; does not hold here if a guess is right "
        "in ten points more",
        "privacy table",
    )


def _lyapunov(both: Sequence[tuple[Plan, Measured]]) -> Claim:
    slopes = [(p.data, r.rho, slope(r.trail)) for p, m in both for r in m.theory.replays]
    good = [s <= -1 for *_, s in slopes]
    return Claim(
        "The Lyapunov value V falls below any epsilon within O(1/epsilon) iterations.",
        "Theorem 2",
        "min V falls like T^p: " + "; ".join(f"{d}, rho = {rho:g}: p = {s:.1f}" for d, rho, s in slopes),
        graded(all(good), any(good)),
        "holds if p <= -1 in every run, fitted over the last nine tenths of it; partly if in some",
        "theory",
    )


def _lower_bound(both: Sequence[tuple[Plan, Measured]]) -> Claim:
    words, bounded, falling = [], [], []
    for p, m in both:
        for r in m.theory.replays:
            values = np.array(r.lagrangian)
            least, rises = float(values.min() - m.optimum), int((np.diff(values) > 1e-12).sum())
            words.append(f"{p.data}, rho = {r.rho:g}: {least:+.1e}, rises in {rises} of {values.size - 1} epochs")
            if r.rho >= SUFFICIENT_RHO:
                bounded.append(least >= -1e-9)
                falling.append(rises == 0)
    return Claim(
        "The augmented Lagrangian is bounded below by the objective's lower bound, and decreases.",
        "Lemmas 4 and 5",
        "its lowest value over N minus the optimum: " + "; ".join(words),
        graded(all(bounded) and all(falling), all(bounded) or all(falling)),
        f"holds if for rho = {SUFFICIENT_RHO:g}, which meets the assumption on the z-update, it never lies below the "
        "optimum and never rises; partly if one of the two",
        "theory",
    )


def _achievable(both: Sequence[tuple[Plan, Measured]]) -> Claim:
    words, good, parties = [], 0, 0
    for p, m in both:
        needs = needed_rho(m)
        good += sum(math.isfinite(v) for v in needs.values())
        parties += len(needs)
        ranks = "; ".join(
            f"party {h.party} of rank {h.rank} with {h.columns} columns, "
            + (f"rho >= {number(needs[h.party])}" if math.isfinite(needs[h.party]) else "no rho")
            for h in m.facts.holdings
        )
        words.append(f"{p.data}: {ranks}; tuned rho = {m.race.rho:g}")
    return Claim(
        "The assumption on rho is achievable if rho is chosen large enough.",
        "Assumption 1.2 and below",
        "; ".join(words),
        graded(good == parties, good > 0),
        "holds if every party's table has full column rank, so that some rho meets 1.2(b); partly if some have",
        "theory",
    )


def _sufficient(m: Measured) -> Claim:
    ends = {k: values[-1] / values[0] for k, values in m.theory.counterexample}
    return Claim(
        "Under Assumption 1 the parallel algorithm converges.",
        "Theorem 1",
        f"equal columns, squared loss, rho = {EXAMPLE_RHO:g}, all of Assumption 1 met; the objective after "
        f"{len(m.theory.counterexample[0][1]) - 1} rounds over that at the start: "
        + "; ".join(f"{k} parties {number(v)}" for k, v in ends.items()),
        graded(all(v < 1 for v in ends.values()), False),
        "does not hold here if one of these runs ends above its start",
        "theory",
    )
