"""The public names are a promise: adding one is a decision, losing one breaks somebody."""

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest

import plait

PROMISED = """
    L1 L2 Augmented Ball Box Cauchy ConvergenceWarning DivergedError ElasticNet Fit
    GaussSeidel GroupLasso Hinge History Huber
    InputError Jacobi LogPenalty Logistic Loss Method NoPenalty NonNegative Penalty Pinball PlaitError Poisson
    Protection ProtocolError Proximal Round SettingError Sgd Squared SquaredHinge Stopping Subspace
    VerticalLogisticRegression VerticalRegression VerticalSVC __version__ datasets fit tracking
"""


def test_public_names_are_these() -> None:
    assert set(plait.__all__) == set(PROMISED.split())
    assert all(hasattr(plait, name) for name in plait.__all__)


def test_data_sets_are_one_import_away() -> None:
    assert plait.datasets.names() == ["a9a", "gisette", "credit"]


def test_names_that_are_loaded_later_are_those_that_type_checkers_see() -> None:
    tree = ast.parse(Path(plait.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen.pop("datasets") == "plait.data"
    assert seen.pop("tracking") == "plait.training"
    assert seen == {name: f"plait.{home}" for name, home in plait._HOME.items()}


def test_importing_plait_waits_for_no_numerical_library() -> None:
    code = "import sys, plait; print([m for m in ('numpy', 'scipy', 'sklearn', 'grpc') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_programs_that_need_no_estimator_do_not_wait_for_scikit_learn() -> None:
    code = "import sys, plait.cli; print('sklearn' in sys.modules or 'pandas' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_a_run_that_ends_early_does_not_wait_for_scikit_learn() -> None:
    code = """if True:
    import sys, warnings, plait
    with warnings.catch_warnings(record=True) as caught:
        plait.fit([[[1.0], [2.0], [4.0]]], [1, 0, 1], stopping=plait.Stopping(1, tol=1e-14))
    print([w.category is plait.ConvergenceWarning for w in caught], "sklearn" in sys.modules)
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[True] False"


PACKAGES = sorted(path.parent.name for path in Path(plait.__file__).parent.glob("*/__init__.py"))


def said_to_be_public(package: str) -> list[str]:
    """The names in the paragraph `Public:` of a package's docstring."""
    said = re.search(r"^Public: (.*?)(\n\n|\Z)", import_module(f"plait.{package}").__doc__ or "", re.S | re.M)
    assert said is not None, f"plait.{package} does not say what is public"
    return re.findall(r"plait\.(\w+)[,.]", said[1])


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_is_public(package: str) -> None:
    objects = {name: getattr(plait, name) for name in plait.__all__ if name != "__version__"}
    homes = {name: found.__name__ if inspect.ismodule(found) else found.__module__ for name, found in objects.items()}
    here = {name for name, home in homes.items() if home.startswith(f"plait.{package}.")}
    assert set(said_to_be_public(package)) - {"privacy"} == here


def test_no_two_public_classes_have_the_same_name() -> None:
    homes: dict[str, list[str]] = {}
    package = Path(plait.__file__).parent
    for path in sorted(package.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(path.relative_to(package).as_posix())
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


SAME_PART = {
    "base": "the interface of a package",
    "registry": "which name stands for which object",
    "messages": "what a method, a protection or anybody sends",
    "party": "the party's side",
    "coordinator": "the coordinator's side",
    "method": "the options of a method",
    "checks": "what of a message is checked",
    "span": "minimising over a span",
    "sight": "what a party makes of the vector that it receives",
    "law": "what may be asked and answered",
    "run": "one run, and its commands",
    "align": "an alignment, and its command",
    "demo": "the demonstration, and its command",
    "doctor": "the doctor, and its command",
    "regression": "losses for numbers, and the estimator for them",
}
"""The names that modules of several packages have, because they are the same part of each."""


def test_modules_of_one_name_are_the_same_part_of_their_packages() -> None:
    names = Counter(path.stem for path in Path(plait.__file__).parent.rglob("*.py") if path.stem != "__init__")
    assert {name for name, count in names.items() if count > 1} <= set(SAME_PART)
