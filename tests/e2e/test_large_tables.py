"""Large tables in real programs: what goes wrong is said in words, nothing is lost, and limits hold."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.processes import started_by
from tests.e2e.conftest import Job, JobMaker

pa = pytest.importorskip("pyarrow", reason="Parquet is an extra: pip install 'plait[parquet]'")
from pyarrow import csv as arrow_csv  # noqa: E402
from pyarrow import parquet  # noqa: E402

TRUST = "[trust]\naccept_labels_shown = true\naccept_scores_shown = true\n"
MANY = 800_000  # rows: 50 columns of float64 take 320 MB, more than a third of 900 MB


def start(job: Job, name: str, **limits: int) -> subprocess.Popen[bytes]:
    """The program of a party with limits that the kernel enforces, such as DATA=900_000_000.

    They are set from outside: `preexec_fn` would fork a test process that has threads of gRPC.
    """
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (job.folder / f"{name}.log").open("ab") as log:
        job.programs[name] = subprocess.Popen(job.command(name), stdout=log, stderr=log, env=env)
    for kind, most in limits.items():
        resource.prlimit(job.programs[name].pid, getattr(resource, f"RLIMIT_{kind}"), (most, most))
    return job.programs[name]


def in_parquet(job: Job, parts: int = 3) -> Path:
    """The shop's table as a folder of Parquet files."""
    table = arrow_csv.read_csv(job.folder / "shop.csv")
    folder = job.folder / "shop"
    folder.mkdir()
    each = -(-table.num_rows // parts)
    for i in range(parts):
        parquet.write_table(table.slice(i * each, each), folder / f"{i}.parquet")
    (job.folder / "shop.toml").write_text(f'[data]\nfile = "shop"\nid = "id"\n[prepare]\nscale = "standard"\n{TRUST}')
    return folder


def cut(folder: Path) -> None:
    path = folder / "1.parquet"
    path.write_bytes(path.read_bytes()[:-100])


def change_a_type(folder: Path) -> None:
    table = parquet.read_table(folder / "1.parquet")
    texts = pa.array([str(value) for value in table["b"].to_pylist()])
    parquet.write_table(table.set_column(table.schema.get_field_index("b"), "b", texts), folder / "1.parquet")


def lose_a_file(folder: Path) -> None:
    (folder / "1.parquet").unlink()


@pytest.mark.parametrize(
    ("damage", "what"),
    [(cut, "1.parquet"), (change_a_type, "1.parquet"), (lose_a_file, "rows")],
    ids=["cut", "another type", "a file less"],
)
def test_a_damaged_table_is_named_and_the_run_begins_once_it_is_mended(
    jobs: JobMaker, damage: Callable[[Path], None], what: str
) -> None:
    job = jobs()
    folder = in_parquet(job)
    whole = (folder / "1.parquet").read_bytes()
    damage(folder)
    bank, shop = start(job, "bank"), start(job, "shop")
    assert shop.wait(120) == 1
    said = job.log("shop")
    assert what in said
    assert "Traceback" not in said
    (folder / "1.parquet").write_bytes(whole)
    if bank.poll() is not None:  # other rows than the shop's end both sides
        bank = start(job, "bank")
    assert (start(job, "shop").wait(120), bank.wait(120)) == (0, 0)
    assert job.result() == jobs.undisturbed()


def constant_table(path: Path, rows: int, columns: int, label: bool = False) -> None:
    """Few bytes on disk, many in memory; the label depends on the row."""
    x = np.zeros(rows)
    x[::3] = 1.0
    table = {f"x{j}": np.roll(x, j) for j in range(columns)}
    if label:
        table["y"] = (np.arange(rows) % 7 < 3).astype(float)
    parquet.write_table(pa.table(table), path)


def large_job(jobs: JobMaker, rows: int, columns: int, shop: str) -> Job:
    job = jobs(method='name = "subspace"', tol=1e-4)
    constant_table(job.folder / "bank.parquet", rows, 2, label=True)
    constant_table(job.folder / "shop.parquet", rows, columns)
    (job.folder / "bank.toml").write_text(f'[data]\nfile = "bank.parquet"\nlabel = "y"\n{TRUST}')
    (job.folder / "shop.toml").write_text(f'{TRUST}[data]\nfile = "shop.parquet"\n{shop}\n')
    return job


@pytest.mark.slow
def test_a_full_disk_under_a_table_is_named_and_the_run_goes_on_with_room(jobs: JobMaker) -> None:
    job = large_job(jobs, MANY, 50, 'memory = "900 MB"')
    bank, shop = start(job, "bank"), start(job, "shop", FSIZE=100_000_000)
    assert shop.wait(240) == 1
    assert "must have room for" in job.log("shop")
    assert "Traceback" not in job.log("shop")
    shop = start(job, "shop", DATA=900_000_000)  # and within the limit that its file names
    assert (shop.wait(240), bank.wait(240)) == (0, 0)
    assert "lies on disk" in job.log("shop")


FIT = """
import resource, pathlib, numpy, plait
resource.setrlimit(resource.RLIMIT_DATA, (900_000_000,) * 2)
y = (numpy.arange({rows}) % 7 < 3).astype(float)
plait.fit([pathlib.Path({path!r})], y, stopping=plait.Stopping(tol=1e-4), memory={memory!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "memory", "what"),
    [(MANY, "900 MB", ""), (3 * MANY, "20 GB", "the process must have memory to read t.parquet")],
)
def test_fit_in_python_keeps_to_its_memory(tmp_path: Path, rows: int, memory: str, what: str) -> None:
    """The second one is told a limit that is not true."""
    path = tmp_path / "t.parquet"
    constant_table(path, rows, 50)
    script = FIT.format(rows=rows, path=str(path), memory=memory)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=False)
    assert (what in done.stderr) if what else (done.stderr == "")


@pytest.mark.slow
def test_too_little_memory_is_said_before_the_table_is_read(jobs: JobMaker) -> None:
    job = large_job(jobs, 100_000, 2, 'memory = "900 MB"')
    constant_table(job.folder / "shop.parquet", 20_000_000, 1)
    start(job, "bank")
    assert start(job, "shop").wait(240) == 1
    assert "memory must be at least 1.3 GB for 20000000 rows" in job.log("shop")


@pytest.mark.slow
def test_a_cluster_that_cannot_be_reached_is_named(jobs: JobMaker) -> None:
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'plait[ray]'")
    job = jobs()
    in_parquet(job)
    text = (job.folder / "shop.toml").read_text()
    (job.folder / "shop.toml").write_text(f'{text}[cluster]\nengine = "ray"\naddress = "ray://127.0.0.1:1"\n')
    start(job, "bank")
    assert start(job, "shop").wait(240) == 1
    said = job.log("shop")
    assert "ray://127.0.0.1:1" in said
    assert said.count("Error: ") == 1


ROUNDS = 250  # at the most; some thirty are enough to be disturbed in the middle


def on_ray(jobs: JobMaker) -> Job:
    """A run whose shop has its table at an actor of a Ray cluster on this machine, after some rounds."""
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'plait[ray]'")
    job = jobs(rounds=ROUNDS)
    in_parquet(job)
    with (job.folder / "shop.toml").open("a") as file:
        file.write('[cluster]\nengine = "ray"\nworkers = 1\n')
    start(job, "bank"), start(job, "shop")
    job.until("shop", "actors of a Ray cluster hold it")
    deadline = time.monotonic() + 60
    while not (job.folder / "runs").exists() or job.exchanges() < 5:
        assert time.monotonic() < deadline, job.log("shop") + job.log("bank")
        time.sleep(0.05)
    return job


def kill_the_actor(job: Job) -> None:
    (actor,) = [pid for pid in started_by(job.programs["shop"].pid) if b"ray::Holder" in command_of(pid)]
    os.kill(actor, signal.SIGKILL)


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


@pytest.mark.slow
def test_an_actor_that_is_killed_in_the_middle_changes_no_bit(jobs: JobMaker) -> None:
    job = on_ray(jobs)
    kill_the_actor(job)
    assert not job.finished("bank")
    assert (job.wait("shop"), job.wait("bank")) == (0, 0)
    assert job.result() == jobs.undisturbed(rounds=ROUNDS)


@pytest.mark.slow
def test_a_table_that_is_gone_when_an_actor_needs_it_again_is_named_and_the_run_goes_on(jobs: JobMaker) -> None:
    job = on_ray(jobs)
    away, place = job.folder / "away", job.folder / "shop" / "1.parquet"
    place.rename(away)
    kill_the_actor(job)
    assert (job.wait("shop"), job.wait("bank")) == (1, 1)
    assert "1.parquet must be a whole .parquet file. Found" in job.log("shop")
    assert "Traceback" not in job.log("shop")
    away.rename(place)
    assert [program.wait(120) for program in (start(job, "bank"), start(job, "shop"))] == [0, 0]
    assert job.log("shop").count("joined after exchange") == 2
    assert job.log("shop").count("joined after exchange 0\n") == 1  # the second time where the first one ended
    assert job.result() == jobs.undisturbed(rounds=ROUNDS)


@pytest.mark.slow
def test_a_wide_one_hot_csv_is_prepared_and_trained_within_its_memory(jobs: JobMaker) -> None:
    """As dense numbers the shop's table takes 1.4 GB."""
    rows, values, rng = 60_000, 1000, np.random.default_rng(0)
    job = jobs(method='name = "subspace"', tol=1e-3)
    own = rng.standard_normal((rows, 2))
    codes = rng.integers(0, values, (rows, 3))
    y = own[:, 0] + np.sin(codes[:, 0]) + rng.logistic(size=rows) > 0
    bank = pa.table({"a": own[:, 0], "b": own[:, 1], "y": y.astype(int)})
    shop = pa.table({f"k{j}": pa.array([f"v{code}" for code in codes[:, j]]) for j in range(3)})
    arrow_csv.write_csv(bank, job.folder / "bank.csv")
    arrow_csv.write_csv(shop, job.folder / "shop.csv")
    (job.folder / "bank.toml").write_text(f'[data]\nfile = "bank.csv"\nlabel = "y"\n{TRUST}')
    (job.folder / "shop.toml").write_text(
        f'{TRUST}[data]\nfile = "shop.csv"\nmemory = "1.2 GB"\n[prepare]\none_hot = ["k0", "k1", "k2"]\n'
    )
    programs = start(job, "bank"), start(job, "shop", DATA=1_200_000_000)
    assert [program.wait(240) for program in programs] == [0, 0]
    assert "as a CSR matrix" in job.log("shop")
