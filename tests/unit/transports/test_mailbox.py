"""Requests and answers of one party across restarts."""

import threading
import time

import pytest

from plait.errors import ProtocolError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.mailbox import Desk


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


def test_a_head_start_ends_when_the_request_has_left_or_the_party_has() -> None:
    desk = Desk("shop")
    desk.put(1, Broadcast(1))
    start = time.monotonic()
    desk.wait_said(5.0)  # nobody is there
    session = object()
    desk.sit(session, 0)
    threading.Timer(0.05, lambda: desk.said(1)).start()
    desk.wait_said(5.0)
    desk.put(2, Broadcast(2))
    threading.Timer(0.05, lambda: desk.leave(session)).start()
    desk.wait_said(5.0)
    assert time.monotonic() - start < 4.0
    desk.sit(session, 1)
    start = time.monotonic()
    desk.wait_said(0.1)
    assert time.monotonic() - start >= 0.1


def test_a_request_that_was_answered_before_a_restart_is_not_waited_for() -> None:
    desk = Desk("shop")
    desk.remember(1, Broadcast(1), Share(1))
    desk.sit(object(), last=1)
    start = time.monotonic()
    desk.wait_said(5.0)
    assert time.monotonic() - start < 4.0
