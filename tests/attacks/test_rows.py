"""Attacks through rows: people who have left the file, models of before, values that stop a release."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import read_job, read_party
from plait.deployment.progress import Silent
from plait.deployment.scorer import Scorer
from plait.errors import PrivacyError, ProtocolError
from plait.privacy import ClippedRows, InsecureTestNoise, Recommended
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.helper_fit import Helper, Lesson, fit_helper
from plait.problem.losses import Logistic, Poisson
from plait.problem.penalties import L2
from plait.studies.privacy_mutations import Mutation
from tests.attacks.test_deployed import KEY, PLAIN, PRIVATE, all_rows, new_rows, scored
from tests.attacks.test_library import N, data
from tests.e2e.conftest import JobMaker


def leave(path: Path) -> tuple[str, str]:
    """The first person leaves the training file; its heading, and that person's row."""
    head, first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([head, *rest]) + "\n")
    return head, first


@pytest.mark.parametrize("ids", ["r0", " R0", "r00", "r0\u200b", ""], ids=repr)
def test_attack_4_a_person_who_has_left_the_file_is_still_not_scored(jobs: JobMaker, ids: str) -> None:
    """Once trained on, a row belongs to the account, whatever the training file holds later and however it is named."""
    made = jobs(**PRIVATE)
    if not ids:
        for name in ("bank", "shop"):
            table, config = made.folder / f"{name}.csv", made.folder / f"{name}.toml"
            table.write_text("\n".join(line.partition(",")[2] for line in table.read_text().splitlines()) + "\n")
            config.write_text(config.read_text().replace('id = "id"\n', ""))
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    run = coordinate(job, files["bank"], list(files.values()), None, Silent()).parent.name
    shop = files["shop"]
    head, first = leave(made.folder / "shop.csv")
    first = first.replace("r0,", f"{ids},", 1)
    rows = [head, first, first.replace(first.split(",")[0], "stranger" if ids else "0.123", 1)]
    (made.folder / "asked.csv").write_text("\n".join(rows) + "\n")

    def given() -> list[float]:
        scorer = Scorer(job, shop, run, KEY, "asked.csv")
        try:
            from plait.transports.handshake import Query

            return list(scorer.look_up([Query(list(scorer.rows.ids))])[0].scalars)
        finally:
            scorer.close()

    assert given() == [1.0, 0.0]
    forgets = Mutation("forgets", "privacy.ledger.people:People.include",
                       lambda f: lambda self, names: np.zeros(len(list(names)), dtype=bool), lambda: False)  # fmt: skip
    with forgets.applied():
        assert given() == [0.0, 0.0]


def test_attack_6_a_party_with_a_budget_does_not_score_with_weights_of_an_unprotected_run(jobs: JobMaker) -> None:
    made = jobs(**PLAIN)
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    run = coordinate(job, files["bank"], list(files.values()), None, Silent()).parent.name
    assert scored(all_rows(Scorer(job, files["shop"], run, KEY, new_rows(files["shop"]))))
    path = made.folder / "shop.toml"
    path.write_text(path.read_text() + "\n[privacy]\nepsilon = 1.0\n")
    shop = read_party(made.file, "shop")
    with pytest.raises(PrivacyError, match="weights that were protected"):
        Scorer(job, shop, run, KEY, new_rows(shop))


@pytest.mark.parametrize("cell", ["abc", "2024-01-01", "\u00e9", "0x10", "true", "1 000", "--"])
def test_attack_8_no_text_in_a_private_row_stops_a_run(jobs: JobMaker, cell: str) -> None:
    """A text among numbers counts as missing, and changes no other row and no column."""
    prepared = []
    for text in ("", cell):
        made = jobs(**PRIVATE)
        path = made.folder / "shop.csv"
        head, first, *rest = path.read_text().splitlines()
        cells = first.split(",")
        path.write_text("\n".join([head, ",".join([cells[0], text, *cells[2:]]), *rest]) + "\n")
        job = read_job(made.file)
        files = {name: read_party(made.file, name) for name in job.parties}
        folder = coordinate(job, files["bank"], list(files.values()), None, Silent())
        prepared.append(json.loads((folder.parent / "shop" / "weights.json").read_text()))
    assert prepared[0]["weights"] == prepared[1]["weights"], "as if the cell were empty"
    assert prepared[0]["columns"] == prepared[1]["columns"] == ["a", "b", "c", "d"]


def test_attack_8_no_date_in_a_private_row_stops_a_run(jobs: JobMaker) -> None:
    for cell in ("", "31.02.1990", "soon"):
        made = jobs(**PRIVATE)
        table, config = made.folder / "shop.csv", made.folder / "shop.toml"
        head, *rows = table.read_text().splitlines()
        born = [cell, *(f"{1 + k % 28:02}.01.{1950 + k % 50}" for k in range(len(rows) - 1))]
        table.write_text("\n".join([head + ",born", *(f"{r},{b}" for r, b in zip(rows, born, strict=True))]) + "\n")
        text = config.read_text().replace(
            "d = [-5, 5] }", 'd = [-5, 5], born = [-60, 30] }\ndates = { born = "DD.MM.YYYY" }'
        )
        config.write_text(text)
        job = read_job(made.file)
        files = {name: read_party(made.file, name) for name in job.parties}
        coordinate(job, files["bank"], list(files.values()), None, Silent())


@pytest.mark.parametrize(
    ("told", "value"),
    [*itertools.product(["labels", "offset", "weights"], [np.nan, np.inf]), ("weights", 1e308)],
)
def test_attack_8_a_lesson_that_no_noise_can_be_made_for_is_refused_before_anything_is_charged(
    told: str, value: float
) -> None:
    """For slopes beyond any double the noise would be no number, and neither would the answers."""
    _, other, y = data()
    lesson = Lesson(Logistic(), 2 * y - 1, np.zeros(N), np.ones(N))
    lesson = replace(lesson, **{told: np.where(np.arange(N) == 3, value, getattr(lesson, told))})
    with np.errstate(all="ignore"), pytest.raises(ProtocolError, match="Nothing was released"):
        Helper.of(ClippedRows.of(other), L2(1e-3), Recommended(1.0), lesson, Book("run", "shop"), sketch=False)


def released(sign: float) -> np.ndarray:
    """The weights of a helper whose label party has set a trap for row 0: its slope overflows for one of two values."""
    _, other, y = data()
    rows, offset, weights = other.copy(), np.zeros(N), np.ones(N)
    rows[0] = sign * np.full(4, 0.5)
    offset[0], weights[0] = 709.78, 0.0  # exp(709.79) is the largest double, and 0 times infinity is no number
    lesson = Lesson(Poisson(), y, offset, weights)
    book = Book("run", "shop", InsecureTestNoise(0))
    with np.errstate(all="ignore"):
        helper = Helper.of(ClippedRows.of(rows), L2(1e-3), Recommended(1.0), lesson, book, sketch=False)
        return fit_helper(helper, lesson).weights


def test_attack_8_no_slope_that_overflows_stops_a_release() -> None:
    assert all(np.isfinite(released(sign)).all() for sign in (1.0, -1.0))
    partial = Mutation("partial", "privacy.mechanisms.releases:_bounded",
                       lambda f: lambda values: np.clip(values, -1.0, 1.0), lambda: False)  # fmt: skip
    with partial.applied(), pytest.raises(PrivacyError, match="finite"):
        released(1.0), released(-1.0)
