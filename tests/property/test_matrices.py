"""A table gives the same bits wherever it lies: products, rows and columns, at every shape that a block may have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from plait._mapped_files import in_file
from plait.data import ray_matrix
from plait.data.arrow_tables import ParquetSource
from plait.data.csr_writer import CsrWriter
from plait.data.disk_matrix import DiskMatrix
from plait.data.matrix_writer import MatrixWriter
from plait.data.memory import IN_MEMORY, Room
from plait.data.recipes import Recipe
from plait.problem.features import Features
from plait.problem.row_blocks import row_slices
from tests.extras import arrow as pa
from tests.extras import parquet

WIDE = 64
BLOCK = row_slices(1 << 20, WIDE)[0].stop  # rows of a full block of a table with so many columns
SHAPES = [
    *((rows, 3) for rows in (0, 1, 2, 9)),
    *((rows, 1) for rows in (1, (1 << 20) - 1, (1 << 20) + 1)),  # one block and two of a single column
    *((rows, WIDE) for rows in (BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1)),
    (7, 0),
    (1025, 1100),  # a wide table: blocks of the fewest rows
]
SMALL = [shape for shape in SHAPES if shape[0] * shape[1] < 100_000]


def table(rows: int, columns: int, kind: str = "mixed") -> np.ndarray:
    """Numbers that float32 can hold; the first column is constant, and the last one is zero."""
    rng = np.random.default_rng(rows + columns)
    found = rng.standard_normal((rows, columns)).astype(np.float32).astype(np.float64)
    if kind == "sparse":
        found[rng.random(found.shape) < 0.8] = 0
    if columns:
        found[:, 0] = 2.5
        found[:, -1] = 0
    return np.zeros_like(found) if kind == "zero" else found


def on_disk(matrix: np.ndarray, dtype: str) -> DiskMatrix:
    writer = MatrixWriter(matrix.shape[1], 1 << 40, Room(limit=3, dtype=dtype))
    for part in np.array_split(matrix, 3):
        writer.append_rows(part)
    found = writer.finish()
    assert isinstance(found, DiskMatrix)
    assert found.shape == matrix.shape
    return found


def csr(matrix: np.ndarray, room: Room) -> Any:
    writer = CsrWriter(room)
    for part in np.array_split(matrix, 3):
        writer.append(sp.csr_matrix(part))
    return writer.finish(matrix.shape[1])


def products(matrix: Any) -> dict[str, np.ndarray]:
    """Everything that methods ask of a table."""
    rows, columns = matrix.shape
    rng = np.random.default_rng(1)
    x, v, vectors = rng.standard_normal(columns), rng.standard_normal(rows), rng.standard_normal((rows, 2))
    w, some, few = rng.random(rows), rng.permutation(rows)[:50], np.arange(columns)[::-2]
    f = Features(matrix)
    found = {
        "forward": f.forward(x),
        "forward of two": f.forward(rng.standard_normal((columns, 2))),
        "adjoint": f.adjoint(v),
        "adjoint of two": f.adjoint(vectors),
        "squares of columns": f.column_squares,
        "weighted squares of columns": f.weighted_column_squares(w),
        "squares of rows": f.row_squares,
        "scaled rows": f.scaled_rows(some, w[some], np.float64),
    }
    if columns <= WIDE:
        found |= {"gram": f.gram, "weighted gram": f.weighted_gram(w), "few": f.gram_of(few, w)}
        found["short weighted gram"] = f.weighted_gram(w, np.float32)
    return found


def check(there: Any, here: Any, exact: np.ndarray) -> None:
    """The products of two matrices have the same bits, and are those of a third one up to rounding."""
    mine, same, right = products(here), products(there), products(exact)
    for name, found in same.items():
        assert found.shape == mine[name].shape == right[name].shape, name
        assert found.tobytes() == mine[name].tobytes(), name
        np.testing.assert_allclose(found, right[name], rtol=1e-3 if "short" in name else 1e-9, atol=1e-3)


@pytest.mark.parametrize("kind", ["mixed", "zero"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_a_dense_table_on_disk_gives_the_bits_of_the_one_in_memory(
    rows: int, columns: int, dtype: str, kind: str
) -> None:
    exact = table(rows, columns, kind)
    check(on_disk(exact, dtype), exact.astype(dtype), exact)


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_a_sparse_table_in_files_gives_the_bits_of_the_one_in_memory(rows: int, columns: int) -> None:
    exact = table(rows, columns, "sparse")
    there = csr(exact, Room(limit=3))
    assert in_file(there.data) == (there.nnz > 0)
    check(there, csr(exact, IN_MEMORY), exact)


def keys(size: int) -> st.SearchStrategy[Any]:
    """Slices, numbers, lists of numbers and masks, as NumPy takes them."""
    end = st.none() | st.integers(-size - 3, size + 3)
    slices = st.builds(slice, end, end, st.sampled_from([None, 1, 2, -1, -3]))
    some = st.lists(st.booleans(), min_size=size, max_size=size).map(lambda mask: np.array(mask, bool))
    if not size:
        return slices | st.just([]) | some
    places = st.integers(-size, size - 1)
    return slices | places | st.lists(places, max_size=9) | some


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_rows_and_columns_on_disk_are_chosen_as_of_an_array(data: st.DataObject) -> None:
    matrix = table(*data.draw(st.sampled_from([(0, 3), (1, 1), (9, 3), (30, 1), (7, 0)])))
    check_choice(on_disk(matrix, "float64"), matrix, data.draw(keys(matrix.shape[0])), data.draw(keys(matrix.shape[1])))


def check_choice(there: Any, matrix: np.ndarray, rows: Any, columns: Any) -> None:
    """Rows and columns of an array, chosen one after the other."""
    rows = np.array(rows, int) if isinstance(rows, list) else rows
    chosen = matrix[rows]
    np.testing.assert_array_equal(there[rows], chosen, strict=True)
    expected = chosen[..., columns if not isinstance(columns, list) else np.array(columns, int)]
    np.testing.assert_array_equal(there[rows, columns], expected, strict=True)


@pytest.mark.parametrize("rows", [3, -4, [0, 3], np.zeros(4, bool), [0.5], [[0]], "a", None])
def test_rows_that_are_not_there_are_refused(rows: Any) -> None:
    with pytest.raises(IndexError, match=r"rows must|a mask of rows"):
        on_disk(table(3, 2), "float64")[rows]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'plait[ray]'")
    ray_matrix.join("", 2)
    yield
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")  # Ray warns of its own matters
def test_a_table_on_a_cluster_gives_the_bits_of_the_one_in_memory(cluster: None, tmp_path: Path) -> None:
    for i, (rows, columns) in enumerate([(1, 1), (9, 3), (BLOCK + 1, WIDE), (2 * BLOCK + 1, WIDE)]):
        exact = table(rows, columns)
        path = tmp_path / f"{i}.parquet"
        parquet.write_table(pa.table({f"x{j}": exact[:, j] for j in range(columns)}), path)
        for dtype in ("float64", "float32"):
            recipe = Recipe(ParquetSource(path), dict.fromkeys((f"x{j}" for j in range(columns)), "number"), None)
            there = ray_matrix.RayMatrix(Recipe(recipe.source, recipe.kinds, dtype=dtype), exact.shape, 2)
            check(there, exact.astype(dtype), exact)
            here = exact.astype(dtype)
            for key in (slice(2, 2), slice(None, None, -1), 0, -1, [0, -1], [], np.arange(rows) % 2 == 0):
                for chosen in (slice(None), [0], -1, []):
                    check_choice(there, here, key, chosen)
            with pytest.raises(IndexError, match="rows must lie below"):
                there[[rows]]
            there.close()
