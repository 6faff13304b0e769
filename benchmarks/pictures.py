"""Suboptimality against rounds, seconds and bytes: one picture per job."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

_AXES = (("rounds", "rounds"), ("seconds", "seconds (log)"), ("bytes", "megabytes sent (log)"))


def draw(result: Any, path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.5), sharey=True, layout="constrained")
    pooled = {s.name for s in result.job.solvers if s.pooled}
    for index, (name, curve) in enumerate(result.curves.items()):
        style = {"color": f"C{index % 10}", "linestyle": ":" if name in pooled else "-", "label": name}
        points = [p for p in curve.points if p.suboptimality > 0]
        height = [p.suboptimality for p in points]
        for axis, (what, _) in zip(axes, _AXES, strict=True):
            if name in pooled and what != "seconds":
                continue
            scale = 1e-6 if what == "bytes" else 1
            axis.plot([scale * getattr(p, what) for p in points], height, **style)
    for axis, (what, label) in zip(axes, _AXES, strict=True):
        axis.set(xlabel=label, yscale="log", ylim=(result.job.limits.finest, 1.0))
        axis.grid(alpha=0.3)
        if what != "rounds":
            axis.set_xscale("log")
    axes[0].set_xlim(0, 60)
    axes[0].set_ylabel("relative suboptimality")
    axes[1].legend(fontsize=6)
    figure.suptitle(result.job.name)
    figure.savefig(path, dpi=70)
    plt.close(figure)
