"""What leaves a deployed label party that protects its labels: nothing that depends on more than their reports."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import read_job, read_party
from plait.deployment.progress import Silent
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
