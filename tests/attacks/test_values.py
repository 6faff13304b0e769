"""Attacks through the values of one row: they change no other row, and stop neither a run nor a prediction."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import load_rows
from plait.deployment.progress import Silent
from plait.deployment.scorer import Scorer
from plait.studies.privacy_mutations import MUTATIONS
from plait.studies.privacy_row_probes import rows_apart
from tests.attacks.test_deployed import KEY, PRIVATE, all_rows
from tests.e2e.conftest import JobMaker
from tests.e2e.test_private import BUDGET

AS_THEY_ARE = {**PRIVATE, "own": {"shop": '[prepare]\nscale = "none"\n' + BUDGET}}
TABLE = np.random.default_rng(0).normal(size=(12, 4))
NAMES = [f"r{i}" for i in range(12)]


def as_parquet(folder: Path, table: np.ndarray) -> str:
    pq.write_table(pa.table({"id": NAMES, **{n: table[:, j] for j, n in enumerate("abcd")}}), folder / "shop.parquet")
    return "shop.parquet"


def as_numpy(folder: Path, table: np.ndarray) -> str:
    np.savez(folder / "shop.npz", X=table, id=np.array(NAMES), columns=np.array(list("abcd")))
    return "shop.npz"


@pytest.mark.parametrize("write", [as_parquet, as_numpy])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_attack_8_no_number_in_a_private_row_stops_a_run(
    jobs: JobMaker, write: Callable[[Path, np.ndarray], str], value: float
) -> None:
    """What is missing or infinite counts as 0, in every kind of file."""
    made = jobs(**AS_THEY_ARE)
    table, config = TABLE.copy(), made.folder / "shop.toml"
    table[7, 0] = value
    config.write_text(config.read_text().replace("shop.csv", write(made.folder, table)))
    rows = load_rows(read_job(made.file), read_party(made.file, "shop"))
    assert np.array_equal(rows.matrix, np.where(np.isfinite(table), table, 0.0))


def test_attack_8_no_value_of_a_sparse_private_row_stops_a_run(jobs: JobMaker) -> None:
    made = jobs(**AS_THEY_ARE)
    found = []
    for value in ("0", "nan", "inf", "-1e999"):
        lines = [" ".join(["1", *(f"{j + 1}:{v!r}" for j, v in enumerate(map(float, row)))]) for row in TABLE]
        lines[3] = lines[3].replace(f"2:{float(TABLE[3, 1])!r}", f"2:{value}")
        (made.folder / "shop.svm").write_text("\n".join(lines) + "\n")
        config = made.folder / "shop.toml"
        config.write_text(config.read_text().replace("shop.csv", "shop.svm").replace('id = "id"\n', ""))
        found.append(load_rows(read_job(made.file), read_party(made.file, "shop")).matrix.toarray())
    assert all(np.array_equal(each, found[0]) for each in found)


def test_attack_8_a_text_among_codes_changes_no_other_row() -> None:
    """A text in a column of codes such as 1 and 2 used to decide whether any row had its category at all."""
    assert rows_apart()
    for mutation in MUTATIONS:
        if mutation.probe is rows_apart:
            assert mutation.caught(), mutation.name


@pytest.mark.parametrize("ids", [True, False], ids=["by id", "without ids"])
def test_attack_8_no_value_of_a_private_row_stops_a_prediction(jobs: JobMaker, ids: bool) -> None:
    """The training file is read again to know whom not to score: a row of it must not end that."""
    made = jobs(**AS_THEY_ARE)
    if not ids:
        for name in ("bank", "shop"):
            table, config = made.folder / f"{name}.csv", made.folder / f"{name}.toml"
            table.write_text("\n".join(line.partition(",")[2] for line in table.read_text().splitlines()) + "\n")
            config.write_text(config.read_text().replace('id = "id"\n', ""))
    path = made.folder / "shop.csv"
    head, first, second, *rest = path.read_text().splitlines()
    path.write_text("\n".join([head, first.rpartition(",")[0] + ",soon", second, *rest]) + "\n")
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    run = coordinate(job, files["bank"], list(files.values()), None, Silent()).parent.name
    stranger = ("new," if ids else "") + "0.1,0.2,0.3,0.4"
    (made.folder / "asked.csv").write_text("\n".join([head, second, stranger]) + "\n")
    assert list(all_rows(Scorer(job, files["shop"], run, KEY, "asked.csv")).scalars) == [1.0, 0.0]
