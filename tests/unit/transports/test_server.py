"""The coordinator's end of real streams on loopback."""

import queue
import threading
import time
from typing import Any

import grpc
import pytest

from plait._version import __version__
from plait.errors import TransportError
from plait.messages import Broadcast
from plait.transports import handshake
from plait.transports.admission import Terms
from plait.transports.grpc_options import CONVERSE, SERVICE
from plait.transports.handshake import PROTOCOL, Hello, Ready
from plait.transports.server import Hub
from plait.transports.tls import PlainText


def test_closing_waits_for_what_conversations_have_to_note() -> None:
    noted, joined = [], threading.Event()

    def note(what: str, **facts: Any) -> None:
        if what == "left":
            time.sleep(0.5)  # as on a busy machine
        noted.append(what)
        joined.set()

    job, ids, key = "ab" * 32, "cd" * 32, "ef" * 32
    hub = Hub(Terms(("shop",), job, "fit", "20260101-120000-0a1b2c", key, 1, ids, patience=60), note)
    hub.put(1, {"shop": Broadcast(1)})
    port = hub.open("127.0.0.1:0", PlainText("bank"))
    say: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    say.put(handshake.encode(Hello(PROTOCOL, __version__, "shop", job, "fit")))
    say.put(handshake.encode(Ready(1, ids, 0)))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.stream_stream(f"/{SERVICE}/{CONVERSE}")(iter(say.get, b""))
        next(call)
        next(call)  # the request; the party never answers
        assert joined.wait(30)
        hub.close()
        assert noted == ["joined", "left"]
        say.put(b"")


def test_a_port_that_is_taken_is_an_error_with_the_remedy() -> None:
    terms = Terms(("shop",), "ab" * 32, "fit", "20260101-120000-0a1b2c", "ef" * 32, 1, "cd" * 32, patience=60)
    first, second = (Hub(terms, lambda what, **facts: None) for _ in range(2))
    port = first.open("127.0.0.1:0", PlainText("bank"))
    with pytest.raises(TransportError, match="--listen here, and --address"):
        second.open(f"127.0.0.1:{port}", PlainText("bank"))
    first.close()
