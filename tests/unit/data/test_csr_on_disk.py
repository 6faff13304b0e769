"""Sparse tables: read in pieces, prepared in blocks, and in mapped files where they do not fit into memory."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from plait._mapped_files import in_file
from plait.data import preparation
from plait.data.memory import Room
from plait.data.prepare_options import PrepareOptions
from plait.data.tables import Table, read_table
from plait.data.texts import Coded
from plait.errors import StorageError
from plait.problem.features import Features

ROWS, VALUES = 30_000, 300
TIGHT = Room(limit=600_000)
"""A table may take 200 kB of memory."""


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait.data.libsvm._PIECE", 5000)


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("room", [Room(), TIGHT], ids=["memory", "files"])
def test_a_libsvm_file_in_pieces_is_the_whole_one(
    tmp_path: Path, small_pieces: None, zero_based: bool, room: Room
) -> None:
    rng = np.random.default_rng(0)
    x = sp.random(3000, 60, density=0.3, random_state=1, format="csr")
    x = sp.csr_matrix(sp.hstack([np.ones((3000, 1)), x]))  # column 0 is used: numbers begin at 0 or at 1
    path = tmp_path / "t.svm"
    dump_svmlight_file(x, rng.integers(0, 2, 3000), str(path), zero_based=zero_based)
    matrix, labels = load_svmlight_file(str(path))
    table = read_table(path, room=room)
    assert in_file(table.numbers.data) == (room is TIGHT)
    assert table.names == (*map(str, range(61)), "label")
    assert (table.numbers != sp.hstack([matrix, labels[:, None]])).nnz == 0
    assert table.column("label").tolist() == labels.tolist()


def one_hot_table() -> Table:
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((ROWS, 2))
    towns = Coded(tuple(f"t{i:03d}" for i in range(VALUES)), rng.integers(0, VALUES, ROWS).astype(np.int32))
    return Table([str(i) for i in range(ROWS)], numbers, ("a", "b"), {"town": towns})


def test_a_wide_one_hot_table_is_the_dense_one_without_its_zeros() -> None:
    table = one_hot_table()
    fitted = preparation.fit(table, PrepareOptions(scale="standard", one_hot=("town",)), ())
    matrix, names = fitted.apply(table)
    dense, same = fitted.apply(table, dense=True)
    assert sp.issparse(matrix)
    assert matrix.nnz == 3 * ROWS
    assert names == same
    assert (matrix.toarray() == dense).all()


def test_products_of_a_sparse_table_in_files_have_the_bits_of_those_in_memory(tmp_path: Path) -> None:
    table = one_hot_table()
    fitted = preparation.fit(table, PrepareOptions(scale="standard", one_hot=("town",)), ())
    here, _ = fitted.apply(table)
    there, _ = fitted.apply(table, Room(limit=600_000, folder=tmp_path))
    assert in_file(there.data)
    assert in_file(there.indices)
    assert not list(tmp_path.iterdir())
    assert "CSR matrix and lies on disk" in TIGHT.describe(there)
    rng = np.random.default_rng(1)
    x, v, w = rng.standard_normal(VALUES + 2), rng.standard_normal(ROWS), rng.random(ROWS)
    memory, files = Features(here), Features(there)
    for compute in (
        lambda f: f.forward(x),
        lambda f: f.adjoint(v),
        lambda f: f.weighted_gram(w),
        lambda f: f.weighted_column_squares(w),
        lambda f: f.scaled_rows(np.array([5, ROWS - 1]), np.ones(2), np.float64),
    ):
        assert compute(memory).tobytes() == compute(files).tobytes()


def test_scaling_a_sparse_table_by_its_largest_numbers_leaves_no_number_above_one(
    tmp_path: Path, small_pieces: None
) -> None:
    path = tmp_path / "t.svm"
    x = 7 * sp.random(3000, 60, density=0.3, random_state=1, format="csr")
    dump_svmlight_file(x, np.arange(3000) % 2, str(path))
    table = read_table(path, room=TIGHT)
    fitted = preparation.fit(table, PrepareOptions(scale="maxabs"), ("label",))
    matrix, names = fitted.apply(table, TIGHT)
    assert names == tuple(map(str, range(60)))
    largest = abs(x).max(axis=0).toarray()
    np.testing.assert_allclose(matrix.toarray(), x.toarray() / largest, rtol=1e-14)


def test_a_folder_without_room_is_named(tmp_path: Path) -> None:
    table = one_hot_table()
    fitted = preparation.fit(table, PrepareOptions(one_hot=("town",)), ())
    with pytest.raises(StorageError, match="absent must have room"):
        fitted.apply(table, Room(limit=600_000, folder=tmp_path / "absent"))
