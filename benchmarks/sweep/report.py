"""Tables of verdicts, in Markdown."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.sweep.judge import Verdict

_MARKS = re.compile(r"(<!-- sweep -->\n).*?(<!-- /sweep -->)", re.DOTALL)
_FAR = 1e-4  # no convex fit may be farther from its optimum
_WORST = 20  # cases in the list of the worst


def line(v: Verdict) -> str:
    """One verdict on one line of the terminal."""
    if v.status != "judged":
        return f"{v.status:9} {v.case}: {v.words[:90]}"
    mark = "FALSE" if v.false_claim else "ok" if v.within else "above"
    return f"{mark:9} {v.case}: gap {v.gap:.1e}, {v.rounds} rounds, {v.seconds:.2f} s"


def page(verdicts: Sequence[Verdict]) -> str:
    """All tables."""
    parts = [
        _table("family", verdicts, lambda v: v.case.split(" | ")[0]),
        _table("loss", [v for v in verdicts if v.loss != "found"], lambda v: v.loss),
        _table("penalty", [v for v in verdicts if v.loss != "found"], lambda v: v.penalty),
        worst(verdicts),
    ]
    return "\n\n".join(part for part in parts if part)


def write_page(file: Path, verdicts: Sequence[Verdict], asked: int) -> None:
    """Put the tables by family and by loss between the marks of a page."""
    head = f"From {len(verdicts)} of {asked} cases.\n\n" if len(verdicts) < asked else f"All {asked} cases.\n\n"
    loss = [v for v in verdicts if v.loss != "found"]
    tables = [
        _table("family", verdicts, lambda v: v.case.split(" | ")[0]),
        _table("loss", loss, lambda v: v.loss),
        worst(verdicts),
    ]
    text = head + "\n\n".join(tables)
    file.write_text(_MARKS.sub(lambda m: f"{m[1]}{text}\n{m[2]}", file.read_text()))


def _table(what: str, verdicts: Sequence[Verdict], key: Callable[[Verdict], str]) -> str:
    head = [
        what, "fits", "within 1e-6", "above 1e-4", "certified", "false claims", "not ended", "failed", "unjudged",
        "rounds: median, 90 %", "worst gap", "support right", "seconds",
    ]  # fmt: skip
    names = list(dict.fromkeys(key(v) for v in verdicts))
    rows = [_row(name, [v for v in verdicts if key(v) == name]) for name in names]
    rows.append(_row("**all**", verdicts))
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])


def _row(name: str, verdicts: Sequence[Verdict]) -> list[str]:
    asked = [v for v in verdicts if v.status in ("judged", "timeout", "error")]
    judged = [v for v in asked if v.status == "judged"]
    rounds = [v.rounds for v in judged if v.within]
    supports = [v.support for v in judged if v.support is not None]
    gaps = [v.gap for v in judged if v.gap is not None]
    return [
        name,
        str(len(asked)),
        _share(sum(v.within for v in asked), len(asked)),
        str(sum(v.gap is None or v.gap > _FAR for v in asked)),
        _share(sum(bool(v.certified) for v in asked), len(asked)),
        str(sum(v.false_claim for v in asked)),
        str(sum(v.status == "timeout" or (v.status == "judged" and not v.converged) for v in asked)),
        str(sum(v.status == "error" for v in asked)),
        str(sum(v.status == "unjudged" for v in verdicts)),
        f"{np.median(rounds):.0f}, {np.quantile(rounds, 0.9):.0f}" if rounds else "-",
        f"{max(gaps):.1e}" if gaps else "-",
        f"{sum(supports)} of {len(supports)}" if supports else "-",
        f"{sum(v.seconds for v in judged):.0f}",
    ]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def worst(verdicts: Sequence[Verdict]) -> str:
    """The cases that went most wrong: first false claims, then failures, then those that did not arrive."""
    bad = [
        v
        for v in verdicts
        if v.false_claim or v.status in ("error", "timeout") or (v.status == "judged" and not v.within)
    ]
    if not bad:
        return "No case is above 1e-6, and none claims more than its weights hold."
    bad.sort(key=lambda v: (not v.false_claim, -(np.inf if v.gap is None else v.gap)))
    head = ["case", "gap", "rounds", "what it said"]
    rows = [[v.case.replace(" | ", ", "), _gap(v), str(v.rounds), _words(v)] for v in bad[:_WORST]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, ["---"] * len(head), *rows])


def _gap(v: Verdict) -> str:
    return v.status if v.gap is None else f"{v.gap:.1e}"


def _words(v: Verdict) -> str:
    said = ("certified" if v.certified else "converged") if v.false_claim else ""
    low = f"objective too low by {-v.misreported:.1e}" if v.misreported < -1e-6 else ""
    return "; ".join(word for word in (said, low, v.words[:80].replace("|", "/")) if word)
