"""How time and memory grow with the rows N, the columns d, the parties M and the non-zeros: benchmarks/results/growth/.

Every line trains plait's default method for the same number of rounds in a process of its own.
"""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.environment import environment
from benchmarks.memory import measure

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results" / "growth"
ROUNDS = 8
DENSE: dict[str, Any] = {"kind": "dense", "rounds": ROUNDS, "strength": 1e-4}
SPARSE: dict[str, Any] = {"kind": "sparse", "rounds": ROUNDS, "strength": 1e-6}
STUDIES: dict[str, list[dict[str, Any]]] = {
    "rows": [{**DENSE, "rows": n, "widths": [50, 50]} for n in (10_000, 20_000, 40_000, 80_000, 160_000)],
    "columns": [{**DENSE, "rows": 20_000, "widths": [d // 2] * 2} for d in (50, 100, 200, 400, 800)],
    "parties": [{**DENSE, "rows": 20_000, "widths": [160 // m] * m} for m in (2, 4, 8, 16)],
    "nonzeros": [
        {**SPARSE, "rows": n, "width": 10_000, "parties": 4, "per_row": 10} for n in (25_000, 50_000, 100_000, 200_000)
    ],
}
_COLUMNS = ("rows", "columns", "parties", "nonzeros", "seconds", "data_mb", "before_mb", "peak_mb")


def main() -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {}
    for study, jobs in STUDIES.items():
        found[study] = []
        for job in jobs:
            found[study].append(measure(**job))
            print(study, found[study][-1], file=sys.stderr, flush=True)
    table = _table(found)
    (RESULTS / "table.md").write_text(table)
    (RESULTS / "environment.json").write_text(json.dumps({**environment(), "config": STUDIES}, indent=1) + "\n")
    with (RESULTS / "table.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["study", "rounds", *_COLUMNS])
        out.writerows([s, r["rounds"], *(r[c] for c in _COLUMNS)] for s, rows in found.items() for r in rows)
    _draw(found)
    print(table)


def _table(found: dict[str, list[dict[str, Any]]]) -> str:
    lines = [f"{ROUNDS} rounds of the default method; memory beyond what was resident before training.", ""]
    lines += ["| N | d | M | non-zeros | seconds a round | data, MB | added memory, MB |", "|---" * 7 + "|"]
    for rows in found.values():
        for r in rows:
            added = r["peak_mb"] - r["before_mb"]
            lines.append(
                f"| {r['rows']:,} | {r['columns']:,} | {r['parties']} | {r['nonzeros']:,} | "
                f"{r['seconds'] / r['rounds']:.4f} | {r['data_mb']:.0f} | {added:.0f} |"
            )
    return "\n".join(lines) + "\n"


def _draw(found: dict[str, list[dict[str, Any]]]) -> None:
    figure, axes = plt.subplots(2, len(found), figsize=(4 * len(found), 7), layout="constrained")
    for (study, rows), (time, memory) in zip(found.items(), axes.T, strict=True):
        x = [r[study] for r in rows]
        time.loglog(x, [r["seconds"] / r["rounds"] for r in rows], "o-")
        memory.loglog(x, [r["peak_mb"] - r["before_mb"] for r in rows], "o-", label="added by training")
        memory.loglog(x, [r["data_mb"] for r in rows], "k:", label="data")
        time.set(title=study, ylabel="seconds a round")
        memory.set(xlabel=study, ylabel="MB")
    axes[1, 0].legend()
    figure.savefig(RESULTS / "growth.png", dpi=70)
    plt.close(figure)


if __name__ == "__main__":
    main()
