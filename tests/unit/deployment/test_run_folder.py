"""Names of runs: the newest is the last, whatever the clock says."""

from pathlib import Path

import pytest

from plait._names import is_run
from plait.deployment.run_folder import new_run


def test_a_new_run_comes_after_all_others_even_where_the_clock_was_put_back(tmp_path: Path) -> None:
    for name in ("20990101-235959-ffffff", "20250101-000000-000000", "notes"):
        (tmp_path / name / "coordinator").mkdir(parents=True)
    name, _ = new_run(tmp_path)
    assert is_run(name)
    assert name > "20990101-235959-ffffff"


@pytest.mark.threat(
    "coordinator", "a run named by the last second of the year 9999", "names that others made order no own run"
)
def test_a_name_that_another_coordinator_made_does_not_change_those_of_own_runs(tmp_path: Path) -> None:
    (tmp_path / "99991231-235959-ffffff" / "shop").mkdir(parents=True)
    assert new_run(tmp_path)[0] < "99991231"


@pytest.mark.parametrize("name", ["99999999-999999-ffffff", "99991231-235959-ffffff"])
def test_a_name_that_is_no_time_does_not_stop_new_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "coordinator").mkdir(parents=True)
    assert is_run(new_run(tmp_path)[0])
    assert is_run(new_run(tmp_path / "absent")[0])
