"""Tables, pictures and the environment of a run, built from one JSON file per job: one job can be run again alone."""

import csv
import json
from pathlib import Path
from typing import Any

from benchmarks.environment import environment
from benchmarks.pictures import draw

Record = dict[str, Any]
"""What one job gave, as it stands in its JSON file."""


def as_record(result: Any) -> Record:
    """Everything about a job's result that a table or a picture needs."""
    job = result.job
    pooled = {solver.name for solver in job.solvers if solver.pooled}
    return {
        "job": job.name,
        "kind": job.kind,
        "goals": job.goals,
        "timed_to": job.timed_to,
        "finest": job.limits.finest,
        "targets": job.targets,
        "environment": environment(),
        "optimum": None if result.judge is None else vars(result.judge.optimum),
        "memory": result.memory,
        "skipped": result.skipped,
        "solvers": {name: _solver(curve, job.goals, name in pooled) for name, curve in result.curves.items()},
        "clocks": {name: [vars(clock) for clock in clocks] for name, clocks in result.clocks.items()},
    }


def _solver(curve: Any, goals: tuple[float, ...], pooled: bool) -> Record:
    reached = [curve.first(goal) for goal in goals]
    return {
        "pooled": pooled,
        "options": curve.options,
        "remarks": curve.remarks,
        "reached": [None if p is None else [p.rounds, p.bytes, p.seconds] for p in reached],
        "points": [[p.rounds, round(p.seconds, 5), p.bytes, p.suboptimality] for p in curve.points],
    }


def write_job(folder: Path, result: Any) -> None:
    """Keep one job's record and picture."""
    folder.mkdir(parents=True, exist_ok=True)
    record = as_record(result)
    (folder / f"{slug(record['job'])}.json").write_text(json.dumps(record) + "\n")
    if record["solvers"]:
        draw(record, folder / f"{slug(record['job'])}.png")


def write_tables(folder: Path, names: list[str], config: Record) -> str:
    """The tables of all these jobs that have a record in the folder, in this order; returns the Markdown one."""
    files = [folder / f"{slug(name)}.json" for name in names]
    records = [json.loads(file.read_text()) for file in files if file.exists()]
    table = "\n\n".join(_section(r) for r in records) + "\n"
    (folder / "table.md").write_text(table)
    (folder / "environment.json").write_text(json.dumps({**environment(), "config": config}, indent=1) + "\n")
    _write_csv(folder / "table.csv", records)
    return table


def slug(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name.replace(",", "")).lower()


def _section(record: Record) -> str:
    title = f"### {record['job']}"
    if not record["solvers"]:
        return f"{title}\n\nSkipped: {record['skipped'].get('', 'no solver applies')}."
    goals = [f"rounds to {short(goal)}" for goal in record["goals"]]
    head = ["solver", *goals, f"MB to {short(record['timed_to'])}", "wall", "CPU"]
    optimum = record["optimum"]
    lines = [
        title,
        "",
        f"Optimum {optimum['value']:.10g} (relative duality gap {max(optimum['gap'], 1e-15):.0e}). {_clock(record)}",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *(_row(record, name) for name in record["solvers"]),
    ]
    notes = [f"- {n}: {'; '.join([s['options'], *s['remarks']])}" for n, s in record["solvers"].items() if s["remarks"]]
    notes += [f"- {name} not run: {why}" for name, why in record["skipped"].items()]
    notes += [f"- {check}" for check in [*_checks(record), *_memory(record)]]
    return "\n".join([*lines, "", *notes])


def _clock(record: Record) -> str:
    """What the times are, and where they were taken."""
    where = record["environment"]
    threads = " and ".join(dict.fromkeys(f"{pool['num_threads']} {pool['internal_api']}" for pool in where["threads"]))
    machine = f"{where['cpu']}, {where['cores']} cores, {threads} threads, load {where['load']:.0f}"
    best = _best(record, "wall", pooled_only=True)
    if not best:
        return f"Time to {short(record['timed_to'])} in seconds ({machine})."
    name = min(best, key=best.__getitem__)
    unit = f"the fastest pooled solver ({name}: {best[name]:.3g} s on {machine})"
    return f"Time to {short(record['timed_to'])} in units of {unit}."


