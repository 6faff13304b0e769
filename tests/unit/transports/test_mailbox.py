"""Requests and answers of one party across restarts."""

import threading
import time

import numpy as np
import pytest

from plait.errors import ProtocolError, StorageError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.mailbox import Ask, Desk


def answered(desk: Desk, count: int) -> Desk:
    for seq in range(1, count + 1):
        desk.put(seq, Parcel("give"))
        desk.deliver(seq, Parcel("given"))
    return desk


def test_a_party_that_forgot_what_later_requests_build_on_is_refused() -> None:
    with pytest.raises(ProtocolError, match="must have answered exchange 4"):
        answered(Desk("shop", kept=2), 5).sit(object(), last=0)


def test_a_party_may_forget_requests_that_do_not_build_on_one_another() -> None:
    session = object()
    desk = answered(Desk("shop", kept=0), 5)
    desk.sit(session, last=0)
    desk.put(6, Parcel("give"))
    asked = desk.next(session)
    assert isinstance(asked, Ask)
    assert asked.seq == 6


def test_a_party_that_forgot_a_little_is_asked_again_before_anything_new() -> None:
    session, desk = object(), Desk("shop", kept=4)
    desk.sit(session, last=1)  # before the coordinator has read its own journal again
    for seq in range(1, 4):
        desk.remember(seq, Broadcast(seq), Share(seq, np.full(2, float(seq))))
    desk.put(4, Broadcast(4))
    asked = []
    for seq in (2, 3, 4):
        ask = desk.next(session)
        assert isinstance(ask, Ask)
        asked.append((ask.seq, ask.before))
        desk.deliver(ask.seq, Share(seq, np.full(2, float(seq))))
    assert asked == [(2, 1), (3, 2), (4, 3)]


def test_a_party_that_answers_otherwise_when_asked_again_is_not_believed() -> None:
    session, desk = object(), Desk("shop", kept=4)
    desk.sit(session, last=0)
    for seq in (1, 2):
        desk.remember(seq, Broadcast(seq), Share(seq, np.full(2, float(seq))))
    with pytest.raises(StorageError, match="must repeat what it answered to exchange 1"):
        desk.deliver(1, Share(1, np.full(2, 1.5)))


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
