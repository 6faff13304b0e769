"""Tables beyond memory: reading, and training with the table in memory, on disk under a memory limit, and on Ray.

    python -m benchmarks.scale [--rows 20000000] [--folder DIR] [--only read|train|growth]

The data are made outside of the repository, in a temporary folder, and removed afterwards.  Training runs as real
processes over mutual TLS: the label party (2 columns), and a party with 50 columns of float32 in Parquet files.  The
limit on both is enforced by the kernel (RLIMIT_DATA: all private writable memory), so a process that wants more
fails.  Results go to benchmarks/results/scale.json with the configuration and the machine, and a picture to
docs/scale.png.  CPU seconds are those of both programs and of all of Ray: on a machine with other work they say more
than those on the wall.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from benchmarks.environment import environment
from benchmarks.processes import started_by
from benchmarks.scale_picture import draw
from plait.deployment.job_file import read_job
from plait.deployment.processes import free_port, throw_away_certificates
from plait.transports.certificates import Folder

COLUMNS = 50
FILE_ROWS = 1_000_000  # rows of a Parquet file
LIMIT = 1_500_000_000  # bytes that a process may take, the party's and the coordinator's
RESULTS = Path(__file__).with_name("results") / "scale.json"
PICTURE = Path(__file__).parents[1] / "docs" / "scale.png"
JOB = """format = 1
name = "scale"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
address = "127.0.0.1:{port}"
[model]
penalty = {{ name = "l2", alpha = 1e-4 }}
[stopping]
tol = 1e-4
[run]
precision = "float32"
"""
TRUST = "[trust]\naccept_labels_shown = true\naccept_scores_shown = true\n"
MEMORY = f'\nmemory = "{LIMIT / 1e9:g} GB"'
SHOP = {"memory": "", "disk": MEMORY, "ray": '\n[cluster]\nengine = "ray"\nworkers = 2'}
AMPLE = '\nmemory = "20 GB"'  # the coordinator holds its vectors in memory in both runs, whatever is free at the moment
BANK = {"memory": AMPLE, "disk": MEMORY, "ray": AMPLE}


def make_tables(folder: Path, rows: int) -> None:
    """The shop's columns as a folder of Parquet files, and the bank's with the label."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(COLUMNS).astype(np.float32) / np.sqrt(COLUMNS)
    (folder / "shop").mkdir(parents=True)
    (folder / "bank").mkdir()
    for i, start in enumerate(range(0, rows, FILE_ROWS)):
        count = min(FILE_ROWS, rows - start)
        x = rng.standard_normal((count, COLUMNS), dtype=np.float32)
        own = rng.standard_normal((count, 2), dtype=np.float32)
        y = x @ weights + own[:, 0] + rng.logistic(size=count) > 0
        shop = pa.table({f"x{j}": x[:, j] for j in range(COLUMNS)})
        bank = pa.table({"a": own[:, 0], "b": own[:, 1], "y": y.astype(np.float32)})
        parquet.write_table(shop, folder / "shop" / f"{i:03d}.parquet", compression="none", use_dictionary=False)
        parquet.write_table(bank, folder / "bank" / f"{i:03d}.parquet", compression="none", use_dictionary=False)


def make_job(folder: Path, variant: str) -> Path:
    data = 'numbers = "float32"'
    (folder / "bank.toml").write_text(f'{TRUST}[data]\nfile = "bank"\nlabel = "y"\n{data}{BANK[variant]}\n')
    (folder / "shop.toml").write_text(f'{TRUST}[data]\nfile = "shop"\n{data}{SHOP[variant]}\n')
    path = folder / "job.toml"
    path.write_text(JOB.format(port=free_port()))
    if not (folder / "certs").exists():
        throw_away_certificates(read_job(path), Folder(folder / "certs"))
    shutil.rmtree(folder / "runs", ignore_errors=True)
    shutil.rmtree(folder / "counts", ignore_errors=True)
    return path


