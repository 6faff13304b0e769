"""Secure sums: exact for the coordinator, noise for any coalition that leaves two parties out."""

import numpy as np
import pytest
import scipy.stats
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from plait.errors import InputError, PrivacyError, ProtocolError, SettingError
from plait.protection.randomness import Stream
from plait.protection.secure_sums import (
    Announcement,
    MaskingParty,
    Run,
    check_outside,
    from_fixed,
    groups_of,
    to_fixed,
    total,
)

RUN = Run("credit", "2026-01")
CURVE = ec.ECDSA(hashes.SHA256())


class Certificates:
    """Signing keys of the parties, as their certificates hold them."""

    def __init__(self, names: list[str]) -> None:
        self.keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in names}

    def sign(self, name: str, data: bytes) -> bytes:
        return self.keys[name].sign(data, CURVE)

    def verify(self, name: str, data: bytes, signature: bytes) -> bool:
        try:
            self.keys[name].public_key().verify(signature, data, CURVE)
        except InvalidSignature:
            return False
        return True


def meeting(names: list[str], run: Run = RUN) -> dict[str, MaskingParty]:
    certificates = Certificates(names)
    parties = {name: MaskingParty(run, name, bytes([i + 1]) * 32) for i, name in enumerate(names)}
    sent = [parties[n].announce(lambda data, n=n: certificates.sign(n, data)).encode() for n in names]  # type: ignore[misc]
    for party in parties.values():
        party.meet([Announcement.decode(data) for data in sent], certificates.verify)
    return parties


def vectors(names: list[str], rows: int = 4000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(len(names))
    return {name: rng.standard_normal(rows) * 100 for name in names}


@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31)])
def test_a_key_with_which_every_secret_is_zero_is_refused_by_name(point: bytes) -> None:
    party = MaskingParty(RUN, "bank", b"\x07" * 32)
    with pytest.raises(ProtocolError, match="key of shop must be a point of full order"):
        party.meet([Announcement(RUN, "shop", point, b"")], lambda *signed: True)


@pytest.mark.parametrize("count", [2, 3, 10])
def test_the_sum_of_shares_is_the_fixed_point_sum_exactly(count: int) -> None:
    names = [f"bank-{i}" for i in range(count)]
    parties, data = meeting(names), vectors(names)
    shares = [parties[name].share(data[name], 7, "image") for name in names]
    exact = sum(np.rint(data[name] * 2.0**40).astype(np.int64).astype(object) for name in names)
    np.testing.assert_array_equal(from_fixed(total(shares)), (exact / 2**40).astype(float))
    np.testing.assert_allclose(from_fixed(total(shares)), sum(data.values()), atol=1e-11)
    shares[0] = parties[names[0]].share(data[names[0]], 8, "image")  # masks of another exchange do not cancel
    assert np.abs(from_fixed(total(shares)) - sum(data.values())).max() > 1e3


def test_one_share_is_uniform_noise() -> None:
    parties = meeting(["a", "b", "c"])
    share = parties["a"].share(np.zeros(20_000), 0, "image")
    assert scipy.stats.chisquare(np.bincount(share.view(np.uint8), minlength=256)).pvalue > 1e-6
    fixed = to_fixed(np.zeros(20_000), 3).view(np.uint8)  # without masks the same test must fail
    assert scipy.stats.chisquare(np.bincount(fixed, minlength=256)).pvalue < 1e-6


def unmasked_by(colluders: list[MaskingParty], victim: str, share: np.ndarray) -> np.ndarray:
    """The victim's share without the masks that the colluders know."""
    plain = share.copy()
    for party in colluders:
        mask = Stream(party._mask_key(victim, party._shared[victim], 1, "image")).words(share.size)
        plain = plain - mask if victim < party.name else plain + mask
    return plain


def test_all_but_two_parties_and_the_coordinator_learn_nothing_and_all_but_one_learn_everything() -> None:
    names = ["a", "b", "c", "d"]
    parties, data = meeting(names), vectors(names)
    share = parties["b"].share(data["b"], 1, "image")
    fewer = unmasked_by([parties["a"], parties["c"]], "b", share)
    assert scipy.stats.chisquare(np.bincount(fewer.view(np.uint8), minlength=256)).pvalue > 1e-6
    assert abs(np.corrcoef(fewer.view(np.int64).astype(float), data["b"])[0, 1]) < 0.1
    everyone = unmasked_by([parties["a"], parties["c"], parties["d"]], "b", share)
    np.testing.assert_array_equal(everyone, to_fixed(data["b"], 4))


def test_masks_need_the_private_key_of_one_of_the_two() -> None:
    parties = meeting(["a", "b", "c"])
    secrets = {(m, k): secret for m, party in parties.items() for k, secret in party._shared.items()}
    assert all(secrets[m, k] == secrets[k, m] for m, k in secrets)
    assert len(set(secrets.values())) == 3
    assert not {bytes(32), *(party.public_key for party in parties.values())} & set(secrets.values())


