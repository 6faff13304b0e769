"""Tables that do not fit into memory give the same numbers from disk."""

import os
from pathlib import Path

import numpy as np
import pytest

import plait
from plait.data import preparation
from plait.data.disk_matrix import DiskMatrix
from plait.data.matrix_writer import MatrixWriter, picked_rows
from plait.data.memory import Room, amount
from plait.data.prepare_options import PrepareOptions
from plait.data.tables import read_table
from plait.errors import InputError, SettingError, StorageError
from plait.problem.features import Features
from tests.extras import arrow as pa
from tests.extras import parquet

ROWS, COLUMNS = 60_000, 40  # three blocks of rows
TIGHT = Room(limit=3_000_000)
"""A table may take 1 MB of memory."""


def on_disk(matrix: np.ndarray, dtype: str = "float64") -> DiskMatrix:
    writer = MatrixWriter(matrix.shape[1], room=Room(limit=3_000_000, dtype=dtype))
    for part in np.array_split(matrix, 7):
        writer.append_rows(part)
    found = writer.finish()
    assert isinstance(found, DiskMatrix)
    return found


@pytest.fixture
def small_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the program itself took no memory, so that small tables can be too large."""
    monkeypatch.setattr("plait.data.memory._PROGRAM", 0)
    monkeypatch.setattr("plait.data.memory._VECTORS", 1)


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((ROWS, COLUMNS))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_product_from_disk_has_the_bits_of_the_one_in_memory(matrix: np.ndarray, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, v, w = rng.standard_normal(COLUMNS), rng.standard_normal((ROWS, 2)), rng.random(ROWS)
    here, there = Features(matrix.astype(dtype)), Features(on_disk(matrix, dtype))
    some = rng.permutation(ROWS)[:500]
    for compute in (
        lambda f: f.forward(x),
        lambda f: f.adjoint(v),
        lambda f: f.weighted_gram(w),
        lambda f: f.weighted_gram(w, np.float32),
        lambda f: f.gram,
        lambda f: f.gram_of(np.array([3, 1]), w),
        lambda f: f.weighted_column_squares(w),
        lambda f: f.row_squares,
        lambda f: f.scaled_rows(some, w[some], np.float64),
    ):
        assert compute(here).tobytes() == compute(there).tobytes()
    exact = matrix.astype(dtype).astype(np.float64)
    np.testing.assert_allclose(there.weighted_gram(w), exact.T @ (w[:, None] * exact), rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(there.forward(x), exact @ x, rtol=1e-10, atol=1e-12)


def test_rows_and_columns_are_taken_as_from_an_array(matrix: np.ndarray) -> None:
    stored, rows = on_disk(matrix), np.random.default_rng(2).permutation(ROWS)
    for key in (slice(5, 30_000), slice(0, 9, 2), rows[:7], rows, (slice(None), [3, 0])):
        np.testing.assert_array_equal(stored[key], matrix[key])
    np.testing.assert_array_equal(picked_rows(stored, rows, TIGHT)[:], matrix[rows])


@pytest.mark.parametrize("impute", ["mean", "median", "zero"])
@pytest.mark.parametrize("scale", ["standard", "minmax", "maxabs"])
def test_preparation_from_disk_has_the_bits_of_the_one_in_memory(
    tmp_path: Path, small_programs: None, impute: str, scale: str
) -> None:
    rng = np.random.default_rng(3)
    columns = {f"x{j}": rng.standard_normal(70_000) * 10**j + j for j in range(5)}
    columns["x1"][rng.random(70_000) < 0.1] = np.nan
    towns = np.array(["Ulm", "Bonn", "Kiel"])[rng.integers(0, 3, 70_000)]
    parquet.write_table(pa.table({**columns, "town": towns}), tmp_path / "t.parquet")
    options = PrepareOptions(impute=impute, scale=scale, one_hot=("town",))  # type: ignore[arg-type]
    matrices = []
    for room in (Room(), TIGHT):
        table = read_table(tmp_path / "t.parquet", room=room)
        matrices.append(preparation.fit(table, options, ()).apply(table, room)[0])
    assert [type(m) for m in matrices] == [np.ndarray, DiskMatrix]
    assert matrices[0].tobytes() == matrices[1][:].tobytes()


def test_fit_from_a_file_on_disk_gives_the_same_weights(tmp_path: Path, small_programs: None) -> None:
    rng = np.random.default_rng(4)
    x, other = rng.standard_normal((40_000, 30)), rng.standard_normal((40_000, 2))
    y = (x[:, 0] + other[:, 1] + rng.logistic(size=40_000) > 0).astype(float)
    parquet.write_table(pa.table({f"x{j}": x[:, j] for j in range(30)}), tmp_path / "t.parquet")
    parts = {"a": tmp_path / "t.parquet", "b": other}
    here, there = plait.fit(parts, y), plait.fit(parts, y, memory="5 MB")
    assert here.weights["a"].tobytes() == there.weights["a"].tobytes()
    np.testing.assert_allclose(here.weights["a"], plait.fit({"a": x, "b": other}, y).weights["a"], rtol=1e-12)


def test_amounts_of_memory_are_read_and_impossible_ones_refused(tmp_path: Path) -> None:
    assert (amount("1.5 GB"), amount("900MB"), amount("2 GiB"), amount(None)) == (1_500_000_000, 900_000_000, 2**31, 0)
    for text in ("much", "1.5 XB", "-1 GB", "1 MB"):
        with pytest.raises(SettingError, match="memory must be"):
            amount(text)
    with pytest.raises(InputError, match="memory must be at least 5.6 GB for 200000000 rows".replace(".", r"\.")):
        Room(limit=amount("5 GB")).check(200_000_000)


def test_a_block_that_is_cut_off_and_a_full_disk_are_named(matrix: np.ndarray) -> None:
    stored = on_disk(matrix)
    os.ftruncate(stored._file.fileno(), stored.nbytes // 2)
    with pytest.raises(StorageError, match="every block of the prepared table must be readable"):
        Features(stored).forward(np.zeros(COLUMNS))
    if Path("/dev/full").exists():
        writer = MatrixWriter(COLUMNS, room=TIGHT)
        writer._place(ROWS)
        assert writer._disk is not None
        with Path("/dev/full").open("wb", buffering=0) as full:
            writer._disk._file = full
            with pytest.raises(StorageError, match="must have room for the prepared table"):
                writer.append_rows(matrix)
    with pytest.raises(StorageError, match="must take a table's blocks"):
        MatrixWriter(2, rows=10**7, room=Room(limit=3_000_000, folder=Path("/nowhere")))
