"""The demonstration tells the truth, and the parity table's cases agree with scikit-learn."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plait.cli.app import app
from plait.studies import demo, parity
from plait.studies.figures import draw_demo

SLOW = {"logistic + L1", "80% quantile + L1"}


@pytest.fixture(scope="module")
def tables() -> demo.DemoTables:
    return demo.load_tables()


def test_every_column_belongs_to_one_department(tables: demo.DemoTables) -> None:
    held = [c for columns in tables.parties.values() for c in columns]
    assert sorted(held) == list(range(30))


def test_together_is_better_than_alone_and_as_good_as_pooled(tables: demo.DemoTables) -> None:
    joint, _ = demo.train_jointly(tables)
    (*alone, pooled), _ = demo.train_references(tables)
    assert joint.log_loss == pytest.approx(pooled.log_loss, rel=1e-4)
    assert joint.auc == pytest.approx(pooled.auc, abs=1e-4)
    assert all(joint.log_loss < 0.5 * s.log_loss for s in alone)


def test_curves_fall_to_the_pooled_optimum(tables: demo.DemoTables, tmp_path: Path) -> None:
    references, optimum = demo.train_references(tables)
    curves = demo.compare_methods(tables, optimum, rounds=30)
    assert [c.method for c in curves] == list(demo.METHODS)
    assert curves[0].gaps[-1] < 1e-9
    assert all(c.gaps[-1] < c.gaps[0] for c in curves)
    joint, _ = demo.train_jointly(tables)
    picture = draw_demo(curves, [*references, joint], tmp_path / "new" / "picture.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(picture.parent.iterdir()) == [picture]


@pytest.mark.parametrize("quiet", [True, False])
def test_the_command_prints_the_table_and_where_the_picture_is(tmp_path: Path, quiet: bool) -> None:
    result = CliRunner().invoke(app, ["demo", "--output", str(tmp_path), *(["--quiet"] if quiet else [])])
    assert result.exit_code == 0, result.output
    for line in ("imaging alone", "laboratory alone", "pathology alone", "together, by plait", "pooled, scikit-learn"):
        assert line in result.output
    assert ("objective" in result.output) == (not quiet)
    assert (tmp_path / "convergence.png").exists()


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=c.name, marks=[pytest.mark.slow] * (c.name in SLOW)) for c in parity.CASES]
)
def test_parity_with_scikit_learn(case: parity.Case) -> None:
    row = parity.compare(case)
    assert abs(row.gap) < 1e-6
    assert row.cells()[0] == case.name


def test_markdown_has_a_row_per_case() -> None:
    row = parity.Row(parity.CASES[0], -1e-9, 1e-7, 12, 0.5, 0.1)
    head, rule, line = parity.as_markdown([row]).splitlines()
    assert head.startswith("| problem |")
    assert set(rule) <= set("| -")
    assert line == "| logistic + L2 | LogisticRegression | -1e-09 | 1e-07 | 12 | 0.50 s | 0.10 s |"


def test_without_matplotlib_the_demonstration_ends_with_its_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    shown = CliRunner().invoke(app, ["demo", "--output", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "together, by plait" in shown.output
    assert "plait[plots]" in shown.output
    assert not any(tmp_path.iterdir())
