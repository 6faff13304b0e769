"""The same option has the same default in plait.fit, in the estimators and in a job file."""

import inspect
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.deployment.job_file import read_job
from plait.deployment.job_settings import ModelOptions, RunOptions

ESTIMATORS = [plait.VerticalLogisticRegression, plait.VerticalRegression, plait.VerticalSVC]
SHARED = ("penalty", "alpha", "method", "fit_intercept", "callbacks", "privacy", "precision")


def defaults(call: Any) -> dict[str, Any]:
    return {name: p.default for name, p in inspect.signature(call).parameters.items()}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_have_the_defaults_of_fit(estimator: Any) -> None:
    assert {name: defaults(estimator)[name] for name in SHARED} == {name: defaults(plait.fit)[name] for name in SHARED}
    assert defaults(estimator)["max_rounds"] == plait.Stopping().max_rounds
    assert defaults(estimator)["tol"] == plait.Stopping().tol


def test_job_files_have_the_defaults_of_fit(tmp_path: Path) -> None:
    fit = defaults(plait.fit)
    assert (ModelOptions().loss, ModelOptions().penalty) == (fit["loss"], fit["penalty"])
    assert ModelOptions().fit_intercept == fit["fit_intercept"]
    assert RunOptions().precision == fit["precision"]
    path = tmp_path / "job.toml"
    path.write_text('format = 1\nname = "t"\nparties = ["a"]\nprotection = "plain"\n[coordinator]\nname = "a"\n')
    assert read_job(path).penalties["a"] == plait.L2(1e-4) == plait.L2()
    assert read_job(path).stopping == plait.Stopping()


@pytest.mark.parametrize("name", ["squared-hinge", "squared_hinge", "SquaredHinge"])
def test_one_name_has_one_meaning_everywhere(tmp_path: Path, name: str) -> None:
    path = tmp_path / "job.toml"
    head = 'format = 1\nname = "t"\nparties = ["a"]\nprotection = "plain"\n[coordinator]\nname = "a"\n'
    path.write_text(f'{head}[model]\nloss = "{name}"\n')
    assert read_job(path).loss == plait.SquaredHinge()
    x = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert plait.fit([x], [0, 1, 1, 0], loss=name).loss == plait.SquaredHinge()
    assert plait.VerticalSVC(loss=name).fit(x, [0, 1, 1, 0]).fits_[0].loss == plait.SquaredHinge()
