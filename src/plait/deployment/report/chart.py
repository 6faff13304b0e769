"""Line charts as inline SVG: no scripts, no fonts, no network."""

import html
import math
from collections.abc import Mapping, Sequence

_COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
_WIDTH, _HEIGHT = 640, 220  # pixels: fits a page of A4 and a small window
_LEFT, _BOTTOM, _TOP = 70, 24, 22  # pixels of the margins: room for numbers such as 1.0e-12, a line of text, a title

Series = Sequence[tuple[float, float]]


def line_chart(title: str, lines: Mapping[str, Series], logarithmic: bool = False) -> str:
    """An SVG with one line per name; points that cannot be drawn are left out."""
    drawn = {name: _drawable(points, logarithmic) for name, points in lines.items()}
    drawn = {name: points for name, points in drawn.items() if points}
    if not drawn:
        return ""
    xs = [x for points in drawn.values() for x, _ in points]
    ys = [y for points in drawn.values() for _, y in points]
    x0, x1, y0, y1 = min(xs), max(max(xs), min(xs) + 1), min(ys), max(ys)
    y1 = y1 if y1 > y0 else y0 + max(1e-9, abs(y0) * 1e-3)  # a flat line still needs an axis of some height

    def place(x: float, y: float) -> str:
        across = _LEFT + (x - x0) / (x1 - x0) * (_WIDTH - _LEFT - 10)
        down = _TOP + (y1 - y) / (y1 - y0) * (_HEIGHT - _TOP - _BOTTOM)
        return f"{across:.1f},{down:.1f}"

    parts = [_axis(x0, x1, y0, y1, logarithmic)]
    for i, (name, points) in enumerate(drawn.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        path = " ".join(place(x, y) for x, y in points)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{path}"/>')
        label = html.escape(name)
        parts.append(f'<text x="{_LEFT + 8 + 110 * i}" y="14" fill="{colour}" font-size="12">{label}</text>')
    name = html.escape(title)
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}">{"".join(parts)}</svg>'


def _drawable(points: Series, logarithmic: bool) -> list[tuple[float, float]]:
    if logarithmic:
        return [(x, math.log10(y)) for x, y in points if math.isfinite(y) and y > 0]
    return [(x, y) for x, y in points if math.isfinite(y)]


def _axis(x0: float, x1: float, y0: float, y1: float, logarithmic: bool) -> str:
    def shown(y: float) -> str:
        return f"{10**y:.1e}" if logarithmic else f"{y:.5g}"

    low, style = _HEIGHT - _BOTTOM, 'font-size="11" fill="#778"'
    return (
        f'<path d="M{_LEFT},{_TOP}V{low}H{_WIDTH - 10}" stroke="#99a" fill="none"/>'
        f'<text x="4" y="{_TOP + 8}" {style}>{shown(y1)}</text><text x="4" y="{low}" {style}>{shown(y0)}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 6}" {style}>{x0:g}</text>'
        f'<text x="{_WIDTH - 12}" y="{_HEIGHT - 6}" text-anchor="end" {style}>round {x1:g}</text>'
    )
