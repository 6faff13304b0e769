"""The faults, and what became of a job that met one."""

import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from plait.deployment.journal import Journal
from plait.deployment.run_folder import RunFolder

from .awake import awake
from .held import SLOW
from .stage import PHASES, ROLES, Stage, staged

LOST = 3  # records that a power cut takes from every file that grows
_STOPPED = 10.0  # seconds under SIGSTOP
_DAY = 86_400  # seconds by which a clock jumps: ahead, then as far back behind the right time
_REMEDIES = (
    "start over",
    "Start it again",
    "Start its program again",
    "Restore",
    "End it",
    "Make room",
    "Train",
    "Is it running",
    "correct the clock",
    "Its owner reads",
)


@dataclass(frozen=True)
class Outcome:
    """How a cell ended: with the undisturbed result always, after what programs said where they ended before."""

    seconds: float
    told: tuple[str, ...]

    @property
    def words(self) -> str:
        """For the table."""
        return "same" if not self.told else "remedy, then same"


def killed(stage: Stage, role: str) -> None:
    stage.start_held(role)
    stage.kill(ROLES[role])
    stage.restart()


def stopped(stage: Stage, role: str) -> None:
    stage.start_held(role)
    stage.programs[ROLES[role]].send_signal(signal.SIGSTOP)
    time.sleep(_STOPPED)
    stage.programs[ROLES[role]].send_signal(signal.SIGCONT)
    stage.go(role)


def lost_records(stage: Stage, role: str) -> None:
    stage.start_held(role)
    for name in ("bank", "shop"):
        stage.kill(name)
    for path in list(stage.disk(ROLES[role]).rglob("*")):
        if path.name == "journal":
            _shorten_journal(path)
        elif path.name == "audit.jsonl":
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(lines[:-LOST]))
        elif path.name.startswith(("taken-", "traced-", "common")):
            os.truncate(path, max(0, path.stat().st_size - LOST * 32))
    stage.restart()


def _shorten_journal(path: Path) -> None:
    journal = Journal(path, owner=RunFolder(path.parent.parent).owner)
    sizes = [24 + len(record.payload) for record in journal.records()]
    journal.close()
    os.truncate(path, sum(sizes[:-LOST]))


def older_copy(stage: Stage, role: str) -> None:
    """In training and aligning the folder of some messages before; else the one of before the model was trained."""
    disk = stage.disk(ROLES[role])
    trained = stage.phase in ("scoring", "serving")
    stage.start_held(role, 1 if trained else 3)
    for name in ("bank", "shop"):
        stage.kill(name)
    newer, older = stage.folder / "newer", stage.folder / "older"
    shutil.copytree(disk, older)
    if trained:
        shutil.rmtree(older / "runs")
    else:
        stage.start_held(role)
        for name in ("bank", "shop"):
            stage.kill(name)
    disk.rename(newer)
    older.rename(disk)
    stage.restart()
    if trained:  # "Train first", or restore what was trained
        stage.programs[ROLES[role]].wait(240)
        stage.told.append(stage._last_error(ROLES[role]))
        shutil.rmtree(disk)
        newer.rename(disk)
        stage.restart()


def full_disk(stage: Stage, role: str) -> None:
    stage.start_held(role)
    filler = stage.disk(ROLES[role]) / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    stage.go(role)
    deadline = awake() + 240
    while stage.programs[ROLES[role]].poll() is None and awake() < deadline and not stage._found():
        time.sleep(0.05)
    filler.unlink()


def slow_disk(stage: Stage, role: str) -> None:
    stage.start_held(role)
    (stage.control(ROLES[role]) / "slow").touch()
    stage.go(role)


def clock_jump(stage: Stage, role: str) -> None:
    stage.start_held(role)
    stage.move_clock(ROLES[role], _DAY)
    stage.go(role)
    time.sleep(0.3)
    stage.move_clock(ROLES[role], -_DAY)


def cut(stage: Stage, role: str) -> None:
    stage.start_held(role)
    stage.line.cut(role)
    stage.go(role)


def half_open(stage: Stage, role: str) -> None:
    stage.start_held(role)
    stage.line.silence(role)
    stage.go(role)


def duplicate(stage: Stage, role: str) -> None:
    stage.start_held(role)
    first = stage.programs[ROLES[role]]
    control = stage.control(ROLES[role])
    stage.start(ROLES[role], as_=f"second-{ROLES[role]}")
    stage.programs[ROLES[role]] = first
    (control / "held").touch()
    second, deadline = f"second-{ROLES[role]}", awake() + 240
    while not stage.log(second) and stage.programs[second].poll() is None and awake() < deadline:
        time.sleep(0.05)  # until it has said something: a start may take longer than the rest of the held run
    time.sleep(5)
    stage.go(role)


FAULTS: dict[str, Callable[[Stage, str], None]] = {
    "SIGKILL": killed,
    "SIGSTOP for 10 s": stopped,
    "last 3 records lost": lost_records,
    "older copy of the folder": older_copy,
    "full disk": full_disk,
    f"slow disk ({SLOW:g} s a sync)": slow_disk,
    "clock jumps a day": clock_jump,
    "connection cut": cut,
    "connection half-open": half_open,
    "duplicate process": duplicate,
}
CELLS = [(fault, phase, role) for fault in FAULTS for phase in PHASES for role in ROLES]


def suffered(fault: str, phase: str, role: str, folder: Path) -> Outcome:
    """Run one cell; AssertionError unless it ends in the undisturbed result, told what to do where it stopped."""
    if fault == "clock jumps a day":
        _build_clock(folder)
    with staged(folder / "cell", phase, ROLES[role] if fault == "full disk" else "") as stage:
        if phase == "serving":
            stage.ask_once()
        began = awake()
        FAULTS[fault](stage, role)
        found = stage.result()
        seconds = awake() - began
    for text in filter(None, stage.told):
        assert any(word in text for word in _REMEDIES), text
    assert found == undisturbed(phase), f"{found}\ninstead of\n{undisturbed(phase)}"
    return Outcome(seconds, tuple(filter(None, stage.told)))


@functools.cache
def undisturbed(phase: str) -> str:
    """What the same programs give when nothing happens."""
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder) / "cell", phase) as stage:
        for name in ("bank", "shop"):
            stage.start(name)
        return stage.result()


def _build_clock(folder: Path) -> None:
    source = Path(__file__).with_name("clock.c")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", folder / "clock.so", source, "-ldl"], check=True)
