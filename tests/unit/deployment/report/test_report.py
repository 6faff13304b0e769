"""The report: what a person who decides reads, and nothing that is empty."""

import re
from pathlib import Path

import numpy as np
import pytest

from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import Job, PartyFile, read_job, read_party
from plait.deployment.joint_scores import JointScores
from plait.deployment.progress import Silent
from plait.deployment.report.chart import Axes, bar_chart, line_chart
from plait.deployment.report.evidence import TOGETHER, evidence_on_new_rows
from plait.deployment.run_folder import RunFolder
from tests.e2e.conftest import make_job


def trained(folder: Path, **options: object) -> tuple[Job, list[PartyFile], RunFolder]:
    made = make_job(folder, method='name = "auto"', tol=1e-6, rounds=100, **options)  # type: ignore[arg-type]
    job = read_job(made.file)
    files = [read_party(made.file, name) for name in made.parties]
    return job, files, RunFolder(coordinate(job, files[0], files, None, Silent()))


def test_an_open_run_shows_quality_weights_revelations_and_convergence_last(tmp_path: Path) -> None:
    _, _, folder = trained(tmp_path / "job")
    page = (folder.path / "report.html").read_text()
    headings = re.findall(r"<h2>(.*?)</h2>", page, re.S)
    assert headings == [
        "How good the model is: training rows",
        "What bank's columns say",
        "Privacy",
        "What was revealed",
        "Convergence",
        "Settings",
    ]
    assert page.count("<figure>") == 7
    assert "odds ratio" in page
    assert "shop can read every label" in page
    assert re.search(r"The training ended: within \S+ of the best possible model, proved", page)
    assert "as proved, on a logarithmic scale" in page


def test_a_feature_party_reads_of_its_own_columns_and_not_of_quality(tmp_path: Path) -> None:
    _, _, folder = trained(tmp_path / "job")
    page = (folder.path.parent / "shop" / "report.html").read_text()
    assert "What shop's columns say" in page
    assert "AUC" not in page
    assert "How good" not in page


def test_each_odds_ratio_is_the_exponential_of_its_weight(tmp_path: Path) -> None:
    _, _, folder = trained(tmp_path / "job")
    columns, weights, *_ = RunFolder(folder.path.parent / "shop").weights()
    page = (folder.path.parent / "shop" / "report.html").read_text()
    for column, weight in zip(columns, weights, strict=True):
        row = re.search(
            rf'scope="row">{column}</th><td class="number">(\S+)</td>\s*<td class="number">(\S+)</td>', page
        )
        assert row is not None
        assert float(row[1]) == pytest.approx(weight, rel=1e-3)
        assert float(row[2]) == pytest.approx(np.exp(weight), rel=1e-2)


def test_what_each_partner_brings_is_measured_on_new_rows(tmp_path: Path) -> None:
    job, files, folder = trained(tmp_path / "job", parties=("bank", "shop", "insurer"))
    for file in files:
        lines = (tmp_path / "job" / f"{file.name}.csv").read_text().splitlines()
        (tmp_path / "job" / f"{file.name}-new.csv").write_text("\n".join([lines[0], *lines[1:101]]) + "\n")
    new = [
        PartyFile(**{**vars(f), "data": type(f.data)(**{**vars(f.data), "score": f"{f.name}-new.csv"})}) for f in files
    ]
    order = np.random.default_rng(0).permutation(100)
    shop = (tmp_path / "job" / "shop-new.csv").read_text().splitlines()
    (tmp_path / "job" / "shop-new.csv").write_text("\n".join([shop[0], *(shop[1 + i] for i in order)]) + "\n")
    scores = JointScores([f"r{i}" for i in range(100)], np.zeros(100), folder.path, [()] * 100, "refuse")
    evidence = evidence_on_new_rows(job, new[0], new, "bank-new.csv", scores)
    assert list(evidence.scores) == ["bank alone", "bank with shop", "bank with insurer", TOGETHER]
    loss = {name: job.loss.value(z, evidence.labels).mean() for name, z in evidence.scores.items()}
    assert loss["bank with shop"] < loss["bank alone"]
    assert loss["bank alone"] < loss[TOGETHER] == pytest.approx(np.log(2))


def test_charts_that_have_nothing_to_show_are_left_out() -> None:
    axes = Axes("Objective", "round", "objective")
    assert line_chart(axes, {"objective": [(1, float("nan")), (2, 0.5)]}) == ""
    assert bar_chart(axes, [0, 1], {"none": [0.0]}) == ""


def test_a_chart_has_words_for_those_who_do_not_see_it() -> None:
    chart = line_chart(Axes("ROC", "false alarms", "found"), {"<a>": [(0, 0), (1, 1)], "b": [(0, 0), (1, 0.5)]})
    assert 'aria-label="ROC: found against false alarms for &lt;a&gt;, b"' in chart
