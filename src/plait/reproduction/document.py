"""What the report says, as blocks that both HTML and Markdown are made of; every number comes from the outcome."""

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from plait._version import __version__
from plait.privacy.paper import REASON
from plait.reproduction.claims import judge
from plait.reproduction.costs import DELTA, costs
from plait.reproduction.plans import Plan
from plait.reproduction.records import Measured, Tuning
from plait.reproduction.study import Outcome
from plait.reproduction.verdicts import Claim, at_end, clean, needed_rho, number

_FEW_EPOCHS = 5
_ORIGINS = ("published values", "recomputed exactly from MNIST", "resampled in training", "too sparse to identify")


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Words:
    text: str


@dataclass(frozen=True)
class Grid:
    """A table; `name` says what it shows."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    path: Path
    title: str
    caption: str


Block = Heading | Words | Grid | Picture


def compose(outcome: Outcome, pictures: dict[str, Path]) -> list[Block]:
    """The whole report."""
    claims = judge(outcome)
    pairs = [(outcome.study.narrow, outcome.narrow), (outcome.study.wide, outcome.wide)]
    return [
        Heading("The paper, reproduced", 1),
        *_opening(outcome, claims),
        Heading("Claims"),
        _claims(claims),
        Heading("Figures"),
        *_figures(pairs, pictures, claims),
        Heading("What the noise would cost in privacy"),
        *_privacy(pairs),
        Heading("Beyond the paper: the theory, numerically"),
        *_theory(pairs, pictures),
        Heading("Beyond the paper: its prototype against plait"),
        *_timings(pairs),
        Heading("How it was run"),
        *_method(outcome, pairs),
        Heading("How each verdict is reached"),
        Grid(
            "The rules, fixed before the numbers",
            ("claim", "rule"),
            tuple((str(i), c.rule) for i, c in enumerate(claims, 1)),
        ),
    ]


def _opening(outcome: Outcome, claims: Sequence[Claim]) -> list[Block]:
    counts = ", ".join(f"{sum(c.verdict == v for c in claims)} {v}" for v in dict.fromkeys(c.verdict for c in claims))
    blocks: list[Block] = [
        Words(
            "Hu, Liu, Kong, Niu (2019), Learning Privately over Distributed Features: An ADMM Sharing Approach. Every "
            f"figure and claim of its experiments, run anew by one command: {counts}. Written by `plait reproduce`; "
            "every number on this page comes from that run."
        )
    ]
    if not outcome.study.faithful:
        blocks.append(
            Words("THIS IS THE QUICK VERSION, on small data that stand in for the paper's: it says nothing about them.")
        )
    if outcome.wide.facts.origins:
        blocks.append(
            Words(
                "GISETTE IS A REBUILD, not the official file. Labels and test rows are the published ones; the "
                "training columns come from where the table below says. What is said here about gisette is "
                "said about this rebuild."
            )
        )
        rows = [(party, *map(str, counts)) for party, counts in outcome.wide.facts.origins]
        total = [sum(c[i] for _, c in outcome.wide.facts.origins) for i in range(len(_ORIGINS))]
        rows.append(("all", *map(str, total)))
        blocks.append(Grid("Gisette's training columns by origin", ("party", *_ORIGINS), tuple(rows)))
        blocks.append(
            Words(
                "The columns that differ from the official file are those of the last two kinds: label-independent "
                "probes whose training values are drawn anew from the same column of the test rows, and columns with "
                "too few entries to be identified. `plait.datasets.gisette_origins()` gives the kind of every column."
            )
        )
    return blocks


def _claims(claims: Sequence[Claim]) -> Grid:
    rows = tuple(
        (str(i), f"{c.says} ({c.where})", c.measured, str(c.verdict), c.figure) for i, c in enumerate(claims, 1)
    )
    return Grid("Every claim beside what was measured", ("", "the paper says", "measured", "verdict", "see"), rows)


def _figures(pairs: Sequence[tuple[Plan, Measured]], pictures: dict[str, Path], claims: Sequence[Claim]) -> list[Block]:
    blocks: list[Block] = []
    for plan, m in pairs:
        n, race = plan.figure, m.race
        size = f"{m.facts.rows:,} training and {m.facts.test_rows:,} test rows, "
        size += f"{sum(h.columns for h in m.facts.holdings):,} columns ({_widths(m)})"
        blocks.append(
            Picture(
                pictures[f"{n}a"],
                f"Figure {n}a: loss against epoch, {plan.data}",
                f"{size}. Bold, the best of {len(race.admm_grid.trails)} settings of each method by training "
                f"objective; pale, the others. ADMM starts at x = y = z = 0, so that its first epoch stands still; SGD "
                f"starts at random. At the last epoch: ADMM {race.admm.objective[-1]:.5f}, SGD "
                f"{race.sgd.objective[-1]:.5f}, subspace after {plan.rounds} rounds {race.subspace.objective[-1]:.5f}, "
                f"optimum {m.optimum:.5f}. {_said(claims, f'{n}a')}",
            )
        )
        blocks.append(
            Picture(
                pictures[f"{n}b"],
                f"Figure {n}b: test log loss under noise, {plan.data}",
                f"ADMM with noise D xi, xi ~ N(0, sigma^2 (D^T D)^-1), on every share; the model tested is the noised "
                f"one that is shared. Lines are medians over {len(plan.seeds)} seeds, bands their range. "
                f"{_said(claims, f'{n}b')}",
            )
        )
    (a, first), (b, second) = pairs
    blocks.append(
        Picture(
            pictures["3"],
            "Figure 3: test log loss against noise level",
            f"The same runs after {a.noisy} epochs. {a.data}: all features {first.baselines.together:.4f}, first party "
            f"alone {first.baselines.alone:.4f}, ADMM without noise {clean(first):.4f}. {b.data}: "
            f"{second.baselines.together:.4f}, {second.baselines.alone:.4f}, {clean(second):.4f}. {_said(claims, '3')}",
        )
    )
    base = second.baselines
    blocks.append(
        Picture(
            pictures["early stopping"],
            f"Why ADMM can beat pooled training on {b.data}",
            "The paper takes it as a sign that ADMM is better with many features. All these runs minimise the same "
            f"objective and tend to the same model, whose test log loss is {base.at_optimum:.4f}; whoever does better "
            f"has not arrived. ADMM passes {min(second.race.admm.test):.4f} in epoch {second.race.admm.best_epoch}, "
            f"subspace {min(second.race.subspace.test):.4f} in round {second.race.subspace.best_epoch}, and "
            f"scikit-learn, which as it comes ends after {base.iterations} iterations at {base.together:.4f}, "
            f"{min(v for _, v in base.stopped):.4f} at its best. Other penalties, by scikit-learn: "
            + ", ".join(f"{v:.4f} with C = {c:g}" for c, v in base.penalties)
            + ". Epochs and penalties were looked at on the test rows, for explanation and not for choosing.",
        )
    )
    return blocks


def _said(claims: Sequence[Claim], figure: str) -> str:
    """What the paper says about a figure, with the verdicts."""
    about = [
        f"({i}) {c.says.rstrip('.')}: {c.verdict}"
        for i, c in enumerate(claims, 1)
        if any(f.strip().startswith(figure) for f in c.figure.split(","))
    ]
    return f"The paper's claims: {'; '.join(about)}." if about else ""


def _privacy(pairs: Sequence[tuple[Plan, Measured]]) -> list[Block]:
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
             number(s.paper), number(s.exact), number(t.paper), number(t.exact), "infinite")
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
                f"Assumption 2.3 asks for rows of norm 1. On {plan.data}, prepared as the paper does, they lie between "
                f"{min(a for a, _ in rows_norm):.3g} and {max(b for _, b in rows_norm):.3g}."
            )
        )
    return blocks


def _theory(pairs: Sequence[tuple[Plan, Measured]], pictures: dict[str, Path]) -> list[Block]:
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
        (f"{rho:g}", number(few.objective[-1]), number(many.objective[-1]))
        for rho, few, many in zip(plan.rhos, m.race.admm_grid.trails, m.theory.crowded, strict=True)
    )
    name = f"{plan.data}: the objective after {plan.tuning} epochs; {m.race.admm.objective[0]:.4f} at the start, "
    name += f"{m.optimum:.4f} at the optimum"
    return Grid(name, ("rho", f"{len(m.facts.holdings)} parties", f"{m.theory.crowd} parties"), rows)


def _finite(value: float) -> float:
    return value if value == value else float("inf")


def _timings(pairs: Sequence[tuple[Plan, Measured]]) -> list[Block]:
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
                f"{t.x_first / later:.3g}",
                f"{t.z_prototype / t.z_plait:.3g}",
                f"{both:.3g}",
                f"{t.x_excess:.0e}",
                f"{t.z_gap:.0e}",
            )
        )
    head = ("data", "rounds", "x: L-BFGS-B / plait", "plait's first x / a later one", "z: scalar / plait", "both",
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


def _method(outcome: Outcome, pairs: Sequence[tuple[Plan, Measured]]) -> list[Block]:
    blocks: list[Block] = [
        Words(
            "Logistic regression, (1/N) sum of log losses + (1/2N) ||x||^2: scikit-learn's default C = 1. The paper "
            "does not say which penalty it used. No intercept in plait's runs; scikit-learn as it comes has one. ADMM "
            "is Algorithm 1 to the letter (plait.Jacobi), rho in units of 1/N. SGD is FDML (plait.Sgd), one epoch "
            "being one pass over the samples; its weights start at random, N(0, 0.01^2). An epoch or a round is one "
            "number per sample and party each way. Test rows were never used to choose a setting."
        )
    ]
    for plan, m in pairs:
        blocks.append(Words(f"{plan.data}: {m.facts.description}"))
        for grid in (m.race.admm_grid, m.race.sgd_grid):
            blocks.append(_grid(plan, grid))
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    took = f"{outcome.seconds / 60:.1f} minutes by the clock, {outcome.processor / 60:.1f} of processor time"
    blocks.append(
        Words(
            f"Run on {machine}, plait {__version__}, {packages}: {took}. Seeds are fixed: another run gives the same "
            "curves up to rounding; only the ratios of seconds vary from run to run."
        )
    )
    return blocks


def _grid(plan: Plan, tuning: Tuning) -> Grid:
    rows = tuple(
        (t.setting + (" (chosen)" if i == tuning.chosen else ""), number(t.objective[-1]), number(t.test[-1]))
        for i, t in enumerate(tuning.trails)
    )
    extra = f", batches of {plan.batch}" if tuning.method == "SGD" else ""
    return Grid(
        f"{plan.data}, the grid of {tuning.method}{extra}: {len(rows)} settings, {plan.tuning} epochs each; the lowest "
        f"training objective is chosen{_edge(tuning)}",
        ("setting", "training objective", "test log loss"),
        rows,
    )


def _edge(tuning: Tuning) -> str:
    """Says so where the best setting might lie beyond the grid."""
    best, values = tuning.values[tuning.chosen][0], [v[0] for v in tuning.values]
    return ", at the edge of the grid" if best in (min(values), max(values)) else ", inside the grid"


def _widths(m: Measured) -> str:
    return " / ".join(str(h.columns) for h in m.facts.holdings)
