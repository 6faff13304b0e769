"""Names of runs: the newest is the last, whatever the clock says."""

from pathlib import Path

from plait._names import is_run
from plait.deployment.run_folder import new_run


def test_a_new_run_comes_after_all_others_even_where_the_clock_was_put_back(tmp_path: Path) -> None:
    for name in ("20990101-235959-ffffff", "20250101-000000-000000", "notes"):
        (tmp_path / name).mkdir()
    name, _ = new_run(tmp_path)
    assert is_run(name)
    assert name > "20990101-235959-ffffff"


def test_a_name_that_is_no_time_does_not_stop_new_runs(tmp_path: Path) -> None:
    (tmp_path / "99999999-999999-ffffff").mkdir()
    assert is_run(new_run(tmp_path)[0])
    assert is_run(new_run(tmp_path / "absent")[0])
