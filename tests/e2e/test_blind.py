"""A blind machine between two owners, as three programs: the plain model, resumed with the same bits."""

import json
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plait
from plait.deployment.job_file import read_job
from plait.deployment.processes import free_port
from plait.errors import ConfigError
from plait.transports import certificate_authority
from plait.transports.certificates import Folder

from .conftest import Job, JobMaker
from .test_kills import JOURNAL, kill_at_random
from .test_protection import cut, with_rows

ROWS = 1200
NAMES = ("machine", "bank", "shop")


@dataclass
class BlindJob(Job):
    """A job whose coordinator is a program of its own; `same_secrets`: see with_same_secrets.py."""

    same_secrets: bool = False

    @property
    def everybody(self) -> tuple[str, ...]:
        return NAMES

    def command(self, name: str, *more: str) -> list[str]:
        program = [str(Path(__file__).with_name("with_same_secrets.py"))] if self.same_secrets else ["-m", "plait"]
        role = ["blind", str(self.file)] if name == "machine" else ["party", str(self.file), "--name", name]
        return [sys.executable, *program, *role, *more]


def blind(jobs: JobMaker, *changes: tuple[str, str]) -> BlindJob:
    """The job of the other tests, with a third program that coordinates."""
    job = jobs(parties=("bank", "shop"), rows=ROWS, method='name = "auto"', tol=1e-9, protection='"labels"')
    text = job.file.read_text().replace('protection = "labels"', 'protection = "blind"')
    text = text.replace('name = "bank"\naddress', 'name = "machine"\naddress')
    text += f'[blind]\nlabel_party = "bank"\nrows = {ROWS}\n[scoring]\naddress = "127.0.0.1:{free_port()}"\n'
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    job.file.write_text(text)
    folder = Folder(job.folder / "certs")  # the bank's authority signs the machine's certificate
    certificate_authority.sign_request(folder, certificate_authority.make_request(folder, "machine"))
    return BlindJob(job.folder, job.parties, "machine", job.programs)


def table(job: Job, name: str) -> np.ndarray:
    lines = [line.split(",")[1:] for line in (job.folder / f"{name}.csv").read_text().splitlines()[1:]]
    return np.array(lines, dtype=float)


def weights(job: Job, name: str) -> np.ndarray:
    (path,) = (job.folder / "runs").glob(f"*/{name}/weights.json")
    return np.array(json.loads(path.read_text())["weights"])


def pooled(job: Job) -> plait.Fit:
    """The same model, plain, from the files alone."""
    x = {name: table(job, name)[:, :4] for name in ("bank", "shop")}
    scaled = {name: (v - v.mean(axis=0)) / v.std(axis=0) for name, v in x.items()}
    strict = plait.Stopping(tol=1e-10, max_rounds=100)
    return plait.fit(scaled, table(job, "bank")[:, 4], penalty=plait.L2(1e-3), fit_intercept=True, stopping=strict)


def check(job: Job) -> None:
    expected: Any = pooled(job)
    for name in ("bank", "shop"):
        np.testing.assert_allclose(weights(job, name), expected.weights[name], atol=2e-6)
    (path,) = (job.folder / "runs").glob("*/bank/model.json")
    assert json.loads(path.read_text())["intercept"] == pytest.approx(expected.intercept, abs=1e-6)


