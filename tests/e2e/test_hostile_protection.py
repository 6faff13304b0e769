"""Peers that break the protected protocol, against real programs: refused before anything leaks, with the reason."""

import random
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from plait.data.parts import equal_weights
from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import load_labels, load_rows
from plait.deployment.party_opening import open_party
from plait.deployment.party_privacy import spec_at
from plait.errors import PrivacyError, ProtocolError
from plait.messages import Broadcast, Share
from plait.problem.features import Features
from plait.protection.fixed_point import encode_columns
from plait.protection.inner_product import GradientDecryptor
from plait.protection.messages import EncryptedGradient, Offer, hints_size
from plait.protection.parameters import REALS
from plait.training.assembly import assemble_coordinator, assemble_party
from plait.training.coordinator import Coordinator
from plait.training.coordinator_shield import agree, hint_sizes
from plait.training.protected import from_words, to_words
from plait.transports.frames import frames
from plait.transports.handshake import Refused

from . import hostile
from .conftest import JobMaker
from .test_protection import LABELS, SUMS

ROWS = 400  # those of a hostile party's greeting
SMALL: dict[str, Any] = {**LABELS, "rows": ROWS}
WIDE: dict[str, Any] = {**SMALL, "width": 20}  # noise passes for 20 columns once in 10,000 times


def some(cases: Mapping[str, Any], fast: str) -> list[Any]:
    """All cases, one of them without being asked for the slow tests."""
    return [pytest.param(name, marks=[pytest.mark.slow] * (name != fast)) for name in cases]


Spoil = Callable[[Broadcast, list[Broadcast]], Broadcast]


def changed(**facts: Any) -> Spoil:
    """The same ciphertext under another header."""

    def spoil(asked: Broadcast, before: list[Broadcast]) -> Broadcast:
        assert asked.vector is not None
        message = EncryptedGradient.decode(from_words(asked.vector, 1)[0])
        return replace(asked, vector=to_words(replace(message, **facts).encode()))

    return spoil


def flipped(asked: Broadcast, before: list[Broadcast]) -> Broadcast:
    assert asked.vector is not None
    data = bytearray(from_words(asked.vector, 1)[0])
    rng = random.Random(0)
    for _ in range(2000):
        data[rng.randrange(100, len(data))] ^= 0x55
    return replace(asked, vector=to_words(bytes(data)))


def replayed(asked: Broadcast, before: list[Broadcast]) -> Broadcast:
    return replace(asked, vector=before[-1].vector)


def in_the_clear(asked: Broadcast, before: list[Broadcast]) -> Broadcast:
    return replace(asked, vector=np.zeros(ROWS))


SPOILED: dict[str, tuple[Spoil, str]] = {
    "flipped": (flipped, "must open under this party's keys"),
    "of another round": (changed(round=7), "the gradient must be of round 2. Found 7"),
    "of the round before": (replayed, "the gradient must be of round 2. Found 1"),
    "of other hints": (changed(hints_digest=bytes(32)), "hints"),
    "in the clear": (in_the_clear, "a vector must hold one number for each of 7 or"),
}


@pytest.mark.parametrize("what", some(SPOILED, "of the round before"))
def test_a_gradient_that_is_not_this_rounds_for_this_party_is_not_answered(jobs: JobMaker, what: str) -> None:
    job, (spoil, found) = jobs(**WIDE), SPOILED[what]
    spec, file = read_job(job.file), read_party(job.file, "bank")
    at = spec_at(spec, file)
    own = assemble_party(at, "bank", Features(load_rows(spec, file).matrix), equal_weights(ROWS))
    answers: list[Any] = []

    def script(talk: hostile.Talk) -> None:
        asked: list[Broadcast] = []
        talk.lengths |= hint_sizes(ROWS)

        class Line:
            def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
                request = requests["shop"] if len(asked) < 2 else spoil(requests["shop"], asked)
                asked.append(request)
                answers.append(talk.ask(request, len(asked)))
                return {"bank": own.handle(requests["bank"]), "shop": answers[-1]}

        line = Line()
        assert at.protection is not None
        shield = agree(at.protection, spec.parties, ROWS, line, bytes(32))
        task = assemble_coordinator(at, load_labels(spec, file).values, None).task
        coordinator = Coordinator(task, at.method, shield=shield)
        coordinator.absorb(line.exchange(coordinator.requests()))
        line.exchange(coordinator.requests())

    with hostile.coordinator(job, script) as ended:
        job.start("shop")
        assert ended.wait(60)
        assert job.wait("shop", 60) != 0
    assert [isinstance(answer, Share) for answer in answers] == [True, True, False], "hints, round 1, and then nothing"
    assert found in job.log("shop")
    assert "Traceback" not in job.log("shop")


def hints_of(rows: int, columns: int = 4) -> bytes:
    table = np.random.default_rng(0).standard_normal((rows, columns))
    return GradientDecryptor(encode_columns(table, REALS), Offer(rows, bytes(32)), bytes(32), bytes(32)).hints.encode()


