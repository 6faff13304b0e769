"""Connections of clients, on a real socket."""

import asyncio
import socket
from typing import Any

from plait.deployment.service.connections import HttpServer, bind
from plait.deployment.service.serve_options import ServeOptions


async def _hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def test_answers_wait_for_no_confirmation_and_web_sockets_alarm_nobody() -> None:
    """Without TCP_NODELAY the body of every answer waits for the client's delayed acknowledgement: 40 ms on Linux."""

    async def work() -> None:
        options = ServeOptions(http="127.0.0.1:0")
        notes: list[str] = []
        server = HttpServer(_hello, options, notes.append)
        with bind(options) as listening:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
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
