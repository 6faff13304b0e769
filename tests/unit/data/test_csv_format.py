"""CSV files as people's programs write them: separators, decimal marks, quotes and encodings."""

from pathlib import Path

import numpy as np
import pytest

from plait.data.csv_format import CsvFormat, detect
from plait.data.guess import guess_columns
from plait.data.tables import read_table
from plait.errors import ConfigError, InputError

GERMAN = "Kunde;Umsatz;Größe;Seit;Ausfall\n K1 ;1.234,56;-0,5;01.02.2020;ja\n K2 ;99,5;;17.11.2021;nein\n"


def written(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "table.csv"
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("text", "encoding", "expected"),
    [
        ("a,b,c\n1,2.5,x\n3,4.5,y\n", "utf-8", CsvFormat()),
        (GERMAN, "cp1252", CsvFormat(";", ",", ".", '"', "cp1252")),
        (GERMAN, "utf-8", CsvFormat(";", ",", ".")),
        ("a\tb\n1\t2\n", "utf-8", CsvFormat("\t")),
        ("a|b\n1|2\n", "utf-16", CsvFormat("|", encoding="utf-16")),
        ('id,amount\n1,"1,234.50"\n2,"12.5"\n', "utf-8", CsvFormat(thousands=",")),
        ('a,b\n"x, y",2\n"z",3\n', "utf-8", CsvFormat()),
        ("a;b\n'x;y';2,5\n'z';3,5\n", "utf-8", CsvFormat(";", ",", quote="'")),
        ("a\n1\n2\n", "utf-8", CsvFormat()),
    ],
)
def test_how_a_file_is_written_is_found(tmp_path: Path, text: str, encoding: str, expected: CsvFormat) -> None:
    assert detect(written(tmp_path, text, encoding)) == expected


def test_german_numbers_are_numbers_and_dates_stay_texts(tmp_path: Path) -> None:
    path = written(tmp_path, GERMAN, "cp1252")
    table = read_table(path, "Kunde", form=detect(path))
    assert table.ids == (" K1 ", " K2 ")
    np.testing.assert_array_equal(table.column("Umsatz"), [1234.56, 99.5])
    np.testing.assert_array_equal(table.column("Größe"), [-0.5, np.nan])
    assert list(table.column("Seit")) == ["01.02.2020", "17.11.2021"]


def test_a_column_that_turns_to_texts_late_is_read_whole(tmp_path: Path) -> None:
    values = [str(i) for i in range(25_000)] + ["many"]
    table = read_table(written(tmp_path, "id,v,w\n" + "".join(f"{i},{v},{i}\n" for i, v in enumerate(values))), "id")
    assert list(table.column("v")) == values
    np.testing.assert_array_equal(table.column("w"), np.arange(len(values)))


@pytest.mark.parametrize(
    ("text", "encoding", "found"),
    [
        ("a;b\n1;2\n", "utf-8", r"separator = ';'"),
        ("größe,b\n1,2\n", "cp1252", r"encoding = 'cp1252'"),
        ("a,a\n1,2\n", "utf-8", "different names"),
        ("a,b\n1,2,3\n", "utf-8", "line 2 must have 2 fields"),
        ("a,b\n", "utf-8", "at least one row"),
        ("", "utf-8", "at least one row"),
    ],
)
def test_a_file_that_is_written_otherwise_says_how(tmp_path: Path, text: str, encoding: str, found: str) -> None:
    with pytest.raises(InputError, match=found):
        read_table(written(tmp_path, text, encoding))


@pytest.mark.parametrize(
    "options",
    [{"separator": ";;"}, {"separator": '"'}, {"decimal": "x"}, {"decimal": ",", "thousands": ","}, {"encoding": "no"}],
)
def test_impossible_formats_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="Found"):
        CsvFormat(**options)


def test_columns_are_guessed_with_reasons(tmp_path: Path) -> None:
    rows = "".join(
        f" K{i} ;{i},5;{'Nord' if i % 3 else 'Süd'};0{1 + i % 9}.02.2020;x{i}y;7;{'ja' if i % 2 else 'nein'}\n"
        for i in range(60)
    )
    path = written(tmp_path, "Kunde;Umsatz;Region;Seit;Notiz;Fest;Ausfall\n" + rows, "cp1252")
    guess = guess_columns(path, labelled=True)
    assert (guess.id, guess.label, guess.positive) == ("Kunde", "Ausfall", "ja")
    assert guess.one_hot == ("Region",)
    assert set(guess.drop) == {"Notiz", "Fest"}
    assert guess.dates == {"Seit": "DD.MM.YYYY"}
    assert guess_columns(path, labelled=False).label == ""
