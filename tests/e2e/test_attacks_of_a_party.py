"""A party, or an outsider, with a certificate of the authority that lies, floods or is silent."""

import resource
import socket
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from plait.deployment.job_file import read_job
from plait.messages import Broadcast
from plait.protection.messages import Hints
from plait.protection.parameters import SETS
from plait.training.protected import to_words
from plait.transports import certificate_authority, certificates
from plait.transports.certificates import Folder
from plait.transports.frames import frames
from plait.transports.handshake import Refused
from plait.transports.revocation import revoke

from . import hostile
from .conftest import JobMaker

ROWS = 400
OPTIONS: dict[str, object] = {"method": 'name = "subspace"', "rounds": 4, "rows": ROWS, "patience": 4, "tol": 1e-6}
FLAT = np.zeros(ROWS)

WRONG: dict[str, dict[str, Any]] = {
    "no scalars": {"vector": FLAT},
    "many scalars": {"vector": FLAT, "scalars": np.zeros(65_536)},
    "huge numbers": {"vector": np.full(ROWS, 1e308), "scalars": np.zeros(25)},
    "huge scalars": {"vector": FLAT, "scalars": np.full(25, 1e308)},
    "int16 in a float64 job": {"vector": np.ones(ROWS, np.int16), "scalars": np.zeros(25), "step": 1.0},
    "another round": {"vector": FLAT, "scalars": np.zeros(25), "round": 3},
    "no vector": {"scalars": np.zeros(25)},
    "too short": {"vector": np.zeros(ROWS - 1), "scalars": np.zeros(25)},
    "not numbers": {"vector": np.full(ROWS, np.nan), "scalars": np.zeros(25)},
    "infinite scalars": {"vector": FLAT, "scalars": np.full(25, -np.inf)},
}
IN_ANY_RUN = ("no scalars", "not numbers")  # the others fail in the same place, and are as slow
CASES = [
    pytest.param(changes, id=name, marks=() if name in IN_ANY_RUN else pytest.mark.slow)
    for name, changes in WRONG.items()
]


@pytest.mark.threat(
    "party", "shares of another shape, format, round or size", "checked before they are kept; a resumed run is sound"
)
@pytest.mark.parametrize("changes", CASES)
def test_a_wrong_share_ends_the_run_by_name_and_a_resumed_one_is_sound(jobs: JobMaker, changes: dict[str, Any]) -> None:
    job = jobs(**OPTIONS)
    job.start("bank")
    job.until("bank", "listening")
    with hostile.party(job, "shop") as talk:
        broadcast = talk.hear()
        assert isinstance(broadcast, Broadcast)
        for data in frames(hostile.share_of(broadcast, **changes), 1):
            talk.say(data)
        assert job.wait("bank", 60) == 1, job.log("bank")
    assert "Traceback" not in job.log("bank")
    assert "'shop'" in job.log("bank")
    for name in job.parties:  # the same run goes on with an honest party
        job.start(name)
    for name in job.parties:
        assert job.wait(name) == 0, job.log(name)
    assert "resuming run" in job.log("bank")
    assert job.result() == jobs.undisturbed(**OPTIONS)


@pytest.mark.threat(
    "outsider with a certificate", "silent streams", "refused before greeting; two streams per name; 20 s to greet"
)
def test_silent_streams_of_an_outsider_do_not_lock_out_the_parties(jobs: JobMaker) -> None:
    job = jobs(**{**OPTIONS, "patience": 60})
    folder = Folder(job.folder / "certs")
    certificate_authority.sign_request(folder, certificate_authority.make_request(folder, "mallory"))
    job.start("bank")
    job.until("bank", "listening")
    with ExitStack() as open_streams:
        for name in ["mallory"] * 30 + ["shop"]:
            open_streams.enter_context(hostile.party(job, name, greet=False))
        time.sleep(1)
        job.start("shop")
        assert job.wait("shop", 60) == 0, job.log("shop")
        assert job.wait("bank", 60) == 0, job.log("bank")
    assert len(job.log("bank")) < 20_000


@pytest.mark.threat(
    "outsider without a certificate",
    "connections that never finish TLS",
    "they take half of the files that a process may open; 20 s for TLS",
)
def test_connections_that_never_finish_tls_leave_room_for_the_parties(jobs: JobMaker) -> None:
    job = jobs(**{**OPTIONS, "patience": 60})
    resource.prlimit(job.start("bank").pid, resource.RLIMIT_NOFILE, (256, 256))
    job.until("bank", "listening")
    host, _, port = read_job(job.file).coordinator.address.rpartition(":")
    with ExitStack() as open_connections:
        for _ in range(400):
            stranger = open_connections.enter_context(socket.create_connection((host, int(port))))
            stranger.sendall(b"\x16\x03\x01\x02\x00\x01")  # how TLS begins
        job.start("shop")
        assert job.wait("shop") == 0, job.log("shop")
        assert job.wait("bank") == 0, job.log("bank")
    assert job.result() == jobs.undisturbed(**OPTIONS)


