"""Connections to the service: many at once, none of them for long without a whole request.

uvicorn speaks HTTP.  What it leaves open is closed here: a client that sends the head of a request slowly or never, or
does not read its answer, and a crowd of such clients, which must not keep others out.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from plait._names import plain
from plait.deployment.service.serve_options import ServeOptions
from plait.errors import ConfigError

_LONGEST_HEAD = 10.0  # seconds for the head of a request, however slowly it comes
_MOST_CONNECTIONS = 512  # at once, of all clients, while some rest
_MOST_BUSY = 800  # while none rests: files that a process may open are 1024 on many machines
_LONGEST_UNREAD = 60.0  # seconds that an answer may wait for a client that does not read: as long as for a body
_KEEP_ALIVE = 30  # seconds that a connection may rest between two requests
_LARGEST_HEAD = 1 << 14  # bytes of a head: far more than a token and a few headers
_GRACE = 10  # seconds that requests which are under way have when the service ends


class GuardedConnection(H11Protocol):
    """One connection; when there are too many, new ones take the place of those on which nothing is being answered.

    Nothing is answered while a request is not whole, between two requests, and while the client does not read.
    """

    resting: ClassVar[dict["GuardedConnection", None]] = {}
    """Connections on which nothing is being answered, the one that has rested longest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _send_at_once(transport)
        self._head, self._unread = _Timer(transport.abort), _Timer(transport.abort)
        if len(self.connections) > _MOST_CONNECTIONS:
            crowded_out = next(iter(self.resting), self if len(self.connections) > _MOST_BUSY else None)
            if crowded_out is not None:
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
        self.resting.pop(self, None)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the request is answered as any other, and the owner needs no library for web sockets."""

    def _settle(self) -> None:
        """Note whether something is being answered."""
        cycle = self.cycle
        busy = cycle is not None and not cycle.response_complete and not cycle.more_body and not self._unread.runs
        if busy or self not in self.connections:
            self.resting.pop(self, None)
        else:
            self.resting.setdefault(self)


def _send_at_once(transport: asyncio.Transport) -> None:
    """Send the head and the body of an answer without a wait between them until the client has confirmed the head."""
    connected: socket.socket = transport.get_extra_info("socket")
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


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
    """uvicorn, ended by SIGINT or SIGTERM once requests that are under way are answered."""

    def __init__(self, app: Any, options: ServeOptions, note: Callable[[str], None]) -> None:
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
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_GRACE,
            h11_max_incomplete_event_size=_LARGEST_HEAD,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        try:
            config.load()
        except (OSError, ValueError) as error:  # the files of the certificate
            raise ConfigError(
                f"--tls-certificate and --tls-key must be PEM files that belong together. Found: {error}."
            ) from error
        super().__init__(config)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        """Take no new requests and end; a second time without waiting for those that are under way."""
        self.force_exit = self.should_exit
        self.should_exit = True


def bind(options: ServeOptions) -> socket.socket:
    """A socket that listens where the options say."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family, backlog=256)
    except OSError as error:
        raise ConfigError(f"--http must be an address of this machine that is free. Found: {error}.") from error


def _report_to(note: Callable[[str], None]) -> None:
    """Let what uvicorn has to say become lines of our own log."""

    class Reporter(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(plain(record.getMessage(), 200))

    logger = logging.getLogger("uvicorn.error")
    logger.handlers = [Reporter(logging.WARNING)]
    logger.propagate = False
