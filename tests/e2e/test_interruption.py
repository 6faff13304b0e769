"""Ctrl-C and polite kills."""

import signal
import subprocess
import sys
import time

import pytest

STUCK = """
import threading, time
from plait.cli.options import end_when_told

end_when_told(grace=1.5)
threading.Thread(target=threading.Event().wait).start()  # keeps the program from ending
try:
    print("here", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    time.sleep(0.5)
    print("cleaned up", flush=True)
"""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_program_that_cannot_end_leaves_all_the_same(told: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "here\n"
        program.send_signal(told)
        assert program.stdout.readline() == "interrupted\n"
        start = time.monotonic()
        program.send_signal(signal.SIGINT)  # once is enough: cleaning up goes on
        program.send_signal(signal.SIGTERM)
        assert program.stdout.read() == "cleaned up\n"
        assert program.wait(60) == 130
        assert time.monotonic() - start > 1.0
