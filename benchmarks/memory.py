"""Time and peak memory of one training of plait's default method on synthetic data, in a process of its own."""

import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

_PEAK = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def measure(**job: Any) -> dict[str, Any]:
    """Run `train` with these options in a fresh process."""
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "benchmarks.memory", json.dumps(job)]
    done = subprocess.run(command, cwd=root, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def train(kind: str, rounds: int, strength: float, goal: float | None = None, **shape: Any) -> dict[str, Any]:
    """Make the data, forget how they were made, train, and say what it took."""
    import plait
    from benchmarks.datasets import synthetic
    from benchmarks.objective import Problem

    parts, y = (synthetic.sparse if kind == "sparse" else synthetic.dense)(**shape)
    problem = Problem("", parts, y, "l2", strength)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = _forget_peak()
    stopping = plait.Stopping(max_rounds=rounds, tol=0.0, objective=goal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        fit = plait.fit(parts, y, penalty=plait.L2(strength), stopping=stopping, fit_intercept=False)
        seconds = time.perf_counter() - began
    return {
        "rows": problem.rows,
        "columns": problem.columns,
        "parties": len(parts),
        "nonzeros": sum(int(p.nnz) if kind == "sparse" else p.size for p in parts),
        "rounds": fit.rounds,
        "seconds": seconds,
        "objective": fit.objective,
        "data_mb": problem.data_bytes / 1e6,
        "before_mb": before / 1e6,
        "peak_mb": _peak() / 1e6,
    }


def _forget_peak() -> int:
    """Start the peak anew from what is resident now, where the system can; returns the peak from here."""
    if _RESET.exists():
        _RESET.write_text("5")
    return _peak()


def _peak() -> int:
    """The largest resident set so far, in bytes."""
    if _PEAK.exists():
        line = next(s for s in _PEAK.read_text().splitlines() if s.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(train(**json.loads(sys.argv[1]))))
