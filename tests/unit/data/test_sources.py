"""Sources read as streams: the same columns by every way, and errors that name the place."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import plait
from plait._texts import RowNumbers, Texts
from plait.data import csv_pieces, csv_tables
from plait.data.arrow_tables import ParquetSource, QuerySource
from plait.data.csv_format import CsvFormat
from plait.data.sources import Source
from plait.data.tables import open_path, read_id_columns, read_table
from plait.data.texts import Coded
from plait.errors import InputError
from tests.extras import arrow as pa
from tests.extras import dataset, feather, parquet


@pytest.fixture(params=["pyarrow", "numpy"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With pyarrow, and as on a machine without it; pieces of a few rows, so that there are many."""
    if request.param == "numpy":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(csv_pieces, "_PIECE_BYTES", 64)
    return str(request.param)


ROWS = [
    (f"k{i}", "" if i % 7 == 3 else repr(i / 3 - 5), "NA" if i % 11 == 5 else str(i * i), "abc"[i % 3])
    for i in range(60)
]


@pytest.mark.parametrize(
    "form",
    [
        CsvFormat(),
        CsvFormat(";", ","),
        CsvFormat("\t", encoding="utf-16"),
        CsvFormat("|", quote="'", encoding="cp1252"),
    ],
)
def test_numbers_texts_and_ids_are_those_that_were_written(tmp_path: Path, engine: str, form: CsvFormat) -> None:
    lines = [form.separator.join(row).replace(".", form.decimal) for row in [("id", "x", "größe", "c"), *ROWS]]
    (tmp_path / "t.csv").write_text("\r\n".join(lines), form.encoding)
    table = read_table(tmp_path / "t.csv", "id", form=form)
    assert table.ids == tuple(row[0] for row in ROWS)
    expected = [[float(x or "nan"), float("nan" if y == "NA" else y)] for _, x, y, _ in ROWS]
    np.testing.assert_array_equal(table.numbers, expected)
    assert list(table.column("c")) == [row[3] for row in ROWS]


@pytest.mark.parametrize("field", ['"two\nlines; 1,5"', '"say ""yes"""', '5" wide', "x\x0by", '"a\r\nb"'])
def test_quotes_and_odd_characters_keep_rows_together(tmp_path: Path, engine: str, field: str) -> None:
    text = "id,t,v\n" + "".join(f"{i},{field if i % 5 == 2 else 'plain'},{i}\n" for i in range(30))
    (tmp_path / "t.csv").write_bytes(text.encode())
    table = read_table(tmp_path / "t.csv", "id")
    np.testing.assert_array_equal(table.column("v"), np.arange(30))
    meant = field[1:-1].replace('""', '"') if field.startswith('"') else field
    assert table.column("t")[2] == meant


@pytest.mark.parametrize(
    ("line", "what"),
    [("41,2", "line 42 must have 3 fields. Found 2"), ("", "line 42 must have 3 fields. Found 0"),
     ("41,many,1", "t.csv, line 42: column 'x' must hold numbers. Found texts, like 'many'")],
)  # fmt: skip
def test_a_bad_row_is_named_by_file_line_column_and_value(tmp_path: Path, engine: str, line: str, what: str) -> None:
    lines = ["id,x,y", *(f"{i},{i},1" for i in range(1, 41)), line, "42,1,1"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=what):
        read_table(tmp_path / "t.csv", "id", choose=lambda _: {"x": "number", "y": "number"}, texts="refuse")


