"""What each protection leaves to a curious side, on a9a: the table and the picture of docs/trust.md.

    python -m benchmarks.trust

The helper has a9a's second party's 57 columns, two others share the first party's 66.  See
`plait.studies.protection_attacks` for the attacks.  Writes the table between the marks of docs/trust.md, docs/trust.svg
and benchmarks/results/trust.json with the machine.
"""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np

import plait
from benchmarks.environment import environment
from plait.studies import protection_attacks as study
from plait.studies.chosen_broadcasts import MOST_COLUMNS, median_of, rules
from plait.studies.privacy_figures import draw_modes

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "docs" / "trust.md", ROOT / "docs" / "trust.svg"
RESULTS = Path(__file__).parent / "results" / "trust.json"
MARKED = re.compile(r"(<!-- attacks -->\n).*?(<!-- /attacks -->)", re.DOTALL)


def modes(tables, y):
    """The lines of the first table."""
    found = [*(study.measure(mode, tables, y) for mode in study.MODES), study.measure_private(tables, y)]
    lines = [
        "| mode | a party reads coin-flip labels | as expected | column space that the scores show | rows found |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {e.mode} | {e.labels:.1%} | {e.rule:.1%} | {e.space:.1%} | {e.rows:.0%} |" for e in found]
    lines += ["", f"Without any message {study.unheard(tables):.0%} of these rows are guessed."]
    silenced = study.listen("sums", tables, y, silenced=True).seen
    space = study.column_space_revealed(silenced.T, tables[0])
    lines += [f"A coordinator that breaks the protocol of sums and silences the others: column space {space:.1%}."]
    return found, lines


def chosen(helper):
    """The lines of the second table."""
    lines = ["| penalty and rules of the party | columns read | column space | answers |", "|---|---|---|---|"]
    for rule in rules():
        read = median_of(helper, rule)
        count = min(MOST_COLUMNS, helper.shape[1])
        lines.append(f"| {rule.name} | {read.columns} of {count} | {read.space:.0%} | {read.answers} |")
    return lines


def main():
    data = plait.datasets.load("a9a")
    own, helper = (np.asarray(part.toarray()) for part in data.parts.values())
    tables = [helper, own[:, :33], own[:, 33:]]
    found, lines = modes(tables, data.y)
    columns = plait.datasets.load("credit").parts  # numeric columns, which single shares would show
    numeric = np.asarray(list(columns.values())[1], dtype=float)
    spread = numeric.std(axis=0)
    numeric = (numeric[:, spread > 0] - numeric[:, spread > 0].mean(axis=0)) / spread[spread > 0]
    text = "\n".join([*lines, "", "Chosen broadcasts against numeric columns of credit:", "", *chosen(numeric)])
    PAGE.write_text(MARKED.sub(lambda mark: f"{mark[1]}{text}\n{mark[2]}", PAGE.read_text()))
    draw_modes(found, PICTURE)
    content = {"environment": environment(), "modes": [asdict(e) for e in found]}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
