"""The sections that go beyond the paper's figures: privacy costs, the theory, and its prototype's speed."""

import math
from collections.abc import Sequence
from pathlib import Path

from plait.privacy.mechanisms.paper import REASON
from reproduction.blocks import Block, Grid, Picture, Words
from reproduction.costs import DELTA, costs
from reproduction.plans import Plan
from reproduction.records import Measured
from reproduction.verdicts import HUGE, at_end, digits, needed_rho, number

_FEW_EPOCHS = 5


def privacy(pairs: Sequence[tuple[Plan, Measured]]) -> list[Block]:
    blocks: list[Block] = [
        Words(
            f"The paper shows noise levels and never says what they cost. Here they are, at delta = {DELTA:g}, by its "
            "own accounting (the sensitivity C of Lemma 1 with b_1 as measured without noise, the noise of Theorem 3, "
            "the composition of Corollary 1) and by the exact account of Gaussian noise for the same C. Both take C "
            f"for granted, which is not a bound. The true guarantee of the mechanism is {REASON}, whatever the level: "
            "see privacy.md. Theorem 3 asks for at most 1 per round; beyond that the first account proves nothing even "
            "on its own terms."
        )
    ]
    for plan, m in pairs:
        short, long = costs(plan, m, _FEW_EPOCHS), costs(plan, m, plan.noisy)
        rows = tuple(
            (f"{s.sigma:g}", f"{at_end(m, s.sigma):.4f}", f"{s.sigma / s.sensitivity:.2g}", number(s.step),
             number(s.paper, HUGE), number(s.exact), number(t.paper, HUGE), number(t.exact), "infinite")
            for s, t in zip(short, long, strict=True)
        )  # fmt: skip
        few, many = f"{_FEW_EPOCHS} epochs", f"{plan.noisy} epochs"
        head = ("sigma", f"test log loss after {many}", "sigma / C", f"per round, {few}", f"paper, {few}",
                f"exact, {few}", f"paper, {many}", f"exact, {many}", "true")  # fmt: skip
        blocks.append(
            Grid(f"{plan.data}: epsilon for each noise level, C = {number(short[0].sensitivity)}", head, rows)
        )
        rows_norm = [(h.shortest_row, h.longest_row) for h in m.facts.holdings]
        blocks.append(
            Words(
                f"Assumption 2.3 asks for rows of norm 1. Here, on {plan.data}, they lie between "
                f"{min(a for a, _ in rows_norm):.3g} and {max(b for _, b in rows_norm):.3g}."
            )
        )
    return blocks


def theory(pairs: Sequence[tuple[Plan, Measured]], pictures: dict[str, Path]) -> list[Block]:
    words = []
    for plan, m in pairs:
        for parties, trails in ((len(m.facts.holdings), m.race.admm_grid.trails), (m.theory.crowd, m.theory.crowded)):
            if not parties or not trails:
                continue
            start = trails[0].objective[0]
            lost = [f"{r:g}" for r, t in zip(plan.rhos, trails, strict=True) if not t.objective[-1] < start]
            best = min(zip(plan.rhos, trails, strict=True), key=lambda rt: _finite(rt[1].objective[-1]))
            found = f"rho = {', '.join(lost)} end above the start" if lost else "every rho ends below the start"
            words.append(f"{plan.data} with {parties} parties: {found}, rho = {best[0]:g} gets furthest")
    return [
        Picture(
            pictures["theory"],
            "The convergence theory against runs",
            "Top left, Theorem 2: the lowest Lyapunov value so far against 1/T. Top right, Lemmas 4 and 5: the "
            "augmented Lagrangian over N minus the optimum (gaps in a line: below it). Bottom left: what rho does; no "
            "rho meets the paper's assumption where a party's columns are dependent, and yet a moderate one converges, "
            "while a small one cycles or diverges. Bottom right: a run that meets the whole assumption and diverges "
            f"for three parties and more. After {pairs[0][0].tuning} epochs: {'; '.join(words)}.",
        ),
        _assumption(pairs),
        *(_crowded(plan, m) for plan, m in pairs if m.theory.crowd),
    ]


def _assumption(pairs: Sequence[tuple[Plan, Measured]]) -> Grid:
    rows = [
        (plan.data, h.party, f"{h.rank} of {h.columns}", f"{h.smallest:.3g}", f"{h.largest:.3g}",
         "none" if math.isinf(needed_rho(m)[h.party]) else number(needed_rho(m)[h.party]), f"{m.race.rho:g}")
        for plan, m in pairs
        for h in m.facts.holdings
    ]  # fmt: skip
    head = ("data", "party", "rank of D", "least positive eigenvalue of D^T D", "largest", "rho that 1.2(b) asks for",
            "tuned rho")  # fmt: skip
    return Grid("Assumption 1.2(b): gamma_m(rho) = 1 + rho lambda_min >= 2 lambda_max", head, tuple(rows))


def _crowded(plan: Plan, m: Measured) -> Grid:
    rows = tuple(
        (f"{rho:g}", digits(few.objective[-1]), digits(many.objective[-1]))
        for rho, few, many in zip(plan.rhos, m.race.admm_grid.trails, m.theory.crowded, strict=True)
    )
    name = f"{plan.data}: the objective after {plan.tuning} epochs; {m.race.admm.objective[0]:.4f} at the start, "
    name += f"{m.optimum:.4f} at the optimum"
    return Grid(name, ("rho", f"{len(m.facts.holdings)} parties", f"{m.theory.crowd} parties"), rows)


def _finite(value: float) -> float:
    return value if value == value else float("inf")


def timings(pairs: Sequence[tuple[Plan, Measured]]) -> list[Block]:
    rows = []
    for plan, m in pairs:
        t = m.timed
        later = (t.x_plait - t.x_first) / max(t.rounds - 1, 1)
        both = (t.x_prototype + t.z_prototype) / (t.x_plait + t.z_plait)
        rows.append(
            (
                plan.data,
                str(t.rounds),
                f"{t.x_prototype / t.x_plait:.3g}",
                f"{t.x_prototype / max(t.rounds - 1, 1) / later:.3g}",
                f"{t.z_prototype / t.z_plait:.3g}",
                f"{both:.3g}",
                f"{t.x_excess:.0e}",
                f"{t.z_gap:.0e}",
            )
        )
    head = ("data", "rounds", "x: L-BFGS-B / plait, factorisation included",
            "the same after the first round", "z: scalar / plait", "both",
            "x: excess of L-BFGS-B", "z: largest difference")  # fmt: skip
    return [
        Words(
            "The paper updates x by SciPy's L-BFGS-B and z by one scalar minimisation per sample. Both were run as the "
            "paper describes, and plait made the same updates from the same inputs, in the same process. Ratios of "
            "seconds, because seconds depend on the machine; plait's include its one factorisation, in the first "
            "round, which all later rounds, rhos and noise levels share. A first x-update from zero costs "
            "L-BFGS-B nothing."
        ),
        Grid("How many times as long the prototype takes", head, tuple(rows)),
    ]
