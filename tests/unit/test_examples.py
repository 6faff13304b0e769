"""Examples run, and draw; every code block of the documentation runs."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from plait.deployment.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if not {"_build", "gallery"} & set(p.parts))
PYTHON = [p for p in PAGES if "```python\n" in p.read_text()]
SHELL = [p for p in PAGES if "```sh\n" in p.read_text()]

LONG = ("scores-and-reports",)  # pages whose commands take longer than others'


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


@pytest.mark.parametrize("page", PYTHON, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] * (p.stem in LONG), id=p.stem) for p in SHELL]
)
def test_the_commands_of_a_tutorial_run_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    script = "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL))
    for port in ("7443", "8081"):
        script = script.replace(port, str(free_port()))
    (tmp_path / "plait").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m plait "$@"\n')
    (tmp_path / "plait").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        ["bash", "-eu", "-c", script], cwd=work, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
