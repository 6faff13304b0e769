"""What real processes cost: rounds in one process, as processes over mutual TLS, and plain gRPC moving the same bytes.

    python benchmarks/transport.py [--quick] [--wan]

Every figure is the median time of a round in milliseconds, over enough rounds for the first few, which fetch memory
from the system, not to count; in-process, processes and plain gRPC run in turn, several times, and the medians are
compared, so that a busy machine disturbs all alike; the best of each are kept, too.  Results go to
benchmarks/results/transport.json with the configuration and the machine.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import grpc
import numpy as np
from threadpoolctl import threadpool_limits

import plait
from plait.deployment.job_file import read_job
from plait.deployment.processes import free_port, throw_away_certificates
from plait.messages import Share
from plait.transports.certificates import Folder
from plait.transports.frames import frames
from plait.transports.grpc_options import KEEPALIVE
from plait.transports.tls import Identity

COLUMNS = 8
JOB = """format = 1
name = "bench"
parties = [{parties}]
protection = "plain"
[coordinator]
name = "p0"
address = "127.0.0.1:{port}"
[model]
penalty = {{ name = "l2", alpha = 1e-3 }}
fit_intercept = false
[method]
name = "proximal"
acceleration = 0
adaptive = false
[stopping]
tol = 0.0
max_rounds = {rounds}
"""
ACCEPTED = """[trust]
accept_scores_shown = true
accept_labels_shown = true
"""


def make_job(folder: Path, parties: int, rows: int, rounds: int) -> Path:
    """A job over random columns; the label party brings columns, too."""
    rng = np.random.default_rng(0)
    names = [f"p{i}" for i in range(parties)]
    y = rng.integers(0, 2, rows).astype(float)
    for name in names:
        x = rng.standard_normal((rows, COLUMNS))
        np.savez(folder / f"{name}.npz", X=x, **({"y": y} if name == "p0" else {}))
        label = 'label = "y"' if name == "p0" else ""
        (folder / f"{name}.toml").write_text(f'[data]\nfile = "{name}.npz"\n{label}\n{ACCEPTED}')
    path = folder / "job.toml"
    listed = ", ".join(f'"{n}"' for n in names)
    path.write_text(JOB.format(parties=listed, port=free_port(), rounds=rounds))
    throw_away_certificates(read_job(path), Folder(folder / "certs"))
    return path


def round_times(folder: Path) -> list[float]:
    """Seconds of each round of the newest run, the first left out."""
    history = json.loads((max((folder / "runs").iterdir()) / "coordinator" / "history.json").read_text())
    seconds = [r["seconds"] for r in history["rounds"]]
    return list(np.diff(seconds)[1:])


def in_process(path: Path, parties: int, rounds: int) -> float:
    """Median milliseconds per round of `plait.fit` on the same data, one BLAS thread, as in the processes."""
    loaded = [np.load(path.parent / f"p{i}.npz") for i in range(parties)]
    method = plait.Proximal(acceleration=0, adaptive=False)
    stopping = plait.Stopping(tol=0.0, max_rounds=rounds)
    parts = [data["X"] for data in loaded]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.ConvergenceWarning)
        fit = plait.fit(
            parts, loaded[0]["y"], penalty=plait.L2(1e-3), method=method, stopping=stopping, fit_intercept=False
        )
    return 1e3 * statistics.median(np.diff([r.seconds for r in fit.history])[1:])


def as_processes(path: Path) -> float:
    """Median milliseconds per round of `plait fit --processes`."""
    command = [sys.executable, "-m", "plait", "fit", str(path), "--processes", "--fresh"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return 1e3 * statistics.median(round_times(path.parent))


def plain_grpc(path: Path, parties: int, rows: int, rounds: int) -> float:
    """Milliseconds per round of a bare mutual-TLS echo in frames of the same size, from as many processes."""
    script = Path(__file__).with_name("plain_grpc_party.py")
    folder = Folder(path.parent / "certs")
    identity = Identity.load(folder, "p0")
    vector = np.random.default_rng(0).standard_normal(rows)
    data = list(frames(Share(1, vector), 1))
    remote = parties - 1
    ready = [0]
    times: list[list[float]] = []

    def converse(incoming, context):  # type: ignore[no-untyped-def]
        ready[0] += 1
        while ready[0] < remote:
            time.sleep(0.001)
        own: list[float] = []
        times.append(own)
        for _ in range(rounds):
            start = time.perf_counter()
            yield from data
            for _ in data:
                next(incoming)
            own.append(time.perf_counter() - start)

    server = grpc.server(ThreadPoolExecutor(8), options=KEEPALIVE)
    handler = grpc.stream_stream_rpc_method_handler(converse)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Plain", {"Echo": handler}),))
    port = server.add_secure_port("127.0.0.1:0", identity.server())
    server.start()
    arguments = [str(folder.path), str(port), str(rounds), str(len(data))]
    clients = [subprocess.Popen([sys.executable, str(script), f"p{i + 1}", *arguments]) for i in range(remote)]
    for client in clients:
        client.wait()
    server.stop(None).wait()
    return 1e3 * statistics.median(max(row) for row in zip(*times, strict=True))


def compare(parties: int, rows: int, rounds: int, repeats: int) -> dict[str, float]:
    """In-process, processes and plain gRPC in turn; the median and the best of each."""
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as temporary:
        path = make_job(Path(temporary), parties, rows, rounds)
        simulated, processes, plain = [], [], []
        for _ in range(repeats):
            simulated.append(in_process(path, parties, rounds))
            processes.append(as_processes(path))
            plain.append(plain_grpc(path, parties, rows, rounds))
    found = {"in_process": simulated, "processes": processes, "plain_grpc": plain}
    medians = {f"{name}_ms": statistics.median(values) for name, values in found.items()}
    return medians | {f"{name}_best_ms": min(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and repeats")
    parser.add_argument("--wan", action="store_true", help="also 100 Mbit/s and 50 ms, in network namespaces")
    options = parser.parse_args()
    results: dict[str, object] = {
        "when": datetime.now(UTC).isoformat(),
        "plait": plait.__version__,
        "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()},
        "grpc": grpc.__version__,
        "columns": COLUMNS,
    }
    table = []
    for rows, rounds in ((32_561, 60), (1_000_000, 30)):
        for parties in (2, 4):
            repeats = 1 if options.quick else 5
            row = {"rows": rows, "parties": parties, **compare(parties, rows, rounds, repeats)}
            row["overhead_ms"] = row["processes_ms"] - row["in_process_ms"]
            row["over_plain"] = row["overhead_ms"] / row["plain_grpc_ms"]
            table.append(row)
            print(
                f"N = {rows:>9,}  M = {parties}   in process {row['in_process_ms']:8.2f} ms   "
                f"processes {row['processes_ms']:8.2f} ms   overhead {row['overhead_ms']:8.2f} ms   "
                f"plain gRPC {row['plain_grpc_ms']:8.2f} ms   ratio {row['over_plain']:5.2f}",
                flush=True,
            )
    results["rounds"] = table
    if options.wan:
        import wide_area

        results["wide_area"] = wide_area.measure()
        results["wide_area_int16"] = wide_area.measure("int16")
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    (folder / "transport.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
