"""Connections of clients, on a real socket."""

import asyncio
import socket
import ssl
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from plait.deployment.http_server import Crowd, HttpServer, Listener
from plait.transports.certificate_authority import init_authority
from plait.transports.certificates import Folder


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_answers_wait_for_no_confirmation_and_web_sockets_alarm_nobody() -> None:
    """Without TCP_NODELAY the body of every answer waits for the client's delayed acknowledgement: 40 ms on Linux."""

    async def work() -> None:
        notes: list[str] = []
        with Listener("127.0.0.1", 0) as listening:
            server = HttpServer(_hello, listening, Crowd(8, 16), 1, notes.append)
            serving = asyncio.create_task(server.answer())
            reader, writer = await asyncio.open_connection(*listening.getsockname()[:2])
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            (connection,) = server.server_state.connections
            taken = connection.transport.get_extra_info("socket")  # type: ignore[union-attr]
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            assert not notes, "nobody is told to install a library for web sockets"
            writer.close()
            server.stop()
            await serving

    asyncio.run(work())


@pytest.mark.threat(
    "HTTP client",
    "connections to the service that never finish TLS",
    "256 at once; of these the oldest gives way to a new one",
)
def test_connections_that_never_finish_tls_keep_nobody_out(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    init_authority(folder, "bank")
    trusting = ssl.create_default_context(cafile=str(folder.authority))
    with ExitStack() as stack:
        listening = stack.enter_context(Listener("127.0.0.1", 0))
        address = listening.getsockname()[:2]
        files = folder.certificate("bank"), folder.key("bank")
        notes: list[str] = []
        server = HttpServer(_hello, listening, Crowd(8, 16), 1, notes.append, *files)
        serving = threading.Thread(target=asyncio.run, args=(server.answer(),))
        serving.start()
        before = open_files()
        for _ in range(600):
            stack.enter_context(socket.create_connection(address, timeout=10))
        for _ in range(3):
            plain = stack.enter_context(socket.create_connection(address, timeout=10))
            with trusting.wrap_socket(plain, server_hostname="bank") as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                assert client.recv(1000).startswith(b"HTTP/1.1 200")
        assert open_files() - before - 600 < 350, "of the 600 connections, this end holds few"
        server.stop()
        serving.join(10)
        assert not serving.is_alive()
        assert not notes


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
