"""What leaves a deployed label party that protects its labels: nothing that depends on more than their reports."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import read_job, read_party
from plait.deployment.progress import Silent
from plait.errors import BudgetError, InputError
from plait.privacy import Budget, LedgerFolder, Policy
from plait.privacy.mechanisms.labels import RandomisedResponse
from plait.privacy.mechanisms.permanent import PermanentLabels
from plait.privacy.noise import InsecureTestNoise
from plait.studies.privacy_mutations import Mutation
from tests.attacks.test_deployed import PLAIN, RANGES
from tests.e2e.conftest import Job, JobMaker

BUDGET = "[privacy]\nepsilon = 9.0\ntest_noise = 7\n"
LABELS = 'labels = { name = "randomised-response", epsilon = 1.0 }\n'
JOBS = {
    "labels": {"more": f"[privacy]\n{LABELS}"},
    "labels and rows": {
        "more": f'[privacy]\n{LABELS}parties = {{ shop = {{ name = "recommended", epsilon = 1.0 }} }}\n',
        "method": 'name = "auto"',
    },
}


def with_labels(made: Job, labels: np.ndarray) -> None:
    """Put these labels into the label party's file."""
    path = made.folder / "bank.csv"
    head, *rows = path.read_text().splitlines()
    told = (f"{row.rpartition(',')[0]},{label:g}" for row, label in zip(rows, labels, strict=True))
    path.write_text("\n".join([head, *told]) + "\n")


def labels_of(made: Job) -> np.ndarray:
    return np.array([float(row.rpartition(",")[2]) for row in (made.folder / "bank.csv").read_text().splitlines()[1:]])


def twins(labels: np.ndarray) -> np.ndarray:
    """Labels that differ in many rows and report the same."""
    drawer, ids = PermanentLabels(InsecureTestNoise(7), "label holder", "people"), [f"r{i}" for i in range(labels.size)]
    same = drawer.draw(RandomisedResponse(1.0), labels, ids) == drawer.draw(RandomisedResponse(1.0), 1 - labels, ids)
    assert 20 < same.sum() < labels.size - 20
    return np.where(same, 1 - labels, labels)


def seen_by_others(made: Job) -> list[Any]:
    """Every message that the other party received, the sizes of its answers, and how it was told that the run ended."""
    job = read_job(made.file)
    files = [read_party(made.file, name) for name in job.parties]
    folder: Path = coordinate(job, files[0], files, None, Silent()).parent / "shop"
    log = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    # Its own answer brings a receipt of its ledger, whose key is another one in each folder.
    kept = {"sent": ("what", "seq", "bytes")}
    return [[e[key] for key in kept.get(e["what"], ("what", "seq", "bytes", "digest", "ok", "reason")) if key in e]
            for e in log]  # fmt: skip


@pytest.mark.parametrize("kind", JOBS)
def test_attack_3_a_deployed_label_party_sends_nothing_but_what_reports_tell(jobs: JobMaker, kind: str) -> None:
    own = {"bank": f'[prepare]\nscale = "none"\n{BUDGET}', "shop": RANGES + (BUDGET if "rows" in kind else "")}

    def both() -> list[list[Any]]:
        seen = []
        for swap in (False, True):
            made = jobs(**{**PLAIN, "rows": 200, **JOBS[kind], "own": own})
            if swap:
                with_labels(made, twins(labels_of(made)))
            seen.append(seen_by_others(made))
        return seen

    one, two = both()
    assert len([entry for entry in one if entry[0] == "received"]) >= 3
    assert one == two
    true = Mutation("true labels", "privacy.mechanisms.labels:RandomisedResponse.seen",
                    lambda f: lambda self, labels, draw: self.targets((labels > 0).astype(np.float64)),
                    lambda: False)  # fmt: skip
    with true.applied():
        one, two = both()
    assert one != two