def check_predictions(job: Job) -> None:
    """The label party asks for scores, without the machine; what it learns by nature is said and accepted before."""
    new = {"bank": np.array([[0.3, -1.0, 2.0, 0.1], [1.0, 0.0, -0.5, 0.2]]), "shop": np.array([[0.5] * 4, [-0.5] * 4])}
    for name, rows in new.items():
        lines = [",".join([f"n{i}", *map(repr, map(float, row))]) for i, row in enumerate(rows)]
        (job.folder / f"{name}-new.csv").write_text("\n".join(["id,a,b,c,d", *lines]) + "\n")
    out = job.folder / "out.csv"
    for name, more in (("bank", ["--out", str(out)]), ("shop", [])):
        rows_file = ["--rows", f"{name}-new.csv"]
        command = [sys.executable, "-m", "plait", "predict", str(job.file), "--name", name, *rows_file, *more]
        with (job.folder / f"predict-{name}.log").open("wb") as log:
            job.programs[f"predict-{name}"] = subprocess.Popen(command, stdout=log, stderr=log)
    assert [job.wait(f"predict-{n}") for n in new] == [0, 0], [job.log(f"predict-{n}") for n in new]
    assert "a prediction shows shop's part of the score of every new row to bank" in job.log("predict-shop")
    (path,) = (job.folder / "runs").glob("*/bank/model.json")
    expected = np.full(2, json.loads(path.read_text())["intercept"])
    for name, rows in new.items():
        fitted = table(job, name)[:, :4]
        expected += np.round((rows - fitted.mean(axis=0)) / fitted.std(axis=0) @ weights(job, name), 3)
    found = [float(line.split(",")[1]) for line in out.read_text().splitlines()[1:]]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_three_programs_train_the_plain_model(jobs: JobMaker) -> None:
    job = blind(jobs)
    for name in NAMES:
        job.start(name)
    assert [job.wait(name) for name in NAMES] == [0, 0, 0], [job.log(name) for name in NAMES]
    check(job)
    assert "machine sees them under random signs" in job.log("bank")
    machine = max((job.folder / "runs").glob("*/coordinator"))
    assert json.loads((machine / "model.json").read_text())["intercept"] == 0.0, "it does not know the intercept"
    assert json.loads((machine / "model.json").read_text())["metrics"] == {}
    assert not list(job.folder.rglob("protection.json"))  # the secrets of a finished run are gone
    check_predictions(job)
    for words in ("doctor", "runs"):
        done = subprocess.run([sys.executable, "-m", "plait", words, str(job.file)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr  # at the machine, which has no file of its own


POINTS = {
    "machine, hints taken but not journalled": ("machine", f"{JOURNAL}.append_behind", "before", 2),
    "label party, labels journalled but not sent": ("bank", f"{JOURNAL}.append", "after", 2),
    "other party, a share journalled but not sent": ("shop", f"{JOURNAL}.append", "after", 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_killed_program_goes_on(jobs: JobMaker, point: tuple[str, str, str, int]) -> None:
    name, function, when, count = point
    job = blind(jobs)
    for each in NAMES:
        job.start(each, killed_at=(function, when, str(count)) if each == name else None)
    assert job.wait(name) == -9
    job.start(name)
    assert [job.wait(each) for each in NAMES] == [0, 0, 0], [job.log(each) for each in NAMES]
    check(job)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_random_kills_of_a_blind_machine_change_nothing(jobs: JobMaker, seed: int) -> None:
    """At least 20 kills a seed, 100 in all, of the machine or of an owner, or of all: the same bits as without."""
    job = blind(jobs, ("tol = 1e-09", "tol = 0.0"), ("max_rounds = 40", "max_rounds = 800"))
    job.same_secrets = True
    results = []
    for kills in (0, 20):
        assert kill_at_random(job, random.Random(seed), kills) >= kills
        (model,) = (job.folder / "runs").glob("*/bank/model.json")
        results.append((job.result(), model.read_text()))
        shutil.rmtree(job.folder / "runs")
    assert results[0] == results[1]


def test_owners_with_other_rows_refuse_before_anything_is_sent(jobs: JobMaker) -> None:
    job = blind(jobs)
    path = job.folder / "shop.csv"
    head, first, second, *rest = path.read_text().splitlines()
    path.write_text("\n".join([head, second, first, *rest]) + "\n")
    for name in NAMES:
        job.start(name)
    assert [job.wait(name) != 0 for name in NAMES] == [True] * 3
    assert "both parties must hold the same rows in the same order" in job.log("bank") + job.log("shop")


def test_a_blind_run_with_other_rows_than_before_is_refused(jobs: JobMaker) -> None:
    """The machine would find the row that only one of two runs has, by how scores move, and with it its label."""
    job = blind(jobs, (f"rows = {ROWS}", f"rows = {ROWS - 100}"))
    with_rows(job, ROWS, None)
    cut(job, ROWS - 100)
    for name in ("machine", "bank"):
        job.start(name)
    assert job.wait("bank") != 0
    assert f"must be {ROWS - 100} or more together: a blind machine and the other party" in job.log("bank")
    assert "Found 100" in job.log("bank")
    assert "set trust.accept_other_rows = true in bank.toml" in job.log("bank")
    assert not list(job.folder.glob("runs/*/bank")), "it has joined no run"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ([('loss = "logistic"', 'loss = "poisson"')], "needs a loss that is the same for -y and -z"),
        ([('label_party = "bank"', 'label_party = "machine"')], "whose label_party is one"),
        ([('name = "machine"', 'name = "bank"')], "a coordinator that is no party"),
        ([("[blind]", '[alignment]\ncase = "fold"\n[blind]')], "the same rows from both parties"),
        ([('protection = "blind"', 'protection = "labels"')], 'goes with protection = "blind"'),
        ([('parties = ["bank", "shop"]', 'parties = ["bank", "shop", "tele"]')], "works for 2 parties"),
        ([('loss = "logistic"', 'loss = "logistic"\nweighted = true')], "counts all rows alike"),
        ([('name = "l2", alpha = 1e-3', 'name = "non-negative"')], "goes with the penalties l2, l1"),
    ],
)
def test_what_a_blind_machine_cannot_do_is_refused(jobs: JobMaker, changes: list[tuple[str, str]], found: str) -> None:
    job = blind(jobs, *changes)
    with pytest.raises(ConfigError, match=found):
        read_job(job.file)


def test_other_programs_of_a_blind_job_say_what_to_run(jobs: JobMaker) -> None:
    job = blind(jobs)
    job.file.write_text(re.sub("address = .*\n$", "", job.file.read_text()))  # the one of [scoring]
    for command, found in (
        (["coordinator"], "Run `plait blind` there"),
        (["predict", "--name", "bank"], "Set scoring.address"),
    ):
        given = [sys.executable, "-m", "plait", command[0], str(job.file), *command[1:]]
        done = subprocess.run(given, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        assert found in done.stderr


def test_the_report_of_an_evaluation_keeps_what_the_run_protected(jobs: JobMaker) -> None:
    """Predictions of a blind job have no machine, and the label party as their coordinator; its training had both."""
    job = blind(jobs)
    for name in NAMES:
        job.start(name)
    assert [job.wait(name) for name in NAMES] == [0, 0, 0], [job.log(name) for name in NAMES]
    (report,) = (job.folder / "runs").glob("*/bank/report.html")
    assert "Measure it on new rows" in report.read_text()
    rng = np.random.default_rng(5)
    for name, more in (("bank", ["y"]), ("shop", [])):
        rows = [[f"n{i}", *map(repr, rng.standard_normal(4).tolist()), *("01"[i % 2] for _ in more)] for i in range(60)]
        lines = [",".join(row) for row in [["id", *"abcd", *more], *rows]]
        (job.folder / f"{name}-new.csv").write_text("\n".join(lines) + "\n")
        words = ["evaluate", str(job.file), "--name", name, "--rows", f"{name}-new.csv"]
        with (job.folder / f"evaluate-{name}.log").open("wb") as log:
            job.programs[name] = subprocess.Popen([sys.executable, "-m", "plait", *words], stdout=log, stderr=log)
    assert [job.wait(name) for name in ("bank", "shop")] == [0, 0], job.log("evaluate-bank") + job.log("evaluate-shop")
    page = report.read_text()
    assert "What the partners brought: new rows" in page
    assert "at a blind machine" in page
    assert "Each party has sent" in page
    assert "vectors of 1,200 numbers: its partial scores" not in page, "nobody has read them"
