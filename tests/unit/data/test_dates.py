"""Dates: recognised, read as one number by every reader, and named where they are none."""

import datetime
import sys
from pathlib import Path

import numpy as np
import pytest

from plait.data import csv_pieces, preparation
from plait.data.arrow_tables import QuerySource
from plait.data.csv_format import CsvFormat
from plait.data.dates import DateFormat, dated
from plait.data.guess import guess_columns
from plait.data.prepare_options import PrepareOptions
from plait.data.recipes import Recipe
from plait.data.tables import open_path, read_table
from plait.errors import ConfigError, InputError
from tests.extras import arrow as pa
from tests.extras import parquet

DAYS = [datetime.date(1931, 2, 28) + datetime.timedelta(days=997 * i) for i in range(60)]
YEARS = [(day.toordinal() - datetime.date(2000, 1, 1).toordinal()) / 365.25 for day in DAYS]
"""By the calendar of the standard library."""


def write_csv(path: Path, written: list[str], separator: str = ";") -> Path:
    lines = [separator.join(("id", "born", "x"))]
    lines += [separator.join((f"k{i}", text, str(i))) for i, text in enumerate(written)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("engine", ["pyarrow", "numpy"])
@pytest.mark.parametrize(
    ("style", "written"),
    [("%Y-%m-%d", "YYYY-MM-DD"), ("%d.%m.%Y", "DD.MM.YYYY"), ("%m/%d/%Y", "MM/DD/YYYY"), ("%Y%m%d", "YYYYMMDD"),
     ("%d.%m.%Y 23:59", "DD.MM.YYYY"), ("%Y-%m-%dT01:02:03Z", "YYYY-MM-DD"), (" %d.%m.%Y ", "DD.MM.YYYY")],
)  # fmt: skip
def test_dates_of_a_csv_file_are_recognised_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, style: str, written: str
) -> None:
    path = write_csv(tmp_path / "t.csv", [day.strftime(style) for day in DAYS])
    found = guess_columns(path, labelled=False)
    assert found.dates == {"born": written}
    assert found.id == "id"
    if engine == "numpy":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(csv_pieces, "_PIECE_BYTES", 128)
    table = read_table(path, "id", form=found.form, dates=found.dates)
    np.testing.assert_array_equal(table.column("born"), YEARS)


def test_a_short_day_and_month_are_read() -> None:
    assert DateFormat("DD.MM.YYYY").years("1.2.2000") == 31 / 365.25


@pytest.mark.parametrize("empty", ["", "NA", "null"])
def test_a_missing_date_is_a_missing_number(tmp_path: Path, empty: str) -> None:
    path = write_csv(tmp_path / "t.csv", ["31.12.1990", empty, "1.1.2000"])
    table = read_table(path, "id", form=CsvFormat(";"), dates={"born": "DD.MM.YYYY"})
    assert np.isnan(table.column("born")).tolist() == [False, True, False]
    fitted = preparation.fit(table, PrepareOptions(impute="mean"), (), ())
    assert np.isfinite(fitted.apply(table)[0]).all()


@pytest.mark.parametrize("wrong", ["31.02.1990", "1990-12-31", "31.12.90", "soon"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "folder", "query"])
def test_what_is_no_date_is_named_by_file_row_column_and_value(tmp_path: Path, kind: str, wrong: str) -> None:
    texts = ["31.12.1990"] * 40 + [wrong] + ["1.1.2000"]
    where = {"csv": "t.csv, line 42", "parquet": "t.parquet, row 41", "query": "the query, row 41"}
    place: Path | QuerySource = write_csv(tmp_path / "t.csv", texts)
    table = pa.table({"id": [f"k{i}" for i in range(42)], "born": texts})
    if kind == "query":
        parquet.write_table(table, tmp_path / "q.parquet")
        place = QuerySource("select * from 'q.parquet'", tmp_path)
    elif kind == "parquet":
        place = tmp_path / "t.parquet"
        parquet.write_table(table, place)
    elif kind == "folder":
        place = tmp_path / "parts"
        place.mkdir()
        parquet.write_table(table.slice(0, 30), place / "a.parquet")
        parquet.write_table(table.slice(30), place / "b.parquet")
    with pytest.raises(InputError) as caught:
        read_table(place, "id", form=CsvFormat(";"), dates={"born": "DD.MM.YYYY"})
    named = where.get(kind, "b.parquet, row 11")
    assert str(caught.value).startswith(f"{named}: column 'born' must hold dates, written DD.MM.YYYY. Found {wrong!r}.")


@pytest.mark.parametrize(
    "kind", ["cast(born as date)", "cast(born as timestamp)", "born", "cast(strftime(born::date, '%Y%m%d') as integer)"]
)
def test_dates_of_a_database_are_read_in_their_own_type(tmp_path: Path, kind: str) -> None:
    write_csv(tmp_path / "t.csv", [str(day) for day in DAYS], ",")
    query = f"select id, {kind} as born from read_csv('t.csv', types = {{'born': 'varchar'}})"
    written = "YYYYMMDD" if "integer" in kind else "YYYY-MM-DD"
    table = read_table(QuerySource(query, tmp_path), "id", dates={"born": written})
    np.testing.assert_array_equal(table.column("born"), YEARS)


def test_rows_that_a_worker_reads_again_hold_the_same_dates(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "t.csv", [f"{day:%d.%m.%Y}" for day in DAYS])
    source = dated(open_path(path, CsvFormat(";")), {"born": "DD.MM.YYYY"})
    order = np.arange(len(DAYS))[::-1].copy()
    recipe = Recipe(source, {"x": "number", "born": "number"}, order)
    np.testing.assert_array_equal(recipe.load(10, 30), np.column_stack([order, np.take(YEARS, order)])[10:30])


def test_days_and_months_that_cannot_be_told_apart_are_not_guessed(tmp_path: Path) -> None:
    found = guess_columns(write_csv(tmp_path / "t.csv", ["01/02/2020", "03/04/2021", "05/06/2022"]), labelled=False)
    assert found.dates == {}
    assert "DD/MM/YYYY or MM/DD/YYYY" in found.drop["born"]


@pytest.mark.parametrize(
    "texts", [["12.5", "13.25", "14.75"], ["10000101", "99991231", "12345678"], ["3.1", "4.1", "5"]]
)
def test_numbers_are_not_taken_for_dates(tmp_path: Path, texts: list[str]) -> None:
    assert guess_columns(write_csv(tmp_path / "t.csv", texts), labelled=False).dates == {}


@pytest.mark.parametrize("written", ["", "YYYY-MM", "DD.MM.YY", "DD.MM.YYYYx", "%d.%m.%Y", "DD.MM.YYYY DD"])
def test_a_format_without_year_month_and_day_is_refused(written: str) -> None:
    with pytest.raises(ConfigError, match="must hold YYYY, MM and DD once each"):
        PrepareOptions(dates={"born": written})


def test_a_column_is_a_date_or_a_category(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'born' must be a date or a category"):
        PrepareOptions(one_hot=("born",), dates={"born": "YYYY-MM-DD"})
    with pytest.raises(InputError, match=r"'burn', which .prepare.dates. names"):
        read_table(write_csv(tmp_path / "t.csv", ["x"], ","), "id", dates={"burn": "YYYY-MM-DD"})
