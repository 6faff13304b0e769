"""Ids: what matches what, and what is refused or dropped."""

from typing import Any

import numpy as np
import pytest

from plait._texts import in_both_cases
from plait.alignment.ids import AlignmentOptions, Ids, clean_ids
from plait.errors import InputError, SettingError


def read(*columns: list[Any], options: AlignmentOptions | None = None, **choices: Any) -> Ids:
    names = [f"c{i}" for i in range(len(columns))]
    return clean_ids("shop", names, columns, options or AlignmentOptions(), **choices)


def test_rules_make_texts_equal_that_the_job_says_are_equal() -> None:
    composed, decomposed = "Jos\u00e9", "Jose\u0301"
    assert read([composed]).texts == read([f"  {decomposed}\t"]).texts
    none = AlignmentOptions(unicode="none")
    assert read([composed], options=none).texts != read([decomposed], options=none).texts
    fold = AlignmentOptions(case="fold")
    assert read(["STRASSE"], options=fold).texts == read(["stra\u00dfe"], options=fold).texts
    assert read(["A"]).texts != read(["a"]).texts
    assert read([" a"], options=AlignmentOptions(trim=False)).texts == (" a",)
    wide = "\uff11\uff12"
    assert read([wide], options=AlignmentOptions(unicode="NFKC")).texts == ("12",)
    assert read([wide]).texts == (wide,)


def test_whole_numbers_match_their_texts() -> None:
    assert read([12, None, 7], missing="drop").texts == read(["12", "", "7"], missing="drop").texts == ("12", "7")


def test_composite_keys_cannot_be_confused() -> None:
    assert read(["a", "ab"], ["bc", "c"]).texts == ('["a", "bc"]', '["ab", "c"]')
    single, double = read(['["a", "b"]']), read(["a"], ["b"])
    assert single.messages([0]) != double.messages([0])


def test_missing_ids_are_counted_and_refused_or_dropped() -> None:
    columns = ["x", "", "  ", "y", None], ["1", "2", "3", "", "5"]
    with pytest.raises(InputError, match=r"shop: every row must have an id. Found 4 without, the first in row 2"):
        read(*columns)
    found = read(*columns, missing="drop")
    assert found.missing == 4
    np.testing.assert_array_equal(found.rows, [0])
    assert found.report("shop") == "shop: 1 ids; left out: 4 missing"


def test_repeated_ids_are_counted_and_refused_kept_once_or_dropped() -> None:
    ids = ["b", "a", " b ", "c", "b"]
    with pytest.raises(InputError, match=r"shop: every id must stand in one row.*Found 2 rows too many"):
        read(ids)
    first, dropped = read(ids, repeated="first"), read(ids, repeated="drop")
    assert (first.texts, first.repeated) == (("b", "a", "c"), 2)
    np.testing.assert_array_equal(first.rows, [0, 1, 3])
    assert (dropped.texts, dropped.repeated) == (("a", "c"), 3)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        ([1.5, 2.0], "floating-point"),
        ([1.0, None], "floating-point"),
        (["1.0", "23.0", ""], r"floating-point numbers, like '1.0'"),
        (["1e+05", "2e+05"], "floating-point"),
        (["a", 1], "texts only, or whole numbers only. Found int, str"),
        ([True, False], "Found bool"),
        ([b"a"], "Found bytes"),
        (["", None, "   "], "must hold ids. Found nothing in 3 rows"),
        ([], "Found nothing in 0 rows"),
        (["\ud800"], "valid Unicode"),
    ],
)
def test_columns_that_cannot_be_compared_are_refused(column: list[Any], what: str) -> None:
    with pytest.raises(InputError, match=rf"shop: the id column 'c0'.*{what}"):
        read(column)


def test_texts_with_a_point_here_and_there_are_no_numbers() -> None:
    assert read(["1.5", "A1"]).texts == ("1.5", "A1")


def test_limits_and_options_are_checked() -> None:
    with pytest.raises(InputError, match=r"may bring 2 ids\. Found 3"):
        read(["a", "b", "c"], options=AlignmentOptions(min_rows=1, max_rows=2))
    with pytest.raises(InputError, match="must name its id column"):
        clean_ids("shop", [], [], AlignmentOptions())
    with pytest.raises(SettingError, match="min_rows"):
        AlignmentOptions(min_rows=0)


@pytest.mark.parametrize(
    ("ids", "both"),
    [
        (["KD 7", "kd 8", "Kd 9", "12"], ("KD 7", "kd 8")),
        (["KD 7", "KD 8", "Kd 9"], None),
        (["12", "13"], None),
        (["a1", "A1", "B2"], None),
    ],
)
def test_ids_in_capitals_and_in_small_letters_are_noticed(ids: list[str], both: tuple[str, str] | None) -> None:
    assert in_both_cases(ids) == both
