"""The live page: who may see it, what it says of a run, and that it does not grow."""

import http.client
import json
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from plait.deployment.job_file import read_job
from plait.deployment.page.board import Board, Viewer
from plait.deployment.page.curve import Curve
from plait.deployment.page.web_server import PageAddress, PageServer
from plait.deployment.report.rendering import render
from plait.errors import ConfigError, TransportError
from plait.training.history import Round
from plait.training.tracking import Ending, RunFacts
from plait.transports.mailbox import PeerStanding

JOB = """
format = 1
name = "credit"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
address = "127.0.0.1:7443"
"""
FACTS = RunFacts(("bank", "shop"), 1000, "Subspace()", party="bank", run="r", job="credit")


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return board_of(tmp_path, "coordinator", "bank", ("bank",))


def board_of(folder: Path, program: str, name: str, local: tuple[str, ...] = (), job: str = JOB) -> Board:
    (folder / "job.toml").write_text(job)
    return Board(Viewer(program, read_job(folder / "job.toml"), name, local))


@pytest.fixture
def page(board: Board) -> Iterator[PageServer]:
    server = PageServer(board, PageAddress.of("127.0.0.1:0")).open()
    yield server
    server.close()


def get(server: PageServer, path: str, **headers: str) -> tuple[int, str, http.client.HTTPMessage]:
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def test_the_page_loads_nothing_from_elsewhere(page: PageServer) -> None:
    status, text, headers = get(page, "/")
    assert status == 200
    assert "http://" not in text
    assert "https://" not in text
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    for path in ("/static/live.js", "/static/live.css", "/static/uPlot.iife.min.js", "/static/uPlot.LICENSE"):
        assert get(page, path)[0] == 200, path


def test_text_on_the_page_is_text(board: Board) -> None:
    shown = render("live.html", state={**board.state(), "job": "<b>credit"})
    assert "&lt;b&gt;credit" in shown
    assert "<b>credit" not in shown


def test_another_site_that_points_its_name_here_sees_nothing(page: PageServer) -> None:
    for name in ("evil.example", "localhost.evil.example", "\u00e9vil.example", "[", ""):
        assert get(page, "/state", Host=name)[0] == 421, name
    assert get(page, "/state", Host=f"localhost:{page.port}")[0] == 200


@pytest.mark.threat(
    "HTTP client", "half requests to the live page", "64 connections, of which half requests give way; 10 s for a head"
)
def test_half_requests_keep_nobody_from_the_page(page: PageServer) -> None:
    """A page without such a limit takes the files that the program needs for its parties."""
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    with ExitStack() as stack:
        for _ in range(300):
            half = stack.enter_context(socket.create_connection(("127.0.0.1", page.port)))
            half.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(3):
            assert get(page, "/state")[0] == 200
        assert sum(1 for _ in Path("/proc/self/fd").iterdir()) - before - 300 < 100


def test_elsewhere_a_token_is_needed(board: Board) -> None:
    server = PageServer(board, PageAddress("127.0.0.1", 0, "secret")).open()  # as for an address of the network
    assert get(server, "/state")[0] == 403
    assert get(server, "/state", Cookie="plait_page=wrong")[0] == 403
    assert get(server, "/state", Cookie="plait_page=secret")[0] == 200
    assert get(server, "/state", Authorization="Bearer secret")[0] == 200
    assert get(server, "/health")[0] == 200
    assert "?token=secret" in server.url
    server.close()


def test_only_addresses_of_this_machine_go_without_a_token() -> None:
    assert PageAddress.of("127.0.0.1:8081").token == ""
    assert PageAddress.of("[::1]:8081") == PageAddress("::1", 8081)
    assert len(PageAddress.of("0.0.0.0:8081").token) >= 24


