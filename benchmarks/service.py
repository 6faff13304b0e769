"""The prediction service under load: many clients at once, two parties, one of which is killed at the end.

python -m benchmarks.service [--seconds 60] [--clients 50] [--baseline SRC] [--out FILE]

`--baseline` is the `src` folder of another plait, which is trained and served in the same way in the same run: the
ratio of the two throughputs is what can be compared between machines.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment

ROWS, NEW = 2000, 5000
_PAUSE = 0.02  # seconds that a client waits after anything but an answer
_HEAD = b"POST /scores HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_UNLIMITED = "max_queries = 0\nmax_scores = 0\nscores_per_id = 0\n"
_JOB = """format = 1
name = "load"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
address = "127.0.0.1:{port}"
[stopping]
max_rounds = 5
"""


@dataclass
class Load:
    """What the clients saw: seconds of each answer, how many of each status, how many connections failed."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    longest: float = 0.0

    def add(self, status: int, seconds: float) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.longest = max(self.longest, seconds)
        if status == 200:
            self.seconds.append(seconds)

    def facts(self, elapsed: float) -> dict[str, Any]:
        times = sorted(self.seconds) or [float("nan")]
        median, p99 = statistics.median(times), times[int(0.99 * (len(times) - 1))]
        return {
            "answers_per_second": round(len(self.seconds) / elapsed, 1),
            "median_ms": round(1000 * median, 2),
            "p99_ms": round(1000 * p99, 2),
            "p99_to_median": round(p99 / median, 2),
            "longest_ms": round(1000 * self.longest, 1),
            "statuses": self.statuses,
            "broken": self.broken,
        }


class Programs:
    """A job that is trained and served by one plait."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder = folder
        self._env = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        _write_job(folder)
        self._run("fit", str(folder / "job.toml"))
        _certificates(folder, self._env)

    def _run(self, *arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "plait", *arguments], env=self._env, check=True, capture_output=True)

    def start(self, name: str) -> None:
        own = ["--http", "127.0.0.1:0", "--per-minute", "0"] if name == "bank" else ["--name", name]
        command = [sys.executable, "-m", "plait", "serve", str(self.folder / "job.toml"), *own]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._started[name] = subprocess.Popen(command, env=self._env, stdout=log, stderr=log)

    def port(self) -> int:
        """Start both programs; the port once they answer."""
        for name in ("bank", "shop"):
            self.start(name)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = re.search(r"serving scores on http://127.0.0.1:(\d+)/", (self.folder / "bank.log").read_text())
            if found:
                return int(found[1])
            time.sleep(0.05)
        raise RuntimeError((self.folder / "bank.log").read_text())

    def kill(self, name: str) -> None:
        self._started[name].send_signal(signal.SIGKILL)
        self._started[name].wait()

    def end(self) -> None:
        for program in self._started.values():
            program.kill()
            program.wait()


def _write_job(folder: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS + NEW, 8))
    y = (rng.random(ROWS + NEW) < 1 / (1 + np.exp(-x @ rng.standard_normal(8)))).astype(int)
    for i, name in enumerate(("bank", "shop")):
        for suffix, rows in (("", range(ROWS)), ("-new", range(ROWS, ROWS + NEW))):
            lines = ["id,a,b,c,d" + (",y" if i == 0 else "")]
            for j in rows:
                cells = [f"r{j}", *(repr(float(v)) for v in x[j, 4 * i : 4 * i + 4]), *([str(y[j])] if i == 0 else [])]
                lines.append(",".join(cells))
            (folder / f"{name}{suffix}.csv").write_text("\n".join(lines) + "\n")
        label = 'label = "y"\n' if i == 0 else ""
        (folder / f"{name}.toml").write_text(
            f'[data]\nfile = "{name}.csv"\nscore = "{name}-new.csv"\nid = "id"\n{label}'
            f"[trust]\naccept_labels_shown = true\naccept_scores_shown = true\n{_UNLIMITED}"
        )


def _certificates(folder: Path, env: dict[str, str]) -> None:
    code = (
        "import sys; from pathlib import Path; from plait.deployment.job_file import read_job; "
        "from plait.deployment.processes import throw_away_certificates; "
        "from plait.transports.certificates import Folder; "
        "f = Path(sys.argv[1]); throw_away_certificates(read_job(f / 'job.toml'), Folder(f / 'certs'))"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], env=env, check=True)


class _Client(asyncio.Protocol):
    """One client: a request after another, on one connection as long as the service keeps it."""

    def __init__(self, port: int, number: int, until: float, load: Load) -> None:
        self._port, self._turn, self._until, self._load = port, number, until, load
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._answered, self._heard, self._began = True, b"", 0.0
        self.done: asyncio.Future[None] = self._loop.create_future()

    def begin(self) -> None:
        """Ask once more, unless the time is over."""
        self._began = time.perf_counter()
        if self._began >= self._until:
            self.done.set_result(None)
            if self._transport is not None:
                self._transport.close()
        elif self._transport is None or self._transport.is_closing():
            self._connecting = self._loop.create_task(self._connect())
        else:
            self._ask()

    async def _connect(self) -> None:
        try:
            await self._loop.create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError:
            self._broken()
        else:
            self._ask()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._heard = transport, b""

    def _ask(self) -> None:
        assert self._transport is not None
        self._turn, self._answered = (self._turn + 61) % NEW, False
        body = b'{"ids": ["r%d"]}' % (ROWS + self._turn)
        self._transport.write(_HEAD % (self._port, len(body)) + body)

    def data_received(self, data: bytes) -> None:
        self._heard += data
        head, end, body = self._heard.partition(b"\r\n\r\n")
        if not end or self._answered:
            return
        head = head.lower()
        if len(body) < int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0):
            return
        status, self._heard, self._answered = int(head[9:12]), b"", True
        self._load.add(status, time.perf_counter() - self._began)
        if not head.startswith(b"http/1.1") or b"connection: close" in head:
            assert self._transport is not None
            self._transport.close()
            self._transport = None
        self._loop.call_later(_PAUSE, self.begin) if status != 200 else self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answered:
            self._answered = True
            self._broken()

    def _broken(self) -> None:
        self._load.broken += 1
        self._transport = None
        self._loop.call_later(_PAUSE, self.begin)


async def _press(port: int, clients: int, seconds: float) -> tuple[Load, float]:
    load, began = Load(), time.perf_counter()
    pressing = [_Client(port, i, began + seconds, load) for i in range(clients)]
    for client in pressing:
        client.begin()
    await asyncio.gather(*(client.done for client in pressing))
    return load, time.perf_counter() - began


async def _press_and_kill(programs: Programs, port: int, clients: int) -> dict[str, Any]:
    """Load for 12 s; the shop is killed after 3 s and started again after 6 s."""
    pressing = asyncio.create_task(_press(port, clients, 12.0))
    await asyncio.sleep(3.0)
    await asyncio.to_thread(programs.kill, "shop")
    await asyncio.sleep(3.0)
    programs.start("shop")
    load, elapsed = await pressing
    after, time_after = await _press(port, clients, 3.0)
    return {"while one is killed": load.facts(elapsed), "afterwards": after.facts(time_after)}


def measure(source: Path, clients: int, seconds: float, kill: bool) -> dict[str, Any]:
    """Train, serve and press one plait."""
    with tempfile.TemporaryDirectory() as name:
        programs = Programs(_prepared(Path(name), source), source)
        try:
            port = programs.port()
            asyncio.run(_press(port, clients, 2.0))  # warm up
            load, elapsed = asyncio.run(_press(port, clients, seconds))
            found = load.facts(elapsed)
            return {**found, **(asyncio.run(_press_and_kill(programs, port, clients)) if kill else {})}
        finally:
            programs.end()


def _prepared(folder: Path, source: Path) -> Path:
    import socket

    text = _JOB
    if not (source / "plait" / "deployment" / "job_protection.py").exists():  # a plait from before there was a choice
        text = text.replace('protection = "plain"\n', "")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (folder / "job.toml").write_text(text.format(port=free.getsockname()[1]))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--baseline", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    here = Path(__file__).parents[1] / "src"
    result: dict[str, Any] = {"environment": environment(), "clients": given.clients, "seconds": given.seconds}
    result["service"] = measure(here, given.clients, given.seconds, kill=True)
    if given.baseline is not None:
        result["baseline"] = measure(given.baseline, given.clients, given.seconds / 3, kill=False)
        rates = [result[which]["answers_per_second"] for which in ("service", "baseline")]
        result["ratio"] = round(rates[0] / rates[1], 2)
    print(json.dumps(result, indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
