"""Real programs with real certificates, on loopback."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pytest

from plait.deployment.job_file import read_job
from plait.deployment.message_log import read_log
from plait.deployment.processes import free_port, throw_away_certificates
from plait.transports.certificates import Folder

JOB = """
format = 1
name = "test"
parties = [{parties}]
protection = {protection}
[coordinator]
name = "{label}"
address = "127.0.0.1:{port}"
patience = {patience}
[model]
loss = "logistic"
penalty = {{ name = "l2", alpha = 1e-3 }}
{model}
[method]
{method}
[stopping]
max_rounds = {rounds}
tol = {tol}
{more}
"""


@dataclass
class Job:
    """A job in a folder, with data and certificates, and the programs that run it."""

    folder: Path
    parties: tuple[str, ...]
    label: str
    programs: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / "job.toml"

    @property
    def everybody(self) -> tuple[str, ...]:
        """Who runs a program."""
        return self.parties

    def command(self, name: str, *more: str) -> list[str]:
        """The command line of a party's program."""
        role = ["coordinator"] if name == self.label else ["party"]
        named = [] if name == self.label else ["--name", name]
        return [sys.executable, "-m", "plait", *role, str(self.file), *named, *more]

    def start(
        self, name: str, *more: str, killed_at: tuple[str, str, str] | None = None, inside: str = ""
    ) -> subprocess.Popen[bytes]:
        command = [*(["ip", "netns", "exec", inside] if inside else []), *self.command(name, *more)]
        if killed_at is not None:
            command[1:3] = [str(Path(__file__).with_name("killed_at.py")), *killed_at]
        log = (self.folder / f"{name}.log").open("ab")
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with log:
            program = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        self.programs[name] = program
        return program

    def kill(self, name: str) -> None:
        self.programs[name].send_signal(signal.SIGKILL)
        self.programs[name].wait()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def wait(self, name: str, seconds: float = 180) -> int:
        return self.programs[name].wait(seconds)

    def until(self, name: str, text: str, seconds: float = 120) -> None:
        """Wait until a program has said something."""
        deadline = time.monotonic() + seconds
        while text not in self.log(name):
            assert time.monotonic() < deadline, f"{name} never said {text!r}: {self.log(name)}"
            time.sleep(0.01)

    def finished(self, name: str) -> bool:
        """Whether this program's part of the newest run is done and kept."""
        role = "coordinator" if name == self.label else name
        files = sorted((self.folder / "runs").glob(f"*/{role}/run.json"))
        return bool(files) and '"finished"' in files[-1].read_text()

    def exchanges(self) -> int:
        """How many exchanges of the newest run the coordinator's audit log has."""
        run = max((self.folder / "runs").iterdir())
        log = read_log(run / "coordinator" / "audit.jsonl")
        return max((entry.facts.get("seq", 0) for entry in log), default=0)

    def result(self) -> dict[str, str]:
        """The newest run's weights and intercept, as text, which is exact."""
        run = max((self.folder / "runs").iterdir())
        texts = {}
        for path in [*run.glob("*/weights.json"), run / "coordinator" / "model.json"]:
            lines = path.read_text().splitlines()
            texts[path.parent.name] = "\n".join(
                line for line in lines if '"run"' not in line and '"sha256"' not in line
            )
        return texts


def make_job(
    folder: Path,
    parties: tuple[str, ...] = ("bank", "shop"),
    method: str = 'name = "proximal"',
    rounds: int = 40,
    rows: int = 400,
    width: int = 4,
    patience: float = 120,
    tol: float = 1e-12,
    model: str = "",
    more: str = "",
    own: Mapping[str, str] | None = None,
    protection: str = '"plain"',
) -> Job:
    """Each party has `width` columns, at most 24.

    `model` goes into the job's [model] section, `more` to its end, `own` to the ends of party files.
    """
    rng = np.random.default_rng(0)
    label = parties[0]
    folder.mkdir(parents=True)
    x = rng.standard_normal((rows, width * len(parties)))
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ rng.standard_normal(x.shape[1])))).astype(int)
    for i, name in enumerate(parties):
        columns = x[:, width * i : width * (i + 1)]
        lines = ["id," + ",".join(ascii_lowercase[:width]) + (",y" if name == label else "")]
        for j in range(rows):
            tail = f",{y[j]}" if name == label else ""
            lines.append(f"r{j}," + ",".join(repr(float(v)) for v in columns[j]) + tail)
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
        (folder / f"{name}.toml").write_text(
            f'[data]\nfile = "{name}.csv"\nid = "id"\nlabel = "{"y" if name == label else ""}"\n'
            + (own or {}).get(name, '[prepare]\nscale = "standard"\n')
            + "[trust]\naccept_labels_shown = true\naccept_scores_shown = true\n"
        )
    text = JOB.format(
        parties=", ".join(f'"{p}"' for p in parties),
        label=label,
        port=free_port(),
        method=method,
        rounds=rounds,
        patience=patience,
        tol=tol,
        model=model,
        more=more,
        protection=protection,
    )
    (folder / "job.toml").write_text(text)
    throw_away_certificates(read_job(folder / "job.toml"), Folder(folder / "certs"))
    return Job(folder, parties, label)


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator["JobMaker"]:
    maker = JobMaker(tmp_path)
    yield maker
    for job in maker.made:
        for program in job.programs.values():
            if program.poll() is None:
                program.kill()
            program.wait()


class JobMaker:
    """Makes jobs and ends what is left of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.made: list[Job] = []

    def __call__(self, **options: object) -> Job:
        job = make_job(self._folder / f"job{len(self.made)}", **options)  # type: ignore[arg-type]
        self.made.append(job)
        return job

    def undisturbed(self, **options: object) -> dict[str, str]:
        """The result of the same job, simulated in this process."""
        job = self(**options)
        self.simulate(job)
        return job.result()

    def simulate(self, job: Job) -> None:
        """Train in this process."""
        from plait.deployment.coordinator_program import coordinate
        from plait.deployment.job_file import read_party
        from plait.deployment.progress import Silent

        spec = read_job(job.file)
        files = [read_party(job.file, name) for name in job.parties]
        coordinate(spec, files[0], files, None, Silent())
