"""Faults times phases times roles: a run ends in the same bits, or in an error that names the remedy."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from plait.deployment.journal import Journal

from .conftest import Job, JobMaker

PHASES: dict[str, dict[str, object]] = {
    "training": {"rounds": 40, "rows": 2000, "patience": 60},
    "aligning": {"rounds": 5, "rows": 2000, "patience": 60, "more": "[alignment]\nmin_rows = 100\n"},
}
BEGUN = {"training": "round    3", "aligning": "ids: "}
REMEDIES = ("start over", "Start it again", "Restore", "End it", "resumes", "again")


def folder_of(job: Job, name: str) -> Path:
    run = max((job.folder / "runs").iterdir())
    return run / ("coordinator" if name == job.label else name)


def more(phase: str) -> list[str]:
    return ["--yes"] if phase == "aligning" else []


def killed(job: Job, name: str, phase: str) -> None:
    job.kill(name)
    job.start(name, *more(phase))


def stopped(job: Job, name: str, phase: str) -> None:
    job.programs[name].send_signal(signal.SIGSTOP)
    time.sleep(10)
    job.programs[name].send_signal(signal.SIGCONT)


def lost_records(job: Job, name: str, phase: str) -> None:
    for each in job.parties:
        job.kill(each)
    path = folder_of(job, name) / "checkpoint" / "journal"
    if path.exists():
        journal = Journal(path)
        sizes = [24 + len(record.payload) for record in journal.records()]
        journal.close()
        with path.open("r+b") as file:
            file.truncate(sum(sizes[:-3]))
    for each in job.parties:
        job.start(each, *more(phase))


def older_copy(job: Job, name: str, phase: str) -> None:
    for each in job.parties:
        job.kill(each)
    folder, copy = folder_of(job, name), job.folder / "copy"
    shutil.copytree(folder, copy)
    for each in job.parties:
        job.start(each, *more(phase))
    time.sleep(3)
    for each in job.parties:
        job.kill(each)
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    for each in job.parties:
        job.start(each, *more(phase))


def duplicate(job: Job, name: str, phase: str) -> None:
    first = job.programs[name]
    second = job.start(name, *more(phase))
    job.programs[name] = first
    job.programs[f"second {name}"] = second


def both_killed(job: Job, name: str, phase: str) -> None:
    for each in job.parties:
        job.kill(each)
    for each in job.parties:
        job.start(each, *more(phase))


FAULTS: dict[str, Callable[[Job, str, str], None]] = {
    "SIGKILL": killed,
    "SIGSTOP for 10 s": stopped,
    "last records lost": lost_records,
    "older copy of the folder": older_copy,
    "duplicate process": duplicate,
    "power cut at both": both_killed,
}
SLICE = {("last records lost", "training", "shop"), ("older copy of the folder", "training", "bank")}
CASES = [
    pytest.param(fault, phase, who, marks=[] if (fault, phase, who) in SLICE else pytest.mark.slow)
    for fault in FAULTS
    for phase in PHASES
    for who in ("shop", "bank")
]


@pytest.mark.parametrize(("fault", "phase", "who"), CASES)
def test_a_fault_ends_in_the_same_bits_or_in_a_remedy(jobs: JobMaker, fault: str, phase: str, who: str) -> None:
    job = jobs(**PHASES[phase])
    for name in job.parties:
        job.start(name, *more(phase))
    job.until("bank", BEGUN[phase])
    FAULTS[fault](job, who, phase)
    codes = [job.wait(name, 170) for name in job.parties]
    said = "".join(job.log(name) for name in job.parties)
    assert "Traceback" not in said
    if codes == [0, 0]:
        assert job.result() == jobs.undisturbed(**PHASES[phase])
    else:
        assert any(remedy in said for remedy in REMEDIES), said
