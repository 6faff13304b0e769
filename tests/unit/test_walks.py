"""The walks of docs/architecture.md lead through modules that exist, import one another, and go down."""

import ast
import re
import sys
import tomllib
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import plait

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "plait"
WALKS = ("simulated fit", "deployed run", "private run", "alignment", "prediction")


def _section() -> str:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return text.split("## Five walks")[1].split("\n## ")[0]


CHAINS = [re.findall(r"`([a-z_.]+)`", line[line.index("`", line.index(": ")) :])
          for line in _section().splitlines() if "→" in line]  # fmt: skip


def _file(module: str) -> Path:
    path = PACKAGE / Path(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _imports(module: str) -> set[str]:
    """Every module of plait that this one imports, here or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(_file(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name.removeprefix("plait.") for name in found}


def _layers() -> dict[str, int]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["containers"] == ["plait"])
    return {name: depth for depth, layer in enumerate(contract["layers"]) for name in re.split(r"\s*[|:]\s*", layer)}


def test_all_five_walks_are_written_down() -> None:
    titles = re.findall(r"^\*\*An? ([a-z ]+)\*\*", _section(), flags=re.MULTILINE)
    assert tuple(titles) == WALKS
    assert len(CHAINS) >= 20


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: " ".join(chain))
def test_every_arrow_of_a_walk_is_an_import_that_goes_down(chain: list[str]) -> None:
    layers = _layers()
    assert all(_file(module).is_file() for module in chain)
    for left, right in pairwise(chain):
        assert right in _imports(left), f"{left} does not import {right}"
        assert layers[left.split(".")[0]] <= layers[right.split(".")[0]], f"{left} -> {right} goes up"


def test_an_unprotected_fit_visits_privacy_once() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((40, 3)), rng.standard_normal((40, 2))]
    labels = np.where(parts[0][:, 0] + rng.standard_normal(40) > 0, 1.0, -1.0)
    entered: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        package, caller = _package(frame), _package(frame.f_back)
        if event == "call" and package and package != caller:
            entered.append(package)

    sys.setprofile(watch)
    try:
        plait.fit(parts, labels)
    finally:
        sys.setprofile(None)
    visits = [package for package, _ in groupby(entered)]
    assert "methods" in visits
    assert visits.count("privacy") == 1


def _package(frame: FrameType | None) -> str:
    name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    return name.split(".")[1] if name.startswith("plait.") else ""


def test_no_module_asks_a_mechanism_for_its_class() -> None:
    named = re.compile(r"isinstance\([^()]*(?:\([^()]*\))?[^()]*\b(?:NoPrivacy|PaperMechanism|PaperNoise|MechanismA|"
                       r"Recommended|RandomisedResponse|NoisyLabel|ReportedClass)\b")  # fmt: skip
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert [str(path) for path, text in sources.items() if named.search(text)] == []


def test_the_programs_of_coordinator_and_party_do_not_import_each_other() -> None:
    assert "deployment.party_program" not in _imports("deployment.coordinator_program")
    assert "deployment.coordinator_program" not in _imports("deployment.party_program")
