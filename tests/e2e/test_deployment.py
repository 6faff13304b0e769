"""Separate programs: the same numbers as a simulation, whatever is killed and whenever."""

import signal
from pathlib import Path

import pytest

from plait.deployment.message_log import read_log
from plait.transports import certificate_authority, certificates
from plait.transports.certificates import Folder

from .conftest import Job, JobMaker

METHODS = {
    "subspace": {"method": 'name = "subspace"', "rounds": 12},
    "sgd": {"method": 'name = "sgd"\nbatch = 150\nstep = 0.5', "rounds": 5},
    "proximal": {"method": 'name = "proximal"', "rounds": 40},
    "int16": {"method": 'name = "subspace"', "rounds": 12, "more": '[run]\nprecision = "int16"'},
    "gauss-seidel": {"method": 'name = "gauss-seidel"', "rounds": 10, "parties": ("bank", "shop", "tele")},
}


def finish(job: Job) -> None:
    for name in job.programs:
        assert job.wait(name) == 0, job.log(name)


@pytest.mark.parametrize("options", METHODS.values(), ids=METHODS)
def test_programs_give_the_numbers_of_a_simulation(jobs: JobMaker, options: dict[str, object]) -> None:
    job = jobs(**options)
    for name in job.parties:
        job.start(name)
    finish(job)
    assert job.result() == jobs.undisturbed(**options)
    run = max((job.folder / "runs").iterdir())
    for name in ("coordinator", *job.parties):
        assert {e.facts["what"] for e in read_log(run / name / "audit.jsonl")} >= {"sent", "received"}
        if name == "bank":  # the label party's report is the coordinator's
            continue
        page = (run / name / "report.html").read_text()
        assert "Convergence" in page
        assert "http://" not in page
        assert "https://" not in page
        known = name == "coordinator" and "sgd" not in str(options["method"])  # there nobody has all scores at the end
        assert ("KS" in page) == known, "metrics are about the labels"


def test_interrupted_coordinator_resumes(jobs: JobMaker) -> None:
    options = {"rounds": 200, "rows": 5000}
    job = jobs(**options)
    for name in job.parties:
        job.start(name)
    job.until("bank", "round    2 ")
    job.programs["shop"].send_signal(signal.SIGSTOP)  # so that its answer is awaited when the coordinator ends
    job.programs["bank"].send_signal(signal.SIGINT)
    assert job.wait("bank") == 130
    assert "resumes where it stopped" in job.log("bank")
    job.programs["shop"].send_signal(signal.SIGCONT)
    job.start("bank")
    finish(job)
    assert "resuming run" in job.log("bank")
    assert job.result() == jobs.undisturbed(**options)


def test_missing_party_ends_the_run_on_all_sides(jobs: JobMaker) -> None:
    job = jobs(parties=("bank", "shop", "tele"), patience=2, rounds=100_000, rows=3000)
    for name in job.parties:
        job.start(name)
    job.until("bank", "round    2 ")
    job.kill("tele")
    assert job.wait("bank") == 1
    assert job.wait("shop") == 1
    for name in ("bank", "shop"):
        assert "party 'tele' must not be away for more than 2 s" in job.log(name)


def test_strangers_are_refused_and_the_run_goes_on(jobs: JobMaker, tmp_path: Path) -> None:
    job = jobs(rounds=5)
    job.start("bank")
    job.until("bank", "still waiting for shop: no party of that name has come through TLS")
    stranger = Folder(tmp_path / "stranger")
    certificate_authority.init_authority(stranger, "bank")
    certificate_authority.sign_request(stranger, certificate_authority.make_request(stranger, "shop"))
    job.start("shop", "--certificates", str(stranger.path))
    assert job.wait("shop") == 1
    assert "must have certificates of the same authority" in job.log("shop")
    assert "`plait cert show`" in job.log("shop")
    assert "joined" not in job.log("bank")
    changed = job.file.read_text()
    job.file.write_text(changed.replace("max_rounds = 5", "max_rounds = 6"))
    job.start("shop")
    assert job.wait("shop") == 1
    assert "all parties must have the same job file" in job.log("shop")
    job.file.write_text(changed)
    job.start("shop")
    finish(job)


def test_misaligned_rows_are_refused_on_both_sides(jobs: JobMaker) -> None:
    job = jobs(rounds=5)
    path = job.folder / "shop.csv"
    header, first, second, *rest = path.read_text().splitlines()
    path.write_text("\n".join([header, second, first, *rest]) + "\n")
    job.start("bank")
    job.start("shop")
    assert job.wait("shop") == 1
    assert "same rows in the same order" in job.log("shop")
    job.until("bank", "refused")


def test_narrow_party_refuses_to_start(jobs: JobMaker) -> None:
    job = jobs()
    path = job.folder / "shop.toml"
    path.write_text(path.read_text().replace("[trust]", "[trust]\nmin_columns = 5"))
    job.start("shop")
    assert job.wait("shop") == 1
    assert "at least 5 columns" in job.log("shop")


def test_plain_text_stays_on_this_machine(jobs: JobMaker) -> None:
    job = jobs()
    job.start("shop", "--insecure", "--address", "192.0.2.1:7443")
    assert job.wait("shop") == 1
    assert "--insecure must stay on this machine" in job.log("shop")


def test_a_partys_limits_and_paths_stay_on_its_own_screen(jobs: JobMaker) -> None:
    job = jobs(rounds=30, patience=5)
    path = job.folder / "shop.toml"
    path.write_text(path.read_text().replace("[trust]\n", "[trust]\nmax_rounds = 7\n"))
    for name in job.parties:
        job.start(name)
    assert [job.wait(name) for name in job.parties] == [1, 1]
    assert "this party gives 7 rounds" in job.log("shop")
    assert "trust.max_rounds" in job.log("shop")
    assert "its own limits or rules do not allow it" in job.log("bank")
    for secret in ("gives 7", "max_rounds", str(job.folder / "shop")):
        assert secret not in job.log("bank")


def pin(job: Job, **fingerprints: str) -> None:
    lines = [f'{name} = "{text}"' for name, text in fingerprints.items()]
    job.file.write_text(job.file.read_text() + "\n".join(["[fingerprints]", *lines]) + "\n")


def fingerprint_of(job: Job, name: str) -> str:
    return certificates.fingerprint(certificates.read_certificate(job.folder / "certs" / f"{name}.crt"))


def test_pinned_keys_are_demanded_on_both_sides(jobs: JobMaker) -> None:
    job = jobs(rounds=3)
    pin(job, bank=fingerprint_of(job, "bank"), shop=fingerprint_of(job, "shop").upper())
    for name in job.parties:
        job.start(name)
    assert [job.wait(name) for name in job.parties] == [0, 0], job.log("shop")
    wrong = "0123 4567 89ab cdef 0123 4567 89ab cdef"
    for pinned, says in (("shop", ("bank", "shop")), ("bank", ("shop",))):
        job = jobs(rounds=3)
        pin(job, **{pinned: wrong})
        for name in job.parties:
            job.start(name)
        assert job.wait("shop") == 1
        for name in says:
            job.until(name, f"{wrong}, which the job file pins")
            assert fingerprint_of(job, pinned) in job.log(name)
        job.kill("bank")
        assert not list(job.folder.glob("runs/*/*/weights.json"))
