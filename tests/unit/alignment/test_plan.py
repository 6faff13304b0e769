"""The plan of an alignment: what two parties with 100,000,000 ids each will take."""

from pathlib import Path

import pytest

from plait.alignment.plan import AlignmentPlan, measured_rate, plan
from plait.errors import StorageError

MANY = 100_000_000


def test_a_plan_of_many_ids_is_counted_by_hand() -> None:
    found = AlignmentPlan({"bank": MANY, "shop": MANY}, rate=10_000.0)
    assert found.seconds == 20_000  # two steps of 100,000,000 ids
    assert found.disk == 12_800_000_000  # two steps, two sets, 32 bytes
    assert found.traffic == 19_200_000_000  # each set crosses three times: to the coordinator, to the other, and back
    assert "5.6 hours" in found.describe(free=10**12)


def test_a_small_alignment_needs_no_plan(tmp_path: Path) -> None:
    assert plan({"bank": 1000, "shop": 900}, tmp_path) == ""


def test_a_disk_that_is_too_small_is_named_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="must have room for"):
        plan({"bank": 10**15, "shop": 10**15}, tmp_path / "not yet")


def test_the_rate_is_measured() -> None:
    assert measured_rate() > 0
