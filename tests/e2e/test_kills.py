"""SIGKILL at fixed points of the protocol, and at random ones: a restart ends with the same bits."""

import json
import random
import signal
import time
from collections.abc import Callable

import pytest

from plait.deployment.transcript import NAME

from .conftest import Job, JobMaker

OPTIONS: dict[str, object] = {"rounds": 30, "rows": 2000, "patience": 120}
"""A small state: the party's journal holds states."""

LARGE: dict[str, object] = {"method": 'name = "subspace"', "rounds": 9, "rows": 30_000, "tol": 0.0, "patience": 120}
"""A large state: the party's journal holds broadcasts."""

LONG: dict[str, object] = {
    **LARGE, "method": 'name = "subspace"\nmemory = 1', "rounds": 220, "rows": 1000
}  # fmt: skip
"""Its journal of broadcasts outgrows the state after some 185 exchanges: a snapshot replaces it."""

JOURNAL = "plait.deployment.journal:Journal"
PARTY = "plait.deployment.stored_party:StoredParty"
FOLDER = "plait.deployment.run_folder:RunFolder"
RUN = "plait.deployment.coordinator_program:_Run"
POINTS = {
    "party, before it journals": ("shop", f"{JOURNAL}.append", "before", 9),
    "party, journalled but not sent": ("shop", f"{JOURNAL}.append", "after", 9),
    "coordinator, asked but not answered": ("bank", "plait.transports.server:Hub.put", "after", 9),
    "coordinator, answered but not journalled": ("bank", f"{JOURNAL}.append_behind", "before", 9),
    "party, results kept but not acknowledged": ("shop", f"{PARTY}.finish", "after", 1),
}
MORE_POINTS = {
    "party, at its first message": ("shop", f"{PARTY}.answer", "before", 1),
    "party, audited but not sent": ("shop", f"{PARTY}.answer", "after", 9),
    "party, before it keeps its results": ("shop", f"{PARTY}.finish", "before", 1),
    "party, weights written": ("shop", f"{FOLDER}.write_weights", "after", 1),
    "coordinator, journalled": ("bank", f"{JOURNAL}.append_behind", "after", 9),
    "coordinator, at its first exchange": ("bank", "plait.transports.server:Hub.take", "after", 1),
    "coordinator, model written": ("bank", f"{FOLDER}.write_model", "after", 1),
    "coordinator, all told": ("bank", f"{RUN}._mark_told", "after", 1),
}
SNAPSHOT_POINTS = {
    "before the snapshot": ("shop", f"{PARTY}._write", "before", 1),
    "snapshot written, journal not forgotten": ("shop", f"{PARTY}._write", "after", 1),
    "after the snapshot": ("shop", f"{JOURNAL}._replace", "after", 1),
    "some messages later": ("shop", f"{JOURNAL}.append", "after", 200),
}
WITH_SNAPSHOT = {  # whether there is a snapshot then, and whether the journal still holds what came before it
    "before the snapshot": (False, True),
    "snapshot written, journal not forgotten": (True, True),
    "after the snapshot": (True, False),
    "some messages later": (True, False),
}


