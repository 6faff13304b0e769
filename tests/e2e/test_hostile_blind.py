"""A blind machine, or an owner, that breaks the protocol, against real programs: refused before anything leaks."""

import struct
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import load_rows
from plait.deployment.party_opening import open_party
from plait.messages import Broadcast, Share
from plait.protection.fixed_point import encode_columns
from plait.protection.inner_product import GradientDecryptor
from plait.protection.messages import Offer
from plait.protection.parameters import REALS
from plait.protection.secure_sums import Announcement, MaskingParty, Run
from plait.training.coordinator_shield import hint_sizes
from plait.training.protected import from_words, to_words
from plait.transports.frames import frames
from plait.transports.handshake import Refused
from plait.transports.signatures import signed

from . import hostile
from .conftest import JobMaker
from .hostile import KEY, RUN, Talk
from .test_blind import ROWS as BLIND_ROWS
from .test_blind import BlindJob, blind
from .test_hostile_protection import some

ROWS = 400  # those of a hostile party's greeting
ASK = Broadcast(0, to_words(b""))


def small(jobs: JobMaker) -> BlindJob:
    job = blind(jobs, (f"rows = {BLIND_ROWS}", f"rows = {ROWS}"))
    for name in job.parties:
        path = job.folder / f"{name}.csv"
        path.write_text("\n".join(path.read_text().splitlines()[: 1 + ROWS]) + "\n")
    return job


def told(*keys: bytes, rows: int = ROWS) -> Broadcast:
    return Broadcast(0, to_words(Offer(rows, bytes(32)).encode(), *keys))


Keys = tuple[bytes, bytes]
"""The announced keys of the bank and of the shop."""


def of_the_machine(job: BlindJob, keys: Keys) -> bytes:
    """A key of the machine's own in the bank's name, signed with the machine's certificate."""
    bank = Announcement.decode(keys[0])
    made = MaskingParty(bank.run, "bank", bytes(range(32)))
    return made.announce(lambda data: signed(hostile._identity(job, "machine"), data)).encode()


def of_another_run(job: BlindJob, keys: Keys) -> bytes:
    bank = Announcement.decode(keys[0])
    run = Run(bank.run.job, bank.run.run.replace("2026", "2025"))
    made = MaskingParty(run, "bank", bytes(range(32)))
    return made.announce(lambda data: signed(hostile._identity(job, "bank"), data)).encode()


def of_no_order(job: BlindJob, keys: Keys) -> bytes:
    """A point with which every secret, and so the order of the rows, would be known."""
    bank = Announcement.decode(keys[0])
    signature = signed(hostile._identity(job, "bank"), replace(bank, public_key=bytes(32)).signed_bytes())
    return replace(bank, public_key=bytes(32), signature=signature).encode()


Move = Callable[[BlindJob, Keys], list[Broadcast]]
MOVES: dict[str, tuple[Move, str]] = {
    "a key of its own in the bank's name": (
        lambda job, keys: [told(of_the_machine(job, keys), keys[1])],
        "the key of bank must be signed by its certificate",
    ),
    "the bank's key of another run": (
        lambda job, keys: [told(of_another_run(job, keys), keys[1])],
        "in one run. Found other ids, another order or another run at the other party",
    ),
    "a key that makes the order known": (
        lambda job, keys: [told(of_no_order(job, keys), keys[1])],
        "the key of bank must be a point of full order",
    ),
    "the shop's key as the bank's": (
        lambda job, keys: [told(keys[1], keys[1])],
        "the keys must be those of bank, shop",
    ),
    "no key": (lambda job, keys: [told()], "a vector must hold"),
    "an offer for other rows": (lambda job, keys: [told(*keys, rows=ROWS - 1)], "must be for 400 rows. Found 399"),
    "the other owner's key twice": (
        lambda job, keys: [told(*keys), told(of_the_machine(job, keys), keys[1])],
        "must state the sizes of its 1 or 2 parts",
    ),
    "a gradient in the clear": (
        lambda job, keys: [told(*keys), Broadcast(1, np.zeros(ROWS), np.zeros(55))],
        "a vector must hold",
    ),
}


