"""The prediction service: HTTP at the coordinator, scores by all parties, limited and rounded."""

import json
import socket
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scipy.special import expit

from plait._names import plain
from plait._version import __version__
from plait.deployment.endpoints import Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.openapi import PAGE, specification
from plait.deployment.progress import Progress
from plait.deployment.run_folder import new_run
from plait.deployment.score import SERVE, Allowance, Scorer, combine, trained
from plait.errors import ConfigError, PlaitError, ProtocolError
from plait.messages import Share
from plait.privacy.policy import check_covered
from plait.transports.admission import Terms
from plait.transports.deadline import Deadline
from plait.transports.handshake import MOST_IDS, Finished, Query
from plait.transports.server import Hub

_LARGEST_BODY = 1 << 20  # bytes of a request: room for 100 long ids, too little to fill the memory
_MOST_CONNECTIONS = 32  # at once: each holds a thread
_LONGEST_REQUEST = 60.0  # seconds for a whole request, however slowly it comes
_LONGEST_QUERY = 20.0  # seconds that the parties may take for their parts of a score


@dataclass(frozen=True)
class ServeOptions:
    """How the service protects the columns behind the scores.

    http         host:port of the service
    per_minute   ids scored per minute, all clients together; 0 for no limit
    most_ids     ids in one request
    decimals     digits after the point of every score and probability
    """

    http: str = "127.0.0.1:8080"
    per_minute: int = 600
    most_ids: int = 100
    decimals: int = 3


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Service:
    """Scores ids by asking every party."""

    def __init__(self, job: Job, intercept: float, scorers: dict[str, Scorer], hub: Hub, options: ServeOptions) -> None:
        self.job = job
        self.options = options
        self._intercept = intercept
        self._scorers = scorers
        self._hub = hub
        self._allowance = Allowance(options.per_minute)
        self._lock = threading.Lock()
        self._seq = 0

    def scores(self, body: bytes) -> dict[str, Any]:
        """The answer to POST /scores."""
        ids = self._ids(body)
        if not self._allowance.take(len(ids)):
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, f"at most {self.options.per_minute} ids a minute. Wait.")
        query = _query(ids)
        with self._lock:
            self._seq += 1
            remote = {name: query for name in self.job.parties if name not in self._scorers}
            shares: dict[str, Share] = self._hub.ask_within(_LONGEST_QUERY, self._seq, remote)
            shares |= {name: scorer.look_up(query) for name, scorer in self._scorers.items()}
        total, unknown, limited = combine(self.job, self._intercept, shares, len(ids))
        if limited:
            raise _Refused(HTTPStatus.TOO_MANY_REQUESTS, "a party's own limit is reached. Wait.")
        results = [{"id": name, **self._shown(i in unknown, float(total[i]))} for i, name in enumerate(ids)]
        return {"scores": results}

    @property
    def absent(self) -> list[str]:
        """The parties that are not here now."""
        return self._hub.absent

    def _shown(self, unknown: bool, score: float) -> dict[str, Any]:
        if unknown:
            return {"score": None}
        shown = {"score": round(score, self.options.decimals)}
        if self.job.loss.classifies:
            shown["probability"] = round(float(expit(score)), self.options.decimals)
        return shown

    def _ids(self, body: bytes) -> list[str]:
        try:
            ids = json.loads(body)["ids"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _Refused(HTTPStatus.BAD_REQUEST, 'the body must be {"ids": ["...", ...]}.') from None
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids) or not ids:
            raise _Refused(HTTPStatus.BAD_REQUEST, "ids must be a list of texts.")
        if any("\ud800" <= character <= "\udfff" for text in ids for character in text):
            raise _Refused(HTTPStatus.BAD_REQUEST, "ids must be whole characters. Found half of one.")
        if len(ids) > min(self.options.most_ids, MOST_IDS):
            raise _Refused(HTTPStatus.BAD_REQUEST, f"at most {self.options.most_ids} ids in one request.")
        return ids


