"""What stands in raw files: `init`, `doctor` and `fit` say the same about it, or train."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plait.cli.app import app
from plait.errors import PlaitError

ROWS = 120


def bank(**cells: str) -> list[str]:
    """A table of a bank; `cells` replaces what stands in row 7."""
    lines = ["id,income,loans,default"]
    for i in range(ROWS):
        row = {"id": f"k{i:03d}", "income": f"{1000 + 3.5 * i}", "loans": str(i % 7), "default": "ny"[i * i % 7 % 2]}
        lines.append(",".join({**row, **cells}.values() if i == 7 else row.values()))
    return lines


SHOP = "customer,visits,basket\n" + "".join(f"k{i:03d},{i * 7 % 11},{i * 5 % 13}\n" for i in range(ROWS))


def said(*arguments: str) -> str:
    """All that a command says, its error as well, on one line."""
    done = CliRunner().invoke(app, [*arguments])
    assert done.exception is None or isinstance(done.exception, PlaitError | SystemExit), done.exception
    error = f" {done.exception}" if isinstance(done.exception, PlaitError) else ""
    return re.sub(r"\s+", " ", done.output + error)


def fitted(folder: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """What `fit` says once both parties have a file made by `init`."""
    (folder / "raw.csv").write_text("\n".join(lines) + "\n")
    (folder / "shop.csv").write_text(SHOP)
    monkeypatch.chdir(folder)
    said("init", ".", "--name", "bank", "--data", "raw.csv")
    said("init", ".", "--name", "shop", "--job", "job.toml", "--data", "shop.csv")
    checked, trained = said("doctor", "job.toml"), said("fit", "job.toml", "--yes")
    assert ("fail data" in checked) == ("model and report in" not in trained), checked + trained
    return trained


def test_separators_at_the_end_of_every_line_make_no_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "model and report in" in fitted(tmp_path, [line + ",," for line in bank()], monkeypatch)
    text = (tmp_path / "bank.toml").read_text()
    for name in ("column 5", "column 6"):
        assert f'"{name}",  # the same value in every row' in text, text


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (bank(income="inf"), "column 'income' must hold finite numbers. Found infinity in raw.csv, line 9"),
        (bank(income="-1e999"), "column 'income' must hold finite numbers. Found infinity in raw.csv, line 9"),
        (bank(default=""), "every row must have a label, in column 'default' of bank. Found 1 of 120 rows without"),
        (bank(default="N/A"), "every row must have a label, in column 'default' of bank. Found 1 of 120 rows without"),
        (bank(default="maybe"), "must take two values"),
        (bank(id="k008"), "every id must stand in one row"),
        (bank(id=""), "missing_ids"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], sentence: str
) -> None:
    assert sentence in fitted(tmp_path, lines, monkeypatch)


def test_a_column_of_numbers_with_one_mistake_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted(tmp_path, bank(income="un\tknown"), monkeypatch)
    assert "numbers, but for 1 of 120 values, like 'un\\tknown': correct these" in (tmp_path / "bank.toml").read_text()


def test_new_rows_without_a_finite_score_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "model and report in" in fitted(tmp_path, bank(), monkeypatch)
    shop = SHOP.splitlines()[0] + "\n" + "".join(f"n{i},1,2\n" for i in (1, 2, 3))
    (tmp_path / "shop-new.csv").write_text(shop)
    for name, file in (("bank", "new.csv"), ("shop", "shop-new.csv")):
        path = tmp_path / f"{name}.toml"
        path.write_text(re.sub(r'# score = "[^"]*"', f'score = "{file}"', path.read_text()))
    (tmp_path / "job.toml").write_text((tmp_path / "job.toml").read_text() + '[scoring]\njoin = "list"\n')
    for number, sentence in (
        ("inf", "Found inf in column 'income', row 1"),
        ("-1e308", "Found 1 with larger ones, the first of them with id 'n2'"),
        ("1300", "3 scores in"),
    ):
        new = ["id,income,loans,default", "n1,1200,3,y", f"n2,{number},3,n", "n3,1100,3,n"]
        (tmp_path / "new.csv").write_text("\n".join(new) + "\n")
        found = said("predict", "job.toml", "--yes")
        assert sentence in found, found
