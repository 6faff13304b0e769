"""A job whose two parties have a disk each, a line between them, and programs that can be held at a moment."""

import http.client
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import read_job, read_party
from plait.deployment.processes import free_port
from plait.deployment.progress import Silent
from tests.e2e.conftest import make_job

from .awake import awake
from .line import Line

PHASES = ("aligning", "training", "protected training", "scoring", "serving")
PROTECTED = {"protection": '"labels"', "method": 'name = "subspace"', "tol": 0.0}
"""A run whose gradients are encrypted, and that takes all its rounds."""
ROLES = {"party": "shop", "coordinator": "bank"}
PATIENCE = 30  # seconds: longer than gRPC takes to notice a silent line (15 s)
IDS = ["new3", "nobody", "new7"]
_MOMENTS = {"aligning": 4, "training": 12, "protected training": 12, "scoring": 1, "serving": 1}
_TARGETS = {
    "party": "plait.transports.conversation:_computed",
    "coordinator": "plait.transports.mailbox:Mailbox.deliver",
}
_SERVED = {
    "party": "plait.transports.conversation:_looked_up",
    "coordinator": "plait.transports.queries:QueryMailbox.ask",
}
_STARTING = 240.0  # seconds until a program is where a fault meets it: on a busy machine most of them are its start
_LONGEST = 400.0  # seconds that a cell may take after its fault: several starts, and the patience of a job
_DISK = "16m"  # of a party whose disk gets full