@pytest.mark.parametrize("end", ["", "\n\n", "\r\n\r\n", "\n" * 200, "\n\r\n\n", '\n"e",1,"2\n\n"\n\n\n'])
@pytest.mark.parametrize("thousands", ["", "'"])
def test_empty_lines_at_the_end_mean_nothing(tmp_path: Path, engine: str, end: str, thousands: str) -> None:
    lines = ["id,x,c", *(f"{i},{i},c" for i in range(40))]
    (tmp_path / "t.csv").write_bytes(("\n".join(lines) + end).encode())
    table = read_table(tmp_path / "t.csv", "id", form=CsvFormat(thousands=thousands))
    np.testing.assert_array_equal(table.column("x")[:40], np.arange(40))
    assert len(table.ids) == 40 + ("e" in end)
    assert len(list(csv_tables.rows_of(tmp_path / "t.csv", CsvFormat()))) == 41 + ("e" in end)
    (tmp_path / "none.csv").write_bytes(b"id,x,c" + end.encode().partition(b'"')[0])
    with pytest.raises(InputError, match="at least one row"):
        read_table(tmp_path / "none.csv", "id")


def test_a_quote_that_is_never_closed_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_pieces, "_PIECE_BYTES", 64)
    monkeypatch.setattr(csv_pieces, "_LONGEST_ROW", 512)
    (tmp_path / "t.csv").write_text('a,b\n"x,1\n' + "y,2\n" * 1000)
    with pytest.raises(InputError, match="shorter than"):
        list(open_path(tmp_path / "t.csv", CsvFormat()).batches({"b": "number"}))


def written(folder: Path, name: str, **columns: object) -> Path:
    folder.mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), folder / name)
    return folder


def test_a_folder_of_parquet_files_is_one_table_in_the_order_of_their_names(tmp_path: Path) -> None:
    written(tmp_path / "d", "b.parquet", id=["r"], x=[3.5], c=["v"])
    folder = written(
        tmp_path / "d", "a.parquet", id=["p", "q"], x=[1, None], c=pa.array(["u", None]).dictionary_encode()
    )
    table = read_table(folder, "id")
    assert table.ids == ("p", "q", "r")
    np.testing.assert_array_equal(table.column("x"), [1, np.nan, 3.5])
    assert list(table.column("c")) == ["u", "", "v"]
    assert read_id_columns(folder, ("id",)) == [["p", "q", "r"]]


@pytest.mark.parametrize(
    ("second", "what"),
    [({"id": ["r"], "y": [1.0]}, "must have the same columns"), ({"id": ["r"], "x": ["s"]}, "'x' must have one type")],
)
def test_files_that_do_not_fit_together_are_refused(tmp_path: Path, second: dict[str, object], what: str) -> None:
    written(tmp_path / "d", "a.parquet", id=["p"], x=[1.0])
    with pytest.raises(InputError, match=what):
        read_table(written(tmp_path / "d", "b.parquet", **second), "id")


def test_a_truncated_parquet_file_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "d", "a.parquet", x=np.arange(1000.0))
    (folder / "a.parquet").write_bytes((folder / "a.parquet").read_bytes()[:-100])
    with pytest.raises(InputError, match=r"a\.parquet must be a whole \.parquet file"):
        read_table(folder)
    (tmp_path / "e").mkdir()
    with pytest.raises(InputError, match="must hold files that end in"):
        read_table(tmp_path / "e")


def test_a_link_to_a_file_that_is_gone_is_not_a_shorter_table(tmp_path: Path) -> None:
    folder = written(tmp_path / "d", "a.parquet", x=[1.0])
    (folder / "b.parquet").symlink_to(tmp_path / "gone.parquet")
    with pytest.raises(InputError, match=r"b\.parquet must be a whole \.parquet file"):
        read_table(folder)


@pytest.mark.parametrize(("text", "found"), [("", "0 fields"), ("\n\n", "0 fields"), ("id,x\n", "2 fields")])
def test_a_file_without_a_row_is_said_to_have_none(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=f"at least one row. Found {found} and no row"):
        read_table(tmp_path / "t.csv", "id")


