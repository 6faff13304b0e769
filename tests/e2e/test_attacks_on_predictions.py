"""A party that lies while rows are scored: the label party's program ends, and says whose answer was wrong."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from plait.messages import Share
from plait.transports import handshake
from plait.transports.frames import frames, unpack
from plait.transports.handshake import Alive, Control, Load, Query

from . import hostile
from .conftest import Job, JobMaker
from .hostile import Talk

PATIENCE = 2.0  # seconds


def started(jobs: JobMaker) -> Job:
    """A trained job whose label party has asked for scores, and waits for the other party."""
    job = jobs(rounds=3, rows=400, patience=PATIENCE)
    jobs.simulate(job)
    rows = (job.folder / "bank.csv").read_text()
    (job.folder / "new.csv").write_text(re.sub("^r", "new", rows, flags=re.MULTILINE))
    command = [sys.executable, "-m", "plait", "predict", str(job.file), "--name", "bank", "--rows", "new.csv"]
    with (job.folder / "bank.log").open("wb") as log:
        job.programs["bank"] = subprocess.Popen([*command, "--out", "out.csv"], stdout=log, stderr=log, cwd=job.folder)
    job.until("bank", "waiting for shop")
    return job


def asked(talk: Talk) -> Iterator[tuple[int, Control]]:
    """What the coordinator asks, and the number of each question."""
    for data in talk.raw():
        frame = unpack(data)
        yield frame.seq, handshake.decode(frame)


def play(job: Job, way: str) -> None:
    """One connection of the lying party."""
    with hostile.party(job, "shop", purpose="predict") as talk:
        for seq, question in asked(talk):
            if way != "silent" and isinstance(question, Alive):
                talk.say(handshake.encode(question, seq))
            if isinstance(question, Query) and way == "comes and goes":
                return
            if isinstance(question, Query) and way.startswith("mark"):
                marks = np.full(len(question.ids), float(way.split()[1]))
                for data in frames(Share(0, np.zeros(len(question.ids)), marks), seq):
                    talk.say(data)


@pytest.mark.threat("party", "answers no query, or leaves at each", "`coordinator.patience`, four times for all tries")
@pytest.mark.parametrize("way", ["silent", "signs of life", "comes and goes"])
def test_a_party_that_answers_no_query_ends_the_prediction(jobs: JobMaker, way: str) -> None:
    job = started(jobs)
    began = time.monotonic()
    while job.programs["bank"].poll() is None and time.monotonic() < began + 60:
        play(job, way)
        time.sleep(0.2)
    assert job.wait("bank", 1) == 1, job.log("bank")
    said = job.log("bank")
    assert re.search("shop'? must answer within", said), said
    assert len(said) < 5000
    assert not (job.folder / "out.csv").exists()


@pytest.mark.threat("party", "marks that mean nothing", "an id is scored, is not, or a limit is reached")
@pytest.mark.parametrize("mark", ["0.5", "-2", "7"])
def test_a_mark_that_means_nothing_is_refused(jobs: JobMaker, mark: str) -> None:
    job = started(jobs)
    play(job, f"mark {mark}")
    assert job.wait("bank", 60) == 1, job.log("bank")
    assert "must mark every id" in Path(job.folder / "bank.log").read_text()


@pytest.mark.threat("coordinator", "names runs without end that cannot be used", "the first few are told, then seldom")
def test_runs_that_cannot_be_used_fill_no_log(jobs: JobMaker) -> None:
    job, problems = jobs(rounds=3, rows=400, patience=PATIENCE), []
    jobs.simulate(job)
    (run,) = (path.name for path in (job.folder / "runs").iterdir())

    def script(talk: Talk) -> None:
        for number in range(300):
            talk.say(handshake.encode(Load(f"20260101-120000-{number:06x}", run), number + 1))
            answer = talk.hear()
            assert isinstance(answer, Load), answer
            problems.append(answer.problem)

    command = [sys.executable, "-m", "plait", "serve", str(job.file), "--name", "shop", "--rows", "shop.csv"]
    with hostile.coordinator(job, script, "serve", run) as ended, (job.folder / "shop.log").open("wb") as log:
        job.programs["shop"] = subprocess.Popen(command, stdout=log, stderr=log, cwd=job.folder)
        assert ended.wait(90), job.log("shop")
    assert len(problems) == 300
    assert all(problems)
    assert str(job.folder) not in "".join(problems)
    assert job.log("shop").count("cannot be used") < 20
