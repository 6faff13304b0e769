"""Many queries at once: who is there, what is answered, and what happens to the rest."""

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from plait.errors import MissingPartyError, PrivacyError, ProtocolError
from plait.messages import Share
from plait.transports import handshake
from plait.transports.frames import Kind, frames, pack, unpack
from plait.transports.handshake import Alive, Finished, Load, Meet, Query
from plait.transports.law import QueryLaw
from plait.transports.queries import QueryMailbox, QueryQueue

RUN = "20260101-120000-0a1b2c"


def share(*numbers: float) -> Share:
    return Share(0, np.array(numbers), np.zeros(len(numbers)))


def test_answers_find_their_questions_in_any_order() -> None:
    mailbox, session = QueryMailbox("shop"), object()
    mailbox.sit(session, 0)
    futures = [mailbox.ask(Query([str(i)])) for i in range(3)]
    asked = [mailbox.next_question(session) for _ in range(3)]
    for number, item in reversed(asked):  # type: ignore[misc, union-attr]
        mailbox.hear(number, share(float(item.ids[0])))
    assert [float(f.result(0).vector[0]) for f in futures] == [0.0, 1.0, 2.0]  # type: ignore[index]


def test_what_is_under_way_fails_at_once_when_the_party_leaves() -> None:
    mailbox, session = QueryMailbox("shop"), object()
    with pytest.raises(MissingPartyError, match="shop"):
        mailbox.ask(Query(["a"]))
    mailbox.sit(session, 0)
    future = mailbox.ask(Query(["a"]))
    mailbox.leave(session)
    with pytest.raises(MissingPartyError):
        future.result(0)
    assert not mailbox.present


def test_a_silent_party_counts_as_away_until_it_is_heard_again() -> None:
    mailbox, session = QueryMailbox("shop", silence=0.05), object()
    mailbox.sit(session, 0)
    assert mailbox.present
    threading.Event().wait(0.06)
    assert mailbox.connected
    assert not mailbox.present
    mailbox.hear(99, Alive())
    assert mailbox.present


def test_a_sign_of_life_is_asked_for_when_there_is_nothing_else() -> None:
    mailbox, session = QueryMailbox("shop"), object()
    mailbox.sit(session, 0)
    asked = mailbox.next_question(session)
    assert isinstance(asked, tuple)
    assert asked[1] == Alive()
    mailbox.finish(Finished(True, "done", {}))
    assert mailbox.next_question(session) == Finished(True, "done", {})


def test_a_queue_answers_all_that_wait_in_one_go_and_fails_them_together() -> None:
    begun, go = threading.Event(), threading.Event()
    sizes = []

    def look_up(queries: Sequence[Query]) -> list[Share]:
        begun.set()
        go.wait(10)
        sizes.append(len(queries))
        if any("bad" in query.ids for query in queries):
            raise PrivacyError("no")
        return [share(float(len(query.ids[0]))) for query in queries]

    queue = QueryQueue(look_up)
    first = queue.ask(Query(["a"]))
    assert begun.wait(10)
    others = [queue.ask(Query(["b" * n])) for n in range(1, 6)]
    go.set()
    assert float(first.result(10).vector[0]) == 1.0  # type: ignore[index]
    assert [float(f.result(10).vector[0]) for f in others] == [1.0, 2.0, 3.0, 4.0, 5.0]  # type: ignore[index]
    assert sizes == [1, 5]
    with pytest.raises(PrivacyError):
        queue.ask(Query(["bad"])).result(10)
    queue.close()


def test_the_law_takes_answers_to_what_was_asked_and_nothing_else() -> None:
    law = QueryLaw("shop")
    law.expect(1, Query(["a", "b"]))
    law.expect(2, Load(RUN, RUN))
    law.expect(3, Alive())
    (two,) = frames(share(1.0, 2.0), 1)
    found = law.read(two)
    assert isinstance(found, tuple)
    assert found[0] == 1
    assert law.read(handshake.encode(Load(RUN, RUN), 2)) == (2, Load(RUN, RUN))
    for wrong in (
        two,  # twice
        next(iter(frames(share(1.0), 7))),  # never asked
        handshake.encode(Load(RUN, RUN), 3),
        handshake.encode(Alive(), 9),
        handshake.encode(Query(["a"]), 3),
    ):
        with pytest.raises(ProtocolError):
            law.read(wrong)
    law.expect(6, Meet([]))
    assert law.read(handshake.encode(Meet(["ab"]), 6)) == (6, Meet(["ab"]))
    law.expect(7, Query(["a", "b"], RUN, "ab" * 32, 1))
    with pytest.raises(ProtocolError):  # parts in the clear where masked ones were asked for
        law.read(next(iter(frames(share(1.0, 2.0), 7))))
    law.expect(8, Query(["a", "b"], RUN, "ab" * 32, 1))
    masked = Share(0, np.arange(8, dtype=np.uint64), np.zeros(2))  # type: ignore[arg-type]
    assert isinstance(law.read(next(iter(frames(masked, 8)))), tuple)
    law.expect(4, Query(["a", "b"]))
    with pytest.raises(ProtocolError):
        law.read(next(iter(frames(share(1.0, 2.0, 3.0), 4))))
    law.expect(5, Load(RUN, RUN))
    with pytest.raises(ProtocolError):
        law.read(handshake.encode(Load("20260101-120000-ffffff", RUN), 5))


@pytest.mark.parametrize(
    ("requests", "meeting"),
    [([3], ""), ([1], ""), ([0, 2], ""), ([2, 0], ""), ([-1, 3], ""), ([1, 1], "ab" * 32)],
)
def test_requests_that_a_query_joins_have_each_id_once(requests: list[int], meeting: str) -> None:
    joined = Query(["a", "b"], RUN, requests=[1, 1])
    assert handshake.decode(unpack(handshake.encode(joined, 3))) == joined
    with pytest.raises(ProtocolError):
        Query(["a", "b"], RUN, meeting, requests=requests)


@pytest.mark.parametrize("wrong", ['["1","1"]', "[1.0,1]", "[true,true]", "2", "null", "[1,1e99]", f"[{1 << 70},1]"])
def test_requests_that_a_query_joins_are_whole_numbers(wrong: str) -> None:
    good = handshake.encode(Query(["a", "b"], RUN, requests=[1, 1]))
    payload = bytes(unpack(good).payload)
    assert b'"requests":[1,1]' in payload
    changed = payload.replace(b"[1,1]", wrong.encode())
    with pytest.raises(ProtocolError):
        handshake.decode(unpack(pack(Kind.CONTROL, 0, [changed])))
