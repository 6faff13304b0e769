"""The intersection of sets of values, against Python sets."""

import numpy as np
import pytest

from plait.alignment.matching import common_places
from plait.errors import ProtocolError


def values(numbers: list[int]) -> np.ndarray:
    """Spread over all 32 bytes; equal numbers, equal values, differing in one byte only."""
    out = np.zeros((len(numbers), 32), np.uint8)
    for row, number in zip(out, numbers, strict=True):
        row[number % 32] = 1 + number // 32
    return out


@pytest.mark.parametrize("at_once", [1 << 21, 7])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_common_places_are_those_of_python_sets(count: int, at_once: int) -> None:
    rng = np.random.default_rng(count)
    sets = [rng.permutation(120)[: 80 + i].tolist() for i in range(count)]
    expected = set.intersection(*map(set, sets))
    for numbers, places in zip(sets, common_places([values(n) for n in sets], at_once), strict=True):
        assert {numbers[i] for i in places} == expected
        assert np.all(np.diff(places) > 0)


def test_sets_without_anything_in_common_have_no_places() -> None:
    assert [len(p) for p in common_places([values([1, 2]), values([3])])] == [0, 0]


def test_a_value_that_comes_twice_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"must come once\. Found 1 repeated in set 1"):
        common_places([values([1, 2]), values([3, 1, 3])])
