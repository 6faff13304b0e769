"""What members say to one another, what it tells, and what they refuse."""

import itertools
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plait.alignment.group import ELEMENT_BYTES, hash_to_group
from plait.alignment.ids import AlignmentOptions
from plait.alignment.mixing import Secret
from plait.alignment.proposal import Proposal
from plait.errors import InputError, PlaitError, PrivacyError, ProtocolError, StorageError
from plait.messages import Parcel

from .members import Listened, align, ids_of, invite, orders

BANK = [f"c{i}" for i in range(60)]
SHOP = [f"c{i}" for i in range(30, 90)]
TELE = [f"c{i}" for i in range(40, 100, 2)]


def elements(parcels: Sequence[Parcel], what: str = "give") -> list[bytes]:
    data = b"".join(parcel.data for parcel in parcels if parcel.what == what)
    return [data[i : i + ELEMENT_BYTES] for i in range(0, len(data), ELEMENT_BYTES)]


def test_every_member_ends_with_its_own_rows_in_the_order_of_the_ids(tmp_path: Path) -> None:
    sets = {"bank": BANK, "shop": SHOP[::-1], "tele": TELE}
    members = invite(tmp_path, sets)
    align(tmp_path, members)
    found = orders(tmp_path, members, {name: ids_of(name, [ids]) for name, ids in sets.items()})
    expected = sorted(set(BANK) & set(SHOP) & set(TELE))
    for name, ids in sets.items():
        assert [ids[row] for row in found[name].rows] == expected == list(found[name].ids)
        assert found[name].sizes == {"bank": 60, "shop": 60, "tele": 30}
        assert sorted(p.name for p in (tmp_path / name).iterdir()) == ["alignment.json", "order.npy"], "secrets stay"


def test_messages_under_two_secrets_share_nothing(tmp_path: Path) -> None:
    said = []
    for attempt in ("first", "second"):
        members = invite(tmp_path / attempt, {"bank": BANK, "shop": SHOP})
        align(tmp_path / attempt, members)
        said.append([elements(member.said) for member in members])
    for first, second in zip(*said, strict=True):
        assert len(set(first)) == len(first) == 120
        assert not set(first) & set(second)


def test_no_element_on_the_wire_is_a_hash_that_others_could_compute(tmp_path: Path) -> None:
    members = invite(tmp_path, {"bank": BANK, "shop": SHOP})
    align(tmp_path, members)
    ids = {name: ids_of(name, [values]) for name, values in (("bank", BANK), ("shop", SHOP))}
    known = {hash_to_group(message) for one in ids.values() for message in one.messages(range(len(one.texts)))}
    assert not known & {element for member in members for element in elements(member.said)}