@pytest.mark.parametrize("ids", [["x"] * 200, [str(i // 2) for i in range(200)], [*range(199), "0"]],
                         ids=["one for all", "pairs", "a number and its text"])  # fmt: skip
def test_attack_2_rows_that_share_an_id_share_no_noise(tmp_path: Path, ids: list[Any]) -> None:
    """One coin for all rows of a label would show every label, up to its name."""
    labels = np.where(np.random.default_rng(0).random(200) > 0.5, 1.0, -1.0)

    def reports(root: Path) -> np.ndarray:
        ledger = LedgerFolder(root, Budget(2.0))
        return Policy(labels=RandomisedResponse(1.0), ledger=ledger, ids=ids).protect_labels(labels)[0]

    with pytest.raises(InputError, match="an id of its own"):
        reports(tmp_path / "refused")
    shared = Mutation(
        "shared", "privacy.mechanisms.permanent:_need_different", lambda f: lambda names: None, lambda: False
    )
    if ids[0] == ids[-2]:
        with shared.applied():
            seen = [reports(tmp_path / str(k)) for k in range(10)]
        assert any(abs(np.corrcoef(each, labels)[0, 1]) == pytest.approx(1.0) for each in seen if np.ptp(each))


def test_ids_may_be_numbers(tmp_path: Path) -> None:
    labels, ledger = np.where(np.arange(50) % 3 == 0, 1.0, -1.0), LedgerFolder(tmp_path, Budget(1.0))
    numbers, texts = (
        Policy(labels=RandomisedResponse(1.0), ledger=ledger, ids=ids).protect_labels(labels)[0]
        for ids in (np.arange(50), [str(i) for i in range(50)])
    )
    assert np.array_equal(numbers, texts)


WRITTEN = {
    "case": lambda text: text.lower(),
    "white space": lambda text: f" {text} ",
    "wide characters": lambda text: "".join(chr(ord(c) + 0xFEE0) for c in text),
    "zeros": lambda text: f"P{int(text[1:])}",
    "marks that nobody sees": lambda text: "\ufeff" + text + "\u200b",
    "other digits": lambda text: "P" + "".join(chr(0x660 + int(digit)) for digit in text[1:]),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_attack_2_ids_that_are_written_in_another_way_are_paid_for(tmp_path: Path, how: str) -> None:
    """A job may compare ids without regard to case: then every label would be reported anew, for nothing."""
    ids, labels = [f"P{i:04}" for i in range(1, 101)], np.where(np.arange(100) % 3 == 0, 1.0, -1.0)

    def reports(names: list[str], budget: float) -> np.ndarray:
        ledger = LedgerFolder(tmp_path / str(budget), Budget(budget))
        return Policy(labels=RandomisedResponse(1.0), ledger=ledger, ids=names).protect_labels(labels)[0]

    other = [WRITTEN[how](name) for name in ids[:50]] + ids[50:]
    first = reports(ids, 1.0)
    assert np.array_equal(first, reports(ids, 1.0))
    with pytest.raises(BudgetError):
        reports(other, 1.0)
    reports(ids, 2.0)
    assert not np.array_equal(reports(ids, 2.0), reports(other, 2.0)), "other noise, which was paid for"
    assert LedgerFolder(tmp_path / "2.0", Budget(2.0)).ledger("label holder").spent().pure == 2.0
    blind = Mutation("blind", "privacy.mechanisms.permanent:as_person", lambda f: lambda name: name, lambda: False)
    with blind.applied():
        reports(ids, 1.5)
        reports(other, 1.5)


OTHER_NAMES = {
    "a digest": lambda i: hashlib.sha256(b"%d" % i).hexdigest(),
    "a hyphen": lambda i: f"P-{i}",
    "the number of the row": lambda i: i + 0.5,
    "several columns": lambda i: f'["de", "P{i}"]',
}


@pytest.mark.parametrize("how", OTHER_NAMES)
def test_attack_2_ids_of_another_column_are_paid_for(tmp_path: Path, how: str) -> None:
    """Under other ids every label would be reported anew: as often as a table has columns of ids."""
    ids, labels = [f"P{i}" for i in range(100)], np.where(np.arange(100) % 3 == 0, 1.0, -1.0)
    other, ledger = [OTHER_NAMES[how](i) for i in range(100)], LedgerFolder(tmp_path, Budget(2.0))

    def reports(names: Sequence[Any], folder: LedgerFolder = ledger) -> np.ndarray:
        return Policy(labels=RandomisedResponse(1.0), ledger=folder, ids=names).protect_labels(labels)[0]

    assert np.array_equal(reports(ids)[50:], reports([f"new {i}" for i in range(50)] + ids[50:])[50:])
    assert ledger.ledger("label holder").spent().pure == 1.0, "some new people among those of before cost nothing"
    assert not np.array_equal(reports(ids), reports(other))
    assert np.array_equal(reports(other), reports(other)), "once, for each name"
    assert ledger.ledger("label holder").spent().pure == 2.0
    with pytest.raises(BudgetError, match="other names of the same people"):
        reports([f"third name {i}" for i in range(100)])
    blind = Mutation("blind", "privacy.mechanisms.permanent:_names", lambda f: lambda pairs: 1, lambda: False)
    folder = LedgerFolder(tmp_path / "blind", Budget(1.0))
    with blind.applied():
        assert not np.array_equal(reports(ids, folder), reports(other, folder)), "two reports for the price of one"


def test_ids_that_differ_in_their_case_only_may_be_two_people(tmp_path: Path) -> None:
    """They are two reports, and it is not known of whom: both are charged to one person."""
    ids, labels = ["ab", "Ab", "c", "d"], np.array([1.0, -1.0, 1.0, -1.0])
    for budget, enough in ((1.0, False), (2.0, True)):
        policy = Policy(
            labels=RandomisedResponse(1.0), ids=ids, ledger=LedgerFolder(tmp_path / str(budget), Budget(budget))
        )
        if enough:
            policy.protect_labels(labels)
        else:
            with pytest.raises(BudgetError):
                policy.protect_labels(labels)