class Stage:
    """One cell of the matrix while it runs."""

    def __init__(self, folder: Path, phase: str, small_disk: str = "") -> None:
        self.folder = folder
        self.phase = phase
        self.programs: dict[str, subprocess.Popen[bytes]] = {}
        self.told: list[str] = []
        """What programs that ended with an error said."""
        more = "[alignment]\nmin_rows = 100\n" if phase == "aligning" else ""
        options: dict[str, Any] = PROTECTED if phase == "protected training" else {}
        job = make_job(folder / "made", rounds=30, rows=2000, patience=PATIENCE, more=more, **options)
        for name in job.parties:
            own = job.folder / f"{name}.toml"  # whoever waits for a service asks often
            own.write_text(own.read_text().replace("[trust]", "[trust]\nscores_per_id = 0\nmax_queries = 0"))
            _add_new_rows(job.folder / f"{name}.csv", job.folder / f"{name}-new.csv")
        if phase in ("scoring", "serving"):
            files = [read_party(job.file, name) for name in job.parties]
            coordinate(read_job(job.file), files[0], files, None, Silent())
        self.mounted = self.disk(small_disk) if small_disk else None
        for name in job.parties:
            self._settle(job.folder, name)
        shutil.rmtree(job.folder)
        self.port = int(read_job(self.disk("bank") / "job.toml").coordinator.address.rpartition(":")[2])
        self.line = Line(self.port)

    def _settle(self, made: Path, name: str) -> None:
        """Give a party what is its own."""
        disk = self.disk(name)
        disk.mkdir()
        (self.folder / f"{name}-control").mkdir()
        if disk == self.mounted:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "none", str(disk)], check=True)
        for path in (*made.glob(f"{name}*"), made / "job.toml"):
            shutil.copy(path, disk / path.name)
        shutil.copytree(made / "certs", disk / "certs")
        for path in (made / "runs").glob(f"*/{name}"):
            shutil.copytree(path, disk / "runs" / path.parent.name / name)
        if name == "bank":
            for path in (made / "runs").glob("*/coordinator"):
                shutil.copytree(path, disk / "runs" / path.parent.name / "coordinator")

    def disk(self, name: str) -> Path:
        return self.folder / name

    def control(self, name: str) -> Path:
        return self.folder / f"{name}-control"

    def run_folder(self, name: str) -> Path:
        """What a party, or the coordinator, keeps of the newest run."""
        return max((self.disk(name) / "runs").iterdir()) / ("coordinator" if name == "bank" else name)

    def command(self, name: str, fresh: bool = False) -> list[str]:
        job = str(self.disk(name) / "job.toml")
        dial = [] if name == "bank" else ["--name", name, "--address", f"127.0.0.1:{self.line.port}"]
        if self.phase not in ("scoring", "serving"):
            role = "coordinator" if name == "bank" else "party"
            return [role, job, *dial, "--yes", *(["--fresh"] if fresh and name == "bank" else [])]
        rows = ["--rows", f"{name}-new.csv"]
        if self.phase == "scoring":
            out = ["--name", "bank", "--out", str(self.disk("bank") / "out.csv")] if name == "bank" else []
            return ["predict", job, *dial, *rows, *out]
        return ["serve", job, *dial, *rows, *(["--http", f"127.0.0.1:{self.http}"] if name == "bank" else [])]

    @property
    def http(self) -> int:
        """The port of the service: the same after a restart."""
        place = self.folder / "http"
        if not place.exists():
            place.write_text(str(free_port()))
        return int(place.read_text())

    def start(self, name: str, moment: int = 0, as_: str = "", fresh: bool = False) -> None:
        """Start a program, to be held at the n-th message where there is a moment."""
        role = "coordinator" if name == "bank" else "party"
        control = self.control(name)
        for word in ("held", "go"):
            (control / word).unlink(missing_ok=True)
        targets = _SERVED if self.phase in ("scoring", "serving") else _TARGETS
        held = [str(control), targets[role], str(moment or 1_000_000)]
        command = [sys.executable, "-m", "tests.faults.held", *held, *self.command(name, fresh)]
        with (self.folder / f"{as_ or name}.log").open("ab") as log:
            self.programs[as_ or name] = subprocess.Popen(command, stdout=log, stderr=log, env=self._env(control))

    def _env(self, control: Path) -> dict[str, str]:
        env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        shim = self.folder.parent / "clock.so"
        if shim.exists():
            clock = control / "clock"
            if not clock.exists():
                clock.write_bytes(bytes(8))
            env |= {"LD_PRELOAD": str(shim), "PLAIT_CLOCK": str(clock)}
        return env

    def start_held(self, role: str, moment: int = 0) -> None:
        """Start both programs, and wait until the one with the fault to come is held in the middle of its phase."""
        for name in ("bank", "shop"):
            self.start(name, moment or _MOMENTS[self.phase] if name == ROLES[role] else 0)
        self._until(lambda: (self.control(ROLES[role]) / "held").exists(), "is held")

    def go(self, role: str) -> None:
        (self.control(ROLES[role]) / "go").touch()

    def kill(self, name: str) -> None:
        self.programs[name].kill()
        self.programs[name].wait()

    def restart(self) -> None:
        """Start again what is not running."""
        for name in ("bank", "shop"):
            if self.programs[name].poll() is not None:
                self.start(name)

    def move_clock(self, name: str, seconds: int) -> None:
        with (self.control(name) / "clock").open("r+b") as file:
            file.write(struct.pack("<q", seconds))

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def result(self) -> str:
        """What the phase was for, as text, once it is there; AssertionError where it never comes.

        A program that ends with an error is noted and, as it says, started again.
        """
        deadline, fresh = awake() + _LONGEST, False
        while (found := self._found()) is None:
            assert awake() < deadline, "the job neither ends nor says what to do:\n" + self._logs()
            ended = {name: self.programs[name].poll() for name in ("bank", "shop")}
            if all(code is not None for code in ended.values()) or (self.phase == "serving" and any(ended.values())):
                self.told += [self._last_error(name) for name, code in ended.items() if code]
                assert self.told, "programs ended without a result or a word:\n" + self._logs()
                assert len(self.told) <= 6, "nothing that programs say helps:\n" + self._logs()
                fresh = any("--fresh" in text for text in self.told)
                if any("correct the clock" in text for text in self.told):
                    for name in ended:
                        self.move_clock(name, 0)
                for name, code in ended.items():
                    if code is not None:
                        self.start(name, fresh=fresh)
            time.sleep(0.05)
        assert "Traceback" not in self._logs(), self._logs()
        return found

    def _found(self) -> str | None:
        if self.phase == "serving":
            return self._asked()
        if any(self.programs[name].poll() != 0 for name in ("bank", "shop")):
            return None
        if self.phase == "scoring":
            return (self.disk("bank") / "out.csv").read_text()
        return _model(self.run_folder("bank"), self.run_folder("bank").with_name("bank"), self.run_folder("shop"))

    def _asked(self) -> str | None:
        """What the service answers, None while it does not."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=30)
        try:
            body = json.dumps({"ids": IDS})
            connection.request("POST", "/scores", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            return json.dumps(json.loads(text)["scores"]) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def ask_once(self) -> subprocess.Popen[bytes]:
        """Let a client ask the service, in a process of its own: it is there when the program is held."""
        code = (
            "import http.client,sys,time\n"
            "while 1:\n"
            "    try:\n"
            "        c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=60)\n"
            "        c.request('POST', '/scores', sys.argv[2], {'Content-Type': 'application/json'})\n"
            "        if c.getresponse().status == 200: break\n"
            "    except (OSError, http.client.HTTPException): pass\n"
            "    time.sleep(0.1)\n"
        )
        program = subprocess.Popen([sys.executable, "-c", code, str(self.http), json.dumps({"ids": IDS})])
        self.programs["client"] = program
        return program

    def _last_error(self, name: str) -> str:
        lines = re.findall(r"^Error: .*", self.log(name), re.MULTILINE)
        return lines[-1] if lines else ""

    def _logs(self) -> str:
        return "".join(f"--- {path.stem}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    def _until(self, holds: object, what: str) -> None:
        deadline = awake() + _STARTING
        while not holds():  # type: ignore[operator]
            ended = any(program.poll() for program in self.programs.values())
            assert not ended, f"no program {what}, one has ended:\n" + self._logs()
            assert awake() < deadline, f"no program {what}:\n" + self._logs()
            time.sleep(0.01)

    def close(self) -> None:
        for program in self.programs.values():
            program.send_signal(signal.SIGCONT)
            program.kill()
            program.wait()
        self.line.close()
        if self.mounted is not None:
            subprocess.run(["umount", "-l", str(self.mounted)], check=False)


@contextmanager
def staged(folder: Path, phase: str, small_disk: str = "") -> Iterator[Stage]:
    """A stage that is cleared in the end."""
    stage = Stage(folder, phase, small_disk)
    try:
        yield stage
    finally:
        stage.close()


def _add_new_rows(source: Path, target: Path) -> None:
    """Rows to score: those of a file under other ids."""
    lines = source.read_text().splitlines()[:60]
    target.write_text("\n".join([lines[0], *(re.sub("^r", "new", line) for line in lines[1:])]) + "\n")


def _model(*folders: Path) -> str:
    """Weights and intercept, as text, which is exact."""
    kept = ("weights", "columns", "intercept", "objective", "rounds_taken")
    found = {}
    for folder in folders:
        for name in ("weights.json", "model.json"):
            if (folder / name).exists():
                content = json.loads((folder / name).read_text())
                found[f"{folder.name}/{name}"] = {key: content[key] for key in kept if key in content}
    return json.dumps(found, sort_keys=True)
