import numpy as np
import pytest

from plait.data.datasets import Dataset
from plait.privacy.audit.attacks import (
    classes_by_equal_values,
    column_space_revealed,
    labels_from_gradient,
    rows_by_equal_values,
    rows_from_shares,
    which_matrix,
)
from plait.privacy.mechanisms.paper import ColumnNoise
from plait.privacy.noise import InsecureTestNoise, Release

RNG = np.random.default_rng(0)
STREAM = InsecureTestNoise(0).stream(Release("r", "p", 0, "paper", ""))


@pytest.fixture(scope="module")
def party(a9a_data: Dataset) -> np.ndarray:
    """Party 2 of a9a: columns 67 to 123, rows of norm at most 1."""
    rows = a9a_data.parts["B"].toarray()
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]


def test_the_broadcast_gradient_reveals_every_label() -> None:
    z, labels = RNG.standard_normal(500) * 3, RNG.integers(0, 2, 500)
    assert np.array_equal(labels_from_gradient(1 / (1 + np.exp(-z)) - labels), labels)


def test_as_many_shares_as_columns_reveal_the_column_space() -> None:
    matrix = RNG.standard_normal((200, 8))
    assert column_space_revealed(matrix @ RNG.standard_normal((8, 4)), matrix) == pytest.approx(0.5)
    assert column_space_revealed(matrix @ RNG.standard_normal((8, 8)), matrix) == pytest.approx(1.0)


def test_shares_and_a_few_known_rows_reveal_every_row() -> None:
    matrix = RNG.standard_normal((300, 8))
    found = rows_from_shares(matrix @ RNG.standard_normal((8, 8)), matrix, np.arange(10))
    assert found.fraction == 1.0


def test_isotropic_noise_stops_the_reconstruction() -> None:
    matrix = RNG.standard_normal((300, 8))
    shares = matrix @ RNG.standard_normal((8, 8)) + 5 * RNG.standard_normal((300, 8))
    assert rows_from_shares(shares, matrix, np.arange(10)).fraction == 0.0


@pytest.mark.parametrize("change", [0.1, 1e-3, 1e-5])
def test_the_papers_noise_never_hides_which_data_set_was_used(change: float) -> None:
    one = RNG.standard_normal((60, 5))
    two = one.copy()
    two[3, 2] += change
    wins = 0
    for k in range(100):
        used = (one, two)[k % 2]
        share = used @ (RNG.standard_normal(5) + ColumnNoise.of(used.T @ used).sample(1e3, STREAM))
        wins += which_matrix(share, [one, two]) == k % 2
    assert wins == 100


def test_one_noisy_share_of_the_paper_gives_records_of_a9a_away(party: np.ndarray) -> None:
    share = party @ (RNG.standard_normal(57) + ColumnNoise.of(party.T @ party).sample(1e4, STREAM))
    assert classes_by_equal_values(share) == len(np.unique(party, axis=0)) == 815
    known = RNG.choice(len(party), 50, replace=False)
    assert rows_by_equal_values(share, party, known).fraction > 0.65


def test_sixty_noisy_shares_of_the_paper_give_nearly_all_records_away(party: np.ndarray) -> None:
    noise = ColumnNoise.of(party.T @ party)
    shares = np.column_stack([party @ noise.sample(1e4, STREAM) for _ in range(60)])
    known = RNG.choice(len(party), 200, replace=False)
    assert rows_from_shares(shares, party, known).fraction > 0.9
