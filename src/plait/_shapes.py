"""What stored JSON must look like before anything reads it: the shape that its reader states, and nothing else.

int, str, bool   values of just this type
float            a finite number
None             null
(a, b)           either shape
[a]              a list of values of this shape
{"key": a}       an object with at least these keys; one that ends in "?" may be missing
{...: a}         an object whose every value has this shape
"""

import math
from collections.abc import Mapping
from typing import Any

Shape = Any
"""A type, None, a tuple, a list or a mapping, as described above."""


def misfit(value: Any, shape: Shape, where: str = "") -> str | None:
    """Where a value has not this shape, as a dotted name ("" for the whole); None where all of it fits."""
    if isinstance(shape, tuple):
        return None if any(misfit(value, each) is None for each in shape) else where
    if isinstance(shape, list):
        return _inside(list(enumerate(value)), shape[0], where) if isinstance(value, list) else where
    if isinstance(shape, Mapping):
        if not isinstance(value, dict):
            return where
        if ... in shape:
            return _inside(list(value.items()), shape[...], where)
        return next((found for key in shape if (found := _at(value, key, shape[key], where)) is not None), None)
    return None if _is(value, shape) else where


def _inside(items: list[tuple[Any, Any]], shape: Shape, where: str) -> str | None:
    return next((found for key, item in items if (found := misfit(item, shape, f"{where}.{key}")) is not None), None)


def _at(value: dict[str, Any], key: str, shape: Shape, where: str) -> str | None:
    name = key.removesuffix("?")
    if name in value:
        return misfit(value[name], shape, f"{where}.{name}")
    return None if name != key else f"{where}.{name}"


def _is(value: Any, kind: Any) -> bool:
    if kind is None:
        return value is None
    if kind is float:
        return type(value) in (int, float) and abs(value) < _LARGEST and math.isfinite(value)
    return type(value) is kind


_LARGEST = 1e300  # a larger number overflows in the first product, and a larger whole number is no double at all
