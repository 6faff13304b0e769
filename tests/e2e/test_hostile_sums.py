"""A coordinator that hands out other masking keys, or asks again, against a party's real program: no share leaves."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import load_labels
from plait.deployment.party_privacy import spec_at
from plait.messages import Broadcast, Share
from plait.protection.messages import Offer
from plait.protection.secure_sums import ANNOUNCEMENT_BYTES, Announcement, MaskingParty, Run
from plait.training.assembly import assemble_coordinator
from plait.training.coordinator import Coordinator
from plait.training.coordinator_shield import agree, hint_sizes
from plait.training.protected import from_words, to_words, words_of
from plait.transports import certificates
from plait.transports.certificates import Folder
from plait.transports.signatures import signed

from . import hostile
from .conftest import Job, JobMaker
from .test_blind import blind
from .test_hostile_protection import ROWS, some
from .test_protection import LABELS, SUMS

SMALL: dict[str, Any] = {**SUMS, "rows": ROWS}


def announced(job: Job, name: str, run: Run, signer: str = "", key: bytes = bytes(range(32))) -> Announcement:
    """A key in this name, signed with the certificate of `signer`, where it is another."""
    identity = hostile._identity(job, signer or name)
    return MaskingParty(run, name, key).announce(lambda data: signed(identity, data))


Made = Callable[[Job, Announcement], list[Announcement]]
"""The keys that the shop is told instead, after it has announced its own."""
KEYS: dict[str, tuple[Made, str]] = {
    "signed by the label party in the tele's name": (
        lambda job, own: [announced(job, "bank", own.run), own, announced(job, "tele", own.run, signer="bank")],
        "the key of tele must be signed by its certificate",
    ),
    "the shop's key under two names": (
        lambda job, own: [announced(job, "bank", own.run), own, replace(own, name="tele")],
        "the key of tele must be signed by its certificate",
    ),
    "two names exchanged": (
        lambda job, own: [
            replace(announced(job, "tele", own.run), name="bank"),
            own,
            replace(announced(job, "bank", own.run), name="tele"),
        ],
        "must be signed by its certificate",
    ),
    "of another run": (
        lambda job, own: [
            announced(job, "bank", own.run),
            own,
            announced(job, "tele", Run(own.run.job, "20250101-000000-000000")),
        ],
        "tele must announce one key for this run",
    ),
    "of another job": (
        lambda job, own: [announced(job, "bank", own.run), own, announced(job, "tele", Run("0" * 64, own.run.run))],
        "tele must announce one key for this run",
    ),
    "one party twice": (
        lambda job, own: [announced(job, "bank", own.run), own, announced(job, "bank", own.run)],
        "the keys must be those of bank, shop, tele",
    ),
    "one party less": (lambda job, own: [announced(job, "bank", own.run), own], "a vector must hold"),
    "not the one that the job pins": (
        lambda job, own: [announced(job, "bank", own.run), own, announced(job, "tele", own.run)],
        "the key of tele must be signed by its certificate",
    ),
}


@pytest.mark.parametrize("what", some(KEYS, "signed by the label party in the tele's name"))
def test_a_party_masks_nothing_under_keys_that_are_not_each_partys_own(jobs: JobMaker, what: str) -> None:
    job, (made, found) = jobs(**SMALL), KEYS[what]
    if "pins" in what:
        pinned = certificates.fingerprint(
            certificates.read_certificate(Folder(job.folder / "certs").certificate("bank"))
        )
        job.file.write_text(job.file.read_text() + f'[fingerprints]\ntele = "{pinned}"\n')
    answers: list[Any] = []

    def script(talk: hostile.Talk) -> None:
        talk.lengths |= {size + words_of(ANNOUNCEMENT_BYTES) for size in hint_sizes(ROWS)}
        first = talk.ask(Broadcast(0, to_words(Offer(ROWS, bytes(32)).encode())), 1)
        own = Announcement.decode(from_words(first.vector, 2)[1])
        keys = [each.encode() for each in made(job, own)]
        answers.append(talk.ask(Broadcast(0, to_words(*keys)), 2))

    with hostile.coordinator(job, script) as ended:
        job.start("shop")
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    assert not isinstance(answers[0], Share)
    assert found in job.log("shop")
    assert "Traceback" not in job.log("shop")
    assert not list(job.folder.glob("counts/shop-*-masks")), "nothing was masked"


Again = Callable[[list[Broadcast]], Broadcast]
AGAIN: dict[str, tuple[Again, str]] = {
    "the same broadcast as a round of its own": (
        lambda asked: replace(asked[-1], round=asked[-1].round + 1),
        "the gradient must be of round 2. Found 1",
    ),
    "the same broadcast in the same round": (lambda asked: asked[-1], "every round has one gradient"),
    "an offer": (
        lambda asked: Broadcast(0, to_words(Offer(ROWS, bytes(32)).encode())),
        "has rounds 1 to",
    ),
}


@pytest.mark.parametrize("what", some(AGAIN, "the same broadcast in the same round"))
def test_a_broadcast_that_is_repeated_under_another_number_is_not_answered(jobs: JobMaker, what: str) -> None:
    """Repeated under its own number it has its own answer, to the bit: nothing new."""
    job, (again, found) = jobs(**{**LABELS, "rows": ROWS}), AGAIN[what]
    spec, file = read_job(job.file), read_party(job.file, "bank")
    at, answers = spec_at(spec, file), []

    def script(talk: hostile.Talk) -> None:
        talk.lengths |= hint_sizes(ROWS)
        asked: list[Broadcast] = []

        class Line:
            def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
                asked.append(requests["shop"])
                answers.append(talk.ask(asked[-1], len(asked)))
                return {"bank": Share(0, answers[0].vector), "shop": answers[-1]}

        assert at.protection is not None
        shield = agree(at.protection, spec.parties, ROWS, Line(), bytes(32))
        task = assemble_coordinator(at, load_labels(spec, file).values, None).task
        coordinator = Coordinator(task, at.method, shield=shield)
        first = coordinator.requests()
        Line().exchange(first)
        answers.append(talk.ask(asked[-1], len(asked)))  # its own number
        answers.append(talk.ask(again(asked), len(asked) + 1))

    with hostile.coordinator(job, script) as ended:
        job.start("shop")
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    assert isinstance(answers[-2], Share)
    assert answers[-2].digest == answers[-3].digest
    assert not isinstance(answers[-1], Share)
    assert found in job.log("shop")


@pytest.mark.parametrize("protection", [LABELS, pytest.param(SUMS, marks=pytest.mark.slow)], ids=["labels", "sums"])
def test_a_party_with_a_row_that_stands_alone_joins_no_run(jobs: JobMaker, protection: dict[str, Any]) -> None:
    """A column of one row: its D^T g would be that row's g, and show its label."""
    job, heard = jobs(**{**protection, "rows": ROWS}), []
    path = job.folder / "shop.csv"
    head, first, *rest = path.read_text().splitlines()
    only = [",".join([*row.split(",")[:-1], "0"]) for row in rest]
    path.write_text("\n".join([head, ",".join([*first.split(",")[:-1], "1"]), *only]) + "\n")
    with hostile.coordinator(job, heard.append) as ended:
        job.start("shop")
        assert job.wait("shop", 60) != 0
        assert ended.wait(60)
    assert not heard, "it was never ready"
    assert "leverage" in job.log("shop")
    assert "Traceback" not in job.log("shop")
    assert not list(job.folder.rglob("protection.json")), "no secret was drawn"


def test_a_pinned_machine_cannot_be_replaced_by_one_of_the_authoritys(jobs: JobMaker) -> None:
    """The label party signs a certificate in the machine's name for a key of its own."""
    job, heard = blind(jobs), []
    known = certificates.fingerprint(certificates.read_certificate(Folder(job.folder / "certs").certificate("shop")))
    job.file.write_text(job.file.read_text() + f'[fingerprints]\nmachine = "{known}"\n')
    with hostile.coordinator(job, heard.append) as ended:
        job.start("shop")
        assert job.wait("shop", 60) != 0
        assert ended.wait(60)
    assert not heard
    assert "the coordinator's key must have the fingerprint" in job.log("shop")
