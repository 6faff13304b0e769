"""The report: what a person who decides reads, and nothing that is empty."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plait.alignment.ids import AlignmentOptions
from plait.data.preparation import Preparation
from plait.deployment.consent import revealed
from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import Job, PartyFile, read_job, read_party
from plait.deployment.joint_scores import JointScores
from plait.deployment.progress import Silent
from plait.deployment.report.chart import Axes, bar_chart, line_chart
from plait.deployment.report.evidence import TOGETHER, evidence_on_new_rows
from plait.deployment.report.sections import coefficients
from plait.deployment.run_folder import RunFolder
from plait.privacy import NoPrivacy, Policy, Recommended
from plait.problem.losses import Logistic
from plait.protection.modes import Protection
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
    assert re.search(r"<code>y</code>, and <code>1</code> counts as positive", page)
    assert "AUC: the chance that a positive row scores above a negative one" in page
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
    table = np.genfromtxt(tmp_path / "job" / "shop.csv", delimiter=",", names=True)
    cell = r'<td class="number">(\S+)</td>\s*'
    for column, weight in zip(columns, weights, strict=True):
        row = re.search(rf'scope="row">{column}</th>{3 * cell}', page)
        assert row is not None
        assert float(row[1]) == pytest.approx(table[column].std(), rel=1e-2), "a step, in the units of the table"
        assert float(row[2]) == pytest.approx(weight, rel=1e-3)
        assert float(row[3]) == pytest.approx(np.exp(weight), rel=1e-2)


def test_the_step_of_a_category_is_that_a_row_has_it() -> None:
    prepared = Preparation((), *np.zeros((3, 0)), {"tier": ("", "gold")}, unit=0.5)
    shown = coefficients(("tier=", "tier=gold"), np.array([2.0, -1.0]), Logistic(), prepared)
    assert [row["name"] for row in shown["rows"]] == ["tier= (empty)", "tier=gold"]
    assert {row["step"] for row in shown["rows"]} == {"has it"}
    assert [float(row["ratio"]) for row in shown["rows"]] == pytest.approx(np.exp([1.0, -0.5]), rel=1e-2)


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
    assert evidence.note == "Each model with one partner was trained over the columns of these two only."
    loss = {name: job.loss.value(z, evidence.labels).mean() for name, z in evidence.scores.items()}
    assert loss["bank with shop"] < loss["bank alone"]
    assert loss["bank alone"] < loss[TOGETHER] == pytest.approx(np.log(2))


def test_a_partner_whose_rows_stand_in_another_order_is_joined_by_ids(tmp_path: Path) -> None:
    job, files, folder = trained(tmp_path / "job", parties=("bank", "shop", "insurer"))
    new = [replace(f, data=replace(f.data, score=f"{f.name}.csv")) for f in files]
    rows = len((tmp_path / "job" / "bank.csv").read_text().splitlines()) - 1
    scores = JointScores([f"r{i}" for i in range(rows)], np.zeros(rows), folder.path, [()] * rows, "refuse")
    in_order = evidence_on_new_rows(job, new[0], new, "bank.csv", scores)
    header, *lines = (tmp_path / "job" / "shop.csv").read_text().splitlines()
    shuffled = [lines[i] for i in np.random.default_rng(0).permutation(rows)]
    (tmp_path / "job" / "shop.csv").write_text("\n".join([header, *shuffled]) + "\n")
    aligned = evidence_on_new_rows(replace(job, alignment=AlignmentOptions()), new[0], new, "bank.csv", scores)
    for name in ("bank with shop", "bank with insurer"):
        np.testing.assert_allclose(aligned.scores[name], in_order.scores[name], atol=1e-4)


def test_a_private_report_says_that_a_helper_sent_sums_and_measures_no_partner_without_noise(tmp_path: Path) -> None:
    job, files, folder = trained(tmp_path / "job", parties=("bank", "shop", "insurer"))
    private = replace(
        job, policy=Policy({"bank": NoPrivacy(), "shop": Recommended(epsilon=1.0), "insurer": NoPrivacy()})
    )
    assert revealed(private, "bank", 9, 500)[0] == (
        "shop has sent sums over all its rows, with the noise of its guarantee, and no number per row."
    )
    assert revealed(private, "bank", 9, 500)[1] == "insurer has sent 9 vectors of 500 numbers: its partial scores."
    new = [replace(f, data=replace(f.data, score=f"{f.name}.csv")) for f in files]
    rows = len((tmp_path / "job" / "bank.csv").read_text().splitlines()) - 1
    scores = JointScores([f"r{i}" for i in range(rows)], np.zeros(rows), folder.path, [()] * rows, "refuse")
    found = evidence_on_new_rows(private, new[0], new, "bank.csv", scores)
    assert list(found.scores) == ["bank alone", TOGETHER]
    assert "it would show scores that this run hides" in found.note
    summed = replace(job, protection=Protection("sums"))
    assert (
        "it would show scores that this run hides" in evidence_on_new_rows(summed, new[0], [], "bank.csv", scores).note
    )
    assert "partners = true" in evidence_on_new_rows(job, new[0], [], "bank.csv", scores).note


def test_with_one_partner_the_report_says_that_all_together_is_the_pair(tmp_path: Path) -> None:
    job, files, folder = trained(tmp_path / "job")
    new = replace(files[0], data=replace(files[0].data, score="bank.csv"))
    scores = JointScores([f"r{i}" for i in range(400)], np.zeros(400), folder.path, [()] * 400, "refuse")
    evidence = evidence_on_new_rows(job, new, [], "bank.csv", scores)
    assert evidence.note == "There is one partner, shop: all together is bank with shop."
    assert evidence.trained == {"bank alone": 400, TOGETHER: 400}


def test_charts_that_have_nothing_to_show_are_left_out() -> None:
    axes = Axes("Objective", "round", "objective")
    assert line_chart(axes, {"objective": [(1, float("nan")), (2, 0.5)]}) == ""
    assert bar_chart(axes, [0, 1], {"none": [0.0]}) == ""


@pytest.mark.parametrize("last", [2, 3, 5, 8, 11, 40, 200])
def test_rounds_are_whole_numbers_and_no_two_marks_of_an_axis_read_the_same(last: int) -> None:
    points = [(k, 0.9328 + 1e-4 / k) for k in range(1, last + 1)]
    chart = line_chart(Axes("Objective", "round", "objective", whole=True), {"objective": points})
    rounds = re.findall(r'text-anchor="middle">([^<r]+)<', chart)
    heights = re.findall(r'text-anchor="end">([^<]+)<', chart)
    assert rounds
    assert all(text.isdigit() for text in rounds)
    assert len(set(heights)) == len(heights) > 1


@pytest.mark.parametrize("low", [1e-9, 1e-4, 0.2])
def test_a_logarithmic_axis_is_marked_with_numbers(low: float) -> None:
    chart = line_chart(Axes("Gap", "round", "gap", logarithmic=True), {"gap": [(1, 0.8), (2, low)]})
    found = re.findall(r'text-anchor="end">([^<]+)<', chart)
    assert found
    assert all(low <= float(text) <= 0.8 for text in found)
    assert not any(re.search(r"e-?\d+\.", text) for text in found), found


def test_a_chart_has_words_for_those_who_do_not_see_it() -> None:
    chart = line_chart(Axes("ROC", "false alarms", "found"), {"<a>": [(0, 0), (1, 1)], "b": [(0, 0), (1, 0.5)]})
    assert 'aria-label="ROC: found against false alarms for &lt;a&gt;, b"' in chart


COUNTS, QUANTILES, NUMBERS, MARGINS = (
    'loss = "poisson"',
    'loss = { name = "pinball", quantile = 0.8 }',
    'loss = "huber"',
    'loss = "hinge"',
)
LABELS = {
    COUNTS: lambda z, rng: rng.poisson(np.exp(0.4 * z)),
    QUANTILES: lambda z, rng: 50 + z + rng.standard_normal(z.size),
    NUMBERS: lambda z, rng: z + rng.standard_normal(z.size),
    MARGINS: lambda z, rng: (z > rng.standard_normal(z.size)).astype(int),
}


def of_loss(folder: Path, loss: str) -> str:
    """The label party's report of a model with another loss, whose labels depend on the columns of both parties."""
    made = make_job(folder, method='name = "auto"', tol=1e-4, rounds=100)
    tables = {
        name: [line.split(",") for line in (folder / f"{name}.csv").read_text().splitlines()] for name in made.parties
    }
    z = sum(np.array([row[1:3] for row in table[1:]], dtype=float).sum(axis=1) for table in tables.values())
    labels = LABELS[loss](z / 2, np.random.default_rng(1))
    header, *rows = tables["bank"]
    bank = [header, *([*row[:-1], repr(float(y))] for row, y in zip(rows, labels, strict=True))]
    (folder / "bank.csv").write_text("\n".join(",".join(row) for row in bank) + "\n")
    made.file.write_text(made.file.read_text().replace('loss = "logistic"', loss))
    job = read_job(made.file)
    files = [read_party(made.file, name) for name in made.parties]
    return (coordinate(job, files[0], files, None, Silent()) / "report.html").read_text()