@pytest.fixture(scope="module")
def expected_of_long(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return JobMaker(tmp_path_factory.mktemp("long")).undisturbed(**LONG)


@pytest.mark.slow
@pytest.mark.parametrize("name", SNAPSHOT_POINTS)
def test_killed_around_its_snapshot_a_party_resumes(
    jobs: JobMaker, name: str, expected_of_long: dict[str, str]
) -> None:
    def look(job: Job) -> None:
        (kept,) = job.folder.glob("runs/*/shop/checkpoint")
        whole = (kept / "journal").stat().st_size > 1 << 20
        assert ((kept / "state").exists(), whole) == WITH_SNAPSHOT[name]

    check(jobs(**LONG), SNAPSHOT_POINTS[name], expected_of_long, look)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return JobMaker(tmp_path_factory.mktemp("undisturbed")).undisturbed(**OPTIONS)


def check(
    job: Job, point: tuple[str, str, str, int], expected: dict[str, str], look: Callable[[Job], None] | None = None
) -> None:
    """Kill a program at this point, `look` at what it left, start it again: the run ends as expected."""
    victim, target, when, count = point
    for name in job.parties:
        job.start(name, killed_at=(target, when, str(count)) if name == victim else None)
    assert job.wait(victim) == -signal.SIGKILL, job.log(victim)
    if look is not None:
        look(job)
    job.start(victim)
    for name in job.programs:
        assert job.wait(name) == 0, job.log(name)
    assert job.result() == expected


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_killed_program_resumes_to_the_same_bits(
    jobs: JobMaker, point: tuple[str, str, str, int], expected: dict[str, str]
) -> None:
    check(jobs(**OPTIONS), point, expected)


@pytest.mark.parametrize("name", ["party, journalled but not sent", "coordinator, answered but not journalled"])
def test_killed_programs_that_send_changes_resume_to_the_same_bits(jobs: JobMaker, name: str) -> None:
    options = {**OPTIONS, "more": '[run]\nprecision = "int16"'}
    check(jobs(**options), POINTS[name], jobs.undisturbed(**options))


def test_a_run_that_ended_by_its_time_ends_there_again(jobs: JobMaker) -> None:
    options: dict[str, object] = {**LARGE, "rounds": 10_000}
    timed = jobs(**options, more="max_seconds = 0.7")
    timed.start("shop")
    timed.start("bank", killed_at=(f"{FOLDER}.write_model", "before", "1"))
    assert timed.wait("bank") == -signal.SIGKILL, timed.log("bank")
    exchanges = timed.exchanges()
    timed.start("bank")
    for name in timed.programs:
        assert timed.wait(name) == 0, timed.log(name)
    assert "max_seconds = 0.7 reached" in timed.log("bank")
    assert timed.exchanges() == exchanges, "what had ended went on after the restart"
    expected = jobs.undisturbed(**{**options, "rounds": exchanges - 1})
    assert timed.result()["shop"] == expected["shop"]
    assert timed.result()["bank"] == expected["bank"]


@pytest.mark.slow
@pytest.mark.parametrize("point", MORE_POINTS.values(), ids=MORE_POINTS)
def test_killed_program_resumes_at_every_other_point(
    jobs: JobMaker, point: tuple[str, str, str, int], expected: dict[str, str]
) -> None:
    check(jobs(**OPTIONS), point, expected)


@pytest.mark.slow
def test_coordinator_that_forgot_whom_it_told_ends_by_itself(jobs: JobMaker, expected: dict[str, str]) -> None:
    check(jobs(**{**OPTIONS, "patience": 40}), ("bank", f"{RUN}._mark_told", "before", 1), expected)


def test_all_programs_killed_at_once_resume(jobs: JobMaker, expected: dict[str, str]) -> None:
    job = jobs(**OPTIONS)
    job.start("bank", killed_at=(f"{JOURNAL}.append_behind", "before", "7"))
    job.start("shop", killed_at=(f"{JOURNAL}.append", "after", "8"))
    job.wait("bank")
    job.kill("shop")
    for name in job.parties:
        job.start(name)
    for name in job.programs:
        assert job.wait(name) == 0, job.log(name)
    assert job.result() == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_random_kills_of_random_programs_change_nothing(jobs: JobMaker, seed: int) -> None:
    """At least 20 kills per seed, 100 in all, of one of three programs or of all three."""
    rng = random.Random(seed)
    options: dict[str, object] = {
        "method": 'name = "proximal"\nacceleration = 0',
        "tol": 0.0,
        "rounds": 3000,
        "rows": 1000,
        "parties": ("bank", "shop", "tele"),
        "patience": 60.0,
    }
    expected = jobs.undisturbed(**options)
    job = jobs(**options)
    assert kill_at_random(job, rng) >= 20
    assert job.result() == expected


@pytest.mark.slow
@pytest.mark.parametrize("protection", [f"{mode} {seed}" for mode in ("labels", "sums") for seed in range(5)])
def test_random_kills_of_protected_runs_change_nothing(jobs: JobMaker, protection: str) -> None:
    """At least 20 kills each, 100 in each mode.  Encrypted gradients, masks and signatures are the same again.

    All that a party ever masked is recorded: no mask has hidden two different shares.
    """
    options: dict[str, object] = {
        "method": 'name = "subspace"',
        "tol": 0.0,
        "rounds": 800,
        "rows": 600,
        "parties": ("bank", "shop", "tele"),
        "patience": 60.0,
        "protection": f'"{protection.split()[0]}"',
    }
    expected = jobs.undisturbed(**options)
    job = jobs(**options)
    for name in ("shop", "tele"):
        with (job.folder / f"{name}.toml").open("a") as file:  # its last section is [trust]
            file.write("record = true\n")
    assert kill_at_random(job, random.Random(protection)) >= 20
    assert job.result() == expected
    for name in ("shop", "tele"):
        (path,) = job.folder.glob(f"runs/*/{name}/{NAME}")
        made: dict[int, set[str]] = {}
        for line in map(json.loads, path.read_text().splitlines()[1:]):
            made.setdefault(line["seq"], set()).add(json.dumps(line["sent"]))
        assert len(made) > 100
        assert {len(shares) for shares in made.values()} == {1}


def kill_at_random(job: Job, rng: random.Random, enough: int = 20) -> int:
    """Train to the end while programs are killed and started again, up to `enough` times or a few more; how often."""
    for name in job.parties:
        text = (job.folder / f"{name}.toml").read_text()  # its last section is [trust]
        (job.folder / f"{name}.toml").write_text(text.replace("max_rounds = 0\n", "") + "max_rounds = 0\n")
    for name in job.everybody:
        job.start(name)
    kills = 0
    while not job.finished("bank"):
        time.sleep(rng.uniform(0.5, 3.0))
        alive = [name for name in job.everybody if job.programs[name].poll() is None]
        victims = alive if rng.random() < 0.2 else [rng.choice(alive)] if alive else []
        if kills >= enough:
            break
        for name in victims:
            job.kill(name)
        kills += len(victims)
        for name in victims:
            if not job.finished("bank"):
                job.start(name)
    for name in job.programs:
        assert job.finished(name) or job.wait(name, 300) == 0, job.log(name)
    for name in job.programs:
        job.wait(name, 60)
    return kills
