"""The attack with chosen broadcasts reads columns where nothing stops it, and none where a party keeps its rules."""

import numpy as np
import pytest

from plait.problem.penalties import L1, L2
from plait.studies.chosen_broadcasts import PartyRules, attack


@pytest.fixture(scope="module")
def columns() -> np.ndarray:
    rng = np.random.default_rng(3)
    return np.asarray(rng.standard_normal((200, 6)))


def test_without_rules_columns_are_read_one_by_one(columns: np.ndarray) -> None:
    found = attack(columns, PartyRules("", L1(1e-3), False, 400, 0), seed=0)
    assert found.columns == 6
    assert not found.ended


def test_few_rounds_leave_few_columns(columns: np.ndarray) -> None:
    assert attack(columns, PartyRules("", L1(1e-3), True, 10, 0), seed=0).columns < 3


def test_no_column_is_read_where_no_share_is_of_a_single_one(columns: np.ndarray) -> None:
    found = attack(columns, PartyRules("", L1(1e-3), True, 400, 2), seed=0)
    assert found.columns == 0
    assert found.ended


def test_a_penalty_without_kinks_shows_the_space_and_no_column(columns: np.ndarray) -> None:
    found = attack(columns, PartyRules("", L2(1e-3), True, 20, 2), seed=0)
    assert found.columns == 0
    assert found.space == pytest.approx(1.0)


def test_protected_labels_change_nothing_for_chosen_vectors(columns: np.ndarray) -> None:
    plain, hidden = (attack(columns, PartyRules("", L2(1e-3), True, 3, 2, hidden), 0) for hidden in (False, True))
    assert hidden.space == pytest.approx(plain.space)
    assert hidden.columns == 0
    assert attack(columns, PartyRules("", L1(1e-3), True, 400, 2, hidden=True), 0).columns == 0
