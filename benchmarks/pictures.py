"""Suboptimality against rounds, seconds and bytes: one picture per job."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

_AXES = (("rounds", "rounds"), ("seconds", "seconds (log)"), ("bytes", "megabytes sent (log)"))


def draw(record: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), sharey=True, layout="constrained")
    for index, (name, solver) in enumerate(record["solvers"].items()):
        style = {"color": f"C{index % 10}", "linestyle": ":" if solver["pooled"] else "-", "label": name}
        points = [p for p in solver["points"] if p[3] > 0]
        for column, (axis, (what, _)) in enumerate(zip(axes, _AXES, strict=True)):
            if solver["pooled"] and what != "seconds":
                continue
            scale = 1e-6 if what == "bytes" else 1
            axis.plot([scale * p[column] for p in points], [p[3] for p in points], **style)
    for axis, (what, label) in zip(axes, _AXES, strict=True):
        axis.set(xlabel=label, yscale="log", ylim=(record["finest"], 1.0))
        axis.grid(alpha=0.3)
        if what != "rounds":
            axis.set_xscale("log")
    axes[0].set_xlim(0, 60)
    axes[0].set_ylabel("relative suboptimality")
    axes[1].legend(fontsize=6)
    figure.suptitle(record["job"])
    figure.savefig(path, dpi=70)
    plt.close(figure)