def test_masks_differ_in_every_exchange_thing_and_run() -> None:
    zero = np.zeros(100)
    one, other = meeting(["a", "b"])["a"], meeting(["a", "b"], Run("credit", "2026-02"))["a"]
    shares = [
        one.share(zero, 1, "image"),
        one.share(zero, 2, "image"),
        one.share(zero, 1, "penalty"),
        other.share(zero, 1, "image"),
    ]
    assert len({share.tobytes() for share in shares}) == 4
    assert np.array_equal(one.share(zero, 1, "image"), shares[0])


def test_a_second_vector_under_one_mask_is_refused_also_after_a_restart() -> None:
    used: dict[str, bytes] = {}
    names = ["a", "b"]
    certificates = Certificates(names)
    make = {n: MaskingParty(RUN, n, n.encode() * 32, used if n == "a" else None) for n in names}
    announced = [p.announce(lambda data, n=n: certificates.sign(n, data)) for n, p in make.items()]  # type: ignore[misc]
    make["a"].meet(announced, certificates.verify)
    first = make["a"].share(np.ones(5), 3, "image")
    restarted = MaskingParty(RUN, "a", b"a" * 32, used)
    restarted.meet(announced, certificates.verify)
    assert np.array_equal(restarted.share(np.ones(5), 3, "image"), first)
    with pytest.raises(PrivacyError, match="Start afresh"):
        restarted.share(np.full(5, 1.5), 3, "image")
    forgetful = MaskingParty(RUN, "a", b"a" * 32)  # its record was not durable
    forgetful.meet(announced, certificates.verify)
    difference = forgetful.share(np.full(5, 1.5), 3, "image") - first
    np.testing.assert_array_equal(difference, to_fixed(np.full(5, 0.5), 2))  # what the refusal prevents


def test_a_key_that_is_not_signed_for_this_run_and_name_is_refused() -> None:
    certificates = Certificates(["a", "b", "c"])
    a, b = MaskingParty(RUN, "a", b"a" * 32), MaskingParty(RUN, "b", b"b" * 32)
    good = b.announce(lambda data: certificates.sign("b", data))
    bad = [
        b.announce(lambda data: certificates.sign("c", data)),  # somebody else's certificate
        Announcement(RUN, "c", good.public_key, good.signature),  # somebody else's name
        Announcement(RUN, "b", b"x" * 32, good.signature),  # another key
        Announcement(Run("credit", "2025-12"), "b", good.public_key, good.signature),  # an old run
    ]
    for announcement in bad:
        with pytest.raises(ProtocolError):
            a.meet([announcement], certificates.verify)
    for announced in ([good, good], [a.announce(lambda data: b"")], []):
        with pytest.raises(ProtocolError):
            a.meet(announced, certificates.verify)
    with pytest.raises(ProtocolError, match="meet"):
        a.share(np.zeros(3), 0, "image")


def test_malformed_announcements_are_refused() -> None:
    party = MaskingParty(RUN, "a", b"a" * 32)
    good = party.announce(lambda data: b"signature").encode()
    assert Announcement.decode(good).encode() == good
    for bad in (
        b"",
        good[:-1],
        good + b"\0",
        b"X" + good[1:],
        good[:4] + b"\x09" + good[5:],
        good.replace(b"credit", b"\xff" * 6),
    ):
        with pytest.raises(ProtocolError):
            Announcement.decode(bad)


def test_numbers_that_do_not_fit_are_refused() -> None:
    parties = meeting(["a", "b"])
    for bad in (np.array([2.0**22]), np.array([np.nan]), np.array([-np.inf])):
        with pytest.raises(InputError, match="below"):
            parties["a"].share(bad, 0, "image")
    with pytest.raises(ProtocolError, match="one length"):
        total([np.zeros(2, dtype=np.uint64), np.zeros(3, dtype=np.uint64)])


def test_groups_have_at_least_three_parties() -> None:
    names = [f"p{i}" for i in range(11)]
    found = groups_of(names)
    assert sorted(name for group in found for name in group) == sorted(names)
    assert found[0][:2] == ("p0", "p3")  # neighbours in different groups
    assert sorted(len(group) for group in found) == [3, 4, 4]
    assert groups_of(names[:5]) == [tuple(names[:5])]
    with pytest.raises(SettingError, match="at least 3"):
        groups_of(names, 2)


def test_a_sum_needs_two_parties_outside_the_label_organisation() -> None:
    check_outside({"bank-data": "bank", "shop": "shop", "telco": "telco"}, "bank")
    with pytest.raises(SettingError, match="Found shop"):
        check_outside({"bank-data": "bank", "shop": "shop"}, "bank")
