"""The disclosure meter and its limits: what a party shows is counted, told, and ends where its owner says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import load_labels, load_rows
from plait.deployment.message_log import read_log
from plait.deployment.party_opening import open_party
from plait.deployment.party_privacy import spec_at
from plait.deployment.stored_party import StoredParty
from plait.errors import PrivacyError
from plait.messages import Broadcast, Share
from plait.training.assembly import assemble_coordinator
from plait.training.coordinator import Coordinator
from plait.training.coordinator_shield import CoordinatorShield, agree

from .conftest import Job, JobMaker
from .hostile import KEY, RUN
from .test_protection import LABELS, SUMS, run

ROWS, WIDTH = 1200, 4


def limited(job: Job, count: int) -> Job:
    with (job.folder / "shop.toml").open("a") as file:  # its last section is [trust]
        file.write(f"max_directions = {count}\n")
    return job


def sent(job: Job) -> list[int]:
    """Bytes of the shop's answers, over all runs, without its hints."""
    logs = [read_log(path) for path in sorted(job.folder.glob("runs/*/shop/audit.jsonl"))]
    return [e.facts["bytes"] for log in logs for e in log if e.facts["what"] == "sent" and e.facts["seq"] > 1]


def test_a_party_shows_no_more_directions_than_its_owner_allows_over_all_runs(jobs: JobMaker) -> None:
    job = limited(jobs(**LABELS), 3)
    for more in ((), ("--fresh",)):
        for name in job.parties:
            job.start(name, *(more if name == "bank" else ()))
        assert job.wait("shop") != 0
        assert job.wait("bank") != 0
    assert sum(size >= 8 * ROWS for size in sent(job)) == 3, "none in the second run"
    assert "gives 3 directions on these data, over all runs. Found 3 given" in job.log("shop")
    assert "0 of 4 directions of its columns were shown on these data before" in job.log("shop")
    assert "3 of 4 directions of its columns were shown on these data before" in job.log("shop")


def test_both_sides_are_told_in_numbers_what_was_shown_in_terminal_log_and_report(jobs: JobMaker) -> None:
    job = limited(jobs(**LABELS), 20)
    run(job)
    (shown,) = {line for line in job.log("shop").splitlines() if "has shown bank" in line}
    vectors = sum(size >= 8 * ROWS for size in sent(job))
    assert f"has shown bank {vectors} vectors of its scores: {min(vectors, WIDTH)} of 4 directions" in shown
    assert "trust.max_directions allows 20" in job.log("shop")
    assert "0 rows above 0.1" in job.log("shop")
    sums = "4 sums over all rows (D^T y, one a column)"
    assert f"shop learns of {ROWS} labels {sums}, however many rounds there are" in job.log("bank")
    assert f"shop has learnt {sums}" in job.log("bank")
    for role, words in (("shop", "Shop has shown bank"), ("coordinator", "Shop has learnt 4 sums")):
        folder = next(job.folder.glob(f"runs/*/{role}"))
        assert words in (folder / "report.html").read_text()
        lines = [entry.facts for entry in read_log(folder / "audit.jsonl")]
        assert {"shows", "has shown"} <= {facts["what"] for facts in lines}


def test_masked_vectors_do_not_count(jobs: JobMaker) -> None:
    job = limited(jobs(**SUMS), 1)
    run(job)
    assert "vectors of its scores, masked: none of its 4 directions" in job.log("shop")


@dataclass(frozen=True)
class Chosen(CoordinatorShield):
    """A coordinator that encrypts a vector of its choice in the place of the gradient: 1 in one row, 0 elsewhere."""

    rows: tuple[int, ...] = ()

    def seal(self, requests: Mapping[str, Broadcast], inward: bool) -> Any:
        changed = {}
        for name, request in requests.items():
            vector = request.vector
            if vector is not None:
                vector = np.zeros(vector.size)
                vector[self.rows[(request.round - 1) % len(self.rows)]] = 0.5 / vector.size  # as large as a gradient
            changed[name] = replace(request, vector=vector)
        return super().seal(changed, inward)


@dataclass
class Attack:
    """Asks the shop for chosen rows, one a round, and keeps its answers."""

    parties: dict[str, StoredParty]
    answers: list[np.ndarray]
    seq: int = 0

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        self.seq += 1
        found = {}
        for name, request in requests.items():
            found[name] = self.parties[name].answer(self.seq, request, self.seq - 1)
        vector = found["shop"].vector
        if vector is not None and vector.dtype == np.float64:
            self.answers.append(vector)
        return found


def attacked(job: Job, rows: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, bool]:
    """The shop's table, its answers (k, N) to indicators of these rows, and whether it ended the attack."""
    spec = read_job(job.file)
    files = {name: read_party(job.file, name) for name in job.parties}
    tables = {name: load_rows(spec, file) for name, file in files.items()}
    parties = {name: open_party(spec, files[name], tables[name], RUN, KEY) for name in job.parties}
    attack, at = Attack(parties, []), spec_at(spec, files["bank"])
    assert at.protection is not None
    honest = agree(at.protection, spec.parties, ROWS, attack, bytes(32))
    shield = Chosen(honest.sealers, honest.reader, honest.columns, honest.bytes, rows)
    task = assemble_coordinator(at, load_labels(spec, files["bank"]).values, None).task
    coordinator = Coordinator(task, at.method, shield=shield)
    ended = False
    try:
        for _ in rows:
            coordinator.absorb(attack.exchange(coordinator.requests()))
    except PrivacyError as error:
        ended = "trust.max_directions" in str(error)
    finally:
        for party in parties.values():
            party.close()
    return np.asarray(tables["shop"].matrix), np.array(attack.answers), ended


def read_from_known_rows(table: np.ndarray, answers: np.ndarray) -> float:
    """The error of reading unknown rows, of the columns' spread: a least-squares fit on 60 known ones."""
    known, seen = slice(0, 60), answers.T / np.abs(answers).max()
    fitted, *_ = np.linalg.lstsq(seen[known], table[known], rcond=None)
    return float(np.sqrt(np.mean((seen[60:] @ fitted - table[60:]) ** 2) / table[60:].var()))


def test_an_indicator_instead_of_the_gradient_reads_no_row_within_the_limit_and_all_rows_without(
    jobs: JobMaker,
) -> None:
    chosen = (700, 13, 1100, 251, 803, 404)
    table, answers, ended = attacked(limited(jobs(**LABELS), 2), chosen)
    assert ended
    assert len(answers) == 2
    q, _ = np.linalg.qr(table)
    for row, answer in zip(chosen, answers, strict=False):
        leverage = float(np.square(q[row]).sum())
        assert np.linalg.norm(answer - q @ (q.T @ answer)) < 1e-5 * np.linalg.norm(answer), "one vector of their space"
        assert answer[row] ** 2 <= 2 * leverage * float(answer @ answer), "its leverage bounds what is about the row"
    assert read_from_known_rows(table, answers) > 0.5
    table, answers, ended = attacked(jobs(**LABELS), chosen)
    assert not ended
    assert read_from_known_rows(table, answers) < 1e-4, "the attack is a real one: as many as there are columns do"