@pytest.mark.parametrize(
    ("loss", "said", "unsaid"),
    [
        (COUNTS, ["deviance (lower", "rate ratio", "mean prediction", "Predicted and observed"], ["odds"]),
        (QUANTILES, ["of the labels are at or below the prediction, and 80% should be", "Labels below"], ["ratio"]),
        (NUMBERS, ["loss (lower", "RMSE", "R²", "mean prediction"], ["ratio", "deviance"]),
        (MARGINS, ["AUC", "the model picks", "ROC"], ["log loss", "odds ratio", "Calibration", "probabilit"]),
    ],
    ids=["counts", "quantiles", "numbers", "margins"],
)
def test_a_report_speaks_in_the_units_of_its_loss(
    tmp_path: Path, loss: str, said: list[str], unsaid: list[str]
) -> None:
    page = of_loss(tmp_path / "job", loss)
    assert not [text for text in said if text not in page]
    assert not [text for text in unsaid if text in page]
    figures = re.findall("<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) >= 4
    assert all("<polyline class=" in each or "<rect class=" in each for each in figures), "no chart is empty"


def test_the_mean_prediction_of_counts_is_that_of_the_labels(tmp_path: Path) -> None:
    """With an intercept the optimum of the Poisson loss predicts as many as there are."""
    page = of_loss(tmp_path / "job", COUNTS)
    found = re.search(r"the mean label is (\S+), and the mean prediction (\S+)\.", page)
    assert found is not None
    assert float(found[2]) == pytest.approx(float(found[1]), rel=1e-3)
