"""A job across a simulated wide-area link: 100 Mbit/s and 50 ms there and back, 100,000 rows, 330 columns, two parties.

Where the kernel has netem, the two programs run in two network namespaces joined by a slow link; elsewhere a proxy on
loopback delays and paces the bytes of the TLS connection (it does not imitate TCP's slow start).

    python benchmarks/wide_area.py [--protection labels] [--rows 100000] [--columns 330]
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from slow_link import slow_link
from threadpoolctl import threadpool_limits

import plait
from plait.deployment.job_file import read_job
from plait.deployment.processes import free_port, throw_away_certificates
from plait.transports.certificates import Folder

MBIT, ONE_WAY = 100.0, 0.025
ROWS, COLUMNS, ALPHA, GOAL = 100_000, 330, 1e-3, 1e-4
JOB = """format = 1
name = "wide-area"
parties = ["p0", "p1"]
protection = "{protection}"
[coordinator]
name = "p0"
address = "{address}"
[model]
penalty = {{ name = "l2", alpha = {alpha} }}
[method]
name = "subspace"
[stopping]
objective = {objective}
tol = 0.0
[run]
precision = "{precision}"
"""


def measure(
    precision: str = "float64", rows: int = ROWS, columns: int = COLUMNS, protection: str = "plain"
) -> dict[str, float | str]:
    """Seconds to a relative suboptimality of 1e-4, as the coordinator's history tells it, and of the whole programs."""
    with tempfile.TemporaryDirectory(prefix="plait-wan-") as temporary:
        folder = Path(temporary)
        best = _write_data(folder, rows, columns)
        with _link() as (prefixes, dial, listen, kind):
            text = JOB.format(
                address=dial, alpha=ALPHA, objective=best * (1 + GOAL), precision=precision, protection=protection
            )
            (folder / "job.toml").write_text(text)
            throw_away_certificates(read_job(folder / "job.toml"), Folder(folder / "certs"))
            began = time.perf_counter()
            _run(folder, prefixes, listen)
            whole = time.perf_counter() - began
        history = json.loads(next(folder.glob("runs/*/coordinator/history.json")).read_text())["rounds"]
        last = history[-1]
        result: dict[str, float | str] = {
            "link": kind,
            "precision": precision,
            "protection": protection,
            "rows": rows,
            "columns": columns,
            "rounds": len(history),
            "relative_suboptimality": (last["objective"] - best) / best,
            "training_seconds": last["seconds"],
            "programs_seconds": whole,
            "megabytes": sum(r["bytes_down"] + r["bytes_up"] for r in history) / 1e6,
        }
        print(json.dumps(result), flush=True)
        return result


def _write_data(folder: Path, rows: int, columns: int) -> float:
    """Two halves of a logistic problem in files; returns its best objective."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, columns))
    x[:, columns // 2 :] += 0.5 * x[:, : columns - columns // 2]
    truth = rng.standard_normal(columns) / np.sqrt(columns)
    y = (rng.random(rows) < 1 / (1 + np.exp(-2 * x @ truth))).astype(float)
    halves = [x[:, : columns // 2], x[:, columns // 2 :]]
    np.savez(folder / "p0.npz", X=halves[0], y=y)
    np.savez(folder / "p1.npz", X=halves[1])
    shown = "[trust]\naccept_labels_shown = true\naccept_scores_shown = true\n"
    (folder / "p0.toml").write_text(f'[data]\nfile = "p0.npz"\nlabel = "y"\n{shown}')
    (folder / "p1.toml").write_text(f'[data]\nfile = "p1.npz"\n{shown}')
    stopping = plait.Stopping(tol=1e-10)
    with threadpool_limits(2), warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        fit = plait.fit(
            halves, y, penalty=plait.L2(ALPHA), method=plait.Subspace(), stopping=stopping, fit_intercept=True
        )
    return fit.objective


def _run(folder: Path, prefixes: list[list[str]], listen: str) -> None:
    job = str(folder / "job.toml")
    plait_ = [sys.executable, "-m", "plait"]
    commands = [
        [*prefixes[0], *plait_, "coordinator", job, "--listen", listen],
        [*prefixes[1], *plait_, "party", job, "--name", "p1"],
    ]
    running = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
    codes = [program.wait() for program in running]
    if any(codes):
        raise SystemExit(f"the programs ended with {codes}")


@contextmanager
def _link() -> Iterator[tuple[list[list[str]], str, str, str]]:
    """How to start the two programs, where to dial, where to listen, and what kind of link it is."""
    if _make_namespaces():
        try:
            inside = [["ip", "netns", "exec", f"plait-wan-{i}"] for i in (1, 2)]
            yield inside, "10.77.0.1:7443", "10.77.0.1:7443", f"netem, {MBIT:g} Mbit/s, {2e3 * ONE_WAY:g} ms"
        finally:
            _drop_namespaces()
        return
    listen, dial = free_port(), free_port()
    proxy = multiprocessing.Process(target=slow_link, args=(dial, listen, MBIT, ONE_WAY), daemon=True)
    proxy.start()
    try:
        yield [[], []], f"127.0.0.1:{dial}", f"127.0.0.1:{listen}", f"proxy, {MBIT:g} Mbit/s, {2e3 * ONE_WAY:g} ms"
    finally:
        proxy.terminate()
        proxy.join()


def _make_namespaces() -> bool:
    """Two namespaces joined by a slow link; False where this machine cannot make them."""
    slow = f"delay {1e3 * ONE_WAY}ms rate {MBIT}mbit limit 20000"
    steps = [
        "ip netns add plait-wan-1",
        "ip netns add plait-wan-2",
        "ip link add plait-w1 netns plait-wan-1 type veth peer name plait-w2 netns plait-wan-2",
        *(f"ip -n plait-wan-{i} addr add 10.77.0.{i}/24 dev plait-w{i}" for i in (1, 2)),
        *(f"ip -n plait-wan-{i} link set plait-w{i} up" for i in (1, 2)),
        *(f"tc -n plait-wan-{i} qdisc add dev plait-w{i} root netem {slow}" for i in (1, 2)),
    ]
    for step in steps:
        try:
            done = subprocess.run(step.split(), capture_output=True, check=False)
        except FileNotFoundError:
            return False
        if done.returncode:
            _drop_namespaces()
            return False
    return True


def _drop_namespaces() -> None:
    for i in (1, 2):
        subprocess.run(["ip", "netns", "del", f"plait-wan-{i}"], capture_output=True, check=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--protection", default="plain", choices=["plain", "labels"])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    options = parser.parse_args()
    measure("float64", options.rows, options.columns, options.protection)
    if options.protection == "plain":
        measure("int16", options.rows, options.columns)