def test_a_document_in_a_field_and_lines_that_end_as_on_old_computers_are_read(tmp_path: Path, engine: str) -> None:
    (tmp_path / "t.csv").write_bytes(b'n,x\r"' + 300_000 * b"z" + b'",1\rq,2\r')
    table = read_table(tmp_path / "t.csv")
    np.testing.assert_array_equal(table.column("x"), [1, 2])
    assert [len(text) for text in table.column("n")] == [300_000, 1]


def test_of_thousands_of_columns_an_error_names_a_few(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",".join(f"c{j}" for j in range(10_000)) + "\n" + ",".join(["1"] * 10_000) + "\n")
    with pytest.raises(InputError, match=r"must have the id column 'id'. Found c0, c1, .*\.\.\.") as caught:
        read_table(tmp_path / "t.csv", "id")
    assert len(str(caught.value)) < 600


def test_a_column_that_cannot_be_read_is_named_with_its_type(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "d", "a.parquet", id=[b"\xff", b"b"], t=pa.array([0, 1], pa.timestamp("s", "Mars/Base"))
    )
    with pytest.raises(InputError, match=r"a\.parquet, row 1: column 'id' must hold numbers or texts. Found binary"):
        read_table(folder, "id", choose=lambda source: {})
    with pytest.raises(InputError, match=r"column 't' must hold numbers or texts. Found timestamp.*Mars.*data\.drop"):
        read_table(folder, choose=lambda source: {"t": "category"})


def test_a_text_in_parquet_is_named_by_file_row_column_and_value(tmp_path: Path) -> None:
    folder = written(tmp_path / "d", "a.parquet", x=["1", "2", "many"])
    with pytest.raises(InputError, match=r"a\.parquet, row 3: column 'x' must hold numbers\. Found texts, like 'many'"):
        read_table(ParquetSource(folder), choose=lambda _: {"x": "number"}, texts="refuse")


def test_a_query_reads_what_duckdb_finds_in_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="DuckDB is an extra: pip install 'plait[duckdb]'")
    written(tmp_path / "d", "a.parquet", id=[1, 2, 3], x=[1.5, 2.5, 3.5])
    (tmp_path / "w.csv").write_text("id,w\n3,30\n1,10\n")
    join = "select a.id, x, w from 'd/a.parquet' a join 'w.csv' using (id) order by a.id"
    source: Source = QuerySource(f"{join}  -- rows of both", tmp_path)
    table = read_table(source, "id")
    assert (table.ids, table.names) == (("1", "3"), ("x", "w"))
    assert read_table(QuerySource(f"{join};", tmp_path), "id").ids == table.ids
    np.testing.assert_array_equal(table.numbers, [[1.5, 10], [3.5, 30]])
    for query in ("select nothing from nowhere", "drop table x"):
        with pytest.raises(InputError, match="that DuckDB can run"):
            read_table(QuerySource(query, tmp_path))


LIBRARIES = {
    "lazy polars": "polars",
    "arrow": "pyarrow",
    "data set": "pyarrow",
    "path": "pyarrow",
    "feather": "pyarrow",
}


