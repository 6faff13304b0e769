"""Predictions under protection = "sums": the label party learns totals, from real programs with real certificates."""

import csv
import http.client
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from plait.deployment.job_file import read_job
from plait.deployment.run_keys import signing
from plait.errors import ConfigError
from plait.messages import Share
from plait.protection.score_masks import ScoreMasks, meeting_of
from plait.transports import handshake
from plait.transports.handshake import Meet, Query
from plait.transports.law import MEETING_OVER

from . import hostile
from .conftest import Job, JobMaker
from .hostile import RUN, Talk, coordinator

PARTIES = ("bank", "shop", "tele")
NEW = {
    "bank": {n: [0.3 * n, -0.1 * n, 0.5, 0.02 * n] for n in range(8)},
    "shop": {n: [-0.2 * n, 0.7, 0.1 * n, -0.4] for n in range(7)},  # lacks 7
    "tele": {n: [0.9, 0.05 * n, -0.6 * n, 0.01] for n in (0, 1, 2, 3, 5, 6, 7)},  # lacks 4
}
COMMON = [0, 1, 2, 3, 5, 6]


def trained(jobs: JobMaker, more: str = '[scoring]\nmissing = "leave out"\n') -> Job:
    """A job of three parties, trained in a simulation, with new rows."""
    job = jobs(parties=PARTIES, rows=200, method='name = "auto"', protection='"sums"', tol=1e-4, more=more)
    for name in PARTIES:
        lines = ["id,a,b,c,d,y"]
        lines += [",".join([f"n{n}", *map(repr, values), str(n % 2)]) for n, values in NEW[name].items()]
        (job.folder / f"{name}-new.csv").write_text("\n".join(lines) + "\n")
        path = job.folder / f"{name}.toml"
        text = path.read_text().replace("[data]\n", f'[data]\nscore = "{name}-new.csv"\n')
        if name != "bank":
            text = text.replace("accept_scores_shown = true\n", "")  # nothing is shown that would need it
        path.write_text(text)
    jobs.simulate(job)
    return job


def part(job: Job, name: str, n: int) -> float:
    """One party's rounded part of a score, from its files alone."""
    run = max((job.folder / "runs").iterdir())
    weights = json.loads((run / name / "weights.json").read_text())["weights"]
    table = [line.split(",")[1:5] for line in (job.folder / f"{name}.csv").read_text().splitlines()[1:]]
    fitted = np.array(table, dtype=float)
    return round(float((np.array(NEW[name][n]) - fitted.mean(axis=0)) / fitted.std(axis=0) @ weights), 3)


def pooled(job: Job, n: int) -> float:
    run = max((job.folder / "runs").iterdir())
    intercept = float(json.loads((run / "coordinator" / "model.json").read_text())["intercept"])
    return intercept + sum(part(job, name, n) for name in PARTIES)


def start(job: Job, command: str, name: str, *more: str) -> None:
    own = ["--name", name] if command != "serve" or name != "bank" else []
    given = [sys.executable, "-m", "plait", command, str(job.file), *own, *more]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with (job.folder / f"{name}.log").open("ab") as log:
        job.programs[name] = subprocess.Popen(given, stdout=log, stderr=log, env=env)


def predicted(job: Job) -> dict[str, dict[str, str]]:
    out = job.folder / "out.csv"
    for name in PARTIES:
        start(job, "predict", name, *(["--out", str(out)] if name == "bank" else []))
    assert [job.wait(name) for name in PARTIES] == [0, 0, 0], [job.log(name) for name in PARTIES]
    with out.open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def test_totals_are_the_pooled_scores_and_nothing_is_said_of_incomplete_rows(jobs: JobMaker) -> None:
    job = trained(jobs)
    found = predicted(job)
    for n in COMMON:
        assert float(found[f"n{n}"]["score"]) == pytest.approx(pooled(job, n), abs=1e-12)  # sums of rounded parts
    assert (found["n4"]["score"], found["n4"]["missing"]) == ("", "tele")
    assert (found["n7"]["score"], found["n7"]["missing"]) == ("", "shop")
    assert "bank learns the sum of the parts of shop and tele" in job.log("shop")
    start(job, "evaluate", "bank")
    for name in PARTIES[1:]:
        start(job, "predict", name)
    assert [job.wait(name) for name in PARTIES] == [0, 0, 0], [job.log(name) for name in PARTIES]
    assert "6 rows; also in" in job.log("bank")