def _best(record: Record, clock: str, pooled_only: bool = False) -> dict[str, float]:
    """Each solver's best repeat."""
    chosen = [n for n in record["clocks"] if record["solvers"][n]["pooled"] or not pooled_only]
    return {name: min(c[clock] for c in record["clocks"][name]) for name in chosen}


def short(x: float) -> str:
    return f"{x:.0e}".replace("e-0", "e-")


def _row(record: Record, name: str) -> str:
    solver = record["solvers"][name]
    last = solver["points"][-1][0] if solver["points"] else 0
    cells = [f">{last}" if p is None else str(p[0]) for p in solver["reached"]]
    if solver["pooled"]:
        cells = [f"({c})" for c in cells]
    at = solver["reached"][record["goals"].index(record["timed_to"])]
    traffic = "" if solver["pooled"] or at is None else f"{at[1] / 1e6:.1f}"
    return "| " + " | ".join([name, *cells, traffic, _ratio(record, name, "wall"), _ratio(record, name, "cpu")]) + " |"


def _ratio(record: Record, name: str, clock: str) -> str:
    """The best of the repeats, in units of the fastest pooled solver; in seconds where there is none."""
    best, pooled = _best(record, clock), _best(record, clock, pooled_only=True)
    if name not in best:
        return ""
    return f"{best[name] / min(pooled.values()):.2f}" if pooled else f"{best[name]:.3g} s"


def _checks(record: Record) -> list[str]:
    """Targets, and whether they were met."""
    out = []
    for name, wanted in record["targets"].items():
        reached = record["solvers"].get(name, {"reached": []})["reached"]
        for goal, want, point in zip(record["goals"], wanted, reached, strict=False):
            if want is not None:
                out.append(f"target for {name} to {short(goal)}: {want} rounds; {_verdict(point, want)}")
    return out + (_half_of_plain_admm(record) if record["kind"] == "l1" else [])


def _verdict(point: list[float] | None, want: float) -> str:
    found = "not reached" if point is None else str(point[0])
    return f"found {found}: {'met' if point is not None and point[0] <= want else 'MISSED'}"


def _half_of_plain_admm(record: Record) -> list[str]:
    """Penalties with kinks: at most half the rounds of the best plain ADMM."""
    plain = [s for n, s in record["solvers"].items() if "best rho" in n and "GaussSeidel" not in n]
    ours = record["solvers"].get("Subspace, separate")
    if ours is None or not plain:
        return []
    out = []
    for i, goal in enumerate(record["goals"]):
        theirs = [s["reached"][i][0] for s in plain if s["reached"][i] is not None]
        # A goal that plain ADMM does not reach within its limit takes it at least that many rounds.
        tried = min(s["points"][-1][0] for s in plain)
        best = f"the {min(theirs)} rounds" if theirs else f"the more than {tried} rounds"
        want = (min(theirs) if theirs else tried) / 2
        out.append(f"target to {short(goal)}: half {best} of the best plain ADMM; {_verdict(ours['reached'][i], want)}")
    return out


def _memory(record: Record) -> list[str]:
    """Peak memory against three times the data; what is beyond that, in vectors of N numbers."""
    m = record["memory"]
    if m is None:
        return []
    beyond = (m["peak_mb"] - 3 * m["data_mb"]) / (8e-6 * m["rows"])
    return [
        f"peak memory of the process with {m['rounds']} rounds in {m['seconds']:.0f} s: {m['peak_mb']:.0f} MB, of "
        f"which {m['before_mb']:.0f} MB before training (data {m['data_mb']:.0f} MB): three times the data and "
        f"{beyond:.0f} N-vectors"
    ]


def _write_csv(path: Path, records: list[Record]) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["job", "solver", "goal", "rounds", "bytes", "seconds_of_curve", "wall_to_goal", "cpu_to_goal"])
        for record in records:
            wall, cpu = _best(record, "wall"), _best(record, "cpu")
            for name, solver in record["solvers"].items():
                for goal, point in zip(record["goals"], solver["reached"], strict=True):
                    clock = (wall.get(name), cpu.get(name)) if goal == record["timed_to"] else (None, None)
                    out.writerow([record["job"], name, goal, *(point or [None] * 3), *clock])
