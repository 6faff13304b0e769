"""Vectors in mapped files: the same numbers, and nothing left in the folder."""

from pathlib import Path

import numpy as np
import pytest

from plait._mapped_files import Workspace
from plait.errors import StorageError


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_a_kept_vector_has_the_same_bits_and_leaves_no_file(tmp_path: Path, dtype: str) -> None:
    vector = (np.random.default_rng(0).standard_normal(1000) * 100).astype(dtype)
    kept = Workspace(True, tmp_path).kept(vector)
    assert not np.shares_memory(kept, vector)
    assert kept.dtype == vector.dtype
    assert kept.tobytes() == vector.tobytes()
    assert not list(tmp_path.iterdir())


def test_a_vector_in_a_file_is_not_copied_again(tmp_path: Path) -> None:
    where = Workspace(True, tmp_path)
    made = where.empty(10)
    assert where.kept(made) is made
    part = made[3:]
    assert where.kept(part) is part


def test_vectors_in_memory_stay_where_they_are() -> None:
    vector = np.ones(3)
    assert Workspace().kept(vector) is vector


def test_an_empty_vector_needs_no_file(tmp_path: Path) -> None:
    assert Workspace(True, tmp_path / "absent").kept(np.empty(0)).shape == (0,)


def test_a_folder_that_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="absent must have room for"):
        Workspace(True, tmp_path / "absent").kept(np.ones(10))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_disk_without_room_is_an_error_before_the_vector_is_used(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Make room"):
        Workspace(True, tmp_path).empty(1 << 50)
