"""New rows in any order, under ids that each party writes in its own way, some of them missing somewhere."""

import csv
import http.client
import json
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from .conftest import Job, JobMaker

RULES = '[alignment]\ncase = "fold"\nmin_rows = 5\n'
COLUMNS = "abcd"


def rows(party: int, numbers: list[int]) -> dict[int, list[float]]:
    """The new rows of a party, by number."""
    return {n: [round(0.1 * (n % 7) - 0.2 * party, 3), 0.01 * n, -0.3, 0.05 * (n % 3)] for n in numbers}


BANK = rows(0, [9, 3, 5, 1, 7, 2, 8, 4])
SHOP = rows(1, [1, 2, 3, 4, 5, 9, 20, 21])  # lacks 7 and 8
COMMON = [9, 3, 5, 1, 2, 4]


def trained(jobs: JobMaker, more: str) -> Job:
    """A trained job whose parties have new rows."""
    job = jobs(rows=120, rounds=4, more=more)
    for name, new, written in (("bank", BANK, "n{}"), ("shop", SHOP, "  N{} ")):
        lines = ["id," + ",".join(COLUMNS)]
        lines += [",".join([written.format(n), *map(repr, values)]) for n, values in new.items()]
        (job.folder / f"{name}-new.csv").write_text("\n".join(lines) + "\n")
        path = job.folder / f"{name}.toml"
        path.write_text(path.read_text().replace("[data]\n", f'[data]\nscore = "{name}-new.csv"\n'))
    plait(job, "fit", "--yes")
    return job


def plait(job: Job, command: str, *more: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "plait", command, str(job.file), *more], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def part(job: Job, name: str, values: list[float]) -> float:
    """One party's rounded part of a score, from its files alone."""
    run = max((job.folder / "runs").iterdir())
    weights = json.loads((run / name / "weights.json").read_text())["weights"]
    table = [line.split(",")[1:5] for line in (job.folder / f"{name}.csv").read_text().splitlines()[1:]]
    fitted = np.array(table, dtype=float)
    return round(float((np.array(values) - fitted.mean(axis=0)) / fitted.std(axis=0) @ weights), 3)


def intercept(job: Job) -> float:
    run = max((job.folder / "runs").iterdir())
    return float(json.loads((run / "coordinator" / "model.json").read_text())["intercept"])


def table(path: Path) -> dict[str, dict[str, str]]:
    with path.open() as file:
        return {row["id"]: row for row in csv.DictReader(file)}


def check_common(job: Job, found: dict[str, dict[str, str]]) -> None:
    for n in COMMON:
        expected = intercept(job) + part(job, "bank", BANK[n]) + part(job, "shop", SHOP[n])
        assert float(found[f"n{n}"]["score"]) == pytest.approx(expected, abs=1e-9)
        assert (found[f"n{n}"]["missing"], found[f"n{n}"]["policy"]) == ("", "")


def together(job: Job, *more: str) -> dict[str, dict[str, str]]:
    """`plait predict` by two programs."""
    out = job.folder / "out.csv"
    for name, options in (("bank", ["--out", str(out), *more]), ("shop", [])):
        command = [sys.executable, "-m", "plait", "predict", str(job.file), "--name", name, "--yes", *options]
        with (job.folder / f"predict-{name}.log").open("wb") as log:
            job.programs[f"predict-{name}"] = subprocess.Popen(command, stdout=log, stderr=log)
    for name in ("bank", "shop"):
        assert job.wait(f"predict-{name}") == 0, job.log("predict-bank") + job.log("predict-shop")
    return table(out)


def test_rows_that_the_label_party_lists_are_joined_by_the_rules_of_the_job(jobs: JobMaker) -> None:
    job = trained(jobs, RULES + '[scoring]\njoin = "list"\nmissing = "mean"\n')
    found = together(job)
    assert list(found) == [f"n{n}" for n in BANK], "the label party's order"
    check_common(job, found)
    mean = part(job, "shop", list(np.mean(trained_rows(job), axis=0)))
    for n in (7, 8):
        assert (found[f"n{n}"]["missing"], found[f"n{n}"]["policy"]) == ("shop", "mean")
        expected = intercept(job) + part(job, "bank", BANK[n]) + mean
        assert float(found[f"n{n}"]["score"]) == pytest.approx(expected, abs=1e-3)
    (job.folder / "ids.txt").write_text(" N4\nn20\nn99\n")
    listed = together(job, "--ids", str(job.folder / "ids.txt"))
    assert list(listed) == ["N4", "n20", "n99"]
    assert listed["N4"]["score"] == found["n4"]["score"]
    assert (listed["n20"]["missing"], listed["n20"]["policy"]) == ("bank", "mean")
    assert (listed["n99"]["score"], listed["n99"]["policy"]) == ("", "left out")


def trained_rows(job: Job) -> list[list[float]]:
    """The shop's training rows."""
    lines = (job.folder / "shop.csv").read_text().splitlines()[1:]
    return [[float(v) for v in line.split(",")[1:5]] for line in lines]


def test_rows_are_joined_privately_where_the_job_aligns(jobs: JobMaker) -> None:
    job = trained(jobs, RULES + '[scoring]\nmissing = "leave out"\n')
    found = together(job)
    assert list(found) == [f"n{n}" for n in BANK]
    check_common(job, found)
    for n in (7, 8):
        assert (found[f"n{n}"]["score"], found[f"n{n}"]["policy"]) == ("", "left out")
        assert found[f"n{n}"]["missing"] == "shop", "of two parties it is the other one"
    assert together(job) == found, "the same rows need no second alignment"
    assert len(list((job.folder / "alignments").iterdir())) == 2, "one for training, one for scoring"
    assert '"parcel' in (max((job.folder / "alignments").iterdir()) / "shop" / "audit.jsonl").read_text()


