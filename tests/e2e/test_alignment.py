"""Programs that hold different rows in different orders, aligned and trained, whatever is killed and whenever."""

import contextlib
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from plait.deployment.message_log import read_log
from tests.extras import arrow as pa
from tests.extras import parquet

from .conftest import Job, JobMaker

OPTIONS: dict[str, object] = {"parties": ("bank", "shop", "tele"), "rows": 300, "rounds": 12}
ALIGNER = "plait.alignment.aligner:Aligner"
MEETING = "plait.alignment.meeting:Meeting"
COORDINATOR = "plait.deployment.align:CoordinatorAlignment"
ORDER = "plait.alignment.order:Order"
SPOOL = "plait.alignment.spool:Spool"
POINTS = {
    "party, before it has begun": ("shop", f"{ALIGNER}._begin", "before", 1),
    "party, another's set half taken": ("shop", f"{SPOOL}.append", "after", 1),
    "party, agreed but not answered": ("shop", f"{ALIGNER}._propose", "after", 1),
    "party, order kept but not acknowledged": ("shop", f"{ORDER}.save", "after", 1),
    "coordinator, sets on their way": ("bank", f"{SPOOL}.append", "after", 4),
    "coordinator, all traced": ("bank", f"{MEETING}._compare", "after", 1),
}
MORE_POINTS = {
    "party, at its first word": ("shop", f"{ALIGNER}._announce", "before", 1),
    "party, sizes kept": ("shop", f"{ALIGNER}._begin", "after", 1),
    "party, nothing taken": ("shop", f"{ALIGNER}._take", "before", 1),
    "party, before it gives": ("shop", f"{ALIGNER}._give", "before", 2),
    "party, before it traces": ("shop", f"{ALIGNER}._trace", "before", 1),
    "party, traced but not answered": ("shop", f"{ALIGNER}._trace", "after", 2),
    "party, before it keeps its order": ("shop", f"{ORDER}.save", "before", 1),
    "coordinator, sizes known": ("bank", f"{MEETING}._agree_on_sizes", "after", 1),
    "coordinator, all blinded": ("bank", f"{MEETING}._blind_all", "after", 1),
    "coordinator, before consent": ("bank", f"{MEETING}._ask_for_consent", "before", 1),
    "coordinator, before it tells": ("bank", f"{COORDINATOR}._end", "before", 1),
    "coordinator, all told": ("bank", f"{COORDINATOR}._end", "after", 1),
    "coordinator, before its own order": ("bank", f"{ORDER}.save", "before", 1),
}


