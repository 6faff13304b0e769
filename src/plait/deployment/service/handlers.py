"""The handlers of the service, and the checks that every request passes first."""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plait._names import plain
from plait._version import __version__
from plait.deployment.http_server import names_host
from plait.deployment.progress import Progress
from plait.deployment.service.answers import (
    Health,
    HttpRefusal,
    Lines,
    Problem,
    Readiness,
    RowScore,
    RowScores,
    ScoresRequest,
    plain_answer,
)
from plait.deployment.service.batch import Batches, BatchRow, held, read_rows, stream
from plait.deployment.service.monitoring import TEXT, Counts
from plait.deployment.service.openapi import JSON, LINES, PAGE, Endpoint, endpoint, specification
from plait.deployment.service.panel import Panel
from plait.deployment.service.serve_options import ServeOptions
from plait.deployment.service.tokens import ANYBODY, Allowance, Client, Tokens
from plait.errors import PlaitError
from plait.transports.handshake import MOST_IDS

_LARGEST_BODY = 1 << 20  # bytes of a request to /scores: room for 100 long ids, too little to fill the memory
_LARGEST_BATCH = 1 << 25  # bytes of a request to /scores/batch: a million ids of 20 characters
_LONGEST_BODY = 60.0  # seconds for a whole body, however slowly it comes
_REQUEST_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_UNSTORED = (b"cache-control", b"no-store")
_BAD, _WHO, _LARGE = HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.REQUEST_ENTITY_TOO_LARGE
_KIND, _OFTEN, _AWAY = (
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_SCORING = (_BAD, _WHO, _LARGE, _KIND, _OFTEN, _AWAY)


class Handlers:
    """What the service answers; every public method is an endpoint.

    Parameters
    ----------
    panel : Panel
        The parties.
    options : ServeOptions
    tokens : Tokens
        Who may ask; anybody where there are none.
    """

    def __init__(self, panel: Panel, options: ServeOptions, tokens: Tokens) -> None:
        self.panel = panel
        self.options = options
        self.tokens = tokens
        self.counts = Counts()
        self.batches = Batches()
        self._allowances: dict[tuple[str, int], Allowance] = {}

    @endpoint(Endpoint("POST", "/scores", _SCORING, open=False))
    async def scores(self, asked: ScoresRequest, client: Client) -> RowScores:
        """Score rows by id, all parties together."""
        most = min(self.options.most_ids, MOST_IDS)
        if len(asked.ids) > most:
            raise HttpRefusal(_BAD, f"at most {most} ids in one request. Found {len(asked.ids)}. See /scores/batch.")
        self._take(client, len(asked.ids))
        found = await self.panel.scores(asked.ids)
        self.counts.scored(client.name, len(asked.ids))
        return found

    @endpoint(Endpoint("POST", "/scores/batch", _SCORING, open=False))
    async def batch(self, asked: list[BatchRow], client: Client) -> Lines[RowScore]:
        """Score many rows: one JSON object with an id per line comes in, one with its score per line goes out."""
        if absent := self.panel.absent:
            raise HttpRefusal(_AWAY, f"{', '.join(absent)} cannot be reached now. Try again.", *absent)
        self._take(client, len(asked))
        self.counts.scored(client.name, len(asked))
        return Lines(stream(self.batches, self.panel, [row.id for row in asked]))

    @endpoint(Endpoint("GET", "/health"))
    async def health(self) -> Health:
        """Whether the process answers."""
        return Health("ok", __version__)

    @endpoint(Endpoint("GET", "/ready", (_AWAY,)))
    async def ready(self) -> Readiness:
        """Whether all parties are here, so that scores can be given; status 503 while they are not."""
        absent = self.panel.absent
        return Readiness("waiting" if absent else "ready", self.panel.model.run, absent)

    @endpoint(Endpoint("GET", "/metrics", (_WHO,), open=False, kind="text/plain"))
    async def metrics(self) -> str:
        """Counts and times for Prometheus."""
        return self.counts.page(self.panel.model.run, self.panel.present)

    @endpoint(Endpoint("GET", "/openapi.json"))
    async def openapi(self) -> dict[str, Any]:
        """This description."""
        return specification(self.all(), self.tokens.needed)

    def all(self) -> list[Callable[..., Awaitable[Any]]]:
        """Every handler."""
        found = (getattr(self, name) for name, value in vars(type(self)).items() if hasattr(value, "endpoint"))
        return list(found)

    def _take(self, client: Client, count: int) -> None:
        """Count ids against the client's own limit."""
        limit = self.options.per_minute if client is ANYBODY else client.per_minute
        allowance = self._allowances.setdefault((client.name, limit), Allowance(limit))
        if not allowance.take(count):
            raise HttpRefusal(_OFTEN, f"at most {limit} ids a minute for {client.name}. Found {count} more. Wait.")


class Door:
    """Checks every request, passes it to its handler, and writes one line with number, client and time into the log."""

    def __init__(self, handlers: Handlers, progress: Progress) -> None:
        self._handlers = handlers
        self._progress = progress
        self._tokens = handlers.tokens

    def app(self) -> ASGIApp:
        """The application: requests for what there is go straight to their handler, all others through Starlette."""
        ways = {(h.endpoint.method, h.endpoint.path): self._answering(h) for h in self._all()}
        routes = [Route(path, answer, methods=[method]) for (method, path), answer in ways.items()]
        errors: Any = {404: self._nothing, 405: self._nothing}
        others = Starlette(routes=[Route("/", self._page), *routes], exception_handlers=errors)

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            answer = ways.get((scope.get("method", ""), scope.get("path", "")))
            if answer is None:
                await others(scope, receive, send)
            else:
                response = await answer(Request(scope, receive, send))
                await response(scope, receive, send)

        return app

    def _all(self) -> list[Any]:
        return list(self._handlers.all())

    def _answering(self, handler: Any) -> Callable[[Request], Awaitable[Response]]:
        about: Endpoint = handler.endpoint

        async def answer(request: Request) -> Response:
            number, began, counts = _number(request), time.perf_counter(), self._handlers.counts
            client, response = ANYBODY, None
            counts.under_way += 1
            try:
                self._check_site(request)
                if not about.open:
                    client = self._client(request)
                response = await self._handled(handler, about, request, client)
            except HttpRefusal as refusal:
                response = _refused(refusal, number)
            except ClientDisconnect:
                response = _refused(HttpRefusal(_BAD, "the request broke off."), number)
            except PlaitError as error:
                self._progress.event("failed", {"request": number, "reason": plain(str(error), 500)})
                response = _refused(HttpRefusal(HTTPStatus.INTERNAL_SERVER_ERROR, "see the log."), number)
            finally:
                counts.under_way -= 1
                status = 500 if response is None else response.status_code
                self._log(number, about, client, status, time.perf_counter() - began)
            response.raw_headers += [(b"x-request-id", number.encode()), _UNSTORED]
            return response

        return answer

    async def _handled(self, handler: Any, about: Endpoint, request: Request, client: Client) -> Response:
        given: dict[str, Any] = {}
        if about.path == "/scores":
            given = {"asked": _read_ids(await _body(request, JSON, _LARGEST_BODY)), "client": client}
        elif about.path == "/scores/batch":
            batch = self._handlers.batches.begin(client.name)
            body = await _body(request, LINES, _LARGEST_BATCH)
            given = {"asked": await asyncio.to_thread(read_rows, body), "client": client}
        answer = await handler(**given)
        if isinstance(answer, str):
            return Response(answer, media_type=TEXT)
        if isinstance(answer, Lines):
            return StreamingResponse(held(answer.chunks, batch), media_type=LINES)
        waits = isinstance(answer, Readiness) and answer.absent
        return _json(plain_answer(answer), _AWAY if waits else HTTPStatus.OK)

    def _log(self, number: str, about: Endpoint, client: Client, status: int, seconds: float) -> None:
        self._handlers.counts.request(about.path, client.name, status, seconds)
        facts = {"method": about.method, "path": about.path, "status": status, "client": client.name}
        self._progress.event("request", {"request": number, **facts, "seconds": round(seconds, 4)})

    def _check_site(self, request: Request) -> None:
        """Refuse what another site sends through somebody's browser."""
        options = self._handlers.options
        if options.local and not names_host(request.headers.get("host", ""), options.host):
            raise HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, f"this service is {options.http}.")
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise HttpRefusal(HTTPStatus.FORBIDDEN, "other sites may not ask here.")

    def _client(self, request: Request) -> Client:
        if not self._tokens.needed:
            return ANYBODY
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        client = self._tokens.find(token.strip()) if kind.lower() == "bearer" else None
        if client is None:
            raise HttpRefusal(_WHO, "a valid token must come with the request: Authorization: Bearer TOKEN.")
        return client

    async def _page(self, request: Request) -> Response:
        return HTMLResponse(PAGE)

    async def _nothing(self, request: Request, error: Exception) -> Response:
        return _refused(HttpRefusal(HTTPStatus.NOT_FOUND, "there is nothing here. See /."), _number(request))


