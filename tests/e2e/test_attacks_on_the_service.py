"""Clients of the prediction service that nobody knows: whatever they send, the next honest request is answered."""

import http.client
import json
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
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
    with ExitStack() as stack:
        for _ in range(600):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            half.sendall(b"POST /scores HTTP/1.1\r\nContent-Length: 100\r\n")
        assert is_alive(port), "while they hang"


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
