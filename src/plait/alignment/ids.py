"""From id columns to texts that match: declared rules, composite keys, missing and repeated ids."""

import json
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from plait.errors import InputError, SettingError

_FLOATING = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+)")


@dataclass(frozen=True)
class AlignmentOptions:
    """How ids are compared, the same at every party, and which result is acceptable.

    Parameters
    ----------
    trim : bool, default=True
        Leave out white space at both ends of an id.
    case : str, default="keep"
        "keep", or "fold" to compare without regard to upper and lower case.
    unicode : str, default="NFC"
        The normal form: "NFC", "NFKC" (also wide and compatibility characters), or "none".
    min_rows : int, default=100
        Fewer common rows than this are refused, and nobody learns which they are.
    max_rows : int, default=100000000
        A party may bring at most so many ids.
    """

    trim: bool = True
    case: Literal["keep", "fold"] = "keep"
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"
    min_rows: int = 100
    max_rows: int = 100_000_000

    def __post_init__(self) -> None:
        if not 1 <= self.min_rows <= self.max_rows < 1 << 32:
            raise SettingError(
                f"alignment needs 1 <= min_rows <= max_rows < 2^32. Found {self.min_rows} and {self.max_rows}."
            )

    def normal(self, text: str) -> str:
        """The text that is compared."""
        text = self._form(text)
        if self.trim:
            text = text.strip()
        return self._form(text.casefold()) if self.case == "fold" else text

    def _form(self, text: str) -> str:
        return text if self.unicode == "none" else unicodedata.normalize(self.unicode, text)


@dataclass(frozen=True)
class Ids:
    """The distinct ids of a party: texts, and the row of its file (n,) that each stands in."""

    texts: tuple[str, ...]
    rows: Any
    width: int
    repeated: int = 0
    missing: int = 0

    def messages(self, places: Any) -> list[bytes]:
        """The encoding of the ids at these places: number of columns, length, UTF-8."""
        width, texts = self.width.to_bytes(4, "little"), self.texts
        encoded = [texts[i].encode() for i in places]
        return [width + len(text).to_bytes(4, "little") + text for text in encoded]

    @cached_property
    def checksum(self) -> int:
        """CRC-32 of ids and rows: an alignment resumed on other ids is refused."""
        check = zlib.crc32(np.ascontiguousarray(self.rows, "<i8").view(np.uint8).data, self.width)
        for text in self.texts:
            check = zlib.crc32(text.encode() + b"\0", check)
        return check

    def report(self, who: str) -> str:
        """One line for the party's own eyes."""
        dropped = [f"{n} {what}" for n, what in ((self.repeated, "repeated"), (self.missing, "missing")) if n]
        return f"{who}: {len(self.texts)} ids" + (f"; left out: {', '.join(dropped)}" if dropped else "")


NOT_RULES = ("min_rows", "max_rows")
"""Options that say how many rows there may be, not which ids are the same."""
Repeated = Literal["refuse", "first", "drop"]
Missing = Literal["refuse", "drop"]


def clean_ids(
    who: str,
    names: Sequence[str],
    columns: Sequence[Sequence[Any]],
    options: AlignmentOptions,
    repeated: Repeated = "refuse",
    missing: Missing = "refuse",
) -> Ids:
    """The distinct ids in a party's id columns; InputError for those that cannot be compared, or by its own choice."""
    if not names:
        raise InputError(f"{who} must name its id column to be aligned. Found none. Set data.id in its file.")
    texts = _texts(who, names, columns, options)
    present = [i for i, text in enumerate(texts) if text]
    absent = len(texts) - len(present)
    if absent and missing == "refuse":
        first = next(i for i, text in enumerate(texts) if not text)
        raise InputError(
            f"{who}: every row must have an id. Found {absent} without, the first in row {first + 1}. Mend the file, "
            'or drop them: data.missing_ids = "drop".'
        )
    kept = _distinct(who, texts, present, repeated)
    if len(kept) > options.max_rows:
        raise InputError(f"{who} may bring {options.max_rows} ids. Found {len(kept)}. Raise alignment.max_rows.")
    if not kept:
        raise InputError(f"{who} must bring at least one id. Found none that is left.")
    rows = np.array(kept, dtype=np.int64)
    return Ids(tuple(texts[i] for i in kept), rows, len(names), len(present) - len(kept), absent)


def normal_id(text: str, width: int, options: AlignmentOptions) -> str:
    """An id as `clean_ids` writes it, from one of a list: several columns are a JSON list; empty where it is none."""
    if width == 1:
        return options.normal(text)
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(parts, list) or len(parts) != width or not all(isinstance(part, str | int) for part in parts):
        return ""
    return json.dumps([options.normal(str(part)) for part in parts], ensure_ascii=False)


def _texts(who: str, names: Sequence[str], columns: Sequence[Sequence[Any]], options: AlignmentOptions) -> list[str]:
    """One text per row; the empty one where an id, or a part of it, is missing."""
    parts = [
        _column(f"{who}: the id column {name!r}", values, options) for name, values in zip(names, columns, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    return [json.dumps(row, ensure_ascii=False) if all(row) else "" for row in zip(*parts, strict=True)]


def _column(where: str, values: Sequence[Any], options: AlignmentOptions) -> list[str]:
    kinds = {type(value) for value in values if not _absent(value)}
    if not kinds:
        raise InputError(f"{where} must hold ids. Found nothing in {len(values)} rows.")
    if float in kinds:
        raise InputError(
            f"{where} must hold texts or whole numbers. Found floating-point numbers, which do not compare reliably. "
            "Store them as texts or whole numbers."
        )
    if kinds not in ({str}, {int}):
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InputError(f"{where} must hold texts only, or whole numbers only. Found {found}. Convert them.")
    if kinds == {str}:
        _refuse_floating_texts(where, values)
    try:
        texts = ["" if _absent(value) else options.normal(str(value)) for value in values]
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where} must hold valid Unicode. Found: {error.reason}.") from None
    return texts


def _distinct(who: str, texts: list[str], present: list[int], choice: Repeated) -> list[int]:
    """The rows that are kept of those with an id."""
    seen: set[str] = set()
    first = []
    for i in present:
        if texts[i] not in seen:
            seen.add(texts[i])
            first.append(i)
    repeated = len(present) - len(first)
    if not repeated or choice == "first":
        return first
    if choice == "refuse":
        raise InputError(
            f"{who}: every id must stand in one row, once the rules of the job are applied. Found {repeated} rows too "
            'many. Mend the file, or set data.repeated_ids = "first" or "drop".'
        )
    count = Counter(texts[i] for i in present)
    return [i for i in first if count[texts[i]] == 1]


def _absent(value: Any) -> bool:
    """Nothing, NaN, or white space."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _refuse_floating_texts(where: str, values: Sequence[Any]) -> None:
    """Ids that a spreadsheet or a data frame has turned into floating-point numbers would match nothing."""
    if all(_FLOATING.fullmatch(value.strip()) for value in values if not _absent(value)):
        example = next(value for value in values if not _absent(value))
        raise InputError(
            f"{where} must hold texts or whole numbers. Found floating-point numbers, like {example!r}: some program "
            "has converted them. Export the ids as texts."
        )
