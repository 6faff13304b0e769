"""Arrays in mapped files: the same numbers, and nothing left in the folder."""

from pathlib import Path

import numpy as np
import pytest

from plait._mapped_files import mapped_copy
from plait.errors import StorageError


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_a_mapped_copy_has_the_same_bits_and_leaves_no_file(tmp_path: Path, dtype: str) -> None:
    array = (np.random.default_rng(0).standard_normal((3, 1000)) * 100).astype(dtype)
    copy = mapped_copy(array, tmp_path)
    assert copy.dtype == array.dtype
    assert copy.tobytes() == array.tobytes()
    assert not copy.flags.writeable
    assert not list(tmp_path.iterdir())


def test_an_empty_array_needs_no_file(tmp_path: Path) -> None:
    assert mapped_copy(np.empty((0, 5)), tmp_path).shape == (0, 5)


def test_a_folder_that_takes_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="must have room for"):
        mapped_copy(np.ones(10), tmp_path / "absent")