def ask(port: int, *ids: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/scores", json.dumps({"ids": ids}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        connection.close()


def test_a_service_sums_masked_parts_and_goes_on_when_a_killed_party_is_back(jobs: JobMaker) -> None:
    job = trained(jobs)
    start(job, "serve", "bank", "--http", "127.0.0.1:0", "--decimals", "9")
    for name in PARTIES[1:]:
        start(job, "serve", name)
    job.until("bank", "serving scores on")
    match = re.search(r"serving scores on http://127.0.0.1:(\d+)/", job.log("bank"))
    assert match is not None
    port = int(match[1])
    for _ in range(2):
        status, answer = ask(port, "n5", "n4", "n0")
        assert status == 200, answer
        scores = {row["id"]: row for row in answer["scores"]}
        for n in (0, 5):
            assert scores[f"n{n}"]["score"] == pytest.approx(pooled(job, n), abs=1e-8)
        assert (scores["n4"]["score"], scores["n4"]["missing"]) == (None, ["tele"])
        job.kill("shop")
        assert ask(port, "n5")[0] == 503
        start(job, "serve", "shop")
        deadline = time.monotonic() + 60
        while ask(port, "n6")[0] != 200:
            assert time.monotonic() < deadline, job.log("shop")
            time.sleep(0.1)
    job.programs["bank"].send_signal(signal.SIGTERM)
    assert [job.wait(name) for name in PARTIES] == [0, 0, 0]


def test_the_mean_part_of_a_party_is_refused_with_sums(jobs: JobMaker) -> None:
    with pytest.raises(ConfigError, match='Set missing = "leave out" or "refuse"'):
        jobs(parties=PARTIES, method='name = "auto"', protection='"sums"', more='[scoring]\nmissing = "mean"\n')


def said_to(job: Job, *items: handshake.Control) -> tuple[list[Any], str]:
    """What the shop answers a coordinator that says these things, and its log."""
    heard: list[Any] = []
    run = max((job.folder / "runs").iterdir()).name

    def script(talk: Talk) -> None:
        for i, item in enumerate(items):
            talk.say(handshake.encode(item, i + 1))
            answer = talk.hear()
            while isinstance(answer, handshake.Alive):
                answer = talk.hear()
            heard.append(answer)

    with coordinator(job, script, phase="predict", run=run) as ended:
        start(job, "predict", "shop")
        assert isinstance(ended, threading.Event)
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    return heard, job.log("shop")


def test_a_coordinator_that_asks_for_unmasked_parts_gets_none(jobs: JobMaker) -> None:
    job = trained(jobs)
    heard, log = said_to(job, Query(["n0"]))
    assert not any(isinstance(each, Share) for each in heard)
    assert "a query must be under masks" in log


def test_a_key_in_the_name_of_an_absent_party_is_refused(jobs: JobMaker) -> None:
    job = trained(jobs)
    heard: list[Any] = []
    run = max((job.folder / "runs").iterdir()).name

    def script(talk: Talk) -> None:
        talk.say(handshake.encode(Meet([]), 1))
        own = talk.hear()
        assert isinstance(own, Meet)
        made = bytes.fromhex(own.keys[0]).replace(b"shop", b"tele", 1)  # the shop's own signature, another name
        talk.say(handshake.encode(Meet([own.keys[0], made.hex()]), 2))
        heard.append(talk.hear())

    with coordinator(job, script, phase="predict", run=run) as ended:
        start(job, "predict", "shop")
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    assert not isinstance(heard[0], Meet)
    assert "the key of tele must be signed by its certificate" in job.log("shop")
    assert run != RUN


def hexed(masks: ScoreMasks) -> str:
    return masks.announce().hex()


Words = Callable[[str, str, ScoreMasks, str], list[handshake.Control]]
"""Given the shop's keys of two meetings, the tele, and the run: what the coordinator says then."""
MOVES: dict[str, tuple[Words, str]] = {
    "the key of the meeting before": (
        lambda old, new, tele, run: [Meet([old, hexed(tele)])],
        "the key of shop must be its newest",
    ),
    "the own key under two names": (lambda old, new, tele, run: [Meet([new, new])], "the keys must be one each of"),
    "no other party": (lambda old, new, tele, run: [Meet([new])], "the keys must be one each of"),
    "a query without a meeting": (lambda old, new, tele, run: [Query(["n0"], run)], "a query must be under masks"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", [*MOVES, "queries under forgotten keys"])
def test_a_coordinator_that_breaks_a_meeting_learns_no_part(jobs: JobMaker, what: str) -> None:
    job, heard = trained(jobs), list[Any]()
    spec, run = read_job(job.file), max((job.folder / "runs").iterdir()).name
    tele = ScoreMasks(spec.digest, "tele", PARTIES[1:], *signing(hostile._identity(job, "tele"), {}))
    tele.join(hostile.KEY)

    def script(talk: Talk) -> None:
        seq = itertools.count(1)

        def asked(item: handshake.Control) -> Any:
            talk.say(handshake.encode(item, next(seq)))
            answer = talk.hear()
            while isinstance(answer, handshake.Alive):
                answer = talk.hear()
            return answer

        old = asked(Meet([])).keys[0]
        other = hexed(tele)
        assert asked(Meet([old, other])).keys == []
        meeting = meeting_of([bytes.fromhex(key) for key in (old, other)])
        first = asked(Query(["n0", "n1"], run, meeting, 0))
        again = asked(Query(["n0", "n1"], run, meeting, 0))
        assert first.digest == again.digest, "one mask, one vector"
        turned = asked(Query(["n1", "n0"], run, meeting, 0))
        assert not set(turned.vector.tolist()) & set(first.vector.tolist()), "other rows have other masks"
        new = asked(Meet([])).keys[0]
        if what in MOVES:
            heard.extend(asked(item) for item in MOVES[what][0](old, new, tele, run))
            return
        late = asked(Query(["n0"], run, meeting, 1))
        assert late.scalars.tolist() == [MEETING_OVER]
        assert not late.vector.any()
        talk.say(hostile.finished("enough", ok=False))
        talk.hear()
        heard.append(None)

    with coordinator(job, script, phase="predict", run=run) as ended:
        start(job, "predict", "shop")
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    assert len(heard) == 1, job.log("shop")
    assert not isinstance(heard[0], Share | Meet)
    assert MOVES.get(what, (None, "enough"))[1] in job.log("shop")


@pytest.mark.slow
def test_killed_at_random_masked_predictions_give_the_same_scores(jobs: JobMaker) -> None:
    job = trained(jobs)
    for name in PARTIES:
        with (job.folder / f"{name}.toml").open("a") as file:  # its last section is [trust]
            file.write("max_queries = 0\nmax_scores = 0\nscores_per_id = 0\n")
    expected, rng, kills = predicted(job), random.Random(1), 0
    while kills < 20:
        out = job.folder / "again.csv"
        out.unlink(missing_ok=True)
        options = {name: ["--out", str(out)] if name == "bank" else [] for name in PARTIES}
        for name in PARTIES:
            start(job, "predict", name, *options[name])
        deadline, left = time.monotonic() + 120, 3
        while not out.exists():
            assert time.monotonic() < deadline, [job.log(name)[-1500:] for name in PARTIES]
            time.sleep(rng.uniform(0.05, 1.5))
            name = rng.choice(PARTIES)
            if left and job.programs[name].poll() is None and not out.exists():
                job.kill(name)
                left, kills = left - 1, kills + 1
            for each in PARTIES:
                if job.programs[each].poll() is not None and not out.exists():
                    start(job, "predict", each, *options[each])
        assert job.wait("bank") == 0
        for name in PARTIES[1:]:
            job.kill(name)
        with out.open() as file:
            assert {row["id"]: row for row in csv.DictReader(file)} == expected
