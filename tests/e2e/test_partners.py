"""What each partner brings: the label party alone, with one partner, and all together, by separate programs."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from plait.deployment.pairs import pair_runs
from plait.deployment.run_folder import RunFolder

from .conftest import Job, JobMaker

PARTIES = ("bank", "shop", "tele")
REPORT = "[report]\npartners = true\n"
ALIGNED = "[alignment]\nmin_rows = 5\n"
TRAINED, NEW = 400, 200  # rows: with fewer the four models hardly differ
ALPHA = 1e-3  # as the job says


def three(jobs: JobMaker, protection: str = '"plain"', more: str = REPORT, patience: float = 60) -> Job:
    """Three organisations, each with its rows in an order of its own, some of which the others lack; new rows apart."""
    job = jobs(
        parties=PARTIES,
        rows=TRAINED + NEW,
        width=3,
        tol=1e-9,
        method='name = "auto"',
        more=ALIGNED + more,
        protection=protection,
        patience=patience,
    )
    rng = np.random.default_rng(1)
    for place, name in enumerate(PARTIES):
        header, *lines = (job.folder / f"{name}.csv").read_text().splitlines()
        kept = [line for i, line in enumerate(lines[:TRAINED]) if i % 40 != place]
        write(job.folder / f"{name}.csv", header, [kept[i] for i in rng.permutation(len(kept))])
        write(job.folder / f"{name}-new.csv", header, [lines[TRAINED + i] for i in rng.permutation(NEW)])
        path = job.folder / f"{name}.toml"
        text = path.read_text().replace("[data]\n", f'[data]\nscore = "{name}-new.csv"\n')
        # The last section is [trust].  The new rows use up the minute of a party; its pair belongs to the same batch.
        path.write_text(text + f"score_decimals = 9\nmax_queries = {NEW}\n")
    return job


def write(path: Path, header: str, lines: list[str]) -> None:
    path.write_text("\n".join([header, *lines]) + "\n")


def table(path: Path) -> dict[str, dict[str, float]]:
    with path.open() as file:
        return {row["id"]: {k: float(v) for k, v in row.items() if k != "id"} for row in csv.DictReader(file)}


def pooled(job: Job, parties: tuple[str, ...], common: bool = True) -> tuple[float, float]:
    """Log loss and AUC, on the new rows, of scikit-learn's model on the pooled columns of these parties."""
    old = {name: table(job.folder / f"{name}.csv") for name in PARTIES}
    new = {name: table(job.folder / f"{name}-new.csv") for name in PARTIES}
    rows = sorted(set.intersection(*(set(old[name]) for name in (PARTIES if common else ("bank",)))))

    def matrix(tables: dict[str, dict[str, dict[str, float]]], ids: list[str]) -> np.ndarray:
        return np.array([[tables[p][i][c] for p in parties for c in "abc"] for i in ids])

    def labels(tables: dict[str, dict[str, dict[str, float]]], ids: list[str]) -> np.ndarray:
        return np.array([tables["bank"][i]["y"] for i in ids])

    scaler, test = StandardScaler().fit(matrix(old, rows)), sorted(new["bank"])
    model = LogisticRegression(C=1 / (ALPHA * len(rows)), tol=1e-10, max_iter=10_000)
    model.fit(scaler.transform(matrix(old, rows)), labels(old, rows))
    chances = model.predict_proba(scaler.transform(matrix(new, test)))[:, 1]
    return log_loss(labels(new, test), chances), roc_auc_score(labels(new, test), chances)


def evaluate(job: Job) -> None:
    """All programs of one evaluation."""
    commands = {name: ["evaluate" if name == "bank" else "predict", "--name", name, "--yes"] for name in PARTIES}
    for name, words in commands.items():
        with (job.folder / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-m", "plait", words[0], str(job.file), *words[1:]]
            job.programs[name] = subprocess.Popen(command, stdout=log, stderr=log)
    finish(job)


def finish(job: Job) -> None:
    codes = {name: job.wait(name) for name in PARTIES}
    assert not any(codes.values()), "\n".join(f"{name}: {job.log(name)}" for name in PARTIES)


def shown(job: Job) -> dict[str, list[float]]:
    """Each model's row of the report: the rows that it was trained on, log loss, AUC and so on."""
    run = min((job.folder / "runs").glob("*/coordinator"))
    page = (run / "report.html").read_text()
    body = page[page.index("What the partners brought: new rows") :]
    body = body[: body.index("</table>")]
    rows = re.findall(r'<th scope="row">([^<]*)</th>(.*?)</tr>', body, re.S)
    cells = {name: re.findall(r'<td class="number">([\d.,]+)', rest) for name, rest in rows}
    return {name: [float(cell.replace(",", "")) for cell in found] for name, found in cells.items()}


@pytest.mark.parametrize("protection", ['"plain"', pytest.param('"labels"', marks=pytest.mark.slow)])
def test_every_model_of_the_report_is_that_of_the_pooled_columns(jobs: JobMaker, protection: str) -> None:
    job = three(jobs, protection)
    for name in PARTIES:
        job.start(name, "--yes")
    finish(job)
    assert "followed by one of bank and shop alone" in job.log("shop")
    evaluate(job)
    found = shown(job)
    assert list(found) == ["bank alone", "bank with shop", "bank with tele", "all together"]
    for name, parties in (
        ("bank alone", ("bank",)),
        ("bank with shop", ("bank", "shop")),
        ("bank with tele", ("bank", "tele")),
        ("all together", PARTIES),
    ):
        rows, loss, auc, *_ = found[name]
        assert rows == (390 if name == "bank alone" else 370), "ten rows are missing at each party"
        assert (loss, auc) == pytest.approx(pooled(job, parties, name != "bank alone"), abs=2e-4), name


def test_a_coordinator_that_was_killed_goes_on_with_the_pairs(jobs: JobMaker) -> None:
    job = three(jobs)
    job.start("tele", "--yes")
    job.start("shop", "--yes")
    job.start("bank", "--yes")
    job.until("bank", "bank with shop: run")
    job.kill("bank")
    before = sorted((job.folder / "runs").iterdir())
    job.start("bank", "--yes")
    finish(job)
    assert "is finished, but for its pairs" in job.log("bank")
    after = sorted((job.folder / "runs").iterdir())
    assert after[: len(before)] == before
    assert len(after) == 3, "one run of all, and one for each partner"
    kept = pair_runs(RunFolder(after[0] / "coordinator"))
    assert kept == {"shop": after[1].name, "tele": after[2].name}


def test_a_pair_beyond_a_limit_leaves_the_others(jobs: JobMaker) -> None:
    job = three(jobs, patience=20)
    path = job.folder / "shop.toml"
    path.write_text(path.read_text() + "max_rounds = 8\n")
    for name in PARTIES:
        job.start(name, "--yes")
    assert [job.wait(name) for name in PARTIES] == [1, 1, 0], job.log("bank")
    assert "bank with shop: not trained. party 'shop' cannot go on" in job.log("bank")
    assert "this party gives 8 rounds on these data" in job.log("shop")
    assert "The model of all parties is finished" in job.log("bank")
    assert len(list((job.folder / "runs").glob("*/tele/weights.json"))) == 2
