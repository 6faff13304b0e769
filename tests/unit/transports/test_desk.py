"""Requests and answers of one party across restarts."""

import pytest

from plait.errors import ProtocolError
from plait.messages import Parcel
from plait.transports.desk import Desk


def answered(desk: Desk, count: int) -> Desk:
    for seq in range(1, count + 1):
        desk.put(seq, Parcel("give"))
        desk.deliver(seq, Parcel("given"))
    return desk


def test_a_party_that_forgot_what_later_requests_build_on_is_refused() -> None:
    with pytest.raises(ProtocolError, match="must have answered exchange 4"):
        answered(Desk("shop", kept=2), 5).sit(object(), last=0)


def test_a_party_may_forget_requests_that_do_not_build_on_one_another() -> None:
    assert answered(Desk("shop", kept=0), 5).sit(object(), last=0) == []