@pytest.mark.parametrize("kind", ["polars", "pandas", "duckdb", *LIBRARIES])
def test_fit_takes_tables_of_every_library_alike(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, other = rng.standard_normal((200, 3)), rng.standard_normal((200, 2))
    y = (x[:, 0] + other[:, 1] > 0).astype(float)
    columns = {f"c{j}": x[:, j] for j in range(3)}
    library = pytest.importorskip(LIBRARIES.get(kind, kind), reason=f"{kind} is an extra")
    folder = written(tmp_path / "d", "a.parquet", **{name: column[:120] for name, column in columns.items()})
    written(folder, "b.parquet", **{name: column[120:] for name, column in columns.items()})
    feather.write_feather(pa.table(columns), tmp_path / "x.feather", chunksize=70)
    make: dict[str, Callable[[], object]] = {
        "arrow": lambda: pa.table(columns),
        "data set": lambda: dataset.dataset(folder),
        "path": lambda: str(folder),
        "feather": lambda: tmp_path / "x.feather",
        "polars": lambda: library.DataFrame(columns),
        "lazy polars": lambda: library.DataFrame(columns).lazy(),
        "pandas": lambda: library.DataFrame(columns),
        "duckdb": lambda: library.from_arrow(pa.table(columns)),
    }
    plain = plait.fit({"a": x, "b": other}, y)
    found = plait.fit({"a": make[kind](), "b": other}, y)
    # Data frames hold columns, not rows, so products may round otherwise.
    np.testing.assert_allclose(found.weights["a"], plain.weights["a"], rtol=1e-12)


HOSTILE = {
    "text": (lambda: pa.table({"t": ["1", "u" * 10_000]}), "Column 't' cannot be read as numbers: found 'uuu.*, row 2"),
    "moment": (
        lambda: pa.table({"t": pa.array([0, 1], pa.timestamp("s"))}),
        "'t' cannot be read .*1970-01-01.*, row 1",
    ),
    "list": (lambda: pa.table({"t": [[1.0], [2.0]]}), "column 't' must hold numbers or texts. Found list<"),
    "struct": (lambda: pa.table({"t": [{"u": 1}] * 2}), "column 't' must hold numbers or texts. Found struct<"),
    "same name": (lambda: pa.table([[1.0, 2.0], [3.0, 4.0]], names=["t", "t"]), "must have different names. Found 't'"),
    "nothing": (lambda: pa.table({"t": pa.nulls(2)}), "Found nan in column 't', row 0"),
    "pandas NA": (lambda: pd.DataFrame({"t": pd.array([1, None], dtype="Int64")}), "Found nan in column 't', row 1"),
    "long text": (lambda: pd.DataFrame({"t": ["u" * 10_000] * 2}), "Column 't' cannot be read as numbers"),
    "no path": (lambda: "nowhere.parquet", "the data file must be at 'nowhere.parquet'"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_table_that_holds_no_numbers_is_refused_in_a_short_sentence(kind: str) -> None:
    make, what = HOSTILE[kind]
    with pytest.raises(InputError, match=what) as refused:
        plait.fit([make(), np.ones((2, 1))], [0, 1])
    assert len(str(refused.value)) < 500


def test_a_damaged_arrow_file_and_a_text_in_one_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    feather.write_feather(pa.table({"t": ["1", "2", "many"]}), path, chunksize=2, compression="uncompressed")
    with pytest.raises(InputError, match=r"x\.arrow, row 3: column 't' must hold numbers\. Found texts, like 'many'"):
        read_table(path, choose=lambda _: {"t": "number"}, texts="refuse")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"x\.arrow must be a whole \.arrow file"):
        read_table(path)


def test_compact_texts_behave_like_a_tuple() -> None:
    values = ("", "a", "öß", "a", "x" * 300, "")
    texts = Texts.joined([Texts.of(values[:2]), Texts.of(values[2:])])
    assert texts == values
    assert (texts[2], texts[-2], tuple(texts[1:4])) == ("öß", "x" * 300, values[1:4])
    assert tuple(texts.take(np.array([4, 0, 2]))) == (values[4], "", "öß")
    assert texts.framed() == b"".join(len(v.encode()).to_bytes(4, "little") + v.encode() for v in values)
    assert (texts.repeated(), Texts.of(values[1:3]).repeated()) == (2, 0)
    numbers = RowNumbers(12)
    assert numbers == tuple(map(str, range(12)))
    assert (numbers[11], tuple(numbers.take([10, 1]))) == ("11", ("10", "1"))


def test_coded_columns_join_and_rename() -> None:
    column = Coded.joined([Coded.of(["b", "a", "b"]), Coded.of(["c", "a"])])
    assert list(column.array()) == ["b", "a", "b", "c", "a"]
    assert column[[1, 4]].present == ("a",)
    assert list(column.renamed(["1", "1", "2"]).array()) == ["1", "1", "1", "2", "1"]