def scatter(job: Job, min_rows: int = 20) -> list[str]:
    """Give every party its own rows in its own order, ids written in its own way; returns the common ids, sorted."""
    rng = random.Random(0)
    lines = {name: (job.folder / f"{name}.csv").read_text().splitlines() for name in job.parties}
    kept: dict[str, set[str]] = {}
    for number, name in enumerate(job.parties):
        header, *rows = lines[name]
        own = rng.sample(rows, k=len(rows) * 4 // 5)
        kept[name] = {row.split(",")[0] for row in own}
        written = [row.replace("r", " R", 1) if number % 2 else row for row in own]
        (job.folder / f"{name}.csv").write_text("\n".join([header, *written]) + "\n")
    job.file.write_text(job.file.read_text() + f'[alignment]\ncase = "fold"\nmin_rows = {min_rows}\n')
    return sorted(set.intersection(*kept.values()))


def joined(job: Job, common: list[str]) -> None:
    """The same job on files that were joined and sorted beforehand."""
    for name in job.parties:
        header, *rows = (job.folder / f"{name}.csv").read_text().splitlines()
        by_id = {row.split(",")[0]: row for row in rows}
        (job.folder / f"{name}.csv").write_text("\n".join([header, *(by_id[i] for i in common)]) + "\n")


def run(*arguments: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "plait", *arguments], capture_output=True, text=True, timeout=180)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The result on the pre-joined tables, without any alignment."""
    maker = JobMaker(tmp_path_factory.mktemp("joined"))
    job, plain = maker(**OPTIONS), maker(**OPTIONS)
    joined(plain, scatter(job))
    run("fit", str(plain.file))
    return plain.result()


def finish(job: Job) -> None:
    for name in job.programs:
        assert job.wait(name) == 0, job.log(name)


def check(job: Job, point: tuple[str, str, str, int], expected: dict[str, str]) -> None:
    scatter(job)
    victim, target, when, count = point
    for name in job.parties:
        job.start(name, "--yes", killed_at=(target, when, str(count)) if name == victim else None)
    assert job.wait(victim) == -signal.SIGKILL, job.log(victim)
    job.start(victim, "--yes")
    finish(job)
    assert job.result() == expected
    assert not list(job.folder.glob("alignments/*/*/work")), "secrets and sets are gone"
    assert not list(job.folder.glob("alignments/*/*/relay"))


def test_simulated_it_gives_the_model_of_the_joined_tables(jobs: JobMaker, expected: dict[str, str]) -> None:
    job = jobs(**OPTIONS)
    common = scatter(job)
    said = run("fit", str(job.file), "--yes")
    assert f"{len(common)} common rows" in said
    assert job.result() == expected


def test_programs_give_the_same_model_and_log_every_parcel(jobs: JobMaker, expected: dict[str, str]) -> None:
    job = jobs(**OPTIONS)
    scatter(job)
    for name in job.parties:
        job.start(name, "--yes")
    finish(job)
    assert job.result() == expected
    newest = max((job.folder / "alignments").iterdir())
    for name in ("coordinator", "shop", "tele"):
        noted = [entry.facts["what"] for entry in read_log(newest / name / "audit.jsonl")]
        assert {"parcel received", "parcel sent", "alignment ended"} <= set(noted)


def test_processes_align_too_and_need_a_yes(jobs: JobMaker, expected: dict[str, str]) -> None:
    job = jobs(**OPTIONS)
    scatter(job)
    assert "--yes" in run("fit", str(job.file), "--processes", code=1)
    run("fit", str(job.file), "--processes", "--yes")
    assert job.result() == expected


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_killed_program_goes_on_with_the_alignment(
    jobs: JobMaker, point: tuple[str, str, str, int], expected: dict[str, str]
) -> None:
    check(jobs(**OPTIONS), point, expected)


@pytest.mark.slow
@pytest.mark.parametrize("point", MORE_POINTS.values(), ids=MORE_POINTS)
def test_killed_program_goes_on_at_every_other_point(
    jobs: JobMaker, point: tuple[str, str, str, int], expected: dict[str, str]
) -> None:
    check(jobs(**OPTIONS), point, expected)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_kills_change_nothing(jobs: JobMaker, seed: int, expected: dict[str, str]) -> None:
    job = jobs(**OPTIONS)
    scatter(job)
    rng = random.Random(seed)
    for name in job.parties:
        job.start(name, "--yes")
    for _ in range(8):
        time.sleep(rng.uniform(0.2, 3.0))
        name = rng.choice(job.parties)
        if job.programs[name].poll() is None and not job.finished("bank"):
            job.kill(name)
            job.start(name, "--yes")
    for name in job.programs:
        assert job.finished(name) or job.wait(name) == 0, job.log(name)
    assert job.result() == expected


def test_twenty_thousand_ids_align_in_seconds_and_a_later_run_goes_on_from_there(jobs: JobMaker) -> None:
    """`plait align` between two programs, one of them killed halfway; then `plait coordinator` and `plait party`."""
    job = jobs(rows=25_000, rounds=3)
    common = scatter(job)
    command = [sys.executable, "-m", "plait", "align", str(job.file), "--yes", "--name"]
    killing = [sys.executable, str(Path(__file__).with_name("killed_at.py")), f"{SPOOL}.append", "after", "1"]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    began = time.monotonic()
    bank = subprocess.Popen([*command, "bank"], env=env)
    shop = subprocess.Popen([*killing, *command[3:], "shop"], env=env)
    job.programs = {"bank": bank, "shop": shop}
    assert shop.wait(120) == -signal.SIGKILL
    job.programs["shop"] = subprocess.Popen([*command, "shop"], env=env)
    finish(job)
    assert time.monotonic() - began < 100
    (newest,) = (job.folder / "alignments").iterdir()
    for name in ("bank", "shop"):
        folder = newest / ("coordinator" if name == "bank" else name)
        ids = [line.split(",")[0] for line in (job.folder / f"{name}.csv").read_text().splitlines()[1:]]
        assert [ids[row].strip().lower() for row in np.load(folder / "order.npy")] == common
        assert json.loads((folder / "alignment.json").read_text())["common"] == len(common)
    for name in job.parties:
        job.start(name, "--yes")
    finish(job)
    assert list((job.folder / "alignments").iterdir()) == [newest], "its rows were used"
    assert f"rows of alignment {newest.name}: {len(common)}" in job.log("bank")


def test_too_few_common_samples_end_it_everywhere_with_nothing_trained(jobs: JobMaker) -> None:
    job = jobs(**OPTIONS)
    common = scatter(job, min_rows=290)
    for name in job.parties:
        job.start(name, "--yes")
    for name in job.parties:
        assert job.wait(name) == 1
        assert f"at least 290 rows. Found {len(common)}" in job.log(name)
    assert not list(job.folder.glob("runs/*/*/weights.json"))
    assert not list(job.folder.glob("alignments/*/*/work"))


def test_without_a_terminal_consent_must_be_typed(jobs: JobMaker) -> None:
    job = jobs(**OPTIONS)
    scatter(job)
    for command in (["fit", str(job.file)], ["align", str(job.file)], ["party", str(job.file), "--name", "shop"]):
        done = subprocess.run([sys.executable, "-m", "plait", *command], capture_output=True, text=True, input="y\n")
        assert done.returncode == 1
        assert "by --yes" in done.stderr


BAD_FILES = {
    "missing": ("key,a,b\nr1,1,2\n", "must have the id column 'id'"),
    "empty": ("id,a,b\n,1,2\n,2,3\n", "must hold ids. Found nothing"),
    "floating point": ("id,a,b\n1.0,1,2\n2.0,2,3\n", "floating-point"),
    "repeated": ("id,a,b\nr1,1,2\nR1 ,2,3\n", "every id must stand in one row"),
    "another encoding": ("id,a,b\nr\udcfc1,1,2\n", "CSV file in UTF-8"),
}


@pytest.mark.parametrize("case", BAD_FILES.values(), ids=BAD_FILES)
def test_ids_that_cannot_be_compared_end_it_before_anyone_is_called(jobs: JobMaker, case: tuple[str, str]) -> None:
    job = jobs(**OPTIONS)
    scatter(job)
    (job.folder / "shop.csv").write_bytes(case[0].encode(errors="surrogateescape"))
    assert case[1] in run("fit", str(job.file), "--yes", code=1)
    assert not (job.folder / "runs").exists()


def test_another_setting_uses_the_same_rows_and_changed_ids_need_a_new_alignment(jobs: JobMaker) -> None:
    job = jobs(rows=300, rounds=3)
    scatter(job)
    run("align", str(job.file), "--yes")
    (first,) = (job.folder / "alignments").iterdir()
    assert "is there already" in run("align", str(job.file), "--yes")
    job.file.write_text(job.file.read_text().replace("alpha = 1e-3", "alpha = 2e-3"))
    for name in job.parties:
        job.start(name)  # nobody is asked again: no --yes, no terminal
    finish(job)
    assert [path.name for path in (job.folder / "alignments").iterdir()] == [first.name]
    assert (
        json.loads((max((job.folder / "runs").iterdir()) / "coordinator" / "run.json").read_text())["alignment"]
        == first.name
    )
    table = job.folder / "shop.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + "\n")
    for name in job.parties:
        job.start(name)
    assert job.wait("shop") == 1
    assert "the ids must be those that were aligned" in job.log("shop")
    assert "plait align --refresh" in job.log("shop")
    job.kill("bank")
    run("align", str(job.file), "--yes", "--refresh")
    assert len(list((job.folder / "alignments").iterdir())) == 2
    for name in job.parties:
        job.start(name)
    finish(job)


@pytest.mark.parametrize("answers", ["y y y", "y n y"])
def test_every_party_is_asked_at_the_terminal(jobs: JobMaker, answers: str) -> None:
    job = jobs(**OPTIONS)
    common = scatter(job)
    ours, theirs = pty.openpty()
    program = subprocess.Popen([sys.executable, "-m", "plait", "align", str(job.file)], stdin=theirs, stdout=theirs)
    os.close(theirs)
    job.programs["align"] = program
    os.write(ours, answers.replace(" ", "\n").encode() + b"\n")
    said = b""
    with contextlib.suppress(OSError):  # the program has closed its end
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert program.wait(60) == (1 if "n" in answers else 0)
    text = said.decode()
    assert re.search(rf"in common +{len(common)}", text)
    assert all(f"{name}: use them?" in text for name in ("coordinator", "shop", "tele"))
    assert len(list(job.folder.glob("alignments/*/*/order.npy"))) == (0 if "n" in answers else 3)
    assert not list(job.folder.glob("alignments/*/*/work"))


def test_doctor_counts_the_ids(jobs: JobMaker) -> None:
    job = jobs(**OPTIONS)
    scatter(job)
    assert "240 ids" in run("doctor", str(job.file))


def test_composite_keys_from_every_format_match_and_a_coordinator_may_hold_labels_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 4))
    y = (x.sum(axis=1) + rng.logistic(size=400) > 0).astype(int)
    lab, shop, tele = (rng.permutation(400)[:size] for size in (300, 310, 320))
    parquet.write_table(
        pa.table({"cc": ["de"] * 300, "no": lab.tolist(), "y": y[lab].tolist()}), tmp_path / "lab.parquet"
    )
    rows = [f" {i},DE,{x[i, 0]},{x[i, 1]}" for i in shop]
    (tmp_path / "shop.csv").write_text("\n".join(["no,cc,p,q", *rows]) + "\n")
    np.savez(tmp_path / "tele.npz", X=x[tele][:, 2:], land=["De "] * 320, nr=tele)
    for name, file, keys in (
        ("lab", "lab.parquet", ["cc", "no"]),
        ("shop", "shop.csv", ["cc", "no"]),
        ("tele", "tele.npz", ["land", "nr"]),
    ):
        label = 'label = "y"' if name == "lab" else ""
        accepted = "[trust]\naccept_labels_shown = true\naccept_scores_shown = true\n"
        (tmp_path / f"{name}.toml").write_text(
            f'[data]\nfile = "{file}"\nid = {json.dumps(keys)}\n{label}\n' + accepted
        )
    (tmp_path / "job.toml").write_text(
        'format = 1\nname = "t"\nparties = ["shop", "tele"]\nprotection = "plain"\n'
        '[coordinator]\nname = "lab"\n[alignment]\ncase = "fold"\n'
    )
    run("fit", str(tmp_path / "job.toml"), "--yes")
    (newest,) = (tmp_path / "alignments").iterdir()
    expected = sorted(set(lab) & set(shop) & set(tele), key=str)
    for name, numbers in (("coordinator", lab), ("shop", shop), ("tele", tele)):
        assert list(numbers[np.load(newest / name / "order.npy")]) == expected
