"""Pictures, drawn without a display and written whole or not at all."""

import io
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from plait._files import write_atomically
from plait.errors import PlaitError, SettingError
from plait.studies.demo import MethodCurve, Score

_COLOURS = ("#0b6e4f", "#3066be", "#c8553d")
_GREY, _INK = "#b8bcc2", "#2b2d33"


def draw_demo(curves: Sequence[MethodCurve], scores: Sequence[Score], path: Path) -> Path:
    """Left, each method's way to the optimum; right, what each model costs on new rows."""
    figure = empty_figure(width=11, height=4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_curves(left, curves)
    _draw_scores(right, scores)
    return save(figure, path)


def _draw_curves(axes: Any, curves: Sequence[MethodCurve]) -> None:
    for curve, colour in zip(curves, _COLOURS, strict=False):
        rounds = range(1, len(curve.gaps) + 1)
        label = curve.method + (" (diverges)" if curve.diverged else "")
        axes.semilogy(rounds, curve.gaps, color=colour, linewidth=2, marker="o", markersize=3)
        axes.annotate(
            label.replace(" (", "\n("),
            (rounds[-1], curve.gaps[-1]),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontweight="bold",
        )
    longest = max(len(c.gaps) for c in curves)
    axes.set_xlim(0, 1.45 * longest)  # room for the names at the ends of the curves
    axes.set_xticks(range(0, longest + 1, max(longest // 6, 1)))
    axes.set_xlabel("rounds (in each, a party sends and receives one number per row)")
    axes.set_ylabel("gap to the pooled optimum, relative")
    axes.set_title("How fast three parties reach the pooled optimum", loc="left", color=_INK)
    axes.grid(True, which="major", color="#e6e8eb")
    _plain(axes)


def _draw_scores(axes: Any, scores: Sequence[Score]) -> None:
    names = [s.model for s in scores][::-1]
    values = [s.log_loss for s in scores][::-1]
    colours = [_COLOURS[0] if s.rounds is not None else _GREY for s in scores][::-1]
    bars = axes.barh(names, values, color=colours, height=0.62)
    axes.bar_label(bars, fmt="%.3f", padding=4, color=_INK)
    axes.set_xlim(0, max(values) * 1.15)
    axes.set_xlabel("log loss on new patients (lower is better)")
    axes.set_title("What working together brings", loc="left", color=_INK)
    axes.tick_params(axis="y", length=0)
    _plain(axes)


def _plain(axes: Any) -> None:
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def pictures_can_be_drawn() -> bool:
    """Whether matplotlib is installed: it is an extra, since only studies draw with it."""
    return find_spec("matplotlib") is not None


def empty_figure(width: float, height: float) -> Any:
    """A figure of so many inches, to draw into."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PlaitError("a picture needs matplotlib. Found none. Install it: pip install 'plait[plots]'.") from error

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Any, path: Path) -> Path:
    """Write the picture in the format that its name ends in; an interrupted run leaves no half picture."""
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lstrip("."))
    try:
        write_atomically(path, picture.getvalue())
    except OSError as error:
        raise SettingError(
            f"the output folder must be one that can be written to. Found {path.parent}: {error.strerror}. "
            "Choose another with --output."
        ) from error
    return path