def train(folder: Path, variant: str, limit: int | None, kills: int = 0) -> dict[str, Any]:
    """One run: seconds per round, the peak memory of both processes, and the shop's weights."""
    path = make_job(folder, variant)
    plait = [sys.executable, "-m", "plait"]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    started: dict[str, Any] = {"env": env, "stdout": subprocess.DEVNULL, "preexec_fn": limited}
    bank = subprocess.Popen([*plait, "coordinator", str(path), "--fresh"], **started)
    shop = subprocess.Popen([*plait, "party", str(path), "--name", "shop"], **started)
    peak, coordinator, killed, used = (0, 0), (0, 0), 0, CpuSeconds(folder)
    try:
        while bank.poll() is None and shop.poll() is None:
            peak, coordinator = _most(peak, _memory(shop.pid)), _most(coordinator, _memory(bank.pid))
            used.look(bank.pid, *started_by(shop.pid))
            if killed < kills and _kill_a_worker(shop.pid, folder, killed):
                killed += 1
            time.sleep(0.2)
        if shop.wait(60) or bank.wait(600):
            raise SystemExit(f"{variant}: the run failed")
    finally:
        for process in (bank, shop):
            process.kill()
    run = max((folder / "runs").iterdir())
    history = json.loads((run / "coordinator" / "history.json").read_text())["rounds"]
    rounds = np.diff([0.0, *(r["seconds"] for r in history)])
    weights = json.loads((run / "shop" / "weights.json").read_text())
    return {
        "rounds": len(history),
        "seconds": time.perf_counter() - began,
        "round": statistics.median(rounds[1:]) if len(rounds) > 1 else float(rounds[0]),
        "first_round": float(rounds[0]),
        "cpu_round": used.seconds / len(history),
        "objective": history[-1]["objective"],
        "shop_bytes": peak[0],
        "shop_data": peak[1],
        "coordinator_bytes": coordinator[0],
        "coordinator_data": coordinator[1],
        "killed": killed,
        "weights": weights.get("weights", weights),
    }