MALFORMED: dict[str, tuple[bytes, str]] = {
    "random bytes": (random.Random(1).randbytes(hints_size(4, REALS)), "must start with"),
    "of other rows": (hints_of(ROWS - 1), f"hints must be for {ROWS} rows. Found {ROWS - 1}"),
    "of other parameters": (hints_of(ROWS)[:5] + b"\x77" + hints_of(ROWS)[6:], "parameters must be one of"),
    "of too many columns": (hints_of(ROWS, ROWS // 10 + 1), "a vector must hold"),
    "cut short": (hints_of(ROWS)[:-8], "a vector must hold"),
}


@pytest.mark.parametrize("what", some(MALFORMED, "random bytes"))
def test_malformed_hints_end_the_run_before_a_gradient_is_encrypted_under_them(jobs: JobMaker, what: str) -> None:
    job, (hints, found) = jobs(**SMALL), MALFORMED[what]
    job.start("bank")
    job.until("bank", "listening")
    with hostile.party(job, "shop") as talk:
        offer = talk.hear()
        assert isinstance(offer, Broadcast)
        for data in frames(hostile.share_of(offer, vector=to_words(hints)), 1):
            talk.say(data)
        heard = talk.hear()
        assert job.wait("bank", 60) != 0
    assert not isinstance(heard, Broadcast)
    if isinstance(heard, Refused):
        assert found in heard.reason
    assert found in job.log("bank")
    assert "shop" in job.log("bank")
    assert "Traceback" not in job.log("bank")


def test_a_party_with_too_many_columns_refuses_before_it_dials(jobs: JobMaker) -> None:
    job = jobs(**{**SMALL, "rows": 30})
    job.start("shop")
    assert job.wait("shop", 60) != 0
    assert "at most 10% as many columns as rows" in job.log("shop")
    assert "Use fewer columns or more rows" in job.log("shop")


def test_a_party_that_has_lost_its_journal_and_secret_sends_no_other_share(jobs: JobMaker) -> None:
    """New secrets under old names would be a second share under a mask."""
    job = jobs(**{**SUMS, "patience": 20})
    job.start("bank")
    job.start("tele")
    job.start("shop", killed_at=("plait.deployment.journal:Journal.append", "after", "4"))
    assert job.wait("shop") == -9
    (checkpoint,) = job.folder.glob("runs/*/shop/checkpoint")
    shutil.rmtree(checkpoint)
    job.start("shop")
    assert job.wait("shop", 60) != 0
    assert "start over with --fresh" in job.log("shop")
    assert job.wait("bank", 60) != 0


def test_an_older_copy_of_the_folder_hides_nothing_else_under_a_mask_that_was_used(jobs: JobMaker) -> None:
    """A coordinator that lies about what came before asks for round 1 once more, with another gradient."""
    job, seq = jobs(**{**SUMS, "rows": ROWS}), 0
    spec = read_job(job.file)
    files = {name: read_party(job.file, name) for name in job.parties}
    tables = {name: load_rows(spec, file) for name, file in files.items()}
    parties = {name: open_party(spec, files[name], tables[name], hostile.RUN, hostile.KEY) for name in job.parties}

    class Line:
        def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
            nonlocal seq
            seq += 1
            return {name: parties[name].answer(seq, request, seq - 1) for name, request in requests.items()}

    at = spec_at(spec, files["bank"])
    assert at.protection is not None
    shield = agree(at.protection, spec.parties, ROWS, Line(), bytes(32))
    folder, copy = parties["shop"].folder.path, job.folder / "copy"
    shutil.copytree(folder, copy)
    task = assemble_coordinator(at, load_labels(spec, files["bank"]).values, None).task
    Line().exchange(Coordinator(task, at.method, shield=shield).requests())
    for party in parties.values():
        party.close()
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    restored = open_party(spec, files["shop"], tables["shop"], hostile.RUN, hostile.KEY)
    other = Coordinator(replace(task, labels=-task.labels), at.method, shield=shield).requests()["shop"]
    with closing(restored), pytest.raises(PrivacyError, match="a mask must hide one vector"):
        restored.answer(seq, other, seq - 1)


def test_numbers_far_beyond_all_scores_are_answered_by_finite_ones(jobs: JobMaker) -> None:
    """With counts a variance of 1e90 among the numbers beside a gradient gives a curvature that no double holds."""
    job = jobs(**SMALL)
    job.file.write_text(job.file.read_text().replace('loss = "logistic"', 'loss = "poisson"'))
    spec, files = read_job(job.file), {name: read_party(job.file, name) for name in ("bank", "shop")}
    at = spec_at(spec, files["bank"])
    shop = open_party(spec, files["shop"], load_rows(spec, files["shop"]), hostile.RUN, hostile.KEY)
    bank = assemble_party(at, "bank", Features(load_rows(spec, files["bank"]).matrix), equal_weights(ROWS))
    seq = 0

    class Line:
        def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
            nonlocal seq
            seq += 1
            return {"bank": bank.handle(requests["bank"]), "shop": shop.answer(seq, requests["shop"], seq - 1)}

    assert at.protection is not None
    shield = agree(at.protection, spec.parties, ROWS, Line(), bytes(32))
    task = assemble_coordinator(at, load_labels(spec, files["bank"]).values, None).task
    coordinator = Coordinator(task, at.method, shield=shield)
    coordinator.absorb(Line().exchange(coordinator.requests()))
    asked = coordinator.requests()
    scalars = asked["shop"].scalars.copy()
    scalars[11] = 1e90  # after ten settings and the mean
    with closing(shop), np.errstate(all="ignore"):
        answer = Line().exchange({**asked, "shop": replace(asked["shop"], scalars=scalars)})["shop"]
    assert answer.vector is not None
    assert np.isfinite(answer.vector).all()
    assert np.isfinite(answer.scalars).all()


def test_an_answer_of_numbers_that_are_not_finite_does_not_leave(jobs: JobMaker) -> None:
    job = jobs(**SMALL)
    spec, files = read_job(job.file), {"shop": read_party(job.file, "shop")}
    shop = open_party(spec, files["shop"], load_rows(spec, files["shop"]), hostile.RUN, hostile.KEY)
    with closing(shop), pytest.raises(ProtocolError, match="an answer must hold finite numbers"):
        shop._limits.check_share(1, Share(1, np.full(ROWS, np.nan), np.zeros(1)), sent_before=False)
