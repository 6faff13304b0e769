"""What all methods share."""

import numpy as np

from plait.methods.base import Newest


def test_parties_of_one_process_make_the_same_of_a_vector_once_and_anew_of_an_equal_one() -> None:
    newest, made = Newest(), []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    g, first, equal = np.ones(3), np.zeros(3), np.ones(3)
    assert [newest.made((g, first), make) for _ in range(3)] == [0, 0, 0]
    assert newest.made((equal, first), make) == 1  # numbers may change in place: only the very same array counts
    assert newest.made((g, first), make) == 2  # the newest alone is kept
    assert newest.made((g,), make) == 3
