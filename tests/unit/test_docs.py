"""What the documentation says is what the code does."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from plait.studies.parity import CASES, HEADINGS

ROOT = Path(__file__).resolve().parents[2]


def test_generated_pages_are_fresh_and_no_link_is_dead() -> None:
    done = subprocess.run([sys.executable, "docs/build.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_example_in_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 10
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_parity_table_in_the_readme_has_every_case_within_tolerance() -> None:
    table = re.search(r"<!-- parity -->\n(.*?)\n<!-- /parity -->", (ROOT / "README.md").read_text(), re.DOTALL)
    assert table is not None
    head, _, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in table[1].splitlines())
    assert tuple(head) == HEADINGS
    assert [(row[0], row[1]) for row in rows] == [(case.name, case.reference) for case in CASES]
    assert all(float(row[2]) < 1e-6 for row in rows)


def test_every_module_stands_in_the_architecture_page_and_in_the_import_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layered = {name.strip() for layer in contract["layers"] for name in layer.split("|")}
    for path in (ROOT / "src" / "plait").glob("*"):
        if (
            path.name.startswith("_")
            or path.name == "py.typed"
            or (path.is_dir() and not (path / "__init__.py").exists())
        ):
            continue
        assert f"`{path.stem}" in page, f"docs/architecture.md does not mention {path.name}"
        assert any(f"{name}.".startswith(f"plait.{path.stem}.") for name in layered), f"{path.name} has no layer"
