"""Columns of Arrow, however they are stored."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plait
from plait.data.arrow_columns import from_arrow
from plait.data.tables import read_table
from plait.errors import InputError
from tests.extras import arrow as pa
from tests.extras import parquet

VALUES = [1.5, None, -2.0, 4.0]


def read(column: Any, kind: Any = "number") -> Any:
    batch = from_arrow(pa.table({"x": column}), {"x": kind}, "t, row", 1)
    return {"number": batch.numbers, "category": batch.categories, "text": batch.texts}[kind]["x"]


@pytest.mark.parametrize(
    "column",
    [
        lambda: pa.array(VALUES),
        lambda: pa.array([9.0, *VALUES, 9.0]).slice(1, 4),
        lambda: pa.array([9.0] * 13 + VALUES + [None] * 9).slice(13, 4),
        lambda: pa.chunked_array([VALUES[:1], [], VALUES[1:]], pa.float64()),
        lambda: pa.chunked_array([pa.array([9.0, *VALUES[:2]]).slice(1), pa.array(VALUES[2:])]),
        lambda: pa.array(VALUES, pa.float32()),
        lambda: pa.array([1.5, float("nan"), -2.0, 4.0]),
        lambda: pa.array(["1.5", None, "-2", "4e0"]),
        lambda: pa.array(["1.5", "NA", "-2", "4e0"], pa.large_string()),
        lambda: pa.array(VALUES).dictionary_encode(),
        lambda: pa.array(["1.5", None, "-2", "4"]).dictionary_encode(),
        lambda: pa.array(VALUES, pa.float64()).cast(pa.decimal128(9, 2)),
    ],
)
def test_numbers_are_read_from_every_kind_of_storage(column: Any) -> None:
    np.testing.assert_array_equal(read(column()), [1.5, np.nan, -2.0, 4.0])


def test_a_missing_text_is_empty_whatever_lies_in_its_place() -> None:
    for kind in (pa.string(), pa.large_string()):
        assert list(read(pa.array(["a", None, "bc", None], kind), "text")) == ["a", "", "bc", ""]
    assert list(read(pa.array(["x", None, "a", None, "bc"]).slice(1), "text")) == ["", "a", "", "bc"]


def test_no_row_is_no_number() -> None:
    for column in (pa.array([], pa.float64()), pa.chunked_array([], pa.float64()), pa.array([], pa.string())):
        assert read(column).shape == (0,)


def test_a_missing_category_has_a_place_beside_all_that_short_codes_can_count() -> None:
    texts = [f"t{i:03d}" for i in range(128)]  # as many as one byte with a sign can number
    stored = pa.DictionaryArray.from_arrays(pa.array([*range(128), None], pa.int8()), pa.array(texts))
    assert list(read(stored, "category").array()) == [*texts, ""]


def test_reading_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes a quarter of a second and 40 MB, in a process that uses nothing of it."""
    (tmp_path / "t.csv").write_text("id,x,c\n" + "".join(f"k{i},{i}.5,{'ab'[i % 2]}\n" for i in range(99)))
    parquet.write_table(pa.table({"id": ["a", None], "x": [1.0, None], "c": ["u", None]}), tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        script = (
            "import sys; from pathlib import Path; from plait.data.tables import read_table;"
            f"t = read_table(Path({str(tmp_path / name)!r}), 'id'); assert t.numbers.shape[1] == 1;"
            "sys.exit('pandas' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_rows_that_become_shorter_or_longer_than_the_first_ones_are_all_read(tmp_path: Path) -> None:
    """How many rows there will be is guessed from the first ones."""
    for name, lengths in (("longer", (1, 40)), ("shorter", (40, 1))):
        lines = [f"{i},{'1' * lengths[i >= 30_000]}" for i in range(60_000)]
        (tmp_path / f"{name}.csv").write_text("a,b\n" + "\n".join(lines))
        table = read_table(tmp_path / f"{name}.csv")
        assert table.numbers.shape == (60_000, 2)
        np.testing.assert_array_equal(table.numbers[:, 0], np.arange(60_000))
        assert table.numbers.base is None  # what was taken and not used is given back


def test_a_missing_number_of_a_file_is_named_by_file_and_row(tmp_path: Path) -> None:
    values, other, y = np.arange(9.0), np.arange(9.0), np.arange(9.0) % 2
    values[6] = np.nan
    (tmp_path / "f").mkdir()
    for i, part in enumerate((values[:5], values[5:])):
        parquet.write_table(pa.table({"x": part}), tmp_path / "f" / f"{i}.parquet")
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(map(str, values)))
    for name, where in (("f", "1.parquet, row 2"), ("t.csv", "t.csv, line 8")):
        with pytest.raises(InputError, match=f"Found nan in column 'x', {where}"):
            plait.fit({"a": tmp_path / name, "b": other[:, None]}, y)


def test_a_table_that_fails_while_it_is_read_says_what_its_library_says() -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    other, y = np.arange(9.0)[:, None], np.arange(9.0) % 2
    late = "select case when i = 7 then error('no more') else i end::double as x from range(9) t(i)"
    tables = {"nothing": polars.DataFrame({"x": y}).lazy().select("nothing"), "no more": duckdb.sql(late)}
    for said, table in tables.items():
        with pytest.raises(InputError, match=f"the table must be readable to its end. Found: .*{said}"):
            plait.fit({"a": table, "b": other}, y)
