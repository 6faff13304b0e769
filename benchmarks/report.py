"""Tables, pictures and the environment of a run."""

import csv
import json
from pathlib import Path
from typing import Any

from benchmarks.environment import environment
from benchmarks.pictures import draw


def write_report(folder: Path, results: list[Any], config: dict[str, Any]) -> str:
    """Write everything; returns the Markdown table."""
    folder.mkdir(parents=True, exist_ok=True)
    where = environment()
    table = "\n\n".join([_heading(where), *(_section(r) for r in results)]) + "\n"
    (folder / "table.md").write_text(table)
    (folder / "environment.json").write_text(json.dumps({**where, "config": config}, indent=1) + "\n")
    (folder / "results.json").write_text(json.dumps([_as_json(r) for r in results], indent=1) + "\n")
    _write_csv(folder / "table.csv", results)
    for result in results:
        if result.curves:
            draw(result, folder / f"{_slug(result.job.name)}.png")
    return table


def _heading(where: dict[str, Any]) -> str:
    threads = " and ".join(dict.fromkeys(f"{pool['num_threads']} {pool['internal_api']}" for pool in where["threads"]))
    versions = ", ".join(f"{k} {where['versions'][k]}" for k in ("numpy", "scipy", "scikit-learn"))
    return f"{where['cpu']}, {where['cores']} cores, {threads} threads; Python {where['python']}, {versions}."


def _section(result: Any) -> str:
    job = result.job
    title = f"### {job.name}"
    if not result.curves:
        return f"{title}\n\nSkipped: {result.skipped.get('', 'no solver applies')}."
    goals = [f"rounds to {_short(goal)}" for goal in job.goals]
    head = ["solver", *goals, f"MB to {_short(job.timed_to)}", "wall", "CPU"]
    lines = [
        title,
        "",
        f"Optimum {result.judge.optimum.value:.10g} (relative duality gap {max(result.judge.optimum.gap, 1e-15):.0e}). "
        f"{_clock_of(result)}",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
    ]
    lines += [_row(result, name) for name in result.curves]
    notes = [f"- {n}: {'; '.join([c.options, *c.remarks])}" for n, c in result.curves.items() if c.remarks]
    notes += [f"- {name} not run: {why}" for name, why in result.skipped.items()]
    notes += [f"- {check}" for check in [*_checks(result), *_memory(result)]]
    return "\n".join([*lines, "", *notes])


def _clock_of(result: Any) -> str:
    """What the ratios are ratios to."""
    best = {n: min(s.wall for s in repeats) for n, repeats in result.clocks.items() if _pooled(result, n)}
    if not best:
        return f"Time to {_short(result.job.timed_to)} in seconds."
    name = min(best, key=best.__getitem__)
    return f"Time to {_short(result.job.timed_to)} in units of the fastest pooled solver ({name}: {best[name]:.3g} s)."


def _short(x: float) -> str:
    return f"{x:.0e}".replace("e-0", "e-")


def _pooled(result: Any, name: str) -> bool:
    return next(s.pooled for s in result.job.solvers if s.name == name)


def _row(result: Any, name: str) -> str:
    job, curve = result.job, result.curves[name]
    pooled = _pooled(result, name)
    reached = [curve.first(goal) for goal in job.goals]
    last = curve.points[-1].rounds if curve.points else 0
    cells = [f">{last}" if p is None else str(p.rounds) for p in reached]
    if pooled:
        cells = [f"({c})" for c in cells]
    at = curve.first(job.timed_to)
    traffic = "" if pooled or at is None else f"{at.bytes / 1e6:.1f}"
    return "| " + " | ".join([name, *cells, traffic, _ratio(result, name, "wall"), _ratio(result, name, "cpu")]) + " |"


def _ratio(result: Any, name: str, clock: str) -> str:
    """The best of the repeats, in units of the fastest pooled solver; in seconds where there is none."""
    best = {n: min(getattr(s, clock) for s in repeats) for n, repeats in result.clocks.items()}
    fastest = min((s for n, s in best.items() if _pooled(result, n)), default=None)
    if name not in best:
        return ""
    return f"{best[name]:.3g} s" if fastest is None else f"{best[name] / fastest:.2f}"


def _checks(result: Any) -> list[str]:
    """Targets, and whether they were met."""
    out = []
    for name, wanted in result.job.targets.items():
        if name not in result.curves:
            continue
        points = [result.curves[name].first(goal) for goal in result.job.goals]
        for goal, want, point in zip(result.job.goals, wanted, points, strict=True):
            if want is None:
                continue
            found = "not reached" if point is None else str(point.rounds)
            met = "met" if point is not None and point.rounds <= want else "MISSED"
            out.append(f"target for {name} to {_short(goal)}: at most {want} rounds; found {found}: {met}")
    if result.job.kind == "l1":
        out += _half_of_plain_admm(result)
    return out


def _half_of_plain_admm(result: Any) -> list[str]:
    """Penalties with kinks: at most half the rounds of the best plain ADMM."""
    plain = [c for n, c in result.curves.items() if "best rho" in n and "GaussSeidel" not in n]
    out = []
    for goal in result.job.goals:
        ours = result.curves["Subspace, separate"].first(goal)
        theirs = [p.rounds for p in (c.first(goal) for c in plain) if p is not None]
        want = min(theirs) / 2 if theirs else float("inf")
        met = "met" if ours is not None and ours.rounds <= want else "MISSED"
        best = f"best plain ADMM {min(theirs) if theirs else 'never'}"
        out.append(f"target to {_short(goal)}: half of the {best}; found {ours and ours.rounds}: {met}")
    return out


def _memory(result: Any) -> list[str]:
    """Peak memory against three times the data; what is beyond that, in vectors of N numbers."""
    m = result.memory
    if m is None:
        return []
    beyond = (m["peak_mb"] - 3 * m["data_mb"]) / (8e-6 * m["rows"])
    return [
        f"peak memory of the process with {m['rounds']} rounds in {m['seconds']:.0f} s: {m['peak_mb']:.0f} MB, of "
        f"which {m['before_mb']:.0f} MB before training (data {m['data_mb']:.0f} MB): three times the data and "
        f"{beyond:.0f} N-vectors"
    ]


def _as_json(result: Any) -> dict[str, Any]:
    return {
        "job": result.job.name,
        "optimum": None if result.judge is None else vars(result.judge.optimum),
        "timed_to": result.job.timed_to,
        "memory": result.memory,
        "skipped": result.skipped,
        "solvers": {
            name: {
                "options": curve.options,
                "remarks": curve.remarks,
                "clocks": [vars(s) for s in result.clocks.get(name, [])],
                "points": [[p.rounds, round(p.seconds, 5), p.bytes, p.suboptimality] for p in curve.points],
            }
            for name, curve in result.curves.items()
        },
    }


def _write_csv(path: Path, results: list[Any]) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(
            ["job", "solver", "goal", "rounds", "bytes", "seconds_of_curve", "best_wall_to_timed_goal", "best_cpu"]
        )
        for result in results:
            for name, curve in result.curves.items():
                for goal in result.job.goals:
                    p = curve.first(goal)
                    clocks = result.clocks.get(name, []) if goal == result.job.timed_to else []
                    best = (min(c.wall for c in clocks), min(c.cpu for c in clocks)) if clocks else ("", "")
                    where = (p.rounds, p.bytes, p.seconds) if p else ("",) * 3
                    out.writerow([result.job.name, name, goal, *where, *best])


def _slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name.replace(",", "")).lower()
