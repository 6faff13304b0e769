"""`plait doctor` and `plait init`, as a new user meets them."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plait.cli.app import app
from plait.deployment.processes import free_port

runner = CliRunner(env={"COLUMNS": "200"})


def run(*arguments: str, code: int = 0) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run("init", "job", "--example")
    path = tmp_path / "job" / "job.toml"
    path.write_text(path.read_text().replace("7443", str(free_port())))
    run("cert", "init", "bank", "--in", "job/certs")
    return tmp_path / "job"


def test_ids_in_both_cases_are_named_where_the_job_tells_them_apart(folder: Path) -> None:
    job, bank = folder / "job.toml", folder / "bank.csv"
    bank.write_text(bank.read_text().replace("c000", "C000"))
    text = job.read_text().replace("# [alignment]", "[alignment]").replace("# case =", "case =")
    job.write_text(text)
    assert "capitals" in run("doctor", "job/job.toml")
    job.write_text(text.replace('case = "keep"', 'case = "fold"'))
    assert "capitals" not in run("doctor", "job/job.toml")


PRIVATE = '[privacy]\nparties = { shop = { name = "recommended", epsilon = 1.0 } }\n'
PREPARED = (
    'impute = "zero"\nscale = "ranges"\nranges = { orders = [-4, 4], returns = [-4, 4], basket = [-4, 4] }\n'
    'categories = { region = ["north", "south", "west"] }\n'
)


@pytest.mark.parametrize(("epsilon", "code"), [("3.0", 0), ("0.5", 1)])
def test_a_private_party_is_put_together_without_a_charge(folder: Path, epsilon: str, code: int) -> None:
    job, shop = folder / "job.toml", folder / "shop.toml"
    job.write_text(re.sub(r"(?m)^protection = .*$", 'protection = "plain"', job.read_text()) + PRIVATE)
    text = shop.read_text().replace('impute = "mean"', "# impute").replace('scale = "standard"', "# scale")
    text = text.replace("one_hot = [", PREPARED + "one_hot = [")
    shop.write_text(text + f'[privacy]\nepsilon = {epsilon}\nledger_witness = "witness"\n')
    table = run("doctor", "job/job.toml", "--name", "shop", "--insecure", code=code)
    assert not (folder / "ledgers").exists(), "the budget is not opened before a run"
    assert ("epsilon = 0.5" in table) == (code == 1)
    run("fit", "job/job.toml", code=code)
    if code == 0:
        assert "one more run fits" in run("doctor", "job/job.toml", "--name", "shop", "--insecure")


def test_healthy_coordinator_passes(folder: Path) -> None:
    table = run("doctor", "job/job.toml")
    assert "fail" not in table
    for what in ("software", "certificate", "labels", "columns", "memory", "port"):
        assert what in table


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        ("bank.toml", 'id = "customer"', 'id = "client"', "id column 'client'"),
        ("bank.toml", "min_columns = 2", "min_columns = 9", "at least 9 columns"),
        ("bank.toml", 'label = "default"', 'label = "loans"', "-1/+1 or 0/1"),
        ("bank.csv", "0.", "x.", "must hold numbers"),
        ("certs/bank.crt", "MII", "MIJ", "PEM"),
    ],
)
def test_what_is_wrong_is_found(folder: Path, file: str, old: str, new: str, found: str) -> None:
    path = folder / file
    path.write_text(path.read_text().replace(old, new))
    table = run("doctor", "job/job.toml", code=1)
    assert "fail" in table
    assert found in " ".join(table.split())


def test_absent_certificates_and_coordinator_are_named(folder: Path) -> None:
    assert "shop.crt" in run("doctor", "job/job.toml", "--name", "shop", code=1)
    table = run("doctor", "job/job.toml", "--name", "shop", "--insecure")
    assert "Start the coordinator" in table


def test_init_overwrites_nothing(folder: Path) -> None:
    result = runner.invoke(app, ["init", "job", "--example"])
    assert result.exit_code == 1


def test_text_from_files_is_shown_as_it_is(folder: Path) -> None:
    for file in ("bank.csv", "bank-new.csv"):
        path = folder / file
        path.write_text(path.read_text().replace("income,", "[red]x[/],", 1))
    config = folder / "bank.toml"
    config.write_text(config.read_text().replace("columns = []", 'columns = ["[red]x[/]", "[bold]y"]', 1))
    assert "'[bold]y'" in run("doctor", "job/job.toml", code=1)


def test_text_from_files_does_not_steer_the_terminal(folder: Path) -> None:
    path = folder / "bank.csv"
    path.write_text(path.read_text().replace("income,", "\x1b[2Jx\u202e,", 1))
    config = folder / "bank.toml"
    config.write_text(config.read_text().replace('id = "customer"', 'id = "nobody"', 1))
    shown = run("doctor", "job/job.toml", code=1)
    assert "?[2Jx?" in shown
    assert "\x1b[2J" not in shown


def test_a_missing_extra_is_named_before_training(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = folder / "bank.toml"
    text = config.read_text().replace("# transformer =", "transformer =", 1)
    config.write_text(text)
    run("doctor", "job/job.toml")
    monkeypatch.setitem(sys.modules, "skops", None)
    assert "plait[skops]" in " ".join(run("doctor", "job/job.toml", code=1).split())
    result = runner.invoke(app, ["fit", "job/job.toml"])
    assert "plait[skops]" in str(result.exception)
    assert "round" not in result.output
    assert not list(folder.glob("runs/*/*/weights.json"))
    job = folder / "job.toml"
    job.write_text(job.read_text().replace("# [alignment]", "[alignment]"))
    result = runner.invoke(app, ["fit", "job/job.toml", "--yes"])
    assert "plait[skops]" in str(result.exception)
    assert not list(folder.glob("alignments/*")), "it is said before rows are aligned"