def test_elements_look_like_random_ones(tmp_path: Path) -> None:
    """Every bit but the sign and the highest, which are always 0, is set in half of them: within five deviations."""
    members = invite(tmp_path, {"bank": [f"c{i}" for i in range(3000)], "shop": SHOP})
    align(tmp_path, members)
    own = np.frombuffer(b"".join(elements(members[0].said)[:3000]), np.uint8).reshape(-1, ELEMENT_BYTES)
    bits = np.unpackbits(own, axis=1, bitorder="little")
    assert not bits[:, 0].any()
    assert not bits[:, 255].any()
    assert np.all(np.abs(bits[:, 1:255].mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(3000))


def test_neither_order_nor_row_numbers_leak(tmp_path: Path) -> None:
    """The same rows leave in another order under every secret, and the same secret does not depend on their order."""
    places = []
    for attempt in range(25):
        folder = tmp_path / str(attempt)
        members = invite(folder, {"bank": BANK, "shop": SHOP})
        align(folder, members)
        sent = elements(members[0].said)[: len(BANK)]
        again = members[0].aligner.receive(Parcel("give", "bank", 0, len(BANK)))
        assert elements([again]) == sent, "a repeated question has the same answer"
        order = Secret(bytes.fromhex(members[0].aligner._state.seed)).order("bank", len(BANK))
        assert sorted(order) == list(range(len(BANK)))
        places.append(int(np.flatnonzero(order == 0)[0]))
    assert len(set(places)) > 12, "row 0 stands anywhere"
    assert 12 < np.mean(places) < 47


def test_every_hop_changes_the_order(tmp_path: Path) -> None:
    """What a member gives of another's set is what it took, blinded, in an order that only it knows."""
    members = invite(tmp_path, {"bank": BANK, "shop": SHOP, "tele": TELE})
    align(tmp_path, members)
    for member, other in itertools.permutations(members, 2):
        seed = bytes.fromhex(member.aligner._state.seed)
        order = Secret(seed).order(other.name, len(BANK))
        assert not np.array_equal(order, Secret(seed).order("somebody", len(BANK)))
        assert np.mean(order == np.arange(len(BANK))) < 0.2


def test_below_the_minimum_nobody_learns_which(tmp_path: Path) -> None:
    options = AlignmentOptions(min_rows=31)
    members = invite(tmp_path, {"bank": BANK, "shop": SHOP}, options)
    with pytest.raises(InputError, match=r"at least 31 rows\. Found 30"):
        align(tmp_path, members, options)
    assert not any(parcel.what in ("propose", "trace") for member in members for parcel in member.asked)


def test_one_who_declines_ends_it_for_all(tmp_path: Path) -> None:
    proposals: list[Proposal] = []

    def consent(proposal: Proposal) -> bool:
        proposals.append(proposal)
        return proposal.party != "shop"

    members = invite(tmp_path, {"bank": BANK, "shop": SHOP, "tele": TELE}, consent=consent)
    with pytest.raises(PrivacyError, match="shop declined"):
        align(tmp_path, members)
    assert {p.party for p in proposals} == {"bank", "shop", "tele"}
    assert {p.common for p in proposals} == {10}
    assert not any(parcel.what == "trace" for member in members for parcel in member.asked)


def test_keys_of_other_widths_are_refused(tmp_path: Path) -> None:
    members = invite(tmp_path, {"bank": BANK, "shop": SHOP})
    members[1].aligner._ids = ids_of("shop", [SHOP, SHOP])
    with pytest.raises(InputError, match="as many columns"):
        align(tmp_path, members)


@dataclass
class Rogue(Listened):
    """A member that changes what it says; it is far, as dishonest ones are."""

    change: Callable[[Parcel], Parcel] = lambda parcel: parcel

    def ask(self, parcel: Parcel) -> Parcel:
        return self.change(super().ask(parcel))


def replacing_one(element: bytes) -> Callable[[Parcel], Parcel]:
    def change(said: Parcel) -> Parcel:
        return replace(said, data=element + said.data[ELEMENT_BYTES:]) if said.what == "give" else said

    return change


ROGUES: dict[str, tuple[Callable[[Parcel], Parcel], str]] = {
    "identity": (replacing_one(bytes(32)), "canonical ristretto255"),
    "not canonical": (replacing_one(b"\xff" * 32), "canonical ristretto255"),
    "too many": (lambda p: replace(p, data=p.data + p.data[:32]) if p.what == "give" else p, "must give 60 elements"),
    "cut short": (lambda p: replace(p, data=p.data[:-1]) if p.what == "give" else p, "must give 60 elements"),
    "one twice": (
        lambda p: replace(p, data=p.data[:32] * 60) if p.what == "give" else p,
        "must (come once|be different)",
    ),
    "too large a set": (lambda p: replace(p, count=1 << 40) if p.what == "announce" else p, "may bring 1 to"),
    "takes nothing": (lambda p: replace(p, count=0) if p.what == "take" else p, "must take what it is given"),
    "other places": (
        lambda p: replace(p, data=b"\xff" * len(p.data)) if p.what == "trace" else p,
        "must lead back",
    ),
    "other ids": (lambda p: replace(p, data=bytes(32)) if p.what == "check" else p, "end with the same 30 ids"),
}


@pytest.mark.parametrize("rogue", ROGUES.values(), ids=ROGUES)
@pytest.mark.parametrize("at", [0, 1])
def test_a_rogue_member_is_noticed_and_nothing_is_kept(
    tmp_path: Path, rogue: tuple[Callable[[Parcel], Parcel], str], at: int
) -> None:
    change, what = rogue
    members: list[Any] = list(invite(tmp_path, {"bank": BANK, "shop": SHOP}))
    members[at] = Rogue(members[at].aligner, near=False, change=change)
    with pytest.raises(ProtocolError, match=what):
        align(tmp_path, members)
    assert not list(tmp_path.glob("*/alignment.json"))


REFUSED: dict[str, tuple[list[Parcel], str]] = {
    "unknown": ([Parcel("dance")], "knows no 'dance'"),
    "before the sizes": ([Parcel("give", "bank", 0, 1)], "must begin with the sizes"),
    "sizes without this party": ([Parcel("begin", data=b'{"a": 1, "b": 1}')], "the 60 ids of 'bank' among them"),
    "sizes too large": ([Parcel("begin", data=b'{"bank": 60, "shop": 4294967297}')], "max_rows"),
    "no sizes": ([Parcel("begin", data=b"[1]")], "whole numbers by party"),
    "no JSON": ([Parcel("begin", data=b"\xff")], "whole numbers by party"),
    "other sizes": (
        [Parcel("begin", data=b'{"bank": 60, "shop": 2}'), Parcel("begin", data=b'{"bank": 60, "shop": 3}')],
        "must stay the same",
    ),
}
BEGIN = Parcel("begin", data=b'{"bank": 60, "shop": 2}')
ELEMENT = hash_to_group(b"x")
REFUSED |= {
    "more than announced": ([BEGIN, Parcel("take", "shop", 0, 0, ELEMENT * 3)], "announced 2 ids. Found 3"),
    "a gap": ([BEGIN, Parcel("take", "shop", 1, 0, ELEMENT)], "must come in order"),
    "its own set": ([BEGIN, Parcel("take", "bank", 0, 0, ELEMENT)], "its own set came back"),
    "an unknown set": ([BEGIN, Parcel("take", "tele", 0, 0, ELEMENT)], "Found 'tele'"),
    "the identity": ([BEGIN, Parcel("take", "shop", 0, 0, bytes(32))], "identity"),
    "a half element": ([BEGIN, Parcel("take", "shop", 0, 0, ELEMENT[:31])], "32 bytes each"),
    "too much at once": ([BEGIN, Parcel("give", "bank", 0, 61)], "Found more"),
    "half a set": ([BEGIN, Parcel("take", "shop", 0, 0, ELEMENT), Parcel("give", "shop", 0, 1)], "Found 1 of it"),
    "tracing without consent": ([BEGIN, Parcel("trace", "bank", 0, 0, bytes(8))], "nothing is shown"),
    "an impossible number": ([BEGIN, Parcel("propose", count=3)], "at most 2"),
    "tracing more than agreed": (
        [BEGIN, Parcel("propose", count=1), Parcel("trace", "bank", 0, 0, bytes(16))],
        "1 common rows were agreed on. Found 2",
    ),
    "tracing one twice": (
        [BEGIN, Parcel("propose", count=2), Parcel("trace", "bank", 0, 0, bytes(16))],
        "must ascend",
    ),
    "another number": ([BEGIN, Parcel("propose", count=2), Parcel("propose", count=1)], "2 common rows were"),
    "the end before it": ([BEGIN, Parcel("propose", count=2), Parcel("check")], "Found 0"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_member_refuses_what_does_not_fit(tmp_path: Path, case: tuple[list[Parcel], str]) -> None:
    *fine, last = case[0]
    (member,) = invite(tmp_path, {"bank": BANK})
    for parcel in fine:
        member.ask(parcel)
    with pytest.raises(ProtocolError, match=case[1]):
        member.ask(last)


def test_a_member_that_comes_back_with_other_ids_is_refused(tmp_path: Path) -> None:
    (member,) = invite(tmp_path, {"bank": BANK})
    member.ask(BEGIN)
    with pytest.raises(StorageError, match="must belong to these ids"):
        invite(tmp_path, {"bank": [*BANK[:-1], "other"]})


def test_a_member_that_comes_back_with_another_secret_is_refused(tmp_path: Path) -> None:
    sets = {"bank": BANK, "shop": SHOP}
    members: list[Any] = list(invite(tmp_path, sets))
    members[1] = Mortal(members[1].aligner, left=5)
    with pytest.raises(Killed):
        align(tmp_path, members)
    wait_for_the_dead()
    shutil.rmtree(tmp_path / "shop")
    with pytest.raises(ProtocolError, match="party 'shop' must go on with the secret"):
        align(tmp_path, invite(tmp_path, sets))


def wait_for_the_dead() -> None:
    """The threads of a process die with it; here they end at their next question."""
    while any(thread.name.startswith("plait-meeting") for thread in threading.enumerate()):
        time.sleep(0.001)


class Killed(Exception):
    """Stands for the death of the whole process."""


@dataclass
class Mortal(Listened):
    """Dies before or after its n-th answer."""

    left: int = 0
    after: bool = False

    def ask(self, parcel: Parcel) -> Parcel:
        self.left -= 1
        if self.left == 0 and self.after:
            super().ask(parcel)
        if self.left == 0:
            raise Killed
        return super().ask(parcel)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 30))
def test_killed_at_any_question_it_goes_on_where_it_was(tmp_path: Path, at: int, after: bool) -> None:
    sets = {"bank": BANK, "shop": SHOP, "tele": TELE}
    members: list[Any] = list(invite(tmp_path, sets))
    members[1] = Mortal(members[1].aligner, left=at, after=after)
    try:
        align(tmp_path, members)
    except (Killed, PlaitError):
        wait_for_the_dead()
        members = list(invite(tmp_path, sets))
        align(tmp_path, members)
    found = orders(tmp_path, members, {name: ids_of(name, [ids]) for name, ids in sets.items()})
    assert list(found["shop"].ids) == sorted(set(BANK) & set(SHOP) & set(TELE))
