"""SIGKILL of any program at any moment while new rows are scored or served: the same scores in the end, nobody left."""

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import Job, JobMaker
from .test_join_of_new_rows import RULES, plait, trained

WAYS = {
    "list": RULES + '[scoring]\njoin = "list"\nmissing = "mean"\n',
    "private": RULES + '[scoring]\nmissing = "leave out"\n',
}


def unlimited(job: Job) -> None:
    for name in job.parties:
        with (job.folder / f"{name}.toml").open("a") as file:  # its last section is [trust]
            file.write("max_queries = 0\nmax_scores = 0\nscores_per_id = 0\nmax_alignments = 0\n")


def start(job: Job, command: str, name: str, *more: str) -> None:
    own = ["--name", name] if command == "predict" or name != job.label else []
    given = [sys.executable, "-m", "plait", command, str(job.file), *own, *more]
    with (job.folder / f"{command}-{name}.log").open("ab") as log:
        job.programs[name] = subprocess.Popen(given, stdout=log, stderr=log)


def predicted(job: Job, out: Path, rng: random.Random) -> int:
    """Predict by two programs, of which one is killed now and then; returns how often."""
    kills = 0
    options = {"bank": ["--yes", "--out", str(out)], "shop": ["--yes"]}
    for name in job.parties:
        start(job, "predict", name, *options[name])
    deadline = time.monotonic() + 120
    while not out.exists():
        assert time.monotonic() < deadline, (job.folder / "predict-bank.log").read_text()[-2000:]
        time.sleep(rng.uniform(0.05, 1.2))
        name = rng.choice(job.parties)
        if kills < 4 and job.programs[name].poll() is None and not out.exists():
            job.kill(name)
            kills += 1
        for each in job.parties:
            if job.programs[each].poll() is not None and not out.exists():
                start(job, "predict", each, *options[each])
    assert job.programs["bank"].wait(60) == 0
    if job.programs["shop"].poll() is None:  # it was started again when all was over
        job.kill("shop")
    return kills


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_killed_predictions_give_the_same_scores(jobs: JobMaker, way: str) -> None:
    job = trained(jobs, WAYS[way])
    unlimited(job)
    plait(job, "predict", "--yes", "--out", str(job.folder / "expected.csv"))
    expected = (job.folder / "expected.csv").read_bytes()
    rng, kills, turn = random.Random(1), 0, 0
    while kills < 30:
        out = job.folder / f"out{turn}.csv"
        kills += predicted(job, out, rng)
        assert out.read_bytes() == expected
        turn += 1
    assert left_over(job) == []


def left_over(job: Job) -> list[str]:
    """The command lines of programs that still run on this job."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(job.folder) in line and int(path.parent.name) != os.getpid():
            found.append(line)
    return found


def ask(port: int) -> tuple[int, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        body = json.dumps({"ids": ["n9", "n3", "N 7", " n4"]})
        connection.request("POST", "/scores", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("scores")
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


@pytest.mark.slow
def test_a_killed_service_gives_the_same_scores_again(jobs: JobMaker) -> None:
    from plait.deployment.processes import free_port

    job = trained(jobs, WAYS["list"])
    unlimited(job)
    port = free_port()
    options = {"bank": ["--http", f"127.0.0.1:{port}", "--per-minute", "0"], "shop": []}
    for name in job.parties:
        start(job, "serve", name, *options[name])
    rng, kills, expected = random.Random(2), 0, None
    while kills < 40:
        deadline = time.monotonic() + 60
        while (found := ask(port))[0] != 200:
            assert found[0] in (0, 503)
            assert time.monotonic() < deadline, (job.folder / "serve-bank.log").read_text()[-2000:]
            time.sleep(0.1)
        expected = expected or found
        assert found == expected
        name = rng.choice(job.parties)
        if rng.random() < 0.5:
            time.sleep(rng.uniform(0, 0.5))
        job.kill(name)
        kills += 1
        start(job, "serve", name, *options[name])
        if rng.random() < 0.3:  # again while it starts
            time.sleep(rng.uniform(0, 1.0))
            job.kill(name)
            kills += 1
            start(job, "serve", name, *options[name])
    while ask(port)[0] != 200:
        time.sleep(0.1)
    job.programs["bank"].send_signal(signal.SIGTERM)
    assert [job.wait(name) for name in job.parties] == [0, 0]
    assert left_over(job) == []


def test_processes_of_a_killed_fit_do_not_stay(jobs: JobMaker) -> None:
    job = jobs(rounds=100_000, rows=400, tol=0.0)
    path = job.folder / "shop.toml"
    path.write_text(path.read_text() + "max_rounds = 0\n")
    command = [sys.executable, "-m", "plait", "fit", str(job.file), "--processes"]
    with (job.folder / "fit.log").open("wb") as log:
        job.programs["fit"] = subprocess.Popen(command, stdout=log, stderr=log)
    job.until("fit", "round    2")
    assert len(left_over(job)) >= 3, "one for each party"
    job.kill("fit")
    deadline = time.monotonic() + 30
    while left := left_over(job):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert "interrupted" in next(job.folder.glob("runs/*/coordinator/run.json")).read_text(), "it can be resumed"
