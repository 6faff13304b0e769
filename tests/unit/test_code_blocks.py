"""Every code block of the documentation is tried.  What it is marked with says how:

python    runs, all blocks of a page from top to bottom
sh        runs, likewise
toml      is read as the job file or the party file that its first line names
console   is not run, because it needs a second machine, a container engine or hours; but its commands are known
text      is no code
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from plait.cli.app import app
from plait.deployment.job_file import read_job, read_party
from plait.deployment.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
MADE = {"_build", "gallery", "api"}  # folders that a build writes
PAGES = [
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if not MADE & set(p.parts)),
    *sorted(ROOT.glob("*.md")),
]
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.M)
INDENTED = re.compile(r"(?:^|\n\n)((?: {4}.*\n)+)")
TRIED = ("python", "sh", "toml", "console", "text")
LONG = ("scores-and-reports", "deployment")  # pages whose commands take longer than others'
GOES_ON = {"scores-and-reports": "one-laptop"}  # pages that need the folders of another one
JOB = """format = 1
name = "credit"
parties = ["bank", "shop"]
protection = "plain"
coordinator = { name = "bank" }
"""


def blocks(page: Path, kind: str) -> list[str]:
    return [text for mark, text in BLOCK.findall(page.read_text()) if mark == kind]


def having(kind: str) -> list[Path]:
    return [page for page in PAGES if blocks(page, kind)]


def pages(kind: str, slow: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    found = having(kind)
    assert found
    marked = [pytest.param(p, marks=[pytest.mark.slow] * (p.stem in slow), id=p.stem) for p in found]
    return pytest.mark.parametrize("page", marked)


def test_every_block_is_marked_with_how_it_is_tried() -> None:
    for page in PAGES:
        marks = [mark for mark, _ in BLOCK.findall(page.read_text()) if not mark.startswith("{")]
        assert set(marks) <= set(TRIED), page.name
        if page.parent != ROOT:  # the README and its like are read as plain text, too
            bare = INDENTED.findall(BLOCK.sub("", page.read_text()))
            assert [b for b in bare if re.search(r"^ +(plait|make|docker|import) |^ +\[\w+\]", b, re.M)] == [], page


@pages("python")
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


@pages("sh", slow=LONG)
def test_the_commands_of_a_page_run_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    before = [page.with_stem(GOES_ON[page.stem])] if page.stem in GOES_ON else []
    script = "\n".join(block for each in (*before, page) for block in blocks(each, "sh"))
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


@pages("toml")
def test_settings_on_a_page_are_ones_that_plait_reads(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        job, own = tmp_path / "job.toml", tmp_path / "shop.toml"
        if block.startswith("# job.toml"):
            job.write_text(JOB + block)
            read_job(job)
        else:
            assert re.match(r"# (\w+\.toml|a party's own file)", block), block
            own.write_text(block + ("" if "[data]" in block else '\n[data]\nfile = "rows.csv"\n'))
            read_party(job, "shop")


@pages("console")
def test_commands_that_cannot_run_here_have_options_that_exist(page: Path) -> None:
    lines = [re.sub(r"^\w+\$ ", "", line) for block in blocks(page, "console") for line in block.splitlines()]
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        if program == "plait":
            _parse(words)
        elif program == "make":
            assert re.search(rf"^{words[0]}:", (ROOT / "Makefile").read_text(), re.M), line
        else:
            named = re.findall(r"\bcontainers/[\w./-]+", line)
            assert [name for name in named if not (ROOT / name).exists()] == [], line


def _parse(words: list[str]) -> None:
    """Read a command line as plait would, without running it; click raises where it would refuse."""
    command, context = typer.main.get_command(app), None
    while hasattr(command, "resolve_command"):
        context = command.make_context(command.name, list(words), parent=context)
        _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(command.name, list(words), parent=context)
