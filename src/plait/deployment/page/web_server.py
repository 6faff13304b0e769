"""Serves the live page over HTTP while a program runs: on this machine, or elsewhere to those who have its token."""

import asyncio
import hmac
import json
import secrets
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.responses import StreamingResponse as Stream
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from plait.deployment.http_server import Crowd, HttpServer, Listener, names_host
from plait.deployment.page.board import Board
from plait.deployment.report.rendering import render
from plait.errors import ConfigError, TransportError
from plait.transports.tls import is_loopback

_PAUSE = 0.5  # seconds between two messages to a page: as often as an eye needs numbers
_MOST_STREAMS = 16  # pages that are open at once: more than the people who watch one run
_FAREWELL = 2.0  # seconds for open pages to get the last state and the report
_GRACE = 1  # seconds for requests that are under way when the program ends
_CROWD = Crowd(64, 96)  # connections: far more than the pages that are open at once, far fewer than files of a process
_STATIC = Path(__file__).with_name("static")
_COOKIE = "plait_page"
_OPEN = ("/health", "/ready")
"""Paths that need no token: they tell a watchdog yes or no."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src "
    "'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class PageAddress:
    """host:port of the page; elsewhere than on this machine a token is needed."""

    host: str
    port: int
    token: str = ""

    @classmethod
    def of(cls, text: str) -> "PageAddress":
        """From host:port as it was typed."""
        host, _, port = text.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"--page must be host:port, such as 127.0.0.1:8081. Found {text!r}.")
        return cls(host.strip("[]"), int(port), "" if is_loopback(text) else secrets.token_urlsafe(24))


class PageServer:
    """The page of one board, in a thread of its own."""

    def __init__(self, board: Board, address: PageAddress) -> None:
        self._board = board
        self._token, self._host = address.token, address.host
        self._closing = False
        self._streams = 0
        self._socket = _listen(address)
        self.port = int(self._socket.getsockname()[1])
        host = f"[{address.host}]" if ":" in address.host else address.host
        self.url = f"http://{host}:{self.port}/" + (f"?token={self._token}" if self._token else "")
        self._server = HttpServer(
            self._app(), self._socket, _CROWD, _GRACE, lambda text: board.event("http", {"text": text})
        )
        self._thread = threading.Thread(target=self._serve, name="plait-page", daemon=True)

    def open(self) -> "PageServer":
        """Begin to serve."""
        self._thread.start()
        return self

    def _serve(self) -> None:
        asyncio.run(self._server.answer())

    def close(self) -> None:
        """Send the last state to open pages, then stop."""
        self._closing = True
        deadline = time.monotonic() + _FAREWELL
        while self._streams and time.monotonic() < deadline:
            time.sleep(0.05)
        self._server.should_exit = True
        self._thread.join(_FAREWELL)

    def _app(self) -> Any:
        routes = [
            Route("/", self._page),
            Route("/events", self._events),
            Route("/state", self._state),
            Route("/report", self._report),
            Route("/metrics", self._metrics),
            Route("/health", lambda _: PlainTextResponse("ok\n")),
            Route("/ready", self._ready),
            Route("/favicon.ico", lambda _: Response(status_code=204)),
            Mount("/static", StaticFiles(directory=_STATIC)),
        ]
        app = Starlette(routes=routes)

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            refusal = self._refusal(Request(scope))

            async def sealed(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message["headers"] += [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items()]
                await send(message)

            await (refusal or app)(scope, receive, sealed)

        return guarded

    def _refusal(self, request: Request) -> Response | None:
        """The refusal, or None: other sites that point a name at this machine, and requests without the token."""
        if not self._token and not names_host(request.headers.get("host", ""), self._host):
            return PlainTextResponse("The page is served under the name of this machine only.\n", 421)
        if not self._token or request.url.path in _OPEN:
            return None
        shown = request.query_params.get("token", "")
        if request.url.path == "/" and hmac.compare_digest(shown.encode(), self._token.encode()):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict")
            return answer
        kept = request.cookies.get(_COOKIE) or request.headers.get("authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(kept.encode(), self._token.encode()):
            return None
        return PlainTextResponse("Open the page with the address that the program printed: it has a token.\n", 403)

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(render("live.html", state=self._board.state()))

    async def _state(self, request: Request) -> Response:
        return Response(json.dumps(self._board.state()), media_type="application/json")

    async def _metrics(self, request: Request) -> Response:
        return PlainTextResponse(self._board.exposition())

    async def _ready(self, request: Request) -> Response:
        ready = self._board.ready
        return PlainTextResponse("all parties are connected\n" if ready else "a party is away\n", 200 if ready else 503)

    async def _report(self, request: Request) -> Response:
        path = Path(self._board.report)
        if not self._board.report or not path.exists():
            return PlainTextResponse("There is no report yet.\n", 404)
        return FileResponse(path, media_type="text/html")

    async def _events(self, request: Request) -> Response:
        if self._streams >= _MOST_STREAMS:
            return PlainTextResponse("Too many pages are open.\n", 503)
        return Stream(self._told(), media_type="text/event-stream")

    async def _told(self) -> AsyncIterator[str]:
        """How the program stands, whenever that has changed, and the points that are new."""
        self._streams += 1
        try:
            seen, before = 0, ""
            while True:
                last = self._closing
                state = json.dumps(self._board.state())
                mark, whole, points = self._board.curve.since(seen)
                if mark != seen:
                    yield _event("curve" if whole else "points", json.dumps(points))
                if state != before:
                    yield _event("state", state)
                seen, before = mark, state
                if last:
                    yield _event("over", "{}")
                    await asyncio.sleep(_PAUSE)  # the page fetches the report meanwhile
                    return
                await asyncio.sleep(_PAUSE)
        finally:
            self._streams -= 1


def _event(kind: str, data: str) -> str:
    return f"event: {kind}\ndata: {data}\n\n"


def _listen(address: PageAddress) -> Listener:
    try:
        return Listener(address.host, address.port)
    except OSError as error:
        raise TransportError(
            f"--page must be an address of this machine that is free. Found {address.host}:{address.port}: "
            f"{error.strerror}."
        ) from error