def _query(ids: list[str]) -> Query:
    """The question to the parties; refused here when it would not fit on its way."""
    try:
        return Query(ids)
    except ProtocolError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from None


class _Server(ThreadingHTTPServer):
    """An HTTP server around a service: a few connections at once, and none for long."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], service: Service, progress: Progress) -> None:
        super().__init__(address, _Handler)
        self.service = service
        self.progress = progress
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        watch = Deadline(_LONGEST_REQUEST, lambda: request.shutdown(socket.SHUT_RDWR))
        try:
            super().process_request_thread(request, client_address)
        finally:
            watch.close()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is no line on the terminal."""
        self.progress.event("request", {"line": "broken off"})


class _Handler(BaseHTTPRequestHandler):
    server_version = f"plait/{__version__}"
    server: _Server
    timeout = 10  # seconds between two pieces of a request

    def do_GET(self) -> None:
        if self.path == "/":
            self._send(HTTPStatus.OK, PAGE.encode(), "text/html; charset=utf-8")
        elif self.path == "/openapi.json":
            self._json(HTTPStatus.OK, specification(self.server.service.options.most_ids))
        elif self.path == "/health":
            absent = self.server.service.absent
            status = HTTPStatus.SERVICE_UNAVAILABLE if absent else HTTPStatus.OK
            self._json(status, {"status": "waiting", "absent": absent} if absent else {"status": "ok"})
        else:
            self._json(HTTPStatus.NOT_FOUND, {"error": "there is nothing here. See /."})

    def do_POST(self) -> None:
        try:
            self._json(HTTPStatus.OK, self.server.service.scores(self._body()))
        except _Refused as refusal:
            self._json(refusal.status, {"error": str(refusal)})
        except PlaitError as error:
            self.server.progress.event("failed", {"reason": str(error)})
            self._json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "a party is not available."})

    def _body(self) -> bytes:
        if self.path != "/scores":
            raise _Refused(HTTPStatus.NOT_FOUND, "post to /scores.")
        if self.headers.get_content_type() != "application/json":  # other sites' forms cannot send it
            raise _Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body must be application/json.")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 10) or int(length) > _LARGEST_BODY:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body must have a length, at most 1 MiB.")
        return self.rfile.read(int(length))

    def _json(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        self.server.progress.event("request", {"line": plain(format % args, 200)})


def serve(
    job: Job, file: PartyFile, listen: Listen, options: ServeOptions, run: str, rows: str, progress: Progress
) -> None:
    """Answer HTTP requests until interrupted."""
    check_covered(job.policy.uncovered(job.parties))
    folder = trained(job, file, run)
    key = new_run()[1]
    host, _, port = options.http.rpartition(":")
    if not port.isdigit():
        raise ConfigError(f"--http must be host:port. Found {options.http!r}.")
    scorers = {}
    if file.name in job.parties:
        scorers[file.name] = Scorer(job, file, folder.status.run, key, rows or file.data.score, SERVE)
    remote = tuple(name for name in job.parties if name not in scorers)
    terms = Terms(remote, job.digest, SERVE, folder.status.run, key, 0, "", job.coordinator.patience, kept=0)
    hub = Hub(terms, lambda what, **facts: progress.event(what, facts))
    hub.open(listen.address, listen.security)
    service = Service(job, float(folder.model()["intercept"]), scorers, hub, options)
    try:
        hub.wait_for_all(lambda absent, _: progress.say(f"waiting for {', '.join(absent)} on {listen.address}"))
        with _Server((host, int(port)), service, progress) as server:
            progress.say(f"serving scores on http://{host}:{server.server_address[1]}/")
            server.serve_forever()
    finally:
        hub.finish(Finished(True, "the service was ended", {}), lambda _: None, 2.0)
        hub.close()
        for scorer in scorers.values():
            scorer.close()
