"""The report as one HTML file that needs no network, and as a Markdown page with pictures beside it."""

import base64
import html
import re
from collections.abc import Sequence
from pathlib import Path

from plait._files import write_atomically
from reproduction.blocks import Block, Grid, Heading, Picture, Words
from reproduction.document import compose
from reproduction.pictures import draw_all
from reproduction.records import writing
from reproduction.study import Outcome
from reproduction.verdicts import Verdict

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid #e3e6ea}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}caption{text-align:left;font-weight:600;padding:.3rem 0}
td,th{padding:.3rem .6rem;border-bottom:1px solid #e3e6ea;text-align:left;vertical-align:top}
td{font-variant-numeric:tabular-nums}figure{margin:1.5rem 0}img{max-width:100%}figcaption{color:#444b55;max-width:60rem}
.holds{color:#0b6e4f;font-weight:600}.partly{color:#9a6700;font-weight:600}.fails{color:#b42318;font-weight:600}
nav a{margin-right:1rem}
"""
_CLASSES = {Verdict.HOLDS: "holds", Verdict.PARTLY: "partly", Verdict.FAILS: "fails"}


def write_report(outcome: Outcome, folder: Path, summary: Path | None) -> Path:
    """report.html and its pictures into the folder; the Markdown page where `summary` says, its pictures beside it."""
    blocks = compose(outcome, draw_all(outcome, folder / "pictures"))
    page = folder / "report.html"
    with writing(page):
        write_atomically(page, as_html(blocks).encode())
    if summary is not None:
        with writing(summary):
            _write_summary(blocks, summary)
    return page


def _write_summary(blocks: Sequence[Block], summary: Path) -> None:
    beside = summary.with_suffix("")
    for block in blocks:
        if isinstance(block, Picture):
            write_atomically(beside / block.path.name, block.path.read_bytes())
    write_atomically(summary, as_markdown(blocks, beside.name).encode())


def as_html(blocks: Sequence[Block]) -> str:
    """One file, pictures inside."""
    title = next(b.text for b in blocks if isinstance(b, Heading))
    links = "".join(
        f'<a href="#{_anchor(t)}">{html.escape(t)}</a>'
        for b in blocks
        for t in ([b.text] if isinstance(b, Heading) and b.level > 1 else [b.title] if isinstance(b, Picture) else [])
    )
    body = [_html(b) for b in blocks]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{_STYLE}</style>"
        f"<body>{body[0]}<nav>{links}</nav>{''.join(body[1:])}</body></html>\n"
    )


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f'<h{block.level} id="{_anchor(block.text)}">{html.escape(block.text)}</h{block.level}>'
    if isinstance(block, Words):
        return "<p>" + re.sub("`(.*?)`", r"<code>\1</code>", html.escape(block.text)) + "</p>"
    if isinstance(block, Grid):
        head = "".join(f"<th>{html.escape(h)}</th>" for h in block.head)
        rows = "".join(f"<tr>{''.join(_cell(c) for c in row)}</tr>" for row in block.rows)
        return f"<table><caption>{html.escape(block.name)}</caption><tr>{head}</tr>{rows}</table>"
    data = base64.b64encode(block.path.read_bytes()).decode()
    title, caption = html.escape(block.title), html.escape(block.caption)
    return (
        f'<figure id="{_anchor(block.title)}"><img alt="{title}" src="data:image/png;base64,{data}">'
        f"<figcaption><b>{title}.</b> {caption}</figcaption></figure>"
    )


def _cell(text: str) -> str:
    known = _CLASSES.get(Verdict(text)) if text in set(Verdict) else None
    return f"<td class={known}>{text}</td>" if known else f"<td>{html.escape(text)}</td>"


def as_markdown(blocks: Sequence[Block], pictures: str) -> str:
    """The same in Markdown, pictures from a folder beside the page."""
    return "<!-- Written by `make reproduce`. -->\n\n" + "\n\n".join(_markdown(b, pictures) for b in blocks) + "\n"


def _markdown(block: Block, pictures: str) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {block.text}"
    if isinstance(block, Words):
        return _escaped(block.text)
    if isinstance(block, Grid):
        lines = [block.head, ("---",) * len(block.head), *block.rows]
        table = "\n".join("| " + " | ".join(_escaped(c).replace("|", "\\|") for c in line) + " |" for line in lines)
        return f"**{_escaped(block.name)}**\n\n{table}"
    return f"### {block.title}\n\n![{block.title}]({pictures}/{block.path.name})\n\n{_escaped(block.caption)}"


def _escaped(text: str) -> str:
    """Stars and underscores as they are, outside code."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