def test_an_outsider_is_told_that_the_job_does_not_name_it(jobs: JobMaker) -> None:
    job = jobs(**OPTIONS)
    folder = Folder(job.folder / "certs")
    certificate_authority.sign_request(folder, certificate_authority.make_request(folder, "mallory"))
    job.start("bank")
    job.until("bank", "listening")
    with hostile.party(job, "mallory", greet=False) as talk:
        said = talk.hear()
    assert isinstance(said, Refused)
    assert "the job names the parties shop" in said.reason


@pytest.mark.threat("party", "connected and silent, or trickling", "`coordinator.patience` for one answer")
@pytest.mark.parametrize("way", [pytest.param("silent", marks=pytest.mark.slow), "trickling"])
def test_a_party_that_stays_and_does_not_answer_ends_by_the_coordinators_patience(jobs: JobMaker, way: str) -> None:
    job = jobs(**OPTIONS)
    job.start("bank")
    job.until("bank", "listening")
    with hostile.party(job, "shop") as talk:
        broadcast = talk.hear()
        if way == "trickling":
            head = next(frames(hostile.share_of(broadcast, vector=np.zeros(ROWS)), 1))
            talk.say(head[:-8])
        began = time.monotonic()
        assert job.wait("bank", 30) == 1, job.log("bank")
        assert time.monotonic() - began < 20
    assert "shop" in job.log("bank")


@pytest.mark.threat("party", "floods of stale frames", "the first one ends the stream")
def test_a_flood_of_stale_answers_is_not_logged(jobs: JobMaker) -> None:
    job = jobs(**OPTIONS)
    job.start("bank")
    job.until("bank", "listening")
    with hostile.party(job, "shop") as talk:
        broadcast = talk.hear()
        stale = list(frames(hostile.share_of(broadcast, vector=FLAT, scalars=np.zeros(25)), 0))
        for _ in range(20_000):
            for data in stale:
                talk.say(data)
        assert job.wait("bank", 60) == 1
    written = sum(path.stat().st_size for path in job.folder.rglob("*") if path.is_file() and "certs" not in path.parts)
    assert written < 500_000


@pytest.mark.threat(
    "outsider with a stolen key", "takes part", "`plait cert revoke`; the list is read at every handshake"
)
def test_a_revoked_certificate_is_refused_by_a_running_coordinator_and_others_go_on(jobs: JobMaker) -> None:
    job = jobs(**{**OPTIONS, "patience": 30})
    job.start("bank")
    job.until("bank", "listening")
    folder = Folder(job.folder / "certs")
    old = (folder.certificate("shop").read_bytes(), folder.key("shop").read_bytes())
    certificate_authority.make_request(folder, "shop", renew=True)
    certificate_authority.sign_request(folder, folder.request("shop"), renew=True)
    certificates.use_renewed_key(folder, "shop", certificates.read_certificate(folder.certificate("shop")))
    revoke(folder, "shop", older=True)
    stolen = job.folder / "stolen"
    stolen.mkdir()
    for name, content in (("shop.crt", old[0]), ("shop.key", old[1]), ("ca.crt", folder.authority.read_bytes())):
        (stolen / name).write_bytes(content)
    job.start("shop", "--certificates", str(stolen))
    assert job.wait("shop", 60) == 1
    assert "revoked" in job.log("shop")
    job.start("shop")
    for name in job.parties:
        assert job.wait(name, 60) == 0, job.log(name)


@pytest.mark.threat(
    "party", "comes and goes and never answers", "four times `coordinator.patience` for one answer in all"
)
def test_a_party_that_comes_and_goes_ends_the_run_and_fills_no_log(jobs: JobMaker) -> None:
    job = jobs(**{**OPTIONS, "patience": 1.5})
    job.start("bank")
    job.until("bank", "listening")
    while job.programs["bank"].poll() is None:
        with hostile.party(job, "shop") as talk:
            talk.hear()
    assert job.wait("bank", 30) == 1
    assert "however often it comes back" in job.log("bank")
    assert sum(path.stat().st_size for path in job.folder.rglob("audit.jsonl")) < 100_000


@pytest.mark.threat("party", "encrypted columns of another form or size", "checked before they are kept, and named")
@pytest.mark.parametrize("rows", [0, ROWS - 1])
def test_wrong_encrypted_columns_end_the_run_by_name_and_the_next_one_is_sound(jobs: JobMaker, rows: int) -> None:
    options = {**OPTIONS, "protection": '"labels"'}
    job, parameters = jobs(**options), SETS[1]
    hints = Hints(parameters, ROWS - 1, bytes(32), np.zeros((4, parameters.dimension, parameters.hint_bytes), np.uint8))
    data = hints.encode() if rows else bytes(len(hints.encode()))
    job.start("bank")
    job.until("bank", "listening")
    with hostile.party(job, "shop") as talk:
        for frame in frames(hostile.share_of(talk.hear(), vector=to_words(data)), 1):
            talk.say(frame)
        assert job.wait("bank", 60) == 1, job.log("bank")
    assert "Traceback" not in job.log("bank")
    assert "Error: party 'shop'" in job.log("bank")
    for name in job.parties:
        job.start(name)
    assert [job.wait(name) for name in job.parties] == [0, 0], [job.log(name) for name in job.parties]
    assert job.result() == jobs.undisturbed(**options)
