"""Bytes that do not fit are refused before anything is computed from them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import ProtocolError
from plait.protection.fixed_point import encode_columns, encode_gradient
from plait.protection.inner_product import GradientDecryptor, GradientEncryptor
from plait.protection.messages import MAX_COLUMNS, EncryptedGradient, Hints, Offer, key_ranges
from plait.protection.parameters import COUNTS, REALS

OFFER = Offer(300, bytes(32))


@pytest.fixture(scope="module")
def messages() -> dict[type, bytes]:
    data = (np.random.default_rng(0).random((300, 2)) < 0.5) * 1.0
    party = GradientDecryptor(encode_columns(data), OFFER, bytes(32), bytes(32))
    coordinator = GradientEncryptor(OFFER, party.hints, bytes(32))
    message = coordinator.encrypt(*encode_gradient(np.ones(300), COUNTS), 4)
    return {Offer: OFFER.encode(), Hints: party.hints.encode(), EncryptedGradient: message.encode()}


KINDS = [Offer, Hints, EncryptedGradient]


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_survives_its_bytes(kind: type, messages: dict[type, bytes]) -> None:
    assert kind.decode(messages[kind]).encode() == messages[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_other_sizes_marks_and_versions_are_refused(kind: type, messages: dict[type, bytes]) -> None:
    good = messages[kind]
    for bad in (b"", good[:3], good[:-1], good + b"\0", b"X" + good[1:], good[:4] + b"\x01" + good[5:]):
        with pytest.raises(ProtocolError):
            kind.decode(bad)
    for other in KINDS:
        if other is not kind:
            with pytest.raises(ProtocolError):
                other.decode(good)


def test_impossible_numbers_in_a_header_are_refused(messages: dict[type, bytes]) -> None:
    good = messages[Hints]
    for bad in (
        good[:5] + b"\x09" + good[6:],  # unknown parameters
        good[:6] + bytes(4) + good[10:],  # no rows
        good[:10] + (MAX_COLUMNS + 1).to_bytes(4, "big") + good[14:],
        good[:10] + (3).to_bytes(4, "big") + good[14:],  # one column more than there are bytes
    ):
        with pytest.raises(ProtocolError):
            Hints.decode(bad)
    gradient = messages[EncryptedGradient]
    with pytest.raises(ProtocolError, match="exponent"):
        EncryptedGradient.decode(gradient[:22] + b"\x7f\xff" + gradient[24:])


@given(st.sampled_from(KINDS), st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_refused(kind: type, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        kind.decode(data)


def test_rows_must_agree(messages: dict[type, bytes]) -> None:
    columns = encode_columns(np.ones((299, 1)))
    with pytest.raises(ProtocolError, match="299 rows"):
        GradientDecryptor(columns, OFFER, bytes(32))
    with pytest.raises(ProtocolError, match="301 rows"):
        GradientEncryptor(Offer(301, bytes(32)), Hints.decode(messages[Hints]), bytes(32))


@pytest.mark.parametrize("columns", [1, 110, 111, 171, 500, 4096])
def test_every_column_has_one_key_and_no_key_too_many(columns: int) -> None:
    for parameters in (COUNTS, REALS):
        ranges = key_ranges(columns, parameters)
        assert [j for start, stop in ranges for j in range(start, stop)] == list(range(columns))
        assert max(stop - start for start, stop in ranges) <= parameters.columns_per_key
