"""A disk that forgets, an older copy of a folder, a second program, and whoever else can log in."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from plait.data import preparation, transformers
from plait.deployment.journal import Journal
from plait.deployment.local_data import Rows
from plait.deployment.run_folder import RunFolder
from plait.errors import ConfigError, PlaitError, StorageError

from .conftest import Job, JobMaker

OPTIONS: dict[str, object] = {"rounds": 30, "rows": 400, "patience": 20}


def started(job: Job, exchanges: int) -> None:
    """Run a job until some exchanges have taken place, then kill both programs."""
    for name in job.parties:
        target = ("plait.deployment.stored_party:StoredParty.answer", "after", str(exchanges))
        job.start(name, killed_at=target if name == "shop" else None)
    assert job.wait("shop") == -signal.SIGKILL
    job.kill("bank")


def party_folder(job: Job, name: str = "shop") -> Path:
    (folder,) = (job.folder / "runs").glob(f"*/{name}")
    return folder


def lose(folder: Path, records: int) -> None:
    """Cut the last records off a party's journal."""
    path = folder / "checkpoint" / "journal"
    journal = Journal(path, owner=RunFolder(folder).owner)
    sizes = [24 + len(record.payload) for record in journal.records()]
    journal.close()
    os.truncate(path, sum(sizes[:-records]))


def resumed(job: Job) -> list[int]:
    for name in job.parties:
        job.start(name)
    return [job.wait(name, 90) for name in job.parties]


@pytest.mark.threat(
    "the disk itself", "forgets records, gives an older copy", "every request names the one before it; checksums"
)
@pytest.mark.parametrize("lost", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(9, marks=pytest.mark.slow)])
def test_a_party_that_lost_its_last_records_ends_with_the_same_bits_or_the_remedy(jobs: JobMaker, lost: int) -> None:
    job = jobs(**OPTIONS)
    started(job, 20)
    lose(party_folder(job), lost)
    codes = resumed(job)
    if codes == [0, 0]:
        assert job.result() == jobs.undisturbed(**OPTIONS)
    else:
        assert "start over" in job.log("shop") + job.log("bank")


@pytest.mark.threat(
    "the disk itself",
    "forgets the last record when all has been answered",
    "nobody hears of the end who has not answered the last exchange",
)
def test_a_party_that_lost_its_last_record_after_the_last_exchange_ends_with_the_same_bits(jobs: JobMaker) -> None:
    options = {**OPTIONS, "method": 'name = "subspace"', "rounds": 2, "tol": 0}
    job = jobs(**options)
    job.start("bank", killed_at=("plait.transports.server:Hub.finish", "before", "1"))
    job.start("shop")
    assert job.wait("bank") == -signal.SIGKILL
    job.kill("shop")
    lose(party_folder(job), 1)
    assert resumed(job) == [0, 0]
    assert job.result() == jobs.undisturbed(**options)


@pytest.mark.threat(
    "the disk itself", "forgets records, gives an older copy", "every request names the one before it; checksums"
)
@pytest.mark.parametrize("who", ["shop", pytest.param("coordinator", marks=pytest.mark.slow)])
def test_an_older_copy_of_a_folder_ends_with_the_same_bits_or_the_remedy(jobs: JobMaker, who: str) -> None:
    job = jobs(**OPTIONS)
    started(job, 8)
    copy = job.folder / "copy"
    shutil.copytree(party_folder(job, who), copy)
    for name in job.parties:
        target = ("plait.deployment.stored_party:StoredParty.answer", "after", "8")
        job.start(name, killed_at=target if name == "shop" else None)
    assert job.wait("shop") == -signal.SIGKILL
    job.kill("bank")
    folder = party_folder(job, who)
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    codes = resumed(job)
    if codes == [0, 0]:
        assert job.result() == jobs.undisturbed(**OPTIONS)
    else:
        assert "start over" in job.log("shop") + job.log("bank")


@pytest.mark.threat(
    "whoever leaves files on the disk", "another run's journal or checkpoint", "each belongs to one party of one run"
)
def test_a_journal_of_another_run_is_not_resumed(jobs: JobMaker) -> None:
    """Both runs stand at the same exchange, so that numbers alone would not tell."""
    here, other = jobs(**OPTIONS), jobs(**{**OPTIONS, "model": "fit_intercept = false"})
    for job in (here, other):
        started(job, 12)
    source, target = (party_folder(job) / "checkpoint" for job in (other, here))
    shutil.rmtree(target)
    shutil.copytree(source, target)
    if resumed(here) == [0, 0]:  # its own records are asked for again
        assert here.result() == jobs.undisturbed(**OPTIONS)
    else:
        assert "start over" in here.log("shop") + here.log("bank")


