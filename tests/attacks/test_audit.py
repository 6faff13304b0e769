"""The audit bites: every probe holds on the shipped code, and every fault put into it is caught."""

import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import read_job, read_party
from plait.deployment.party_privacy import policy_at
from plait.deployment.progress import Silent
from plait.deployment.transcript import Recorded, RecordedExchange, Transcript, read_transcript
from plait.deployment.wiretap import Verdict, _against, _Stored, examine
from plait.studies.privacy_mutations import MUTATIONS, PROBES, Mutation, Probe
from tests.e2e.conftest import JobMaker
from tests.e2e.test_private import IN_THE_LOOP, ONE_PASS


@pytest.mark.parametrize("probe", [p for _, p in PROBES], ids=[n for n, _ in PROBES])
def test_every_probe_holds_on_the_shipped_code(probe: Probe) -> None:
    assert probe()


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[m.name for m in MUTATIONS])
def test_attack_12_every_fault_in_the_shipped_code_is_caught(mutation: Mutation) -> None:
    assert mutation.caught()


def test_a_fault_that_is_itself_broken_counts_as_nothing_caught() -> None:
    broken = Mutation("broken", "privacy.clipping:_finite", lambda f: lambda rows: rows.nonsense, PROBES[0][1])
    with pytest.raises(AttributeError):
        broken.caught()


def test_every_fault_finds_what_it_is_put_into() -> None:
    for mutation in MUTATIONS:
        with mutation.applied():
            pass


def test_there_are_enough_faults_and_each_is_undone() -> None:
    assert len({m.name for m in MUTATIONS}) == len(MUTATIONS) >= 25
    with MUTATIONS[0].applied():
        pass
    assert PROBES[0][1]()


def recorded(jobs: JobMaker, monkeypatch: pytest.MonkeyPatch, options: dict[str, object]) -> tuple[object, ...]:
    """A simulated run whose private party is recorded as a deployed one is."""
    from plait.deployment import coordinator_program

    made = jobs(**options)
    job = read_job(made.file)
    files = [read_party(made.file, name) for name in job.parties]
    opened = coordinator_program.open_party

    def tapped(job_: object, file: object, *rest: object, **more: object) -> object:
        party = opened(job_, file, *rest, **more)  # type: ignore[arg-type]
        return Recorded(party, party.folder.path, party.shape) if file.name == "shop" else party  # type: ignore[attr-defined]

    monkeypatch.setattr(coordinator_program, "open_party", tapped)
    folder = coordinate(job, files[0], files, None, Silent())
    shop = next(f for f in files if f.name == "shop")
    return job, shop, Path(folder.parent / "shop")


@pytest.mark.parametrize("options", [ONE_PASS, IN_THE_LOOP], ids=["one pass", "in the loop"])
def test_the_wiretap_names_the_charge_of_every_message(
    jobs: JobMaker,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, object],
) -> None:
    job, shop, folder = recorded(jobs, monkeypatch, {**options, "rows": 200})
    verdicts = examine(job, shop, folder)  # type: ignore[arg-type]
    assert all(v.covered for v in verdicts)
    charged = [name for v in verdicts for name in v.covered_by]
    assert len(charged) == len(set(charged)) >= 6
    assert any("share" in name or "Gram" in name for name in charged)


def test_the_wiretap_finds_a_number_that_nobody_paid_for(
    jobs: JobMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, shop, folder = recorded(jobs, monkeypatch, {**ONE_PASS, "rows": 200})
    transcript = read_transcript(folder)  # type: ignore[arg-type]
    policy = policy_at(job, shop)  # type: ignore[arg-type]
    assert policy.ledger is not None
    ledger = policy.ledger.ledger("shop")
    plan = ledger.charges()[0].release.plan

    def verdicts(exchanges: tuple[RecordedExchange, ...]) -> list[Verdict]:
        return _against(job, shop, Transcript(transcript.shape, exchanges), _Stored(ledger, plan))  # type: ignore[arg-type]

    assert all(v.covered for v in verdicts(transcript.exchanges))
    for k, exchange in enumerate(transcript.exchanges):
        scalars = np.append(exchange.sent.scalars, 1e-9)
        leaking = replace(exchange, sent=replace(exchange.sent, scalars=scalars))
        changed = (*transcript.exchanges[:k], leaking, *transcript.exchanges[k + 1 :])
        assert [v.covered for v in verdicts(changed)] == [i != k for i in range(len(changed))]


def test_the_wiretap_hears_every_answer_to_a_question_that_was_asked_twice(
    jobs: JobMaker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question may come again after a lost connection: another answer than before holds more."""
    job, shop, folder = recorded(jobs, monkeypatch, {**ONE_PASS, "rows": 200})
    path = folder / "transcript.jsonl"  # type: ignore[operator]
    heading, *lines = path.read_text().splitlines()
    for repeated in range(len(lines)):
        line = json.loads(lines[repeated])
        line["sent"]["scalars"] = base64.b64encode(np.array([1e-9]).tobytes()).decode()
        for twice, covered in (([lines[repeated]] * 2, True), ([json.dumps(line), lines[repeated]], False)):
            path.write_text("\n".join([heading, *lines[:repeated], *twice, *lines[repeated + 1 :]]) + "\n")
            assert all(v.covered for v in examine(job, shop, folder)) == covered  # type: ignore[arg-type]
