"""What an alignment costs: two programs over mutual TLS, beside the group operations alone, in the same run.

    python -m benchmarks.alignment [--ids 1000000] [--parties 2]

The group operations alone (every id hashed and blinded once, every other party's ids blinded once, at every party) are
measured on all cores before and after, on a sample.  Wall-clock time depends on what else the machine does; CPU time
hardly does; both are compared.  Results go to benchmarks/results/alignment.json with the configuration and the machine.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment
from plait.alignment import group
from plait.deployment.job_file import read_job
from plait.deployment.processes import free_port, throw_away_certificates
from plait.transports.certificates import Folder

RESULTS = Path(__file__).parent / "results" / "alignment.json"
JOB = """format = 1
name = "bench"
parties = [{parties}]
protection = "plain"
[coordinator]
name = "p0"
address = "127.0.0.1:{port}"
[alignment]
"""


def make_job(folder: Path, parties: int, ids: int) -> int:
    """Tables with an id column, in random order; half of the ids are common.  Returns how many."""
    rng = np.random.default_rng(0)
    names = [f"p{i}" for i in range(parties)]
    common = ids // 2
    for i, name in enumerate(names):
        own = np.concatenate([np.arange(common), np.arange(common, ids) + (i + 1) * ids])
        rng.shuffle(own)
        (folder / f"{name}.csv").write_text("customer\n" + "\n".join(f"customer-{n:012d}" for n in own) + "\n")
        (folder / f"{name}.toml").write_text(f'[data]\nfile = "{name}.csv"\nid = "customer"\n')
    listed = ", ".join(f'"{name}"' for name in names)
    (folder / "job.toml").write_text(JOB.format(parties=listed, port=free_port()))
    throw_away_certificates(read_job(folder / "job.toml"), Folder(folder / "certs"))
    return common


def group_operations(sample: int) -> tuple[float, float, float, float]:
    """Seconds and CPU seconds per id: to hash and blind it; to blind an element."""
    exponent = group.new_exponent(os.urandom(group.HASH_BYTES))
    messages = [f"customer-{n:012d}".encode() for n in range(sample)]
    wall, cpu = time.perf_counter(), time.process_time()
    elements = group.hash_and_blind(messages, exponent)
    middle_wall, middle_cpu = time.perf_counter(), time.process_time()
    group.blind(elements, exponent)
    end_wall, end_cpu = time.perf_counter(), time.process_time()
    parts = (middle_wall - wall, middle_cpu - cpu, end_wall - middle_wall, end_cpu - middle_cpu)
    return tuple(part / sample for part in parts)  # type: ignore[return-value]


def align(folder: Path, parties: int) -> dict[str, Any]:
    """Run the programs; wall-clock time, CPU time and peak memory of each."""
    began = time.perf_counter()
    programs = []
    for i in range(parties):
        command = [sys.executable, "-m", "plait", "align", str(folder / "job.toml"), "--name", f"p{i}", "--yes"]
        log = (folder / f"p{i}.log").open("wb")
        programs.append(subprocess.Popen(command, stdout=log, stderr=log))
    used = []
    for program in programs:
        _, status, usage = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        used.append(usage)
    for i, program in enumerate(programs):
        if program.returncode:
            raise SystemExit((folder / f"p{i}.log").read_text())
    return {
        "seconds": time.perf_counter() - began,
        "cpu_seconds": sum(usage.ru_utime + usage.ru_stime for usage in used),
        "peak_mb": [round(usage.ru_maxrss / 1024) for usage in used],
    }


def check(folder: Path, parties: int, common: int) -> None:
    """Every party's order must be the plaintext intersection, sorted."""
    (run,) = (folder / "runs").iterdir()
    expected = [f"customer-{n:012d}" for n in range(common)]
    for i in range(parties):
        rows = np.load(run / ("coordinator" if i == 0 else f"p{i}") / "alignment" / "order.npy")
        ids = (folder / f"p{i}.csv").read_text().split("\n")[1:-1]
        assert [ids[row] for row in rows] == expected, f"p{i} has another intersection"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--parties", type=int, default=2)
    options = parser.parse_args()
    sample = min(options.ids, 50_000)
    with tempfile.TemporaryDirectory(prefix="plait-align-") as temporary:
        folder = Path(temporary)
        common = make_job(folder, options.parties, options.ids)
        group_operations(1000)
        samples = [group_operations(sample)]
        result = align(folder, options.parties)
        samples.append(group_operations(sample))
        check(folder, options.parties, common)
    hash_wall, hash_cpu, blind_wall, blind_cpu = np.mean(samples, axis=0)
    own, others = options.ids * options.parties, options.ids * options.parties * (options.parties - 1)
    alone = {
        "seconds": float(own * hash_wall + others * blind_wall),
        "cpu_seconds": float(own * hash_cpu + others * blind_cpu),
        "elements_a_second": [round(1 / (s[2])) for s in samples],
    }
    figures = {
        "ids": options.ids,
        "parties": options.parties,
        "common": common,
        "alignment": result,
        "group_operations_alone": alone,
        "ids_a_second": round(own / result["seconds"]),
        "ratio": round(result["seconds"] / alone["seconds"], 3),
        "cpu_ratio": round(result["cpu_seconds"] / alone["cpu_seconds"], 3),
    }
    print(json.dumps(figures, indent=1))
    RESULTS.parent.mkdir(exist_ok=True)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    key = f"{options.parties} parties, {options.ids} ids"
    RESULTS.write_text(json.dumps({**kept, key: {**figures, "environment": environment()}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
