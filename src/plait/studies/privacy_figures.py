"""Pictures of what attacks take and of what privacy costs."""

from collections.abc import Sequence
from pathlib import Path

from plait.studies.attack_study import Exposure
from plait.studies.figures import empty_figure, save
from plait.studies.privacy_preview import Preview
from plait.studies.protection_attacks import ModeExposure

_COLOURS = ("#c8553d", "#e0a458", "#3066be")
_INK = "#2b2d33"
_MEASURES = (("labels", "labels that a helper learns"), ("column_space", "column space that the coordinator learns"),
             ("records", "rows that it reconstructs from 60 known ones"))  # fmt: skip


def draw_exposures(found: Sequence[Exposure], path: Path) -> Path:
    """For every protection, the part of labels, column space and rows that attacks recovered."""
    figure = empty_figure(width=10.5, height=1.6 + 0.75 * len(found))
    axes = figure.subplots()
    for k, (field, label) in enumerate(_MEASURES):
        places = [-i + 0.25 * (1 - k) for i in range(len(found))]
        bars = axes.barh(places, [getattr(e, field) for e in found], height=0.22, color=_COLOURS[k], label=label)
        axes.bar_label(bars, fmt="{:.0%}", padding=4, color=_INK, fontsize=8)
    axes.set_yticks([-i for i in range(len(found))], [e.setting for e in found])
    axes.set_xlim(0, 1.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value <= 1 else "")
    axes.set_title("What attacks on a real run recover", loc="left", color=_INK)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.08), ncols=3, frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return save(figure, path)


def draw_modes(found: Sequence[ModeExposure], path: Path) -> Path:
    """For every mode, what attacks recovered: labels above a coin's half, column space, rows."""
    figure = empty_figure(width=9.5, height=1.6 + 0.75 * len(found))
    axes = figure.subplots()
    named = (("labels", "coin-flip labels that a party reads (a guess: 50 %)"),
             ("space", "column space that the scores show"),
             ("rows", "0/1 rows found by integer programming"))  # fmt: skip
    for k, (field, label) in enumerate(named):
        places = [-i + 0.25 * (1 - k) for i in range(len(found))]
        bars = axes.barh(places, [getattr(e, field) for e in found], height=0.22, color=_COLOURS[k], label=label)
        axes.bar_label(bars, fmt="{:.0%}", padding=4, color=_INK, fontsize=8)
    axes.axvline(0.5, color=_INK, linewidth=0.8, linestyle=":")
    axes.set_yticks([-i for i in range(len(found))], [e.mode for e in found])
    axes.set_xlim(0, 1.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}" if value <= 1 else "")
    axes.set_title("What each protection leaves to a curious side", loc="left", color=_INK)
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.08), ncols=3, frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return save(figure, path)


def draw_preview(found: Preview, path: Path) -> Path:
    """Test log loss against epsilon, between the helper left out and the helper unprotected."""
    figure = empty_figure(width=7.5, height=4.2)
    axes = figure.subplots()
    axes.semilogx(list(found.private), list(found.private.values()), color=_COLOURS[2], marker="o", label="private")
    axes.axhline(found.local, color=_COLOURS[0], linestyle="--", label="without the helper")
    axes.axhline(found.pooled, color=_INK, linestyle=":", label="with the helper, unprotected")
    axes.set_xlabel("epsilon (smaller is more private)")
    axes.set_ylabel("log loss on new rows")
    axes.set_title(f"What privacy costs: {found.sample}", loc="left", color=_INK)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return save(figure, path)