@pytest.mark.parametrize("text", ["8081", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_without_host_or_port_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--page must be host:port"):
        PageAddress.of(text)


def test_a_port_in_use_is_refused(page: PageServer, board: Board) -> None:
    with pytest.raises(TransportError, match="free"):
        PageServer(board, PageAddress("127.0.0.1", page.port))


def test_events_tell_the_state_and_new_points(page: PageServer, board: Board) -> None:
    board.begin(FACTS)
    board.round(Round(1, objective=0.5, primal=0.1, dual=0.2))
    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/events", timeout=10) as stream:
        first = [stream.readline().decode() for _ in range(6)]
        assert first[0] == "event: curve\n"
        assert json.loads(first[1].removeprefix("data: ")) == [[1, 0.0, 0.5, 0.2]]
        assert first[3] == "event: state\n"
        board.round(Round(2, objective=0.25, gap=1e-3))
        second = [stream.readline().decode() for _ in range(3)]
        assert json.loads(second[1].removeprefix("data: ")) == [[2, 0.0, 0.25, 0.001]]


def test_readiness_is_that_everybody_is_here(page: PageServer, board: Board) -> None:
    board.peers(lambda: [PeerStanding("shop", connected=False, away=9.0)])
    assert get(page, "/ready")[0] == 503
    board.peers(lambda: [PeerStanding("shop", connected=True)])
    assert get(page, "/ready")[0] == 200


def test_a_party_that_does_not_answer_is_late(board: Board) -> None:
    board.peers(lambda: [PeerStanding("shop", connected=True, awaited=6.0, took=0.01)])
    (shop,) = board.state()["parties"]
    assert shop["late"]
    assert shop["awaited"] == 6.0


def test_the_fingerprint_of_who_joined_is_shown(board: Board) -> None:
    board.event("joined", {"peer": "shop", "last": 0, "fingerprint": "ab12 cd34"})
    (shop,) = board.state()["parties"]
    assert (shop["here"], shop["fingerprint"]) == (True, "ab12 cd34")


def test_a_feature_party_sees_no_objective_no_third_party_and_what_it_sent(tmp_path: Path) -> None:
    board = board_of(tmp_path, "party", "shop")
    board.begin(FACTS)
    board.round(Round(1, bytes_up=8000))
    state = board.state()
    assert state["objective"] is None
    assert [p["name"] for p in state["parties"]] == ["bank"]
    assert state["revealed"][0] == "This party has sent one vector of 1,000 numbers to bank: its partial scores."
    assert board.curve.since(0)[2] == [(1, 0.0, None, None)]


@pytest.mark.parametrize(
    ("mode", "labels_hidden", "scores_hidden"), [("plain", False, False), ("labels", True, False), ("sums", True, True)]
)
def test_the_page_says_what_is_protected_in_each_mode(
    tmp_path: Path, mode: str, labels_hidden: bool, scores_hidden: bool
) -> None:
    parties = '["bank", "shop", "phone"]'
    job = JOB.replace('"plain"', f'"{mode}"').replace('["bank", "shop"]', parties)
    said = " ".join(board_of(tmp_path, "coordinator", "bank", ("bank",), job).state()["guarantee"])
    assert "Differential privacy: none" in said
    assert ("Labels: encrypted" in said) == labels_hidden
    assert ("Scores of the parties: masked" in said) == scores_hidden
    assert ("Each party reads what it is sent" in said) == (mode == "plain")


def test_the_report_is_served_when_there_is_one(page: PageServer, board: Board, tmp_path: Path) -> None:
    assert get(page, "/report")[0] == 404
    (tmp_path / "report.html").write_text("<!doctype html>the report")
    board.event("report", {"path": str(tmp_path / "report.html")})
    board.end(Ending("done", converged=True))
    assert get(page, "/report")[1] == "<!doctype html>the report"
    assert board.state()["phase"] == "done"


def test_an_alignment_that_has_just_begun_has_no_figures_yet(board: Board) -> None:
    board.event("phase", {"phase": "aligning"})
    assert board.state()["alignment"] is None
    board.event("aligning", {"party": "shop", "blinded": 5, "of": 9, "ids a second": 2, "seconds left": 2})
    assert board.state()["alignment"]["of"] == 9


def test_metrics_are_those_of_the_newest_round(page: PageServer, board: Board) -> None:
    board.begin(FACTS)
    board.round(Round(3, objective=0.5))
    assert 'plait_training_rounds_total{job="credit",party="bank",run="r"} 3.0\n' in get(page, "/metrics")[1]
    assert 'plait_training_running{job="credit",party="bank",run="r"} 1.0\n' in get(page, "/metrics")[1]
    board.end(Ending("done", converged=True))
    ended = get(page, "/metrics")[1]
    assert 'plait_training_running{job="credit",party="bank",run="r"} 0.0\n' in ended
    assert "seconds_left" not in ended


def test_a_long_run_does_not_grow_the_page(board: Board) -> None:
    board.begin(FACTS)

    def fill(first: int, last: int) -> tuple[int, int]:
        for number in range(first, last):
            board.round(Round(number, objective=1.0, seconds=float(number)))
            board.say(f"line {number}")
        state = board.state()
        return len(board.curve.since(0)[2]), sys.getsizeof(json.dumps(state))

    points, size = fill(1, 20_000)
    more, later = fill(20_000, 60_000)
    assert points <= 2000
    assert more <= 2000
    assert later <= 1.05 * size


def test_a_curve_keeps_its_first_and_spreads_evenly() -> None:
    curve = Curve()
    for number in range(1, 10_001):
        curve.add(Round(number))
    rounds = [point[0] for point in curve.since(0)[2]]
    assert rounds[0] == 1
    assert rounds[-1] > 9_990
    steps = {b - a for a, b in pairwise(rounds[1:])}
    assert steps == {8}
