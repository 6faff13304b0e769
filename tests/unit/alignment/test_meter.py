"""The pace of an alignment."""

import pytest

from plait.alignment.meter import Meter, Pace


def test_pace_counts_what_was_done_before_a_restart_but_not_in_the_rate() -> None:
    told: list[Pace] = []
    meter = Meter(told.append, every=0.0)
    meter.start(total=1000, done=300)
    meter.skip(100)
    meter.add(200)
    (pace,) = told
    assert (pace.done, pace.total) == (600, 1000)
    assert pace.left * pace.rate == pytest.approx(400)


def test_pace_is_told_at_most_as_often_as_wanted() -> None:
    told: list[Pace] = []
    meter = Meter(told.append, every=3600.0)
    meter.start(total=10, done=0)
    for _ in range(10):
        meter.add(1)
    assert told == []
