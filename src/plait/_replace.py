"""A copy of a frozen dataclass with some fields changed, ten times as fast as that of the standard library.

States are copied several times for every message.  `dataclasses.replace` calls a constructor, which sets each field of
a frozen class by a call of its own: with twenty fields that takes longer than the arithmetic of a small table.
"""

from typing import Any, TypeVar

T = TypeVar("T")


def replace(value: T, /, **changes: Any) -> T:
    """Like `dataclasses.replace`, for classes without `__post_init__` and without slots."""
    kind: Any = type(value)
    names = kind.__dataclass_fields__
    if not changes.keys() <= names.keys():
        raise TypeError(f"{kind.__name__} has no fields {sorted(changes.keys() - names.keys())}.")
    new: T = object.__new__(kind)
    old = value.__dict__
    fields = {name: old[name] for name in names}  # and nothing that was cached
    fields.update(changes)
    new.__dict__.update(fields)
    return new