@pytest.mark.parametrize("what", some(MOVES, "a key of its own in the bank's name"))
def test_a_machine_that_breaks_the_protocol_gets_no_share_of_an_owner(jobs: JobMaker, what: str) -> None:
    """Of what it is sent after its move, nothing is answered."""
    job, (move, found) = small(jobs), MOVES[what]
    spec, file = read_job(job.file), read_party(job.file, "bank")
    security = hostile._identity(job, "bank")
    bank = open_party(spec, file, load_rows(spec, file), RUN, KEY, security=security)
    answers: list[Any] = []

    def script(talk: Talk) -> None:
        talk.lengths |= hint_sizes(ROWS)
        own = talk.ask(ASK, 1)
        assert own.vector is not None
        other = bank.answer(1, ASK, 0).vector
        assert other is not None
        keys = from_words(other, 1)[0], from_words(own.vector, 1)[0]
        answers.extend(talk.ask(request, 2 + i) for i, request in enumerate(move(job, keys)))

    with closing(bank), hostile.coordinator(job, script) as ended:
        job.start("shop")
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    assert [isinstance(answer, Share) for answer in answers] == [True] * (len(answers) - 1) + [False]
    assert found in job.log("shop")
    assert "Traceback" not in job.log("shop")


@pytest.mark.slow
def test_a_machine_that_asks_for_no_key_gets_no_hints(jobs: JobMaker) -> None:
    job, answers = small(jobs), []

    def script(talk: Talk) -> None:
        answers.append(talk.ask(told(bytes(4096), bytes(4096)), 1))

    with hostile.coordinator(job, script) as ended:
        job.start("shop")
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    assert not isinstance(answers[0], Share)
    assert "a blind machine must ask for a key first" in job.log("shop")


def hints() -> bytes:
    table = np.random.default_rng(0).standard_normal((ROWS, 4))
    return GradientDecryptor(encode_columns(table, REALS), Offer(ROWS, bytes(32)), bytes(32), bytes(32)).hints.encode()


def numbers(value: float) -> bytes:
    return struct.pack(f"<{ROWS}d", *[1.0] * (ROWS - 1), value)


OWNERS: dict[str, tuple[str, Callable[[], Share], str]] = {
    "labels that are none": ("bank", lambda: Share(0, to_words(hints(), numbers(0.5))), "numbers that the loss knows"),
    "labels that are no numbers": (
        "bank",
        lambda: Share(0, to_words(hints(), numbers(np.nan))),
        "numbers that the loss knows",
    ),
    "fewer labels": ("bank", lambda: Share(0, to_words(hints(), numbers(1.0)[:-8])), "a vector must hold"),
    "no labels": ("bank", lambda: Share(0, to_words(hints())), "a vector must hold"),
    "labels of the other owner": ("shop", lambda: Share(0, to_words(hints(), numbers(1.0))), "a vector must hold"),
    "hints of zeros": (
        "shop",
        lambda: Share(0, to_words(bytes(len(hints())))),
        "party 'shop': a protected message must start with",
    ),
}


@pytest.mark.parametrize("what", some(OWNERS, "labels that are none"))
def test_an_owner_whose_first_words_are_malformed_ends_the_run_before_a_gradient_leaves(
    jobs: JobMaker, what: str
) -> None:
    job, (name, made, found) = small(jobs), OWNERS[what]
    job.start("machine")
    job.until("machine", "listening")
    with hostile.party(job, "bank") as bank, hostile.party(job, "shop") as shop:
        talks = {"bank": bank, "shop": shop}
        for each, talk in talks.items():
            assert isinstance(talk.hear(), Broadcast)
            key = MaskingParty(Run("job", "run"), each, bytes(32)).announce(lambda data: b"")  # only owners check it
            for data in frames(Share(0, to_words(key.encode())), 1):
                talk.say(data)
        good = {"bank": Share(0, to_words(hints(), numbers(1.0))), "shop": Share(0, to_words(hints()))}
        for each, talk in talks.items():
            assert isinstance(talk.hear(), Broadcast)
            for data in frames(made() if each == name else good[each], 2):
                talk.say(data)
        heard = [talk.hear() for talk in talks.values()]
        assert job.wait("machine", 60) != 0
    assert not any(isinstance(each, Broadcast) for each in heard)
    assert all(each is None or isinstance(each, Refused) or not each.ok for each in heard)
    assert found in job.log("machine"), job.log("machine")
    assert "Traceback" not in job.log("machine")
