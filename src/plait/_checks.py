"""Checks of what a user writes: the type of every option, with one wording for all classes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from plait.errors import SettingError

Check = Callable[[Any], bool]

_WORDS: Mapping[Any, str] = {float: "a number", int: "a whole number", str: "text", bool: "True or False"}


def need_types(options: Any) -> None:
    """Raise SettingError unless every field of a dataclass has the type that the class declares."""
    kind: Any = type(options)
    for name, check, wanted in _checks(kind):
        value = getattr(options, name)
        if not check(value):
            raise SettingError(f"{kind.__name__}({name}) must be {wanted}. Found {value!r}.")


def need_type(what: str, value: Any, hint: Any) -> None:
    """Raise SettingError unless `value` has the type `hint`; `what` is the option's name."""
    if type(value) is not hint and not _check(hint)(value):  # the usual case costs nothing
        raise SettingError(f"{what} must be {in_words(hint)}. Found {value!r}.")


def need_path(what: str, value: Any) -> Path:
    """A path from what a user wrote; SettingError unless it is a text or a path."""
    if not isinstance(value, str | PathLike) or not str(value) or "\0" in str(value):
        raise SettingError(f"{what} must be a path. Found {value!r}.")
    return Path(value)


def in_words(hint: Any) -> str:
    """A type as a user reads it: "a number", "text or None"."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(in_words(a) for a in sorted(arguments, key=lambda a: a is NoneType))
    if origin is Literal:
        return f"one of {', '.join(map(repr, arguments))}"
    if hint is NoneType:
        return "None"
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return f"a list, each item {in_words(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a dict"
    if origin is not None:
        return "something that can be called"
    return _WORDS.get(hint, f"a {getattr(hint, '__name__', hint)}")


@cache
def _checks(kind: Any) -> tuple[tuple[str, Check, str], ...]:
    hints = get_type_hints(kind)
    return tuple((f.name, _check(hints[f.name]), in_words(hints[f.name])) for f in fields(kind))


def _check(hint: Any) -> Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return lambda value: True
    if origin in (Union, UnionType):
        each = [_check(a) for a in arguments]
        return lambda value: any(check(value) for check in each)
    if origin is Literal:
        return lambda value: isinstance(value, str | int) and value in arguments
    if origin is not None:
        return _container(origin, arguments)
    if hint in _SCALARS:
        return _SCALARS[hint]
    return (lambda value: isinstance(value, hint)) if _runtime(hint) else callable


def _container(origin: Any, arguments: tuple[Any, ...]) -> Check:
    if origin is np.ndarray:
        return lambda value: isinstance(value, np.ndarray)
    if not (isinstance(origin, type) and issubclass(origin, Sequence | Mapping)):
        return callable
    if issubclass(origin, Mapping):
        return lambda value: isinstance(value, Mapping)
    item = _check(arguments[0])
    return lambda value: (
        isinstance(value, tuple if origin is tuple else Sequence | np.ndarray)
        and not isinstance(value, str | bytes)
        and all(item(v) for v in value)
    )


def _fits_float(value: Any) -> bool:
    """Whether a number can be written as a float: a whole number with hundreds of digits cannot."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _runtime(hint: Any) -> bool:
    """Whether isinstance can tell: a Protocol that is not marked cannot."""
    return isinstance(hint, type) and (
        not getattr(hint, "_is_protocol", False) or hasattr(hint, "_is_runtime_protocol")
    )


_SCALARS: Mapping[Any, Check] = {
    float: lambda value: not isinstance(value, bool | np.bool_) and isinstance(value, Real) and _fits_float(value),
    int: lambda value: isinstance(value, Integral) and not isinstance(value, bool | np.bool_),
    bool: lambda value: isinstance(value, bool | np.bool_),
    str: lambda value: isinstance(value, str) and not isinstance(value, Enum),
    NoneType: lambda value: value is None,
}
