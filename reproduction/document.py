"""What the report says, as blocks that both HTML and Markdown are made of; every number comes from the outcome."""

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from plait._version import __version__
from plait.methods.sgd import Sgd
from reproduction.beyond import privacy, theory, timings
from reproduction.blocks import Block, Grid, Heading, Picture, Words
from reproduction.claims import judge
from reproduction.plans import Plan
from reproduction.records import Measured, Tuning
from reproduction.study import Outcome
from reproduction.verdicts import Claim, Verdict, clean, digits

_ORIGINS = ("published values", "recomputed exactly from MNIST", "resampled in training", "too sparse to identify")


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
        *privacy(pairs),
        Heading("Beyond the paper: the theory, numerically"),
        *theory(pairs, pictures),
        Heading("Beyond the paper: its prototype against plait"),
        *timings(pairs),
        Heading("How it was run"),
        *_method(outcome, pairs),
        Heading("How each verdict is reached"),
        Words(
            "The rules, the grids and the noise levels were settled while this was built, after trial runs on the same "
            "data had been seen: they are stated so that they can be judged, not as a test announced beforehand."
        ),
        Grid(
            "The rules",
            ("claim", "rule"),
            tuple((str(i), c.rule) for i, c in enumerate(claims, 1)),
        ),
    ]


def _opening(outcome: Outcome, claims: Sequence[Claim]) -> list[Block]:
    counts = [sum(c.verdict == v for c in claims) for v in Verdict]
    blocks: list[Block] = [
        Words(
            "Hu, Liu, Kong, Niu (2019), Learning Privately over Distributed Features: An ADMM Sharing Approach. Every "
            f"figure and claim of its experiments, run anew by one command. Of {len(claims)} claims {counts[0]} hold, "
            f"{counts[1]} hold partly and {counts[2]} do not hold here. Written by `make reproduce`; "
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
                "GISETTE IS A REBUILD, not the official file. Labels and test rows are the published ones, but for the "
                "scale of some very sparse columns; the training columns come from where the table below says. What "
                "is said here about gisette is said about this rebuild."
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


def _method(outcome: Outcome, pairs: Sequence[tuple[Plan, Measured]]) -> list[Block]:
    blocks: list[Block] = [
        Words(
            "Logistic regression, (1/N) sum of log losses + (1/2N) ||x||^2: scikit-learn's default C = 1. The paper "
            "does not say which penalty it used. No intercept in plait's runs; scikit-learn as it comes has one. ADMM "
            "is Algorithm 1 to the letter (plait.Jacobi), rho in units of 1/N. SGD is FDML (plait.Sgd), one epoch "
            f"being one pass over the samples; its weights start at random, N(0, {Sgd().start:g}^2). An epoch or a "
            "round is one number per sample and party each way, not counting what SGD sends only to be measured. Test "
            "rows were never used to choose a setting."
        )
    ]
    for plan, m in pairs:
        blocks.append(Words(f"{plan.data}: {m.facts.description}"))
        for grid in (m.race.admm_grid, m.race.sgd_grid):
            blocks.append(_grid(plan, grid))
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn"))
    took = f"{outcome.seconds / 60:.1f} minutes by the clock, {outcome.processor / 60:.1f} of processor time"
    if outcome.seconds > outcome.processor:
        took += "; the difference was spent waiting for cores that other work used"
    blocks.append(
        Words(
            f"Run on {machine}, plait {__version__}, {packages}: {took}. Seeds are fixed: another run gives the same "
            "curves up to rounding; only the ratios of seconds vary from run to run."
        )
    )
    return blocks


def _grid(plan: Plan, tuning: Tuning) -> Grid:
    rows = tuple(
        (t.setting + (" (chosen)" if i == tuning.chosen else ""), digits(t.objective[-1]), digits(t.test[-1]))
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
