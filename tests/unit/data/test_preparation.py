"""How a party's columns become numbers."""

import numpy as np
import pytest

from plait.data import preparation, statistics
from plait.data.prepare_options import PrepareOptions
from plait.data.tables import Table
from plait.data.texts import Coded
from plait.errors import InputError


def table(towns: list[str], ages: list[float]) -> Table:
    ids = tuple(map(str, range(len(towns))))
    return Table(ids, np.array(ages)[:, None], ("age",), {"town": Coded.of(towns)})


def test_medians_are_exact_without_a_column_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_FEW", 10)
    monkeypatch.setattr(statistics, "_BINS", 8)
    rng = np.random.default_rng(0)
    for rows in (1, 2, 999, 1000):
        x = np.column_stack(
            [
                rng.standard_normal(rows),
                np.exp(20 * rng.standard_normal(rows)),
                rng.integers(0, 3, rows).astype(float),
                np.full(rows, 0.1),
                np.where(rng.random(rows) < 0.9, 7.0, rng.standard_normal(rows)),
            ]
        )
        x[rng.random(x.shape) < 0.1] = np.nan
        x[0] = [1.0, 2.0, 1.0, 0.1, 7.0]
        np.testing.assert_array_equal(statistics.medians(x, statistics.gather(x)), np.nanmedian(x, axis=0))


OPTIONS = PrepareOptions(one_hot=("town",))


def test_a_value_that_training_did_not_have_is_named_and_counts_as_no_value() -> None:
    fitted = preparation.fit(table(["Ulm", "Bonn", "Ulm"], [30.0, 40.0, 50.0]), OPTIONS, ())
    new = table(["Bonn", "Paris", "Rome"], [20.0, 21.0, 22.0])
    matrix, names = fitted.apply(new)
    assert names == ("age", "town=Bonn", "town=Ulm")
    np.testing.assert_array_equal(matrix, [[20, 1, 0], [21, 0, 0], [22, 0, 0]])
    (sentence,) = fitted.unseen(new)
    assert "'town' has values in 2 of 3 rows that training did not have, like 'Paris'" in sentence


def test_values_that_training_had_need_no_remark() -> None:
    fitted = preparation.fit(table(["Ulm", "Bonn"], [30.0, 40.0]), OPTIONS, ())
    assert fitted.unseen(table(["Bonn", "Bonn"], [1.0, 2.0])) == []


def test_an_empty_cell_is_no_value_that_training_did_not_have() -> None:
    public = PrepareOptions(one_hot=("town", "age"), categories={"town": ("Ulm", "Bonn"), "age": ("30", "40")})
    fitted = preparation.fit(table(["Ulm", ""], [30.0, np.nan]), public, ())
    assert fitted.unseen(table(["", "Bonn"], [np.nan, 40.0])) == []


def test_text_that_is_not_one_hot_is_refused_with_the_remedy() -> None:
    with pytest.raises(InputError, match="one_hot"):
        preparation.fit(table(["Ulm", "Bonn"], [30.0, 40.0]), PrepareOptions(), ())
