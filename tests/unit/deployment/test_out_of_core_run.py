"""A whole run from files: the same weights with the table in memory and on disk."""

import json
from pathlib import Path

import numpy as np
import pytest

from plait._texts import Texts
from plait.alignment.order import Order
from plait.data.arrow_tables import ParquetSource
from plait.data.disk_matrix import DiskMatrix
from plait.data.recipes import Recipe
from plait.data.tables import read_table
from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import Rows, load_ids, load_rows
from plait.deployment.progress import Silent
from plait.errors import InputError
from tests.extras import arrow as pa
from tests.extras import parquet

JOB = 'format = 1\nname = "j"\nparties = ["bank", "shop"]\nprotection = "plain"\n[coordinator]\nname = "bank"\n'


def test_a_table_on_disk_gives_the_files_of_one_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait.data.memory._PROGRAM", 0)
    rng = np.random.default_rng(0)
    x, own = rng.standard_normal((40_000, 30)), rng.standard_normal((40_000, 2))
    y = (x[:, 0] + own[:, 0] + rng.logistic(size=40_000) > 0).astype(float)
    (tmp_path / "shop").mkdir()
    for i, rows in enumerate(np.array_split(np.arange(40_000), 3)):
        table = pa.table({f"x{j}": x[rows, j] for j in range(30)})
        parquet.write_table(table, tmp_path / "shop" / f"{i}.parquet")
    parquet.write_table(pa.table({"a": own[:, 0], "b": own[:, 1], "y": y}), tmp_path / "bank.parquet")
    (tmp_path / "bank.toml").write_text('[data]\nfile = "bank.parquet"\nlabel = "y"\n')
    (tmp_path / "job.toml").write_text(JOB)
    job, found = read_job(tmp_path / "job.toml"), []
    for memory in ("", "6 MB"):
        (tmp_path / "shop.toml").write_text(
            f'[data]\nfile = "shop"\nmemory = "{memory}"\n[prepare]\nscale = "standard"\n'
        )
        files = [read_party(tmp_path / "job.toml", name) for name in ("bank", "shop")]
        assert isinstance(load_rows(job, files[1]).matrix, DiskMatrix) == bool(memory)
        folder = coordinate(job, files[0], files, None, Silent(), fresh=True)
        weights, prepared = (
            json.loads((folder.parent / "shop" / name).read_text()) for name in ("weights.json", "preparation.json")
        )
        found.append((weights["weights"], weights["mean"], prepared))
    assert found[0] == found[1]


def test_a_missing_number_is_named_by_file_row_and_column(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    for i, column in enumerate(([1.0, 2.0], [3.0, None])):
        parquet.write_table(pa.table({"x": [1.0, 2.0], "v": column}), tmp_path / "shop" / f"{i}.parquet")
    (tmp_path / "shop.toml").write_text('[data]\nfile = "shop"\n')
    (tmp_path / "job.toml").write_text(JOB)
    job, file = read_job(tmp_path / "job.toml"), read_party(tmp_path / "job.toml", "shop")
    with pytest.raises(InputError, match=r"column 'v' must have no missing numbers. Found one in 1\.parquet, row 2"):
        load_rows(job, file)
    order = Order(np.array([3, 0]), Texts.of(["k3", "k0"]), {})
    with pytest.raises(InputError, match=r"column 'v' .* Found one in 1\.parquet, row 2"):
        load_rows(job, file, order)


RULES = "[alignment]\nmin_rows = 1\n"


@pytest.mark.parametrize("ids", [("id",), ("id", "x")])
def test_a_query_with_another_order_each_time_is_refused_and_a_sorted_one_is_not(
    tmp_path: Path, ids: tuple[str, ...]
) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is an extra: pip install 'plait[duckdb]'")
    names = [f" K{i:05d}" for i in range(25_000)]
    parquet.write_table(
        pa.table({"id": names, "x": range(25_000), "w": 1.0 * np.arange(25_000), "v": np.arange(25_000.0)}),
        tmp_path / "t.parquet",
    )
    (tmp_path / "job.toml").write_text(JOB + RULES + 'case = "fold"\n')
    job = read_job(tmp_path / "job.toml")

    def load(order: str) -> tuple[Rows, Order]:
        query = f"select * from 't.parquet' order by {order}"
        (tmp_path / "shop.toml").write_text(f'[data]\nsource = "{query}"\nid = {list(ids)}\n')
        file = read_party(tmp_path / "job.toml", "shop")
        known = load_ids(job, file)
        found = Order.of(known, np.arange(0, len(known.texts), 2), {})
        return load_rows(job, file, found), found

    rows, order = load("id desc")
    np.testing.assert_array_equal(rows.matrix[:, -1], np.arange(1.0, 25_000, 2))
    assert rows.ids == order.ids
    for changing in ("random()", "random() limit 20000"):
        with pytest.raises(InputError, match="shop must hold the same ids in the same rows each time"):
            load(changing)


def test_a_worker_that_reads_other_rows_than_before_does_not_compute_on_them(tmp_path: Path) -> None:
    table = pa.table({"id": [f"k{i}" for i in range(1000)], "v": np.arange(1000.0)})
    parquet.write_table(table, tmp_path / "t.parquet")
    seal = read_table(tmp_path / "t.parquet", "id").ids.hashes()  # type: ignore[attr-defined]
    order = np.random.default_rng(0).permutation(1000)[:900]
    recipe = Recipe(ParquetSource(tmp_path / "t.parquet"), {"v": "number"}, order, ids=("id",), seal=seal)
    np.testing.assert_array_equal(recipe.load(100, 300)[:, 0], order[100:300])
    parquet.write_table(table.take([*range(500), *range(501, 1000), 500]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t\.parquet must hold the same ids in the same rows each time"):
        recipe.load(100, 300)
