"""Charts as inline SVG that follows the page's colours: no scripts, no fonts, no network."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_WIDTH, _HEIGHT = 440, 300  # pixels: two fit beside each other on a page of A4
_LEFT, _BOTTOM, _TOP, _RIGHT = 58, 44, 12, 26  # pixels of the margins: room for numbers such as 1e-12 and a label
_MOST_POINTS = 400  # of a line: more than it is wide
_TICKS = 4  # steps of an axis, about

Series = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axes:
    """How a chart is labelled, and its range where the data do not decide it."""

    title: str
    x: str
    y: str
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    logarithmic: bool = False
    percent: bool = False
    whole: bool = False
    """Whether x has whole numbers only, as rounds have."""


def line_chart(axes: Axes, lines: Mapping[str, Series], guide: Series = ()) -> str:
    """An SVG with one line per name, and a dashed guide; empty where fewer than two points can be drawn."""
    drawn = {name: thinned(_drawable(points, axes.logarithmic)) for name, points in lines.items()}
    drawn = {name: points for name, points in drawn.items() if len(points) > 1}
    if not drawn:
        return ""
    frame = _Frame.of(axes, [p for points in drawn.values() for p in points])
    parts = [frame.axis()]
    if guide:
        parts.append(f'<polyline class="guide" points="{frame.path(guide)}"/>')
    for i, points in enumerate(drawn.values()):
        parts.append(f'<polyline class="line s{i % 4}" points="{frame.path(points)}"/>')
    return frame.svg(parts, list(drawn))


def bar_chart(axes: Axes, edges: Sequence[float], groups: Mapping[str, Sequence[float]]) -> str:
    """An SVG with a histogram per group, one over the other."""
    top = max((max(heights, default=0.0) for heights in groups.values()), default=0.0)
    if not top > 0:
        return ""
    frame = _Frame.of(axes, [(edges[0], 0.0), (edges[-1], top)])
    parts = [frame.axis()]
    for i, heights in enumerate(groups.values()):
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            (x0, y0), (x1, y1) = frame.place(left, height), frame.place(right, 0.0)
            box = f'x="{x0:.1f}" y="{y0:.1f}" width="{max(0.5, x1 - x0 - 1):.1f}" height="{y1 - y0:.1f}"'
            parts.append(f'<rect class="f{i % 4}" fill-opacity=".55" {box}/>')
    return frame.svg(parts, list(groups))


def thinned(points: Series) -> list[tuple[float, float]]:
    """At most 400 of the points, evenly, the first and the last among them."""
    step = max(1, math.ceil(len(points) / _MOST_POINTS))
    return [*points[:-1:step], points[-1]] if points else []


@dataclass(frozen=True)
class _Frame:
    """Maps numbers on the axes to pixels."""

    axes: Axes
    x0: float
    x1: float
    y0: float
    y1: float

    @classmethod
    def of(cls, axes: Axes, points: Series) -> "_Frame":
        xs, ys = [x for x, _ in points], [y for _, y in points]
        x0, x1 = axes.x_range or (min(xs), max(xs))
        y0, y1 = axes.y_range or (min(ys), max(ys))
        return cls(axes, x0, x1 if x1 > x0 else x0 + 1, y0, y1 if y1 > y0 else y0 + max(1e-9, abs(y0) * 1e-3))

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = _LEFT + (x - self.x0) / (self.x1 - self.x0) * (_WIDTH - _LEFT - _RIGHT)
        down = _TOP + (self.y1 - y) / (self.y1 - self.y0) * (_HEIGHT - _TOP - _BOTTOM)
        return across, down

    def path(self, points: Series) -> str:
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.place(*point) for point in points))

    def axis(self) -> str:
        low = _HEIGHT - _BOTTOM
        parts = [f'<path class="axis" d="M{_LEFT},{_TOP}V{low}H{_WIDTH - _RIGHT}"/>']
        decades = self.axes.logarithmic and self.y1 - self.y0 >= 1
        for y in _ticks(self.y0, self.y1, least=1.0 if decades else 0.0):
            _, down = self.place(self.x0, y)
            parts.append(f'<path class="grid" d="M{_LEFT},{down:.1f}H{_WIDTH - _RIGHT}"/>')
            shown = f"1e{y:g}" if decades else f"{10**y:.3g}" if self.axes.logarithmic else self._number(y)
            parts.append(f'<text x="{_LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{shown}</text>')
        for x in _ticks(self.x0, self.x1, least=1.0 if self.axes.whole else 0.0):
            across, _ = self.place(x, self.y0)
            parts.append(f'<text x="{across:.1f}" y="{low + 17}" text-anchor="middle">{self._number(x)}</text>')
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        parts.append(f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor="middle">{html.escape(self.axes.x)}</text>')
        return "".join(parts)

    def _number(self, value: float) -> str:
        return f"{100 * value:g} %" if self.axes.percent else f"{value:.6g}"

    def svg(self, parts: list[str], names: list[str]) -> str:
        label = html.escape(f"{self.axes.title}: {self.axes.y} against {self.axes.x}" + _legend_words(names))
        return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _legend_words(names: list[str]) -> str:
    return f" for {', '.join(names)}" if len(names) > 1 else ""


def _drawable(points: Series, logarithmic: bool) -> list[tuple[float, float]]:
    if logarithmic:
        return [(x, math.log10(y)) for x, y in points if math.isfinite(y) and y > 0]
    return [(x, y) for x, y in points if math.isfinite(y)]


def _ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """Round numbers between low and high, about four; with a `least` step they are multiples of it."""
    raw = max((high - low) / _TICKS, least)
    size = 10.0 ** math.floor(math.log10(raw))
    steps = [size * k for k in (1, 2, 2.5, 5, 10)]
    step = next(s for s in steps if s >= raw * 0.999 and (not least or s % least == 0))
    first = math.ceil(low / step - 1e-9)
    return [round(k * step, 12) for k in range(first, math.floor(high / step + 1e-9) + 1)]
