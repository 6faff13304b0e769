"""Each attack succeeds where nothing protects, and finds no more than the rule says where something does."""

import numpy as np
import pytest

from plait.privacy.audit.attacks import column_space_revealed
from plait.studies.protection_attacks import (
    COINS,
    binary_rows,
    labels_read,
    listen,
    measure,
    measure_private,
    unheard,
)

ROWS = 1500


@pytest.fixture(scope="module")
def tables() -> list[np.ndarray]:
    """Three parties' 0/1 columns: two one-hot features each, and some free bits."""
    rng = np.random.default_rng(4)

    def one() -> np.ndarray:
        sets = [np.eye(count)[rng.integers(0, count, ROWS)] for count in (5, 7)]
        return np.hstack([*sets, rng.integers(0, 2, (ROWS, 6)).astype(float)])

    return [one() for _ in range(3)]


@pytest.fixture(scope="module")
def labels(tables: list[np.ndarray]) -> np.ndarray:
    rng = np.random.default_rng(5)
    score = sum(table @ rng.standard_normal(table.shape[1]) for table in tables)
    return np.where(score - score.mean() + rng.logistic(size=ROWS) > 0, 1.0, -1.0)


@pytest.mark.parametrize("mode", ["labels", "sums", "blind"])
def test_protected_labels_are_read_as_often_as_the_leverage_rule_says(
    mode: str, tables: list[np.ndarray], labels: np.ndarray
) -> None:
    found = measure(mode, tables, labels)
    assert abs(found.labels - found.rule) < 4 * 0.5 / np.sqrt(COINS * ROWS)
    assert measure("plain", tables, labels).labels == 1.0


def test_rows_are_found_from_a_partys_own_scores_and_not_from_sums(
    tables: list[np.ndarray], labels: np.ndarray
) -> None:
    chance = unheard(tables)
    found = {mode: measure(mode, tables, labels).rows for mode in ("plain", "labels", "sums", "blind")}
    assert min(found["plain"], found["labels"]) > 0.9
    assert max(found["sums"], found["blind"]) <= chance + 0.1
    assert measure_private(tables, labels).rows <= chance + 0.1


def test_a_coordinator_that_silences_the_others_reads_one_party_in_a_sum(
    tables: list[np.ndarray], labels: np.ndarray
) -> None:
    honest, hostile = (listen("sums", tables, labels, rounds=1, silenced=s).seen for s in (False, True))
    alone = listen("labels", tables, labels, rounds=1).seen
    assert column_space_revealed(hostile.T, tables[0]) == pytest.approx(column_space_revealed(alone.T, tables[0]))
    assert column_space_revealed(honest.T, tables[0]) < 0.9 * column_space_revealed(hostile.T, tables[0])


def test_integer_programming_finds_the_row_that_was_hidden() -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (40, 8)).astype(float)
    scores = table @ rng.standard_normal((8, 2))
    found = binary_rows(scores, table, np.arange(20), np.arange(20, 40))
    np.testing.assert_array_equal(found, table[20:])


def test_open_gradients_show_every_label(tables: list[np.ndarray], labels: np.ndarray) -> None:
    assert labels_read("plain", tables, labels) == 1.0
    assert labels_read("labels", tables, -labels) < 0.9
