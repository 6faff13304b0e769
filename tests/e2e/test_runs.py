"""From a raw table to runs that can be listed, compared and forgotten, by the commands that a user types."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from plait.cli.app import app

runner = CliRunner(env={"COLUMNS": "160"})


def run(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output + str(result.exception or "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two raw tables of the same people: one as a German spreadsheet writes it, one plain."""
    rng = np.random.default_rng(0)
    turnover, size, orders = rng.normal(2000, 900, 300), rng.normal(size=300), rng.normal(size=300)
    late = turnover / 900 + size - orders + rng.logistic(size=300) > 2000 / 900
    lines = ["Kunde;Umsatz;Größe;Region;Seit;Ausfall"]
    for i in range(300):
        mark = f"{turnover[i]:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")
        day = f"{1 + i % 28:02d}.03.2020"
        region = ("Nord", "Süd")[i % 2]
        lines.append(
            f"k{i:03d};{mark};{f'{size[i]:.3f}'.replace('.', ',')};{region};{day};{('nein', 'ja')[int(late[i])]}"
        )
    (tmp_path / "kunden.csv").write_bytes("\r\n".join(lines).encode("cp1252"))
    text = "customer,orders,visits\n" + "".join(f"k{i:03d},{orders[i]:.4f},{i % 7}\n" for i in range(300))
    (tmp_path / "shop.csv").write_text(text)
    run("init", str(tmp_path), "--name", "bank", "--data", str(tmp_path / "kunden.csv"))
    run(
        "init",
        str(tmp_path),
        "--name",
        "shop",
        "--data",
        str(tmp_path / "shop.csv"),
        "--job",
        str(tmp_path / "job.toml"),
    )
    return tmp_path


def test_two_raw_tables_become_a_model_without_an_editor(folder: Path) -> None:
    said = run("fit", str(folder / "job.toml"), "--yes")
    assert "model and report in" in said
    (weights,) = folder.glob("runs/*/bank/weights.json")
    assert json.loads(weights.read_text())["columns"] == ["Umsatz", "Größe", "Seit", "Region=Nord", "Region=Süd"]
    (model,) = folder.glob("runs/*/coordinator/model.json")
    assert json.loads(model.read_text())["metrics"]["AUC"] > 0.8


def test_no_command_replaces_a_file(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert "must not exist yet" in run("init", str(folder), "--name", "bank", code=1)
    assert "must not exist yet" in run("init", str(folder), "--example", code=1)
    assert "each party once" in run("init", str(folder / "other"), "--parties", "shop,shop", code=1)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_runs_are_listed_compared_and_forgotten(folder: Path) -> None:
    job = folder / "job.toml"
    run("fit", str(job), "--yes")
    job.write_text(job.read_text().replace("tol = 1e-6", "tol = 1e-4"))
    run("fit", str(job), "--yes")
    newer, older = json.loads(run("runs", str(job), "--json"))
    assert newer["differs"] == {}
    assert older["differs"] == {"stopping.tol": 1e-6}
    assert older["state"] == "finished"
    assert older["rows"] == 300
    assert "stopping.tol = 1e-06" in " ".join(run("runs", str(job)).split())
    assert "AUC" in run("show", str(job), older["run"])


def test_why_a_run_failed_stands_below_the_table(folder: Path) -> None:
    with (folder / "shop.toml").open("a") as file:
        file.write("\n[privacy]\nepsilon = 3.0\n")
    run("fit", str(folder / "job.toml"), "--yes", code=1)
    (failed,) = json.loads(run("runs", str(folder / "job.toml"), "--json"))
    assert failed["state"] == "failed"
    *_, last = run("runs", str(folder / "job.toml")).splitlines()
    assert last.startswith(f"{failed['run']}: ")
    assert "sets a budget" in last


def test_a_forgotten_run_leaves_its_log_and_nothing_of_the_model_or_the_columns(folder: Path) -> None:
    job = folder / "job.toml"
    run("fit", str(job), "--yes")
    (made,) = json.loads(run("runs", str(job), "--json"))
    said = run("forget", str(job), made["run"], "--yes")
    assert "model.json" in said
    assert "weights.json" in said
    assert "--name shop" in said  # a simulated run: the shop's part is there, too, and is the shop's
    assert "weights.json" in run("forget", str(job), made["run"], "--name", "shop", "--yes")
    left = {path.name for path in (folder / "runs" / made["run"]).rglob("*") if path.is_file()}
    assert left == {"run.json", "audit.jsonl", ".lock"}
    assert [each["state"] for each in json.loads(run("runs", str(job), "--json"))] == ["forgotten"]


def test_how_new_rows_are_scored_is_no_setting_of_a_run_and_both_sides_see_its_rounds(folder: Path) -> None:
    job = folder / "job.toml"
    run("fit", str(job), "--yes")
    (made,) = json.loads(run("runs", str(job), "--json"))
    job.write_text(job.read_text() + '\n[scoring]\nmissing = "mean"\n')
    assert json.loads(run("runs", str(job), "--json"))[0]["differs"] == {}
    for who in ("bank", "shop"):
        assert f" {made['rounds_taken']} " in run("runs", str(job), "--name", who).splitlines()[3]


@pytest.mark.parametrize("name", ["../..", "/etc", "zzz", "20"])
def test_a_run_is_named_by_digits_and_must_be_one(folder: Path, name: str) -> None:
    job = folder / "job.toml"
    run("fit", str(job), "--yes")
    run("fit", str(job), "--yes")
    assert "must" in run("forget", str(job), name, "--yes", code=1)
    assert all(s["state"] == "finished" for s in json.loads(run("runs", str(job), "--json")))


def test_labels_that_are_texts_need_the_one_that_counts(folder: Path) -> None:
    file = folder / "bank.toml"
    file.write_text(file.read_text().replace('positive = "ja"', 'positive = "oui"'))
    assert "'ja', 'nein'" in run("fit", str(folder / "job.toml"), "--yes", code=1)
