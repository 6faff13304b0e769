"""The prediction service as its operators and clients meet it: real programs, real certificates, real signals."""

import http.client
import json
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from plait.deployment.job_file import read_job, read_party
from plait.deployment.progress import Silent

from .conftest import Job, JobMaker


@dataclass
class Served:
    """A trained job whose programs answer over HTTP."""

    job: Job
    port: int
    tls: bool = False
    token: str = ""

    def ask(
        self, path: str, body: object = None, headers: dict[str, str] | None = None, kind: str = "application/json"
    ) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of an answer."""
        context = ssl._create_unverified_context() if self.tls else None
        connection: http.client.HTTPConnection = (
            http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
            if self.tls
            else http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        )
        given = {"Content-Type": kind, **({"Authorization": f"Bearer {self.token}"} if self.token else {})}
        try:
            text = body if isinstance(body, str | None) else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, text, {**given, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.headers.items()}
        finally:
            connection.close()

    def scores(self, *ids: str) -> tuple[int, dict[str, object]]:
        status, text, _ = self.ask("/scores", {"ids": list(ids)})
        return status, json.loads(text)

    def until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while self.ask("/ready")[0] != 200:
            assert time.monotonic() < deadline, self.job.log("serve-bank") + self.job.log("serve-shop")
            time.sleep(0.05)


def train(job: Job) -> str:
    """Train in this process; returns the name of the run."""
    from plait.deployment.coordinator_program import coordinate

    spec = read_job(job.file)
    files = [read_party(job.file, name) for name in job.parties]
    return coordinate(spec, files[0], files, None, Silent()).parent.name


def start(job: Job, name: str, *more: str) -> None:
    log = (job.folder / f"serve-{name}.log").open("ab")
    with log:
        own = [] if name == job.label else ["--name", name]
        command = [sys.executable, "-m", "plait", "serve", str(job.file), *own, *more]
        job.programs[f"serve-{name}"] = subprocess.Popen(command, stdout=log, stderr=log)


def serve(job: Job, *more: str, token: str = "", tls: bool = False) -> Served:
    for name in job.parties:
        rows = ["id,a,b,c,d", *(f"n{i},{0.01 * i},0.2,{-0.003 * i},0.1" for i in range(1000))]
        (job.folder / f"{name}-new.csv").write_text("\n".join(rows) + "\n")
        start(job, name, "--rows", f"{name}-new.csv", *(["--http", "127.0.0.1:0", *more] if name == "bank" else []))
    job.until("serve-bank", "serving scores on")
    found = re.search(r"serving scores on https?://127.0.0.1:(\d+)/", job.log("serve-bank"))
    assert found is not None
    return Served(job, int(found[1]), tls, token)


def unlimited(jobs: JobMaker, **options: object) -> Job:
    """A job whose parties set no limits to scores."""
    job = jobs(rounds=3, rows=200, **options)
    for name in job.parties:
        with (job.folder / f"{name}.toml").open("a") as file:  # its last section is [trust]
            file.write("max_queries = 0\nmax_scores = 0\nscores_per_id = 0\n")
    return job


def plait(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "plait", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_dead_party_is_named_within_a_second_and_service_resumes_by_itself(jobs: JobMaker) -> None:
    job = unlimited(jobs)
    train(job)
    served = serve(job, "--per-minute", "0")
    status, before = served.scores("n1", "n2")
    assert status == 200
    for how in (signal.SIGKILL, signal.SIGSTOP):
        job.programs["serve-shop"].send_signal(how)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda _: served.ask("/scores", {"ids": ["n1"]}), range(40)))
        statuses = {status for status, _, _ in found}
        assert statuses <= {200, 503}
        status, text, headers = found[-1]
        assert status == 503
        assert json.loads(text)["parties"] == ["shop"]
        assert "retry-after" in headers
        assert served.ask("/health")[0] == 200, "the process is well"
        status, text, _ = served.ask("/ready")
        assert (status, json.loads(text)["absent"]) == (503, ["shop"])
        if how == signal.SIGKILL:
            job.programs["serve-shop"].wait()
            start(job, "shop", "--rows", "shop-new.csv")
        else:
            job.programs["serve-shop"].send_signal(signal.SIGCONT)
        served.until_ready()
        assert served.scores("n1", "n2") == (200, before)


def test_a_newer_run_takes_over_while_requests_go_on_and_a_pinned_one_stays(jobs: JobMaker) -> None:
    job = unlimited(jobs)
    first = train(job)
    served = serve(job, "--per-minute", "0")
    assert served.scores("n1")[1]["run"] == first
    time.sleep(1.1)  # names of runs have seconds
    text = (job.folder / "shop.csv").read_text().splitlines()
    (job.folder / "shop.csv").write_text("\n".join(text[:1] + [line.replace(",-", ",") for line in text[1:]]) + "\n")
    second = train(job)
    assert second != first
    statuses, runs = set(), set()
    deadline = time.monotonic() + 60
    while second not in runs:
        assert time.monotonic() < deadline, job.log("serve-bank")
        status, answer = served.scores("n1")
        statuses.add(status)
        runs.add(str(answer.get("run")))
    assert statuses == {200}
    assert f"model of run {second} instead of {first}" in job.log("serve-bank")
    assert served.scores("late")[1]["scores"] == [
        {"id": "late", "score": None, "missing": ["bank", "shop"], "policy": "left out"}
    ]
    for name in job.parties:
        with (job.folder / f"{name}-new.csv").open("a") as file:
            file.write("late,0.01,0.2,-0.003,0.1\n")
        job.programs[f"serve-{name}"].send_signal(signal.SIGHUP)
    while (late := served.scores("late")[1]["scores"][0])["score"] is None:  # type: ignore[index]
        assert time.monotonic() < deadline, job.log("serve-shop")
    assert {**late, "id": "n1"} == served.scores("n1")[1]["scores"][0]  # type: ignore[index]
    job.programs["serve-shop"].send_signal(signal.SIGINT)
    assert job.wait("serve-shop") == 0, "a party may stop; the service goes on when it is back"
    assert "stopped: from now on the service waits for shop" in job.log("serve-shop")
    assert "Interrupted" not in job.log("serve-shop")
    start(job, "shop", "--rows", "shop-new.csv")
    served.until_ready()
    job.programs["serve-bank"].send_signal(signal.SIGTERM)
    assert job.wait("serve-bank") == 0
    assert job.wait("serve-shop") == 0
    job.programs.clear()
    (job.folder / "serve-bank.log").unlink()
    pinned = serve(job, "--run", first)
    assert pinned.scores("n1")[1]["run"] == first


def test_newer_runs_that_one_party_lacks_never_displace_the_run_in_use(jobs: JobMaker) -> None:
    """Two newer runs that one remote party lacks, then one that all have; a party comes anew between them."""
    job = unlimited(jobs, parties=("bank", "shop", "tele"))
    elsewhere = Job(job.folder.with_name("elsewhere"), job.parties, job.label)
    first = train(job)
    shutil.copytree(job.folder, elsewhere.folder)
    newer = []
    for _ in range(3):
        time.sleep(1.1)  # names of runs have seconds
        newer.append(train(elsewhere))
    served = serve(job, "--per-minute", "0")
    before = served.scores("n1", "n2")
    assert before[1]["run"] == first

    def appears(run: str) -> None:
        """The run is there from one moment to the next."""
        (elsewhere.folder / "runs" / run).rename(job.folder / "runs" / run)

    for run in newer[:2]:
        weights = elsewhere.folder / "runs" / run / "tele" / "weights.json"
        weights.unlink()
        appears(run)
        deadline = time.monotonic() + 60
        while f"still the model of run {first}: run {run} cannot be used: party 'tele'" not in job.log("serve-bank"):
            assert time.monotonic() < deadline, job.log("serve-bank")
            assert served.scores("n1", "n2") == before
        assert f"tele: run {run} cannot be used: {job.folder}" in job.log("serve-tele"), "its owner reads why"
        job.kill("serve-shop")
        start(job, "shop", "--rows", "shop-new.csv")
        while served.ask("/ready")[0] == 200:
            assert time.monotonic() < deadline, "nobody has noticed"
        served.until_ready()
        assert served.scores("n1", "n2") == before
    appears(newer[2])
    deadline = time.monotonic() + 60
    while served.scores("n1", "n2")[1]["run"] != newer[2]:
        assert time.monotonic() < deadline, job.log("serve-bank")
    assert all(job.programs[f"serve-{name}"].poll() is None for name in job.parties)


def test_100000_ids_stream(jobs: JobMaker) -> None:
    job = unlimited(jobs)
    train(job)
    served = serve(job, "--per-minute", "0")
    body = "".join(f'{{"id": "n{i % 1000}"}}\n' for i in range(100_000))
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    connection.request("POST", "/scores/batch", body, {"Content-Type": "application/x-ndjson"})
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["Transfer-Encoding"] == "chunked"
    lines = [json.loads(line) for line in answer]
    connection.close()
    assert [line["id"] for line in lines] == [f"n{i % 1000}" for i in range(100_000)]
    assert lines[7] == lines[1007] == served.scores("n7")[1]["scores"][0]  # type: ignore[index]


@pytest.mark.threat(
    "HTTP client",
    "asks without leave, or too often",
    "bearer tokens, a limit for each; TLS and tokens beyond this machine",
)
def test_tokens_tls_limits_and_what_operators_see(jobs: JobMaker) -> None:
    job = unlimited(jobs)
    run = train(job)
    token = plait("serve", "token", str(job.file), "--client", "crm", "--per-minute", "5").strip()
    other = plait("serve", "token", str(job.file), "--client", "batch", "--per-minute", "0").strip()
    kept = (job.folder / "bank.tokens.json").read_text()
    assert token not in kept
    assert (job.folder / "bank.tokens.json").stat().st_mode & 0o777 == 0o600
    certs = job.folder / "certs"
    served = serve(
        job,
        "--tls-certificate",
        str(certs / "bank.crt"),
        "--tls-key",
        str(certs / "bank.key"),
        "--log",
        "json",
        tls=True,
    )
    status, text, headers = served.ask("/scores", {"ids": ["n1"]}, {"X-Request-Id": "abc-1"})
    assert (status, json.loads(text)["request"], headers["x-request-id"]) == (401, "abc-1", "abc-1")
    assert headers["www-authenticate"] == "Bearer"
    served.token = "wrong"
    assert served.scores("n1")[0] == 401
    assert served.ask("/metrics")[0] == 401
    assert served.ask("/ready")[0] == 200
    served.token = token
    assert served.scores("n1", "n2", "n3", "n4")[0] == 200
    assert served.scores("n1", "n2", "n3")[0] == 429, "this client's own limit"
    served.token = other
    assert served.scores("n1", "n2", "n3")[0] == 200, "is nobody else's"
    metrics = served.ask("/metrics")[1]
    assert 'plait_scored_ids_total{client="crm"} 4' in metrics
    assert 'plait_party_connected{party="shop"} 1' in metrics
    assert f'plait_model_info{{run="{run}"}} 1' in metrics
    assert re.search(r'^plait_request_seconds_bucket\{le="\+Inf"\} \d+$', metrics, re.MULTILINE)
    described = json.loads(served.ask("/openapi.json")[1])
    assert set(described["paths"]) == {"/scores", "/scores/batch", "/health", "/ready", "/metrics", "/openapi.json"}
    assert described["paths"]["/scores"]["post"]["security"] == [{"token": []}]
    plait("serve", "token", str(job.file), "--revoke", "batch")
    time.sleep(1.1)  # the service looks once a second
    assert served.scores("n1")[0] == 401
    assert "no token is left" in plait("serve", "token", str(job.file), "--revoke", "crm")
    time.sleep(1.1)
    served.token = ""
    assert served.scores("n1")[0] == 401, "without its last token it answers nobody"
    logged = [json.loads(line) for line in job.log("serve-bank").splitlines() if '"event": "request"' in line]
    assert {"client": "crm", "path": "/scores", "status": 200}.items() <= next(
        line for line in logged if line["client"] == "crm"
    ).items()
    assert "n4" not in job.log("serve-bank"), "a log holds no ids"
    job.programs["serve-bank"].send_signal(signal.SIGTERM)
    assert [job.wait("serve-bank"), job.wait("serve-shop")] == [0, 0]


@pytest.mark.threat(
    "HTTP client",
    "asks without leave, or too often",
    "bearer tokens, a limit for each; TLS and tokens beyond this machine",
)
def test_a_service_beyond_this_machine_needs_tls_and_tokens(jobs: JobMaker) -> None:
    job = unlimited(jobs)
    train(job)
    certs = job.folder / "certs"
    tls = ["--tls-certificate", str(certs / "bank.crt"), "--tls-key", str(certs / "bank.key")]
    for more, word in (([], "TLS"), (tls, "token"), (tls[:2], "together")):
        command = [
            sys.executable,
            "-m",
            "plait",
            "serve",
            str(job.file),
            "--rows",
            "bank.csv",
            "--http",
            "0.0.0.0:0",
            *more,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert word in done.stderr
