"""Examples run, and draw."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """The figures that were open when somebody wanted to show them."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="examples draw with matplotlib")
    plt.switch_backend("Agg")
    shown: list[object] = []

    def show() -> None:
        shown.extend(plt.figure(number) for number in plt.get_fignums())
        for figure in shown:
            figure.savefig(tmp_path / "picture.png")  # type: ignore[attr-defined]
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    return shown


def test_there_are_ten_examples_or_more() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws_one_picture(path: Path, pictures: list[object]) -> None:
    runpy.run_path(str(path))
    assert len(pictures) == 1
