"""No command replaces a file that plait did not write."""

import subprocess
import sys
from pathlib import Path

import pytest

from plait.cli.init import init


def plait(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plait", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init(tmp_path, example=True)
    return tmp_path


def test_a_table_of_the_users_is_left_as_it_is(folder: Path) -> None:
    """By name, by a link, and a folder in the place of the file: all before any work is done."""
    table = (folder / "bank.csv").read_bytes()
    (folder / "link.csv").symlink_to("bank.csv")
    (folder / "folder.csv").mkdir()
    (folder / "notes.jsonl").write_text('{"mine": 1}\n')
    for track in ("bank.csv", "link.csv", "folder.csv", "notes.jsonl"):
        done = plait("fit", "job.toml", "--track", track, folder=folder)
        assert done.returncode == 1
        assert "left as it is" in done.stderr
    assert not (folder / "runs").exists(), "nothing was trained"
    assert plait("fit", "job.toml", "--track", "rounds.csv", folder=folder).returncode == 0
    for out in ("bank.csv", "link.csv", "folder.csv", "job.toml", "/dev/null"):
        done = plait("predict", "job.toml", "--out", out, folder=folder)
        assert done.returncode == 1
        assert "left as it is" in done.stderr
        assert "new rows" not in done.stdout, "nothing was asked for"
    assert (folder / "bank.csv").read_bytes() == table
    assert (folder / "notes.jsonl").read_text() == '{"mine": 1}\n'
    assert Path("/dev/null").is_char_device()


def test_what_a_command_wrote_before_is_written_anew(folder: Path) -> None:
    for _ in range(2):
        assert (
            plait("fit", "job.toml", "--track", "rounds.csv", "--track", "rounds.jsonl", folder=folder).returncode == 0
        )
        done = plait("predict", "job.toml", "--out", "scores.csv", folder=folder)
        assert done.returncode == 0, done.stderr
    assert len((folder / "scores.csv").read_text().splitlines()) == 501
