"""HTTP for the service and the live page: many connections at once, none of them for long without a whole request.

uvicorn speaks HTTP.  What it leaves open is closed here: a client that never finishes TLS, that sends the head of a
request slowly or never, or does not read its answer, and a crowd of such clients, which must not keep others out.
"""

import asyncio
import logging
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from plait._names import plain
from plait.errors import ConfigError

_LONGEST_HEAD = 10.0  # seconds for the head of a request, however slowly it comes
_MOST_GREETING = 256  # connections that have not come through TLS: an honest one takes a hundredth of a second
_MOST_LEAVING = 64  # of these, told to go and not gone yet: more are not accepted meanwhile
_LONGEST_UNREAD = 60.0  # seconds that an answer may wait for a client that does not read: as long as for a body
_KEEP_ALIVE = 30  # seconds that a connection may rest between two requests
_LARGEST_HEAD = 1 << 14  # bytes of a head: far more than a token and a few headers
_QUEUE = 256  # connections that the system lets wait until they are accepted
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True)
class Crowd:
    """How many connections a server has: `most` while some rest, and `busy` while none rests."""

    most: int
    busy: int


class Listener(socket.socket):
    """A socket that listens.  Of the connections that have not come through TLS the oldest gives way to a new one.

    No protocol knows of them yet, so nothing else ends them before they have taken every file of the process.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._greeting: dict[int, socket.socket] = {}
        self._leaving: list[socket.socket] = []
        try:
            self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.bind((host, port))
            self.listen(_QUEUE)
        except OSError:
            self.close()
            raise

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; BlockingIOError where it has to wait until others are gone."""
        self._leaving = [connection for connection in self._leaving if connection.fileno() >= 0]
        if len(self._leaving) >= _MOST_LEAVING:
            raise BlockingIOError
        connection, peer = super().accept()
        self._greeting.pop(connection.fileno(), None)
        self._greeting[connection.fileno()] = connection
        if len(self._greeting) > _MOST_GREETING:
            oldest = self._greeting.pop(next(iter(self._greeting)))
            with suppress(OSError):  # it has gone already
                oldest.shutdown(socket.SHUT_RDWR)
                self._leaving.append(oldest)
        return connection, peer

    def greeted(self, number: int) -> None:
        """The connection with this file number has come through TLS, or needs none."""
        self._greeting.pop(number, None)


class _Guests(ServerState):
    """What the connections of one server share."""

    def __init__(self, listening: Listener, crowd: Crowd) -> None:
        super().__init__()
        self.listening, self.crowd = listening, crowd
        self.resting: dict[GuardedConnection, None] = {}
        """Connections on which nothing is being answered, the one that has rested longest first."""


class GuardedConnection(H11Protocol):
    """One connection; when there are too many, new ones take the place of those on which nothing is being answered.

    Nothing is answered while a request is not whole, between two requests, and while the client does not read.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._guests = cast(_Guests, self.server_state)
        connected: socket.socket = transport.get_extra_info("socket")
        self._guests.listening.greeted(connected.fileno())
        # The head and the body of an answer leave without a wait between them until the client has confirmed the head.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head, self._unread = _Timer(transport.abort), _Timer(transport.abort)
        crowd = self._guests.crowd
        if len(self.connections) > crowd.most:
            crowded_out = next(iter(self._guests.resting), self if len(self.connections) > crowd.busy else None)
            if crowded_out is not None:
                self._guests.resting.pop(crowded_out, None)  # it leaves later: the next newcomer takes another place
                crowded_out.transport.abort()
        if not transport.is_closing():
            self._head.start(_LONGEST_HEAD)
            self._settle()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._head.stop()
            if self.conn.trailing_data[0]:  # the next request has come before this answer: thousands fit into a packet
                self.cycle.keep_alive = False
        elif not self.transport.is_closing():
            self._head.start(_LONGEST_HEAD)
        self._settle()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.start(_LONGEST_UNREAD)
        self._settle()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread.stop()
        self._settle()

    def on_response_complete(self) -> None:
        self._head.stop()
        super().on_response_complete()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head.stop()
        self._unread.stop()
        super().connection_lost(exc)
        self._guests.resting.pop(self, None)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the request is answered as any other, and the owner needs no library for web sockets."""

    def _settle(self) -> None:
        """Note whether something is being answered."""
        cycle = self.cycle
        busy = cycle is not None and not cycle.response_complete and not cycle.more_body and not self._unread.runs
        if busy or self not in self.connections:
            self._guests.resting.pop(self, None)
        else:
            self._guests.resting.setdefault(self)


class _Timer:
    """Calls a function after some time, unless it is stopped before."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float) -> None:
        """Start it, unless it runs."""
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(seconds, self._call)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class HttpServer(uvicorn.Server):
    """uvicorn on one listener, ended by SIGINT or SIGTERM once requests that are under way are answered.

    Parameters
    ----------
    app : ASGI application
    listening : Listener
    crowd : Crowd
    grace : int
        Seconds that requests which are under way have when the server ends.
    note : callable
        Told in words what goes wrong.
    certificate, key : Path, default=None
        PEM files for TLS.
    """

    def __init__(
        self,
        app: Any,
        listening: Listener,
        crowd: Crowd,
        grace: int,
        note: Callable[[str], None],
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        _report_to(note)
        config = uvicorn.Config(
            app,
            http=GuardedConnection,
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_QUEUE,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=grace,
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        try:
            config.load()
        except (OSError, ValueError) as error:  # the files of the certificate
            raise ConfigError(
                f"--tls-certificate and --tls-key must be PEM files that belong together. Found: {error}."
            ) from error
        super().__init__(config)
        self.server_state = _Guests(listening, crowd)
        self._listening = listening

    async def answer(self) -> None:
        """Serve until told to stop."""
        await self.serve(sockets=[self._listening])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        """Take no new requests and end; a second time without waiting for those that are under way."""
        self.force_exit = self.should_exit
        self.should_exit = True


def names_host(host: str, *more: str) -> bool:
    """Whether a request's header Host names this machine, or one of `more`: no site that points its own name here."""
    return re.sub(r":\d+$", "", host).lower() in (*_LOCAL_HOSTS, *more)


def _report_to(note: Callable[[str], None]) -> None:
    """Let what uvicorn has to say become lines of our own log."""

    class Reporter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(plain(record.getMessage(), 200))

    logger = logging.getLogger("uvicorn.error")
    logger.handlers = [Reporter(logging.WARNING)]
    logger.propagate = False
