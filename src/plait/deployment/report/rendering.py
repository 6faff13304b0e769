"""Pages from templates: the live page and the report share their look."""

from functools import cache
from pathlib import Path
from typing import Any

from plait.training.tracking.forecast import duration

_FOLDER = Path(__file__).with_name("templates")


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # loaded when a page is made

    found = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["duration"] = duration
    found.filters["size"] = size
    return found


def render(template: str, **values: Any) -> str:
    """The page that a template makes of some values; all text in them is escaped."""
    return str(_environment().get_template(template).render(style=_style(), **values))


@cache
def _style() -> str:
    return (_FOLDER / "style.css").read_text(encoding="utf-8")


def size(count: float) -> str:
    """Bytes for people: "512 B", "1.5 kB", "2.34 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError
