"""The real `plait` command in a real process: exit codes, one clear message, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import plait

PLAIT = [sys.executable, "-m", "plait"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PLAIT, *arguments], capture_output=True, text=True, timeout=120)


def test_version() -> None:
    done = _run("version")
    assert (done.returncode, done.stdout.strip()) == (0, plait.__version__)


def test_the_usual_short_options_work() -> None:
    assert _run("--version").stdout.strip() == plait.__version__
    for words in (("-h",), ("cert", "-h"), ("cert", "sign", "-h"), ("privacy", "preview", "-h")):
        done = _run(*words)
        assert (done.returncode, done.stdout) == (0, _run(*words[:-1], "--help").stdout)


def test_a_shell_completes_the_names_of_commands() -> None:
    code = "import sys; sys.argv = ['plait']; from plait.cli import main; main()"
    typed = {"_PLAIT_COMPLETE": "complete_bash", "COMP_WORDS": "plait co", "COMP_CWORD": "1"}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **typed}, capture_output=True, text=True)
    assert done.stdout.split() == ["coordinator"]


def test_the_demonstration_takes_seconds(tmp_path: Path) -> None:
    began = time.perf_counter()
    done = _run("demo", "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert time.perf_counter() - began < 60  # 20 on an idle machine
    assert (tmp_path / "convergence.png").exists()


def test_an_error_is_one_message_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where a folder should be")
    done = _run("demo", "--quiet", "--output", str(tmp_path / "taken"))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the output folder must be one that can be written to.")
    assert "--output" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_unknown_command_is_a_usage_error() -> None:
    done = _run("train-everything")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_control_c_ends_without_a_traceback_or_half_a_picture(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*PLAIT, "demo", "--output", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()  # the story: training is about to begin
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())
