"""The paper's figures, drawn anew, and two that lie beyond it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plait.studies.figures import save
from reproduction.plans import Plan
from reproduction.records import Measured, Replay, Trail
from reproduction.study import Outcome
from reproduction.theory import EXAMPLE_RHO
from reproduction.verdicts import NO_MODEL, at_end, median_trail

_ADMM, _SGD, _SUBSPACE = "#3066be", "#d1690e", "#0b6e4f"
_ALL, _ALONE, _GREY, _INK = "#2b2d33", "#a01a58", "#b8bcc2", "#2b2d33"


def draw_all(outcome: Outcome, folder: Path) -> dict[str, Path]:
    """Every picture by its name, written into the folder."""
    pairs = [(outcome.study.narrow, outcome.narrow), (outcome.study.wide, outcome.wide)]
    paths = {}
    for plan, m in pairs:
        paths[f"{plan.figure}a"] = _race(plan, m, folder / f"figure-{plan.figure}a.png")
        paths[f"{plan.figure}b"] = _noise_by_epoch(plan, m, folder / f"figure-{plan.figure}b.png")
    paths["3"] = _noise_levels(pairs, folder / "figure-3.png")
    paths["early stopping"] = _early_stopping(outcome.study.wide, outcome.wide, folder / "early-stopping.png")
    paths["theory"] = _theory(pairs, folder / "theory.png")
    return paths


def _race(plan: Plan, m: Measured, path: Path) -> Path:
    """Left the objective as in the paper; right its distance to the optimum; pale, the settings not chosen."""
    figure = _figure(11, 4.4)
    left, right = figure.subplots(1, 2)
    runs = ((m.race.sgd_grid.trails, m.race.sgd, "SGD", _SGD), (m.race.admm_grid.trails, m.race.admm, "ADMM", _ADMM))
    for axes, shift in ((left, 0.0), (right, m.optimum)):
        for grid, trail, name, colour in runs:
            for other in grid:
                _line(axes, [v - shift for v in other.objective], colour, alpha=0.18, linewidth=1)
            _line(axes, [v - shift for v in trail.objective], colour, label=f"{name}, {trail.setting}")
        _line(axes, [v - shift for v in m.race.subspace.objective], _SUBSPACE, label="subspace (plait)")
        _label(axes, "epoch", "")
    top = 1.15 * m.race.admm.objective[0]
    left.plot([], [], color=_GREY, linewidth=1, label="pale: the other settings tried")
    left.axhline(m.optimum, color=_INK, linestyle=":", linewidth=1, label="optimum")
    left.set_ylim(m.optimum - 0.04 * (top - m.optimum), top)
    left.set_xlim(0, plan.tuning)
    left.set_ylabel("training objective (log loss + penalty)")
    left.set_title(f"Fig. {plan.figure}a, {plan.data}: the first {plan.tuning} epochs", loc="left", color=_INK)
    left.legend(frameon=False, fontsize=9, loc="upper right")
    right.set_yscale("log")
    right.set_ylim(1e-6, 2)
    right.set_xlim(0, plan.epochs)
    right.set_ylabel("objective minus optimum (log scale)")
    right.set_title("the same, seen closely: all epochs", loc="left", color=_INK)
    return save(figure, path)


def _noise_by_epoch(plan: Plan, m: Measured, path: Path) -> Path:
    """Test log loss by epoch, one colour per noise level, the median of the seeds and their range; right, closely."""
    figure = _figure(12.5, 4.6)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        for colour, sigma in zip(_shades(len(plan.sigmas)), plan.sigmas, strict=True):
            runs = np.array([n.trail.test for n in m.noise if n.sigma == sigma])
            epochs = np.arange(runs.shape[1])
            axes.plot(epochs, median_trail(m, sigma), color=colour, linewidth=2, label=f"sigma = {sigma:g}")
            axes.fill_between(epochs, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.15, linewidth=0)
        _line(axes, m.race.sgd.test[: plan.noisy + 1], _SGD, label="SGD, no noise", linestyle="--", linewidth=1.5)
        axes.axhline(m.baselines.alone, color=_ALONE, linestyle=":", label="first party alone")
        axes.axhline(m.baselines.together, color=_ALL, linestyle=":", label="scikit-learn, all features")
        axes.set_xlim(0, plan.noisy)
    lowest = min(m.baselines.together, *(min(n.trail.test) for n in m.noise))
    left.set_yscale("log")
    left.set_ylim(0.9 * lowest, 5)
    _plain_numbers(left.yaxis)
    _label(left, "epoch", "test log loss (log scale)")
    left.set_title(
        f"Fig. {plan.figure}b, {plan.data}: ADMM, {m.race.admm.setting}, under noise", loc="left", color=_INK
    )
    margin = 0.1 * (m.baselines.alone - lowest)
    right.set_ylim(lowest - margin, m.baselines.alone + 5 * margin)
    _label(right, "epoch", "test log loss")
    right.set_title("the same, seen closely", loc="left", color=_INK)
    right.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return save(figure, path)


def _noise_levels(pairs: Sequence[tuple[Plan, Measured]], path: Path) -> Path:
    """Test log loss against the noise level, between two baselines."""
    figure = _figure(11, 4.4)
    for letter, axes, (plan, m) in zip("ab", figure.subplots(1, 2), pairs, strict=True):
        positive = [s for s in plan.sigmas if s > 0]
        step = positive[0] / 2
        places = [step, *positive]
        values = [at_end(m, s) for s in plan.sigmas]
        low = [at_end(m, s) - min(m.noisy_losses(s)) for s in plan.sigmas]
        high = [max(m.noisy_losses(s)) - at_end(m, s) for s in plan.sigmas]
        style = {"color": _ADMM, "marker": "o", "linewidth": 2, "capsize": 3}
        axes.errorbar(places, values, yerr=[low, high], label="ADMM (median, range)", **style)
        axes.axhline(m.baselines.alone, color=_ALONE, linestyle="--", label="scikit-learn, first party alone")
        axes.axhline(m.baselines.together, color=_ALL, linestyle="--", label="scikit-learn, all features")
        axes.axhline(NO_MODEL, color=_GREY, linestyle=":", label="no model (log 2)")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(places, ["0", *(f"{s:g}" for s in positive)])
        axes.minorticks_off()
        _plain_numbers(axes.yaxis)
        _label(axes, "noise level sigma (log scale; 0 at the left)", "test log loss (log scale)")
        axes.set_title(f"Fig. 3{letter}, {plan.data}, after {plan.noisy} epochs", loc="left", color=_INK)
    figure.axes[0].legend(frameon=False, fontsize=9, loc="upper left")
    return save(figure, path)


def _early_stopping(plan: Plan, m: Measured, path: Path) -> Path:
    """Test log loss on the way to the optimum: ADMM by epoch, the pooled solver by iteration."""
    figure = _figure(8.6, 4.4)
    axes = figure.subplots()
    trail, b = m.race.admm, m.baselines
    _line(axes, trail.test, _ADMM, label=f"ADMM, {trail.setting}, by epoch")
    _line(axes, m.race.subspace.test, _SUBSPACE, label="subspace (plait), by round")
    axes.plot(*zip(*b.stopped, strict=True), color=_ALL, marker="s", label="scikit-learn stopped, by iteration")
    axes.plot(
        b.iterations, b.together, color=_ALL, marker="*", markersize=14, linestyle="", label="scikit-learn as it comes"
    )
    axes.axhline(b.at_optimum, color=_GREY, linestyle="--", label="all of them, at the optimum")
    axes.plot(trail.best_epoch, min(trail.test), color=_ADMM, marker="v", markersize=10)
    axes.annotate(
        f"lowest {min(trail.test):.4f}, epoch {trail.best_epoch}",
        (trail.best_epoch, min(trail.test)),
        xytext=(4, -16),
        textcoords="offset points",
        color=_ADMM,
    )
    axes.set_xscale("log")
    axes.set_xlim(1.8, plan.epochs)
    low = min(min(trail.test), min(v for _, v in b.stopped))
    axes.set_ylim(0.9 * low, 2.2 * low)
    axes.set_xticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
    _label(axes, "epochs, rounds or iterations (log scale)", "test log loss")
    axes.set_title(f"{plan.data}: why ADMM can beat pooled training", loc="left", color=_INK)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return save(figure, path)


def _theory(pairs: Sequence[tuple[Plan, Measured]], path: Path) -> Path:
    """Lyapunov values, the Lagrangian, what rho does, and the counterexample."""
    figure = _figure(11, 8.4)
    (first, second), (third, fourth) = figure.subplots(2, 2)
    _draw_lyapunov(first, pairs)
    _draw_lagrangian(second, pairs)
    _draw_rho(third, pairs)
    _draw_example(fourth, pairs[0][1])
    return save(figure, path)


def _draw_lyapunov(axes: Any, pairs: Sequence[tuple[Plan, Measured]]) -> None:
    for label, colour, replay, _ in _replays(pairs):
        v = np.minimum.accumulate(replay.trail.lyapunov)
        axes.plot(np.arange(1, v.size + 1), v / v[0], color=colour, label=label)
    t = np.array([1, len(pairs[0][1].theory.replays[0].trail.lyapunov)])
    axes.plot(t, 1 / t, color=_INK, linestyle=":", label="1/T, as Theorem 2 promises")
    axes.set_xscale("log")
    axes.set_yscale("log")
    _label(axes, "rounds T (log scale)", "lowest V so far / first V (log scale)")
    axes.set_title("Lyapunov value", loc="left", color=_INK)
    axes.legend(frameon=False, fontsize=8)


def _draw_lagrangian(axes: Any, pairs: Sequence[tuple[Plan, Measured]]) -> None:
    for label, colour, replay, optimum in _replays(pairs):
        gaps = np.array(replay.lagrangian) - optimum
        axes.plot(np.arange(1, gaps.size + 1), np.where(gaps > 0, gaps, np.nan), color=colour, label=label)
    axes.set_yscale("log")
    _label(axes, "round", "Lagrangian / N minus optimum (log scale)")
    axes.set_title("Augmented Lagrangian: bounded below by the optimum", loc="left", color=_INK)


def _draw_rho(axes: Any, pairs: Sequence[tuple[Plan, Measured]]) -> None:
    lines: list[tuple[str, str, Sequence[float], Sequence[Trail], Measured]] = []
    for (plan, m), colour in zip(pairs, (_ADMM, _SGD), strict=True):
        lines.append((f"{plan.data}, {len(m.facts.holdings)} parties", colour, plan.rhos, m.race.admm_grid.trails, m))
        if m.theory.crowd:
            lines.append((f"{plan.data}, {m.theory.crowd} parties", "#7aa6e8", plan.rhos, m.theory.crowded, m))
    for label, colour, rhos, trails, m in lines:
        gaps = [min(t.objective[-1], 1e4) - m.optimum if math.isfinite(t.objective[-1]) else 1e4 for t in trails]
        axes.plot(rhos, gaps, color=colour, marker="o", label=label)
    axes.axhline(NO_MODEL - pairs[0][1].optimum, color=_GREY, linestyle=":", label=f"start, {pairs[0][0].data}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    _label(axes, "rho in units of 1/N (log scale)", f"gap after {pairs[0][0].tuning} epochs (log scale)")
    axes.set_title("What rho does", loc="left", color=_INK)
    axes.legend(frameon=False, fontsize=8)


def _draw_example(axes: Any, m: Measured) -> None:
    for colour, (parties, values) in zip((_SUBSPACE, _SGD, _ALONE), m.theory.counterexample, strict=True):
        axes.plot(np.array(values) / values[0], color=colour, label=f"{parties} parties")
    axes.set_yscale("log")
    _label(axes, "round", "objective / objective at the start (log scale)")
    axes.set_title(f"Assumption 1 met in full: squared loss, rho = {EXAMPLE_RHO:g}", loc="left", color=_INK)
    axes.legend(frameon=False, fontsize=9)


def _replays(pairs: Sequence[tuple[Plan, Measured]]) -> list[tuple[str, str, Replay, float]]:
    colours = iter((_ADMM, "#7aa6e8", _SGD, "#f0b27a"))
    return [(f"{p.data}, rho = {r.rho:g}", next(colours), r, m.optimum) for p, m in pairs for r in m.theory.replays]


def _shades(count: int) -> list[Any]:
    import matplotlib as mpl

    return [mpl.colormaps["viridis"](0.05 + 0.85 * i / max(count - 1, 1)) for i in range(count)]


def _line(axes: Any, values: Sequence[float], colour: str, **style: Any) -> None:
    axes.plot(range(len(values)), values, **{"color": colour, "linewidth": 2} | style)


def _label(axes: Any, across: str, up: str) -> None:
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(True, which="major", color="#e6e8eb")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _plain_numbers(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure
