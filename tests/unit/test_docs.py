"""What the documentation says is what the code does."""

import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from plait.deployment.job_settings import JOB_SECTIONS
from plait.deployment.party_settings import PARTY_SECTIONS
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


def test_every_module_stands_in_the_reference_with_a_sentence_of_its_own() -> None:
    page = (ROOT / "docs" / "reference" / "modules.md").read_text()
    package = ROOT / "src" / "plait"
    for path in sorted(package.rglob("*.py")):
        if path.stem not in ("__init__", "__main__", "_version"):
            name = ".".join(path.relative_to(package).with_suffix("").parts[0 if path.parent == package else 1 :])
            assert re.search(rf"^\| `{re.escape(name)}` \| .*\w\W+\|$", page, re.M), f"{name}: run `make docs`"


def test_every_package_has_a_layer_and_there_are_few() -> None:
    """`exhaustive` makes lint-imports refuse a package that no layer names."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    assert contract["exhaustive"]
    assert len(contract["layers"]) <= 10
    entries = [p for p in (ROOT / "src" / "plait").iterdir() if not p.name.startswith("_") and p.name != "py.typed"]
    assert len(entries) <= 14


def test_every_setting_and_every_command_stands_in_the_reference() -> None:
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text()
    for name, kind in [*JOB_SECTIONS.items(), *PARTY_SECTIONS.items()]:
        assert f"### [{name}]" in settings
        for option in fields(kind):
            assert f"| `{option.name}` |" in settings, f"{name}.{option.name}"
    commands = (ROOT / "docs" / "cli.md").read_text()
    for command in ("cert init", "cert request", "cert sign", "privacy calibrate", "privacy preview", "fit"):
        assert f"## plait {command}\n" in commands


def test_every_page_stands_in_a_table_of_contents_of_the_site() -> None:
    docs = ROOT / "docs"
    pages = [p for p in docs.rglob("*.md") if not {"_build", "gallery", "api"} & set(p.relative_to(docs).parts)]
    listed = {docs / "index.md"}
    for page in pages:
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), re.DOTALL):
            names = [line.strip() for line in block.splitlines() if line.strip() and not line.startswith(":")]
            listed |= {(page.parent / f"{name}.md").resolve() for name in names}
    assert sorted(str(p.relative_to(docs)) for p in pages if p not in listed) == []