def _memory(pid: int) -> tuple[int, int]:
    """Bytes of memory that a process holds and that are its own, and those that RLIMIT_DATA counts, used or not."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    found = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.endswith("kB")}
    return found.get("RssAnon", 0), found.get("VmData", 0)


def _most(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return max(a[0], b[0]), max(a[1], b[1])


def with_kills(folder: Path, kills: int) -> dict[str, Any]:
    """As many runs on Ray as it takes to kill so many actors; all must end with the same weights."""
    killed, runs = 0, []
    while killed < kills:
        runs.append(train(folder, "ray", None, kills - killed))
        killed += runs[-1]["killed"]
        print(f"{killed} of {kills} kills, {len(runs)} runs", flush=True)
    if len({json.dumps(run["weights"]) for run in runs}) > 1:
        raise SystemExit("weights differ after a kill")
    return {**runs[-1], "killed": killed, "runs": len(runs)}


class CpuSeconds:
    """The CPU seconds that processes take from the first exchange on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}

    def look(self, *processes: int) -> None:
        if not exchanges(self._folder):
            return
        for pid in processes:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            self._last[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            self._first.setdefault(pid, self._last[pid])

    @property
    def seconds(self) -> float:
        return sum(last - self._first[pid] for pid, last in self._last.items())


def exchanges(folder: Path) -> int:
    """How many messages the shop has noted."""
    return sum(len(path.read_bytes().splitlines()) for path in folder.glob("runs/*/shop/audit.jsonl"))


def _actors(party: int) -> list[int]:
    """The processes of Ray's actors that this party has started."""
    found = []
    for pid in started_by(party):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::Holder"):
                found.append(pid)
    return found


def _kill_a_worker(party: int, folder: Path, before: int) -> bool:
    """SIGKILL one of Ray's actors, once both are there again after the last kill and an exchange has taken place."""
    actors = _actors(party)
    if exchanges(folder) == 0 or len(actors) < 2:
        return False
    os.kill(actors[before % 2], signal.SIGKILL)
    return True


READERS = {
    "plait": "from pathlib import Path; from plait.data.tables import read_table; t = read_table(Path({path!r}), 'id')",
    "duckdb": "import duckdb; t = duckdb.sql('select * from ' + repr({path!r})).to_arrow_table()",
    "polars": "import polars; t = polars.{polars}({path!r})",
}


MEASURED = """
import re, time, numpy, pyarrow, plait.data.tables, duckdb, polars
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
base, began = peak(), time.perf_counter()
{work}
print(time.perf_counter() - began, peak() - base)
"""
"""The peak is the process's own: that of getrusage begins with its parent's."""


def read(folder: Path, rows: int = 1_000_000) -> dict[str, Any]:
    """Seconds and peak memory of reading one table, each in a process of its own; the best of three."""
    rng = np.random.default_rng(0)
    ids = pa.array(np.char.add("c", np.arange(rows).astype(str)))
    table = pa.table({"id": ids, **{f"x{j}": rng.standard_normal(rows) for j in range(COLUMNS)}})
    parquet.write_table(table, folder / "t.parquet")
    arrow_csv.write_csv(table, folder / "t.csv")
    del table
    found: dict[str, Any] = {}
    for name in ("t.csv", "t.parquet"):
        for reader, code in READERS.items():
            polars = "read_csv" if name.endswith("csv") else "read_parquet"
            work = code.format(path=str(folder / name), polars=polars)
            script = MEASURED.format(work=work)
            runs = [subprocess.run([sys.executable, "-c", script], check=True, capture_output=True) for _ in range(3)]
            seconds, kilobytes = zip(*(map(float, run.stdout.split()[-2:]) for run in runs), strict=True)
            found[f"{name} {reader}"] = {"seconds": min(seconds), "bytes": 1024 * min(kilobytes)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the data are made; a temporary folder")
    parser.add_argument("--keep", type=Path, default=None, help="where the data for training are kept, and found again")
    parser.add_argument("--only", choices=["read", "train", "growth"], default=None)
    parser.add_argument("--variants", default="memory,disk,ray")
    parser.add_argument("--kills", type=int, default=0, help="how many of Ray's workers are killed in the run")
    options = parser.parse_args()
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory(dir=options.folder) as made:
        folder = Path(made)
        if options.only in (None, "read"):
            kept["read"] = read(folder)
            for name, figures in kept["read"].items():
                print(f"{name:22s} {figures['seconds']:7.2f} s {figures['bytes'] / 1e6:8.0f} MB")
        fewer = [options.rows // 20, options.rows // 5]
        sizes = {"read": [], "train": [options.rows], "growth": fewer, None: [*fewer, options.rows]}
        for rows in sizes[options.only]:
            work = folder / str(rows)
            if options.keep is not None:
                work = options.keep / str(rows)
            if not work.exists():
                make_tables(work, rows)
            made_now: dict[str, Any] = {}
            for variant in options.variants.split(","):
                done = train(work, variant, LIMIT if variant == "disk" else None)
                made_now[variant] = done
                print(f"{rows:>10d} {variant:8s} {done['rounds']} rounds, {done['round']:.2f} s a round, "
                      f"{done['cpu_round']:.1f} CPU s, {done['seconds']:.0f} s in all, "
                      f"{done['shop_bytes'] / 1e6:.0f} MB at the party, "
                      f"{done['coordinator_bytes'] / 1e6:.0f} MB at the coordinator", flush=True)  # fmt: skip
            if options.kills:
                made_now["ray, killed"] = with_kills(work, options.kills)
            same = {json.dumps(d["weights"]) for d in made_now.values()}  # figures of earlier runs may be of other code
            kept.setdefault("train", {}).setdefault(str(rows), {}).update(made_now)
            print(f"{rows:>10d} weights {'have the same bits' if len(same) == 1 else 'DIFFER'}")
            if options.keep is None:
                shutil.rmtree(work)
            RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    draw(kept["train"], PICTURE)
    kept["environment"] = environment()
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
