"""Requests and answers of one party across restarts."""

import threading
import time

import numpy as np
import pytest

from plait.errors import ProtocolError, StorageError
from plait.messages import Broadcast, Parcel, Share
from plait.transports.handshake import Finished
from plait.transports.mailbox import Ask, Mailbox


def answered(mailbox: Mailbox, count: int) -> Mailbox:
    for seq in range(1, count + 1):
        mailbox.put(seq, Parcel("give"))
        mailbox.deliver(seq, Parcel("given"))
    return mailbox


def test_a_party_that_forgot_what_later_requests_build_on_is_refused() -> None:
    with pytest.raises(ProtocolError, match="must have answered exchange 4"):
        answered(Mailbox("shop", kept=2), 5).sit(object(), last=0)


def test_a_party_may_forget_requests_that_do_not_build_on_one_another() -> None:
    session = object()
    mailbox = answered(Mailbox("shop", kept=0), 5)
    mailbox.sit(session, last=0)
    mailbox.put(6, Parcel("give"))
    asked = mailbox.next(session)
    assert isinstance(asked, Ask)
    assert asked.seq == 6


def test_a_party_that_forgot_a_little_is_asked_again_before_anything_new() -> None:
    session, mailbox = object(), Mailbox("shop", kept=4)
    mailbox.sit(session, last=1)  # before the coordinator has read its own journal again
    for seq in range(1, 4):
        mailbox.remember(seq, Broadcast(seq), Share(seq, np.full(2, float(seq))))
    mailbox.put(4, Broadcast(4))
    asked = []
    for seq in (2, 3, 4):
        ask = mailbox.next(session)
        assert isinstance(ask, Ask)
        asked.append((ask.seq, ask.before))
        mailbox.deliver(ask.seq, Share(seq, np.full(2, float(seq))))
    assert asked == [(2, 1), (3, 2), (4, 3)]


def test_a_party_that_forgot_the_last_exchange_is_asked_again_before_it_hears_of_the_end() -> None:
    session, mailbox, share = object(), Mailbox("shop", kept=4), Share(1, np.full(2, 1.0))
    mailbox.remember(1, Broadcast(1), share)
    mailbox.finish(Finished(True, "done", {}))
    mailbox.sit(session, last=0)
    asked = mailbox.next(session)
    assert isinstance(asked, Ask)
    assert asked.seq == 1
    with pytest.raises(StorageError, match="must repeat what it answered to exchange 1"):
        mailbox.deliver(1, Share(1, np.full(2, 1.5)))
    mailbox.deliver(1, share)
    assert isinstance(mailbox.next(session), Finished)


def test_a_party_that_answers_otherwise_when_asked_again_is_not_believed() -> None:
    session, mailbox = object(), Mailbox("shop", kept=4)
    mailbox.sit(session, last=0)
    for seq in (1, 2):
        mailbox.remember(seq, Broadcast(seq), Share(seq, np.full(2, float(seq))))
    with pytest.raises(StorageError, match="must repeat what it answered to exchange 1"):
        mailbox.deliver(1, Share(1, np.full(2, 1.5)))


def test_a_head_start_ends_when_the_request_has_left_or_the_party_has() -> None:
    mailbox = Mailbox("shop")
    mailbox.put(1, Broadcast(1))
    start = time.monotonic()
    mailbox.wait_said(5.0)  # nobody is there
    session = object()
    mailbox.sit(session, 0)
    threading.Timer(0.05, lambda: mailbox.said(1)).start()
    mailbox.wait_said(5.0)
    mailbox.put(2, Broadcast(2))
    threading.Timer(0.05, lambda: mailbox.leave(session)).start()
    mailbox.wait_said(5.0)
    assert time.monotonic() - start < 4.0
    mailbox.sit(session, 1)
    start = time.monotonic()
    mailbox.wait_said(0.1)
    assert time.monotonic() - start >= 0.1


def test_a_request_that_was_answered_before_a_restart_is_not_waited_for() -> None:
    mailbox = Mailbox("shop")
    mailbox.remember(1, Broadcast(1), Share(1))
    mailbox.sit(object(), last=1)
    start = time.monotonic()
    mailbox.wait_said(5.0)
    assert time.monotonic() - start < 4.0
