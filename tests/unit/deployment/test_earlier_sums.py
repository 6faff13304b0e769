"""Sums of several runs that together show the share of a single party."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from plait.deployment.earlier_sums import single_shares

SUMS = {
    "one sum": (["abcd"], ""),
    "the same twice": (["abcd", "abcd"], ""),
    "one party less": (["abcd", "abc"], "d"),
    "one party more, in another order": (["abc", "abcd"], "d"),
    "another party in its place: the reader learns their difference": (["abc", "abd"], ""),
    "the reader knows its own share": (["ab"], "b"),
    "its groups": (["abcdef", "ace"], ""),
    "three runs": (["abc", "acd", "abd"], "bcd"),
    "a chain": (["bcd", "bde", "abcf", "be"], "df"),
    "a longer chain": (["bc", "cd", "bd"], "bcd"),
}


@pytest.mark.parametrize(("sums", "shown"), SUMS.values(), ids=SUMS)
def test_what_follows_from_sums_of_several_runs(sums: Sequence[str], shown: str) -> None:
    assert single_shares([tuple(each) for each in sums], "a") == list(shown)


def test_a_share_that_follows_is_found_by_whole_combinations_too() -> None:
    """Against all combinations of three sums with small whole coefficients, which suffice for three."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        table = rng.integers(2, size=(3, 5)) | (np.arange(5) == 0)  # the reader is part of every sum
        sums = [tuple(np.array(list("abcde"))[row == 1]) for row in table]
        found = set()
        for c in itertools.product(range(-2, 3), repeat=3):
            combined = np.array(c) @ table[:, 1:]
            if np.count_nonzero(combined) == 1:
                found.add("bcde"[int(np.flatnonzero(combined)[0])])
        assert single_shares(sums, "a") == sorted(found)
