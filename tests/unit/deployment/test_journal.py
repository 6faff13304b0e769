"""What a journal says before a run begins."""

from pathlib import Path

import pytest

from plait.deployment.journal import disk_plan
from plait.errors import StorageError


def test_a_journal_says_how_much_disk_it_takes_and_refuses_a_full_one(tmp_path: Path) -> None:
    said = disk_plan(tmp_path / "new" / "journal", 1_000_000, 2, "float32", 200)
    assert said.startswith("the journal takes 8.0 MB a round, at most 1.6 GB in 200 rounds; ")
    with pytest.raises(StorageError, match="must have room for the journal of a run"):
        disk_plan(tmp_path / "journal", 10**15, 2, "float64", 200)
