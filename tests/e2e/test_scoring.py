"""Prediction by separate programs, in batch and as a service."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

from plait.cli.init import init
from plait.deployment.job_file import read_job
from plait.deployment.processes import free_port, throw_away_certificates
from plait.messages import Share
from plait.transports import handshake
from plait.transports.certificates import Folder

from . import hostile
from .conftest import Job


@pytest.fixture
def trained(tmp_path: Path) -> Iterator[Job]:
    """The example job, trained in a simulation."""
    from plait.cli.run import fit

    folder = tmp_path / "job"
    init(folder, example=True)
    path = folder / "job.toml"
    path.write_text(path.read_text().replace("7443", str(free_port())))
    throw_away_certificates(read_job(path), Folder(folder / "certs"))
    fit(path)
    job = Job(folder, ("bank", "shop"), "bank")
    yield job
    for program in job.programs.values():
        program.kill()
        program.wait()


def pooled_scores(job: Job, suffix: str) -> tuple[list[str], np.ndarray]:
    """The scores recomputed from the files alone."""
    import csv

    run = max((job.folder / "runs").iterdir())
    total = json.loads((run / "coordinator" / "model.json").read_text())["intercept"]
    for name in job.parties:
        with (job.folder / f"{name}{suffix}.csv").open() as file:
            rows = list(csv.DictReader(file))
        with (job.folder / f"{name}.csv").open() as file:
            fitted = list(csv.DictReader(file))
        content = json.loads((run / name / "weights.json").read_text())
        part: float | np.ndarray = 0.0
        for column, weight in zip(content["columns"], content["weights"], strict=True):
            if "=" in column:
                key, value = column.split("=")
                values = np.array([float(row[key] == value) for row in rows])
            else:
                old = np.array([float(row[column]) for row in fitted])
                values = (np.array([float(row[column]) for row in rows]) - old.mean()) / old.std()
            part = part + weight * values
        total = total + np.round(part, 3)  # every party rounds what leaves it
    return [row["customer"] for row in rows], np.asarray(total)


def run_command(job: Job, name: str, *arguments: str) -> None:
    import subprocess
    import sys

    log = (job.folder / f"{name}.log").open("ab")
    with log:
        job.programs[name] = subprocess.Popen(
            [sys.executable, "-m", "plait", arguments[0], str(job.file), *arguments[1:]], stdout=log, stderr=log
        )


def test_programs_predict_what_the_weights_say(trained: Job) -> None:
    run_command(trained, "bank", "predict", "--name", "bank", "--out", str(trained.folder / "out.csv"))
    run_command(trained, "shop", "predict", "--name", "shop")
    assert [trained.wait(n) for n in ("bank", "shop")] == [0, 0], trained.log("bank") + trained.log("shop")
    lines = (trained.folder / "out.csv").read_text().splitlines()[1:]
    ids, expected = pooled_scores(trained, "-new")
    assert [line.split(",")[0] for line in lines] == ids
    np.testing.assert_allclose([float(line.split(",")[1]) for line in lines], expected, atol=1e-9)
    run_command(trained, "bank", "evaluate", "--name", "bank")
    run_command(trained, "shop", "predict", "--name", "shop")
    assert [trained.wait(n) for n in ("bank", "shop")] == [0, 0], trained.log("bank")
    assert "AUC" in trained.log("bank")
    assert "log loss" in trained.log("bank")
    assert "mean loss" not in trained.log("bank")  # the same number
    page = (max((trained.folder / "runs").iterdir()) / "coordinator" / "report.html").read_text()
    assert "Metrics, training rows" in page
    assert "Metrics, new rows" in page


@pytest.mark.threat("coordinator", "a run of another job, for its scores", "a run is scored for its own job only")
@pytest.mark.parametrize("other", ["name", "settings"])
def test_a_run_of_another_job_is_not_scored_and_one_of_other_settings_is(trained: Job, other: str) -> None:
    (run,) = (path.name for path in (trained.folder / "runs").iterdir())
    text = trained.file.read_text()
    changed = (
        text.replace('name = "credit"', 'name = "another"')
        if other == "name"
        else text.replace("[stopping]", "[stopping]\nmax_seconds = 1000.0")
    )
    assert changed != text
    trained.file.write_text(changed)
    answers = []

    def script(talk: hostile.Talk) -> None:
        talk.say(handshake.encode(handshake.Query(["c100000", "c100001"]), 1))
        answers.append(talk.hear())
        talk.say(hostile.finished())

    with hostile.coordinator(trained, script, "predict", run) as ended:
        run_command(trained, "shop", "predict", "--name", "shop")
        assert ended.wait(60)
    if other == "settings":
        assert isinstance(answers[0], Share), trained.log("shop")
    else:
        assert trained.wait("shop") == 1
        assert not answers
        assert "must be of the job 'another'" in trained.log("shop")


def post(port: int, body: bytes) -> tuple[int, dict[str, object]]:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/scores", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_service_scores_rounds_and_limits(trained: Job) -> None:
    port = free_port()
    run_command(trained, "bank", "serve", "--http", f"127.0.0.1:{port}", "--per-minute", "10", "--decimals", "2")
    run_command(trained, "shop", "serve", "--name", "shop")
    trained.until("bank", "serving scores on")
    ids, expected = pooled_scores(trained, "-new")
    status, answer = post(port, json.dumps({"ids": [ids[0], "nobody", ids[7]]}).encode())
    assert status == 200
    assert answer["scores"] == [
        {"id": ids[0], "score": round(expected[0], 2), "probability": round(float(expit(expected[0])), 2)},
        {"id": "nobody", "score": None, "missing": ["bank", "shop"], "policy": "left out"},
        {"id": ids[7], "score": round(expected[7], 2), "probability": round(float(expit(expected[7])), 2)},
    ]
    for body in (b"", b"{}", b'{"ids": []}', b'{"ids": [1]}', json.dumps({"ids": ["x"] * 101}).encode()):
        assert post(port, body)[0] == 400
    assert post(port, json.dumps({"ids": ["x"] * 9}).encode())[0] == 429
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/openapi.json", timeout=10) as answer_:
        assert json.loads(answer_.read())["openapi"] == "3.1.0"
    trained.programs["bank"].send_signal(signal.SIGINT)
    assert trained.wait("shop") == 0, trained.log("shop")
    trained.wait("bank")