@pytest.mark.threat(
    "the file of data", "columns exchanged before a restart", "the checksum covers indices, columns and ids"
)
def test_exchanged_columns_of_a_sparse_table_are_other_data() -> None:
    rng = np.random.default_rng(0)
    matrix = sp.csr_matrix((rng.random((50, 4)) < 0.3).astype(float))
    other = matrix.copy()
    other.indices = other.indices.copy()
    swap = {0: 1, 1: 0, 2: 2, 3: 3}
    other.indices[:] = [swap[int(i)] for i in other.indices]
    ids, columns = tuple(map(str, range(50))), ("a", "b", "c", "d")

    def checksum(m: object, names: tuple[str, ...] = columns) -> int:
        return Rows(ids, m, names, None).checksum  # type: ignore[arg-type]

    assert checksum(matrix) == checksum(matrix.copy())
    assert checksum(matrix) != checksum(other)
    assert checksum(matrix) != checksum(matrix, ("b", "a", "c", "d"))
    assert checksum(matrix.toarray()) != checksum(matrix)


def test_a_flipped_size_in_a_journal_takes_no_memory(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    for seq in (1, 2):
        journal.append(seq, [b"x" * 100])
    journal.close()
    data = bytearray((tmp_path / "journal").read_bytes())
    data[24 + 100 + 12 + 6] = 0x7F  # the second record's size becomes 2^54 and more
    (tmp_path / "journal").write_bytes(data)
    journal = Journal(tmp_path / "journal")
    assert [record.seq for record in journal.records()] == [1]
    journal.close()


@pytest.mark.threat("local user", "reads files", "0600 and 0700")
def test_everything_that_a_run_writes_is_for_its_owner_alone(jobs: JobMaker) -> None:
    before = os.umask(0)
    try:
        job = jobs(**OPTIONS)
        assert [job.start(name) and 0 for name in job.parties] == [0, 0]
        for name in job.parties:
            assert job.wait(name) == 0, job.log(name)
    finally:
        os.umask(before)
    made = [
        path for path in job.folder.rglob("*") if path.suffix not in (".toml", ".csv", ".log")
    ]  # those are the test's
    assert {"weights.json", "audit.jsonl", "report.html", "shop.key"} <= {path.name for path in made}
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


@pytest.mark.threat("a second program", "writes into the same folder", "one lock per run folder")
def test_predict_beside_serve_is_refused_and_breaks_no_log(jobs: JobMaker) -> None:
    job = jobs(rounds=5, rows=400)
    for name in job.parties:
        job.start(name)
    for name in job.parties:
        assert job.wait(name) == 0
    serve = [sys.executable, "-m", "plait", "serve", str(job.file), "--http", "127.0.0.1:0"]
    with (job.folder / "serve.log").open("wb") as log:
        program = subprocess.Popen([*serve, "--rows", "bank.csv"], stdout=log, stderr=log)
    job.programs["serve"] = program
    job.until("serve", "waiting for shop")
    predict = [sys.executable, "-m", "plait", "predict", str(job.file), "--name", "bank", "--rows", "bank.csv"]
    done = subprocess.run([*predict, "--address", "127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "must be used by one process" in done.stderr
    program.terminate()
    program.wait()
    from plait.deployment.message_log import read_log

    for path in (job.folder / "runs").rglob("audit.jsonl"):
        assert list(read_log(path))


@pytest.mark.threat(
    "whoever leaves files on the disk", "another run's model or preparation", "each belongs to one party of one run"
)
def test_files_of_another_run_are_not_used_for_scores(jobs: JobMaker) -> None:
    folders = []
    for scale in ("standard", "none"):
        job = jobs(rounds=3, rows=200, own={"shop": f'[prepare]\nscale = "{scale}"\n'})
        jobs.simulate(job)
        folders.append((party_folder(job, "shop"), party_folder(job, "coordinator")))
    for (here, model), (other, other_model) in (folders, folders[::-1]):
        shutil.copy(other / "preparation.json", here / "preparation.json.other")
        shutil.copy(other_model / "model.json", model / "model.json.other")
    for here, model in folders:
        (here / "preparation.json.other").replace(here / "preparation.json")
        (model / "model.json.other").replace(model / "model.json")
        with pytest.raises(StorageError, match="must belong to the preparation beside it"):
            RunFolder(here).weights()
        with pytest.raises(StorageError, match="must be of this run"):
            RunFolder(model).model()


@pytest.mark.threat("the disk itself", "cuts a journal anywhere", "whole records, from the first on, or an error")
def test_a_journal_cut_at_any_byte_holds_the_first_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "whole", owner="run/shop")
    for seq in (1, 2, 3):
        journal.append(seq, [bytes([seq]) * 40 * seq])
    journal.close()
    data = (tmp_path / "whole").read_bytes()
    for size in range(0, len(data), 3):
        path = tmp_path / "cut"
        path.write_bytes(data[:size])
        again = Journal(path, owner="run/shop")
        found = [(record.seq, record.payload) for record in again.records()]
        again.close()
        assert found == [(seq, bytes([seq]) * 40 * seq) for seq in (1, 2, 3)][: len(found)]
        assert path.stat().st_size == sum(24 + len(payload) for _, payload in found)


def _differs(one: dict[str, object], other: dict[str, object]) -> bool:
    """Whether two files of one format say different things: the last digit of a number may not matter."""
    kept = [{key: value for key, value in each.items() if key != "sha256"} for each in (one, other)]
    return one["format"] == other["format"] and kept[0] != kept[1]


@pytest.mark.threat(
    "the disk itself", "forgets records, gives an older copy", "every request names the one before it; checksums"
)
@pytest.mark.parametrize("name", ["weights.json", "model.json", "preparation.json"])
def test_a_damaged_model_is_not_used(jobs: JobMaker, name: str) -> None:
    job = jobs(rounds=3, rows=200)
    from plait.deployment.coordinator_program import coordinate
    from plait.deployment.job_file import read_job, read_party
    from plait.deployment.progress import Silent

    spec, files = read_job(job.file), [read_party(job.file, n) for n in job.parties]
    coordinate(spec, files[0], files, None, Silent())
    (path,) = (job.folder / "runs").glob(f"*/{'coordinator' if name == 'model.json' else 'bank'}/{name}")
    text = path.read_text()
    changed = (text[:i] + str(int(text[i]) - 1) + text[i + 1 :] for i in range(len(text)) if text[i] in "23456789")
    path.write_text(next(other for other in changed if _differs(json.loads(other), json.loads(text))))
    folder = RunFolder(path.parent)
    read = {"weights.json": folder.weights, "model.json": folder.model}
    with pytest.raises(StorageError, match="checksum is missing or wrong"):
        read.get(name, lambda: preparation.load(path.parent))()


@pytest.mark.threat(
    "whoever leaves files on the disk",
    "a transformer that runs code",
    "a fixed list of types, read before anything is loaded",
)
def test_a_stored_transformer_names_no_types_of_its_own(tmp_path: Path) -> None:
    from sklearn.preprocessing import FunctionTransformer, QuantileTransformer
    from skops import io as skops

    good = QuantileTransformer(n_quantiles=5).fit(np.arange(20.0)[:, None])
    path = tmp_path / "preparation.skops"
    path.write_bytes(transformers.dump(good))
    loaded = transformers.load(path, "sklearn.preprocessing:QuantileTransformer")
    assert np.array_equal(loaded.transform([[3.0]]), good.transform([[3.0]]))
    path.write_bytes(skops.dumps(FunctionTransformer(np.linalg.norm)))
    for name in ("sklearn.preprocessing:QuantileTransformer", "sklearn.preprocessing:FunctionTransformer", "os:system"):
        with pytest.raises(StorageError):
            transformers.load(path, name)
    with pytest.raises(ConfigError, match="must be one of"):
        transformers.make("os:system", {})
    path.write_bytes(b"PK\x05\x06" + bytes(18))
    with pytest.raises(StorageError, match="damaged"):
        transformers.load(path, "sklearn.preprocessing:QuantileTransformer")


BAD = {
    "broken.npz": b"PK\x03\x04 not a zip",
    "cut.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (9000000000000, 3), }",
    "broken.parquet": b"PAR1" + bytes(40) + b"PAR1",
    "broken.csv": b"a,b\n1,2,3\n",
    "broken.svm": b"1 a:b\n",
}


@pytest.mark.parametrize("name", BAD)
def test_a_broken_file_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    from plait.data.tables import read_table

    (tmp_path / name).write_bytes(BAD[name])
    with pytest.raises(PlaitError, match=name):
        read_table(tmp_path / name)


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 100_000, 'name = "a\0b"', "format = 1\nparties = [" + '"a\\u0000"' + "]", "\xff\xfe"]
)
def test_a_strange_job_file_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.toml").write_text(text, encoding="latin-1")
    done = subprocess.run(
        [sys.executable, "-m", "plait", "doctor", str(tmp_path / "job.toml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error: ")


def test_a_full_disk_is_an_error_with_a_remedy_and_the_run_resumes(jobs: JobMaker, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    job = jobs(rounds=30, rows=2000, patience=5)
    small = job.folder / "runs"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)], check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        codes = resumed(job)
        logs = job.log("bank") + job.log("shop")
        assert codes[0] == 1
        assert "Traceback" not in logs
        assert "must be writable" in logs or "No space left" in logs
    finally:
        for program in job.programs.values():
            program.kill()
            program.wait()
        subprocess.run(["umount", "-l", str(small)], check=True)