def test_after_a_private_join_mean_parts_stand_in_and_a_service_shows_no_other_id(jobs: JobMaker) -> None:
    job = trained(jobs, RULES + '[scoring]\nmissing = "mean"\n')
    found = together(job)
    check_common(job, found)
    mean = part(job, "shop", list(np.mean(trained_rows(job), axis=0)))
    for n in (7, 8):
        assert (found[f"n{n}"]["missing"], found[f"n{n}"]["policy"]) == ("shop", "mean")
        expected = intercept(job) + part(job, "bank", BANK[n]) + mean
        assert float(found[f"n{n}"]["score"]) == pytest.approx(expected, abs=1e-3)
    for name, more in (("bank", ["--http", "127.0.0.1:0"]), ("shop", ["--name", "shop"])):
        command = [sys.executable, "-m", "plait", "serve", str(job.file), "--yes", *more]
        with (job.folder / f"serve-{name}.log").open("wb") as log:
            job.programs[f"serve-{name}"] = subprocess.Popen(command, stdout=log, stderr=log)
    job.until("serve-bank", "serving scores on")
    assert "6 rows are common. The other parties see which of these are asked for" in job.log("serve-bank")
    port = re.search(r"serving scores on http://127.0.0.1:(\d+)/", job.log("serve-bank"))
    assert port is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=30)
    connection.request(
        "POST", "/scores", json.dumps({"ids": ["N9 ", "n7", "n20"]}), {"Content-Type": "application/json"}
    )
    rows = json.loads(connection.getresponse().read())["scores"]
    connection.close()
    assert rows[0]["score"] == pytest.approx(float(found["n9"]["score"]), abs=1e-3)
    assert (rows[1]["missing"], rows[1]["policy"]) == (["shop"], "mean")
    assert rows[1]["score"] == pytest.approx(float(found["n7"]["score"]), abs=1e-3)
    assert (rows[2]["score"], rows[2]["missing"]) == (None, ["bank", "shop"]), "only the shop has it: nobody is asked"
    with sqlite3.connect(job.folder / "shop.scores.sqlite") as store:
        asked = {row[0] for row in store.execute("select id from ids")}
    assert asked == {f"n{n}" for n in COMMON} | {""}, "the shop has seen no id beyond the common ones"


def test_more_rows_than_a_minutes_allowance_are_one_batch_and_the_next_one_waits(jobs: JobMaker) -> None:
    job = jobs(rows=120, rounds=4)
    for name in job.parties:
        lines = ["id,a,b,c,d,y", *(f"n{n},{n % 7},0.{n % 9},{n % 3},1,{n % 2}" for n in range(2400))]
        (job.folder / f"{name}-new.csv").write_text("\n".join(lines) + "\n")
        path = job.folder / f"{name}.toml"
        path.write_text(path.read_text().replace("[data]\n", f'[data]\nscore = "{name}-new.csv"\n'))
    plait(job, "fit")
    assert "2400 rows" in plait(job, "evaluate"), "the limits are the default ones"
    with sqlite3.connect(job.folder / "shop.scores.sqlite") as store:
        assert store.execute("select given from runs").fetchone() == (2400,), "each row counts in the limit of the run"
        assert store.execute("select left_over from minute").fetchone()[0] < 500, "and the minute is used up"
    path = job.folder / "bank.toml"
    path.write_text(path.read_text().replace("[trust]\n", "[trust]\nmax_queries = 6000\n"))  # 500 in five seconds
    with sqlite3.connect(job.folder / "bank.scores.sqlite") as store:
        store.execute("update minute set left_over = 0, seen = ?", (time.time() + 2,))
    assert plait(job, "predict").count("bank has given all scores of this minute") == 1


def test_a_missing_row_is_refused_by_default_and_another_policy_needs_no_new_training(jobs: JobMaker) -> None:
    job = trained(jobs, RULES + '[scoring]\njoin = "list"\n')
    said = plait(job, "predict", code=1)
    assert "2 of 8 that are not, at shop: n7, n8" in said
    assert not list(job.folder.glob("runs/*/coordinator/scores.csv"))
    job.file.write_text(job.file.read_text() + 'missing = "leave out"\n')
    said = plait(job, "predict", "--out", str(job.folder / "out.csv"))
    run = max((job.folder / "runs").iterdir()).name
    assert f"model of run {run}, trained 2" in said
    assert "on 120 rows" in said
    assert "6 scores in" in said
    assert "2 rows have none" in said
    check_common(job, table(job.folder / "out.csv"))


def test_a_newer_run_that_failed_is_named(jobs: JobMaker) -> None:
    job = trained(jobs, RULES + '[scoring]\njoin = "list"\nmissing = "leave out"\n')
    good = max((job.folder / "runs").iterdir()).name
    path = job.folder / "shop.toml"
    kept_file = path.read_text()
    path.write_text(kept_file.replace("[trust]", "[trust]\nmin_columns = 9"))
    plait(job, "fit", "--yes", code=1)
    path.write_text(kept_file)
    bad = max((job.folder / "runs").iterdir()).name
    assert bad != good
    said = plait(job, "predict")
    assert f"model of run {good}" in said
    assert f"not of the newer run {bad}: it is failed" in said
