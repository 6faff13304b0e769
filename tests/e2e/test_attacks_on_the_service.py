"""Clients of the prediction service that nobody knows: whatever they send, the next honest request is answered."""

import http.client
import json
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from .conftest import Job, JobMaker

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def service(jobs: JobMaker) -> tuple[Job, int]:
    """A trained job that is served; its port."""
    job = jobs(rounds=3, rows=200)
    for name in job.parties:
        job.start(name)
    for name in job.parties:
        assert job.wait(name) == 0, job.log(name)
    for name, more in (("bank", ["--http", "127.0.0.1:0"]), ("shop", ["--name", "shop"])):
        with (job.folder / f"serve-{name}.log").open("wb") as log:
            command = [sys.executable, "-m", "plait", "serve", str(job.file), "--rows", f"{name}.csv", *more]
            job.programs[f"serve-{name}"] = subprocess.Popen(command, stdout=log, stderr=log)
    job.until("serve-bank", "serving scores on")
    found = re.search(r"http://127.0.0.1:(\d+)/", job.log("serve-bank"))
    assert found is not None
    return job, int(found[1])


def post(port: int, body: bytes, headers: dict[str, str] = JSON) -> tuple[int, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    try:
        connection.request("POST", "/scores", body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def is_alive(port: int) -> bool:
    status, answer = post(port, b'{"ids": ["r1", "nobody"]}')
    return status == 200 and len(answer["scores"]) == 2  # type: ignore[arg-type]


@pytest.mark.threat(
    "HTTP client",
    "huge ids, half requests, forms and names of other sites",
    "sizes, 512 connections of which half requests give way, 10 s for a head, 60 s for a body, JSON only, own hosts",
)
def test_no_request_ends_the_service(service: tuple[Job, int]) -> None:
    job, port = service
    assert is_alive(port)
    long = ["x" * 400_000, "\U0001f600" * 500, "\0" * 512]
    for ids in ([long[0]], [long[1]] * 100, [long[2]] * 100, ["a"] * 101, [], ["\ud800"], [1], {"a": 1}):
        status, _ = post(port, json.dumps({"ids": ids}).encode())
        assert status in (200, 400), ids
    for body in (b"", b"[" * 100_000, b'{"ids": 1}', b"\xff", b"9" * 100_000):
        assert post(port, body)[0] == 400
    assert is_alive(port)
    assert all(job.programs[f"serve-{name}"].poll() is None for name in job.parties)
    assert "Traceback" not in job.log("serve-bank") + job.log("serve-shop")


@pytest.mark.threat(
    "HTTP client",
    "huge ids, half requests, forms and names of other sites",
    "sizes, 512 connections of which half requests give way, 10 s for a head, 60 s for a body, JSON only, own hosts",
)
def test_a_form_of_another_site_is_not_answered(service: tuple[Job, int]) -> None:
    _, port = service
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        assert post(port, b'{"ids": ["r1"]}', {"Content-Type": kind})[0] == 415


@pytest.mark.threat(
    "HTTP client",
    "huge ids, half requests, forms and names of other sites",
    "sizes, 512 connections of which half requests give way, 10 s for a head, 60 s for a body, JSON only, own hosts",
)
def test_half_sent_requests_leave_room_for_whole_ones(service: tuple[Job, int]) -> None:
    job, port = service
    with ExitStack() as stack:
        for _ in range(400):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            half.sendall(b"POST /scores HTTP/1.1\r\nContent-Length: 100\r\n")
        threads = list((Path("/proc") / str(job.programs["serve-bank"].pid) / "task").iterdir())
        assert len(threads) < 120
    assert is_alive(port)


@pytest.mark.threat(
    "HTTP client",
    "huge ids, half requests, forms and names of other sites",
    "sizes, 512 connections of which half requests give way, 10 s for a head, 60 s for a body, JSON only, own hosts",
)
def test_half_sent_requests_keep_nobody_out(service: tuple[Job, int]) -> None:
    _, port = service
    half_body = (
        b"POST /scores HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    )
    get = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for said in (b"POST /scores HTTP/1.1\r\nContent-Length: 100\r\n", half_body, get, 400 * get):
        with ExitStack() as stack:
            for _ in range(600):
                half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                half.sendall(said)
            for _ in range(3):
                assert is_alive(port), f"while they hang after {said[:200]!r}"


@pytest.mark.threat(
    "HTTP client",
    "many large batches",
    "four of one client at once; all batches together ask for 2,000 rows at a time",
)
def test_batches_that_nobody_reads_delay_no_single_request(service: tuple[Job, int]) -> None:
    _, port = service
    head = b"POST /scores/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    begun = head + b"Content-Length: 90\r\n\r\n"
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)]
        for client in clients[:4]:
            client.sendall(begun)
        time.sleep(0.5)
        clients[4].sendall(begun)
        assert clients[4].recv(100).startswith(b"HTTP/1.1 429")
        assert is_alive(port)
    time.sleep(0.5)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(begun + b'{"id": "r1"}' + 78 * b"\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200"), "those that broke off are no longer counted"


@pytest.mark.threat(
    "HTTP client",
    "huge ids, half requests, forms and names of other sites",
    "sizes, 512 connections of which half requests give way, 10 s for a head, 60 s for a body, JSON only, own hosts",
)
def test_another_name_of_this_machine_is_not_answered(service: tuple[Job, int]) -> None:
    """A page whose name leads to this machine (DNS rebinding) gets nothing; nor does another site's script."""
    _, port = service
    assert post(port, b'{"ids": ["r1"]}', {**JSON, "Host": f"attacker.example:{port}"})[0] == 421
    assert post(port, b'{"ids": ["r1"]}', {**JSON, "Sec-Fetch-Site": "cross-site"})[0] == 403


STRANGE = {
    "long path": b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "long header": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: " + b"a" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
    "no HTTP": b"\x16\x03\x01" + bytes(2000),
    "line breaks": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\x1b[2J\x00\r\n\r\n",
    "negative length": b"POST /scores HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /scores HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 9\r\n\r\n{",
    "chunks": b"POST /scores HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    "another method": b"TRACE /scores HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.threat("HTTP client", "bytes that are no request", "refused, and the next honest request is answered")
def test_no_bytes_end_the_service(service: tuple[Job, int]) -> None:
    job, port = service
    for name, data in STRANGE.items():
        with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
            with suppress(OSError):  # the service may have hung up already
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError, TimeoutError):
                answer = client.recv(1000)
                assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 200")), (name, answer)
                assert b"\x1b" not in answer
    huge = b"\n".join(json.dumps({"id": "x" * size}).encode() for size in (400_000, 513, 1))
    status, last = batch(port, huge)
    assert status != 200 or "error" in json.loads(last)  # scores come as a stream, and an error is its last line
    assert is_alive(port)
    said = job.log("serve-bank") + job.log("serve-shop")
    assert "Traceback" not in said
    assert "\x1b[2J" not in said
    assert len(said) < 50_000


def batch(port: int, body: bytes) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    try:
        connection.request("POST", "/scores/batch", body, {"Content-Type": "application/x-ndjson"})
        answer = connection.getresponse()
        return answer.status, answer.read().splitlines()[-1]
    finally:
        connection.close()


def test_ready_says_when_a_party_is_away(service: tuple[Job, int]) -> None:
    job, port = service
    job.programs["serve-shop"].kill()
    job.programs["serve-shop"].wait()
    deadline = time.monotonic() + 30
    while (said := ready(port)) != (503, ["shop"]):
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


def ready(port: int) -> tuple[int, list[str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
    try:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("absent", [])
    finally:
        connection.close()
