"""Stored content is what its reader says, to the last field."""

from typing import Any

import pytest

from plait._shapes import misfit

SHAPE: Any = {
    "run": str,
    "rows?": int,
    "weights": [float],
    "clip": (float, None),
    "settings": {},
    "sizes": {...: int},
}
GOOD: dict[str, Any] = {"run": "a", "weights": [1, 2.5], "clip": None, "settings": {"a": [{}]}, "sizes": {"shop": 3}}


@pytest.mark.parametrize("change", [{}, {"rows": 3}, {"clip": 0.5}, {"weights": []}, {"more": "is ignored"}])
def test_content_of_the_shape_fits(change: dict[str, Any]) -> None:
    assert misfit({**GOOD, **change}, SHAPE) is None


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"run": 1}, ".run"),
        ({"rows": True}, ".rows"),
        ({"weights": [1.0, float("nan")]}, ".weights.1"),
        ({"weights": [10**400]}, ".weights.0"),
        ({"weights": "1.0"}, ".weights"),
        ({"clip": "x"}, ".clip"),
        ({"settings": []}, ".settings"),
        ({"sizes": {"shop": 3, "bank": None}}, ".sizes.bank"),
    ],
)
def test_the_first_value_that_does_not_fit_is_named(change: dict[str, Any], where: str) -> None:
    assert misfit({**GOOD, **change}, SHAPE) == where


def test_a_missing_field_and_another_kind_of_content_do_not_fit() -> None:
    assert misfit({key: value for key, value in GOOD.items() if key != "run"}, SHAPE) == ".run"
    assert misfit([GOOD], SHAPE) == ""
