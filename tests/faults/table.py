"""Runs every cell of the matrix and writes how each ended into a page; finished cells are kept in a file.

    python -m tests.faults.table docs/threat-model.md kept.json [WORD]

With a word only the cells that have it in their name are run; the page is written once all are there.
"""

import json
import re
import sys
import tempfile
from pathlib import Path

from .faults import CELLS, FAULTS, suffered
from .stage import PHASES, ROLES

PLACE = re.compile(r"(<!-- faults -->\n).*?(<!-- /faults -->)", re.DOTALL)


def measure(kept: Path, word: str = "") -> dict[str, list[object]]:
    """For each cell how it ended and its seconds after the fault; those in the file are not run again."""
    found: dict[str, list[object]] = json.loads(kept.read_text()) if kept.exists() else {}
    for cell in CELLS:
        name = " | ".join(cell)
        if name in found or word not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = suffered(*cell, Path(folder))
                found[name] = [outcome.words, round(outcome.seconds, 1)]
            except AssertionError as error:
                sys.stderr.write(f"{name}: {str(error)[:2000]}\n")
                found[name] = ["FAILED", 0.0]
        kept.write_text(json.dumps(found, indent=1))
        sys.stdout.write(f"{name}: {found[name]}\n")
        sys.stdout.flush()
    return found


def table(found: dict[str, list[object]]) -> str:
    """One line per fault, one column per phase and role."""
    columns = [(phase, role) for phase in PHASES for role in ROLES]
    lines = ["| fault | " + " | ".join(f"{phase}, {role}" for phase, role in columns) + " |"]
    lines.append("|---" * (len(columns) + 1) + "|")
    for fault in FAULTS:
        cells = [found[f"{fault} | {phase} | {role}"] for phase, role in columns]
        lines.append(f"| {fault} | " + " | ".join(f"{words}, {seconds:.0f} s" for words, seconds in cells) + " |")
    return "\n".join(lines) + "\n"


def main(page: Path, kept: Path, word: str = "") -> int:
    """The number of cells that failed; the page is written where none did."""
    found = measure(kept, word)
    failed = sum(words == "FAILED" for words, _ in found.values())
    if not failed and len(found) == len(CELLS):
        page.write_text(PLACE.sub(lambda m: m[1] + table(found) + m[2], page.read_text()))
    return failed


if __name__ == "__main__":
    sys.exit(1 if main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:]) else 0)
