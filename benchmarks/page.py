"""What the live page costs: processor time of a round, and memory over a day of rounds.

`python -m benchmarks.page [rounds]` tells a real page server, which a client follows, as many rounds as a day has at
ten a second.  It prints the processor time that a round takes for the page, and the memory before and after.
"""

import http.client
import sys
import tempfile
import threading
import time
from pathlib import Path

from plait.deployment.job_file import read_job
from plait.deployment.page.board import Board, Viewer
from plait.deployment.page.web_server import PageAddress, PageServer
from plait.training.history import Round
from plait.training.tracking import RunFacts

JOB = """
format = 1
name = "credit"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
"""
DAY = 24 * 3600 * 10  # rounds: ten a second
WARM = 0.1  # of the rounds: before them the buffers of bounded size fill
WATCHED = 10.0  # seconds that an open page is followed


def resident() -> float:
    """Megabytes of this process in memory."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1e3


def follow(port: int, stop: threading.Event, heard: list[int]) -> None:
    """A page that is open: reads the events as a browser does."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    while not stop.is_set():
        heard[0] += len(answer.readline())
    connection.close()


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.toml"
        path.write_text(JOB)
        board = Board(Viewer("coordinator", read_job(path), "bank", ("bank",)))
    board.begin(RunFacts(("bank", "shop"), 1000, "Subspace()", party="bank", run="r", job="credit"))
    server = PageServer(board, PageAddress.of("127.0.0.1:0")).open()
    stop, heard = threading.Event(), [0]
    threading.Thread(target=follow, args=(server.port, stop, heard), daemon=True).start()
    warm, before, began = int(WARM * rounds), 0.0, time.thread_time()
    for number in range(1, rounds + 1):
        board.round(Round(number, 0.5 + 1 / number, 1 / number, 1 / number, seconds=number / 10))
        if number % 50 == 0:
            board.say(f"round {number}")
        if number == warm:
            before = resident()
    each = (time.thread_time() - began) / rounds
    print(f"{rounds:,} rounds: {before:.1f} MB after {warm:,} of them, {resident():.1f} MB at the end")
    print(f"{each * 1e6:.1f} microseconds of processor time a round for the board")
    start, clock = time.process_time(), time.monotonic()
    while time.monotonic() < clock + WATCHED:
        number += 1
        board.round(Round(number, 0.5, 0.1, 0.1, seconds=number / 10))
        time.sleep(0.1)
    share = (time.process_time() - start) / (time.monotonic() - clock)
    print(f"{share:.2%} of a processor with one open page and ten rounds a second (its client included)")
    print(f"{heard[0] / 1e6:.1f} MB went to the page in all")
    stop.set()
    server.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DAY)
