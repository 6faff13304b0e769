"""Time and memory against the number of rows, in one picture."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

_NAMES = {"memory": "table in memory", "disk": "table on disk, limit 1.5 GB", "ray": "two Ray actors"}


def draw(runs: dict[str, Any], path: Path) -> None:
    """`runs` are figures by number of rows, then by where the table lies."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rows = sorted(int(count) for count in runs)
    for index, (variant, name) in enumerate(_NAMES.items()):
        found = [(n, f) for n in rows if "cpu_round" in (f := runs[str(n)].get(variant, {}))]
        if not found:
            continue
        at = [n for n, _ in found]
        axes[0].plot(at, [f["cpu_round"] for _, f in found], f"C{index}o-", label=name)
        axes[1].plot(at, [f["shop_bytes"] / 1e9 for _, f in found], f"C{index}o-", label=f"party, {name}")
        axes[1].plot(at, [f["coordinator_bytes"] / 1e9 for _, f in found], f"C{index}s:", label=f"coordinator, {name}")
    axes[0].set(xlabel="rows", ylabel="CPU seconds a round, all processes", xscale="log", yscale="log")
    axes[1].set(xlabel="rows", ylabel="GB of memory in use", xscale="log")
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.savefig(path, dpi=70)
    plt.close(figure)