async def _body(request: Request, kind: str, largest: int) -> bytes:
    """The body, which must be of this type (forms of other sites cannot send it), and not large, nor slow."""
    found = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if found != kind:
        raise HttpRefusal(_KIND, f"the body must be {kind}.")
    length = request.headers.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 10) or int(length) > largest:
        raise HttpRefusal(_LARGE, f"the body must have a length, at most {largest >> 20} MiB.")
    try:
        async with asyncio.timeout(_LONGEST_BODY):
            return await request.body()
    except TimeoutError:
        raise HttpRefusal(HTTPStatus.REQUEST_TIMEOUT, f"the body must come within {_LONGEST_BODY:g} s.") from None


def _read_ids(body: bytes) -> ScoresRequest:
    try:
        ids = json.loads(body)["ids"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HttpRefusal(_BAD, 'the body must be {"ids": ["...", ...]}.') from None
    if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids) or not ids:
        raise HttpRefusal(_BAD, "ids must be a list of texts.")
    if any("\ud800" <= character <= "\udfff" for text in ids for character in text):
        raise HttpRefusal(_BAD, "ids must be whole characters. Found half of one.")
    return ScoresRequest(ids)


def _number(request: Request) -> str:
    """The request's own number, if it has one that can be printed; else a new one."""
    found = request.headers.get("x-request-id", "")
    return found if _REQUEST_ID.fullmatch(found) else secrets.token_hex(8)


def _refused(refusal: HttpRefusal, number: str) -> Response:
    problem = Problem(str(refusal), number, refusal.parties or None)
    response = _json(plain_answer(problem), refusal.status)
    if refusal.status is _WHO:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.status in (_OFTEN, _AWAY):
        response.headers["Retry-After"] = "1"
    return response


def _json(content: Any, status: HTTPStatus) -> Response:
    return Response(json.dumps(content), status, media_type=JSON)
