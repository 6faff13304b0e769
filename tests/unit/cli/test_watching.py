"""What a person reads on the terminal while a program runs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from plait.cli import watching
from plait.cli.watching import Shown, Terminal
from plait.deployment import event_words
from plait.deployment.job_file import read_job
from plait.deployment.page.board import Viewer
from plait.errors import PlaitError
from plait.training.history import Round
from plait.training.tracking import Ending, RunFacts

JOB = """
format = 1
name = "credit"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
address = "127.0.0.1:7443"
"""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    monkeypatch.setattr(event_words, "time", clock)
    return clock


def record(number: int) -> Round:
    blank = Round(number, **{name: 0.0 for name in Round.__dataclass_fields__ if name != "round"})
    return replace(blank, objective=0.5)


def test_the_last_round_is_shown_however_fast_it_came(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    for number in range(1, 9):
        terminal.round(record(number))
    terminal.say("converged")
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in shown[:-1]] == ["1", "2", "3", "8"]
    assert shown[-1] == "converged"


def test_a_round_is_shown_once(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.round(record(1))
    terminal.say("a")
    terminal.say("b")
    assert len(capsys.readouterr().out.splitlines()) == 3


@pytest.mark.parametrize(
    ("gap", "shown"), [(2e-3, "gap 2.0e-03"), (math.inf, "no bound yet"), (math.nan, "residuals 0.0e+00 3.0e-02")]
)
def test_a_round_says_how_far_it_is_from_the_end_as_its_method_can(
    gap: float, shown: str, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    Terminal().round(replace(record(1), gap=gap, dual=3e-2))
    assert f"objective 0.5  {shown}  0.00 s" in capsys.readouterr().out


def test_a_short_wait_between_two_phases_is_not_mentioned(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    for _ in range(10):
        terminal.event("disconnected", {"reason": "the coordinator closed the connection", "again": True})
        clock.now += 0.1
    terminal.event("early", {"peer": "shop", "reason": "the phase ends"})
    assert capsys.readouterr().out == ""


def test_a_wait_that_lasts_is_mentioned_once_with_its_reason(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    for _ in range(10):
        terminal.event("disconnected", {"reason": "no program answers at its address yet", "again": True})
        clock.now += 1.0
    assert capsys.readouterr().out == "waiting for the coordinator: no program answers at its address yet\n"
    clock.now += 3600
    terminal.event("disconnected", {"reason": "no program answers at its address yet", "again": True})
    assert capsys.readouterr().out == ""


def test_a_party_that_waited_long_and_then_joined_may_change_phases_quietly(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    for _ in range(5):
        terminal.event("disconnected", {"reason": "no program answers at its address yet", "again": True})
        clock.now += 1.0
    assert capsys.readouterr().out
    terminal.event("disconnected", {"reason": "the phase is about to end", "again": False})
    clock.now += 0.5
    terminal.event("disconnected", {"reason": "no program answers at its address yet", "again": True})
    assert capsys.readouterr().out == ""


def test_what_happens_is_told_in_sentences(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    terminal.event("joined", {"peer": "shop", "last": 0, "address": "ipv4:1", "fingerprint": "ab12"})
    terminal.event("left", {"peer": "shop", "times": 2})
    terminal.event("refused", {"peer": "inn", "reason": "no party of this job"})
    terminal.event("aligning", {"party": "shop", "blinded": 1000, "of": 2000, "ids a second": 250, "seconds left": 4})
    assert capsys.readouterr().out.splitlines() == [
        "shop is connected",
        "shop has left (time 2)",
        "refused inn: no party of this job",
        "shop: 1,000 of 2,000 ids blinded, 250 a second, about 4 s left",
    ]


def run_of(folder: Path, track: Path, ended: bool, error: BaseException) -> None:
    """A program whose run begins, perhaps ends, and that then meets with an error."""
    (folder / "job.toml").write_text(JOB)
    with Shown("text", [str(track)]).watch(Viewer("party", read_job(folder / "job.toml"), "shop")) as watchers:
        watchers.begin(RunFacts(("bank", "shop"), 10, "Subspace()"))
        if ended:
            watchers.end(Ending("all rounds", converged=True))
        raise error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PlaitError("too few rows"), "too few rows"),
        (OSError("no space"), "no space"),
        (KeyboardInterrupt(), "interrupted"),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("ended", [False, True])
def test_trackers_are_told_of_every_end_once(tmp_path: Path, error: BaseException, said: str, ended: bool) -> None:
    track = tmp_path / "rounds.jsonl"
    with pytest.raises(type(error)):
        run_of(tmp_path, track, ended, error)
    (end,) = [line for line in map(json.loads, track.read_text().splitlines()) if line["event"] == "end"]
    assert (end["reason"], end["failed"]) == (("all rounds", False) if ended else (said, True))
