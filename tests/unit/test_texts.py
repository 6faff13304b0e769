"""Many texts in one buffer behave as a list of them."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait._texts import Texts

WORDS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=30)


@given(WORDS)
def test_texts_are_sorted_as_python_sorts_them(words: list[str]) -> None:
    assert [words[i] for i in Texts.of(words).argsort()] == sorted(words)


@pytest.mark.parametrize("words", [[], [""], ["a\0", "a", "a\0\0", ""], ["x" * 300, "x" * 299, "a", "x" * 8, "x" * 9]])
def test_zeros_and_long_texts_are_sorted_as_python_sorts_them(words: list[str]) -> None:
    assert [words[i] for i in Texts.of(words).argsort()] == sorted(words)


def test_equal_texts_stay_in_their_order() -> None:
    assert Texts.of(["b", "a", "b", "a"]).argsort().tolist() == [1, 3, 0, 2]


def test_texts_are_taken_in_any_order_also_when_they_are_many() -> None:
    words = [f"{i:x}" * (i % 3) for i in range((1 << 18) + 5)]
    places = random.Random(0).sample(range(len(words)), len(words))
    taken = Texts.of(words).take(np.array(places))
    assert list(taken) == [words[i] for i in places]


def test_the_same_digests_mean_the_same_texts() -> None:
    found = Texts.of(["a", "b", "a", ""]).digests()
    assert found.shape == (4, 2)
    assert len({row.tobytes() for row in found}) == 3
    assert (found[0] == found[2]).all()


def test_no_parts_join_to_no_texts() -> None:
    assert list(Texts.joined([])) == []
