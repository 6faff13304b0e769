"""The wheel and the source distribution that `make dist` builds, installed into an environment of their own."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import plait

ROOT = Path(__file__).resolve().parents[2]


def _run(*command: object, folder: Path) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([str(c) for c in command], cwd=folder, env=clean, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution, built from a copy of the tree."""
    folder = tmp_path_factory.mktemp("dist")
    copy = folder / "tree"
    for part in ("src", "pyproject.toml", "README.md", "LICENSE"):
        source, target = ROOT / part, copy / part
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, target)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy, folder=folder)
    return folder


def _install(folder: Path, wheel: Path, *options: str) -> Path:
    """The interpreter of a new environment that holds the wheel."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    _run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *options, wheel, folder=folder)
    return python


def _demonstrate(python: Path, folder: Path, draws: bool = True) -> None:
    """Run the demonstration; its picture needs the extra `plots`, and without it says so."""
    where = _run(python, "-c", "import plait; print(plait.__file__)", folder=folder).strip()
    assert Path(where).is_relative_to(python.parents[1])
    assert _run(python.with_name("plait"), "--version", folder=folder).strip() == plait.__version__
    shown = _run(python.with_name("plait"), "demo", "--output", folder / "demo", folder=folder)
    assert "log loss" in shown
    assert (folder / "demo" / "convergence.png").exists() == draws
    assert ("plait[plots]" in shown) != draws


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("plait-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    info = f"plait-{plait.__version__}.dist-info"
    assert {name.split("/")[0] for name in names} == {"plait", info}
    source = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src" / "plait").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == source
    assert "plait/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names


def test_the_source_distribution_holds_the_package(built: Path) -> None:
    (archive,) = built.glob("plait-*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/plait/__init__.py", "src/plait/py.typed"} <= names


def test_the_installed_wheel_runs_the_demonstration(built: Path, tmp_path: Path) -> None:
    """Dependencies come from this environment by path, so that nothing is downloaded; plait itself does not."""
    (wheel,) = built.glob("plait-*.whl")
    python = _install(tmp_path / "env", wheel, "--no-deps", "--no-index")
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _demonstrate(python, tmp_path)


@pytest.mark.slow
def test_the_wheel_brings_all_that_it_needs(built: Path, tmp_path: Path) -> None:
    """As a user installs it: pip downloads the dependencies."""
    (wheel,) = built.glob("plait-*.whl")
    _demonstrate(_install(tmp_path / "env", wheel), tmp_path, draws=False)


@pytest.mark.slow
def test_the_wheels_of_a_bare_install_stay_below_80_megabytes(built: Path, tmp_path: Path) -> None:
    """What pip downloads for plait without extras, plait among it."""
    (wheel,) = built.glob("plait-*.whl")
    _run(sys.executable, "-m", "pip", "download", "--quiet", "--dest", tmp_path / "wheels", wheel, folder=tmp_path)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "wheels").iterdir()}
    assert sum(sizes.values()) < 80e6, sorted(sizes.items(), key=lambda item: -item[1])[:10]
