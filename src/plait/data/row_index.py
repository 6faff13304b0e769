"""Tables whose rows have names: the rows of all parties must be the same, in the same order."""

from collections.abc import Mapping
from typing import Any

from plait.errors import InputError


def check_index(parts: Any, more: Mapping[str, Any] | None = None) -> None:
    """Raise InputError when two pandas tables (or labels, or weights: `more`) have different row indexes.

    Tables without an index (NumPy, SciPy sparse, polars) are taken row by row.
    """
    named = parts.items() if isinstance(parts, Mapping) else ((f"party {i}", table) for i, table in enumerate(parts))
    tables = {f"party {name!r}" if isinstance(parts, Mapping) else str(name): table for name, table in named}
    indexed = [(who, table.index) for who, table in {**tables, **(more or {})}.items() if _has_index(table)]
    for who, index in indexed[1:]:
        first_who, first = indexed[0]
        if len(index) == len(first) and not index.equals(first):
            row = next((i for i in range(len(first)) if index[i] != first[i]), 0)
            raise InputError(
                f"all tables must hold the same rows in the same order. Found row {row} named '{first[row]}' at "
                f"{first_who} and '{index[row]}' at {who}. Sort both by one index, or, if the rows do match, give them "
                "without an index: table.reset_index(drop=True)."
            )


def _has_index(table: Any) -> bool:
    """Whether it is a pandas frame or series."""
    return hasattr(table, "iloc") and hasattr(table.index, "equals")
