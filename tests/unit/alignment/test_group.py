"""ristretto255 against the vectors of RFC 9496 and RFC 9497, and everything that is no element."""

import secrets

import pytest
import rbcl

from plait.alignment import group
from plait.alignment.group import ELEMENT_BYTES
from plait.errors import ProtocolError

BASE = bytes.fromhex("e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76")
OPRF_DOMAIN = b"HashToGroup-OPRFV1-\x00-ristretto255-SHA512"
BLIND = bytes.fromhex("64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706")
KEY = bytes.fromhex("5ebcea5ee37023ccb9fc2d2019f9d7737be85591ae8652ffa9ef0f4d37063b0e")
BLINDED = "609a0ae68c15a3cf6903766461307e5c8bb2f95e7e6550e1ffa2dc99e412803c"
EVALUATED = "7ec6578ae5120958eb2db1745758ff379e77cb64fe77b0b2d8cc917ea0869c7e"
NON_CANONICAL = [
    "00ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
]


def test_hashing_and_blinding_follow_the_vectors_of_rfc_9497() -> None:
    hashed = group.hash_to_group(b"\x00", OPRF_DOMAIN)
    blinded = group.blind(hashed, BLIND)
    assert blinded.hex() == BLINDED
    assert group.blind(blinded, KEY).hex() == EVALUATED


def test_multiples_of_the_base_follow_rfc_9496() -> None:
    two = (2).to_bytes(32, "little")
    assert group.blind(BASE, two).hex() == "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919"


def test_a_batch_is_its_elements_in_order_and_exponents_commute() -> None:
    messages = [f"id {i}".encode() for i in range(700)]
    a, b = (group.new_exponent(secrets.token_bytes(64)) for _ in range(2))
    alone = [rbcl.crypto_scalarmult_ristretto255(a, group.hash_to_group(message)) for message in messages]
    assert group.hash_and_blind(messages, a) == b"".join(alone)
    assert group.blind(group.hash_and_blind(messages, a), b) == group.blind(group.hash_and_blind(messages, b), a)


@pytest.mark.parametrize("bad", [*NON_CANONICAL, "00" * 32], ids=[*range(len(NON_CANONICAL)), "identity"])
def test_what_is_no_element_or_the_identity_is_refused_with_its_place(bad: str) -> None:
    exponent = group.new_exponent(secrets.token_bytes(64))
    elements = BASE * 300 + bytes.fromhex(bad) + BASE
    for refuse in (lambda: group.blind(elements, exponent), lambda: group.check(elements)):
        with pytest.raises(ProtocolError, match=r"canonical ristretto255 elements.*place 300"):
            refuse()


def test_elements_must_be_whole() -> None:
    with pytest.raises(ProtocolError, match=r"32 bytes each\. Found 33"):
        group.check(BASE + b"x")
    group.check(BASE * 3)
    assert group.blind(b"", BLIND) == b""
    assert len(group.hash_to_group(b"")) == ELEMENT_BYTES
