"""plait's own copy of a frozen dataclass against the standard library's."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import pytest

from plait._replace import replace


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 2.0

    @cached_property
    def norm(self) -> float:
        return self.x**2 + self.y**2


def test_a_copy_is_that_of_the_standard_library() -> None:
    point = Point(1.0)
    assert replace(point, y=5.0) == dataclasses.replace(point, y=5.0) == Point(1.0, 5.0)
    assert point == Point(1.0)


def test_what_was_cached_is_computed_anew() -> None:
    point = Point(1.0)
    assert point.norm == 5.0
    assert replace(point, y=3.0).norm == 10.0


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no fields"):
        replace(Point(1.0), z=1.0)
