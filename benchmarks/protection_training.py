"""A whole protected training of a9a with two parties beside the plain one, to 1e-4 and 1e-6 of the optimum.

    python -m benchmarks.protection_training [--processes]

CPU seconds are the least of several runs in turn.  Bytes are those of all rounds, in "labels" with the hints, which are
sent once.  With --processes the same job also runs as two programs over mutual TLS: seconds on the wall and of CPU from
start to end of the programs, and of training alone as the coordinator's history tells it.  Results go to
benchmarks/results/protection_training.json with the machine.
"""

import argparse
import json
import os
import resource
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from sklearn.datasets import dump_svmlight_file
from threadpoolctl import threadpool_limits

import plait
from benchmarks.environment import environment
from plait.deployment.job_file import read_job
from plait.deployment.processes import fit_in_processes
from plait.protection.fixed_point import encode_columns
from plait.protection.messages import hints_size
from plait.protection.modes import Protection

RESULTS = Path(__file__).parent / "results" / "protection_training.json"
REPEATS = 5  # of every training; the least counts
JOB = """format = 1
name = "a9a"
parties = ["a", "b"]
protection = "{mode}"
[coordinator]
name = "a"
address = "127.0.0.1:7443"
[model]
penalty = {{ name = "l2", alpha = 1e-4 }}
fit_intercept = false
[stopping]
objective = {objective}
tol = 0.0
"""
LABEL = {"a": 'label = "label"\n', "b": 'drop = ["label"]\n'}
PARTY = """[data]
file = "{name}.svm"
{label}[trust]
accept_labels_shown = true
accept_scores_shown = true
max_leverage = 1.0
"""


def simulated(parts: dict[str, Any], y: Any, mode: str, objective: float) -> dict[str, float]:
    protection = Protection("labels", max_leverage=1.0) if mode == "labels" else None
    stopping = plait.Stopping(objective=objective, tol=0.0, max_rounds=50)
    began = time.process_time()
    fit = plait.fit(parts, y, penalty=plait.L2(1e-4), fit_intercept=False, stopping=stopping, protection=protection)
    seconds = time.process_time() - began
    sent = sum(row.bytes_up + row.bytes_down for row in fit.history)
    if mode == "labels":
        with threadpool_limits(1):  # idle threads of BLAS would take processor time from the next training
            sent += sum(hints_size(t.shape[1], encode_columns(t).parameters) for t in parts.values())
    return {"cpu_seconds": seconds, "megabytes": sent / 1e6, "rounds": fit.rounds}


def processes(parts: dict[str, Any], y: Any, mode: str, objective: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="plait-a9a-") as temporary:
        folder = Path(temporary)
        for name, table in parts.items():
            dump_svmlight_file(table, y, str(folder / f"{name}.svm"), zero_based=False)
            (folder / f"{name}.toml").write_text(PARTY.format(name=name, label=LABEL[name]))
        (folder / "job.toml").write_text(JOB.format(mode=mode, objective=objective))
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        fit_in_processes(read_job(folder / "job.toml"), folder / "job.toml", fresh=True, yes=True, log="text")
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = json.loads(next(folder.glob("runs/*/coordinator/history.json")).read_text())["rounds"]
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": wall, "cpu_seconds": cpu, "training_seconds": rows[-1]["seconds"], "rounds": len(rows)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    data = plait.datasets.load("a9a")
    parts, y = dict(zip("ab", data.parts.values(), strict=True)), data.y
    exact = plait.Stopping(tol=1e-10)
    best = plait.fit(parts, y, penalty=plait.L2(1e-4), fit_intercept=False, stopping=exact).objective
    found: dict[str, Any] = {}
    for goal in (1e-4, 1e-6):
        runs: dict[str, list[dict[str, float]]] = {"plain": [], "labels": []}
        for _ in range(REPEATS):
            for mode, each in runs.items():
                each.append(simulated(parts, y, mode, best * (1 + goal)))
        plain, labels = (min(each, key=lambda run: run["cpu_seconds"]) for each in runs.values())
        times = {key: labels[key] / plain[key] for key in ("cpu_seconds", "megabytes")}
        found[f"simulated to {goal:g}"] = {"plain": plain, "labels": labels, "times": times}
        print(goal, json.dumps(found[f"simulated to {goal:g}"]), flush=True)
    for mode in ("plain", "labels") if options.processes else ():
        found[f"processes, {mode}, to 1e-4"] = processes(parts, y, mode, best * (1 + 1e-4))
        print(mode, json.dumps(found[f"processes, {mode}, to 1e-4"]), flush=True)
    RESULTS.write_text(json.dumps({"environment": environment(), "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
