"""From id columns to texts that can be compared: declared rules, composite keys, missing and repeated ids."""

import json
import re
import unicodedata
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from plait._texts import Texts
from plait.errors import InputError, SettingError, other_rows

Places = npt.NDArray[np.int64]
_AT_ONCE = 10_000  # ids that are Python objects at a time: memory stays small
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
    """The distinct ids of a party: n texts, and `rows` (n,), the row of its file that each stands in.

    An id is a Python object only while it is read: so a hundred million ids fit into memory.
    """

    texts: Texts
    rows: Any
    width: int
    repeated: int = 0
    missing: int = 0

    def messages(self, places: Any) -> list[bytes]:
        """The encoding of the ids at these places: number of columns, length, UTF-8."""
        width = self.width.to_bytes(4, "little")
        return [width + len(text).to_bytes(4, "little") + text for text in self.texts.take(places).encoded()]

    @cached_property
    def checksum(self) -> int:
        """CRC-32 of ids and rows, by which an alignment that is resumed on other ids is refused."""
        check = zlib.crc32(np.ascontiguousarray(self.rows, "<i8").view(np.uint8).data, self.width)
        for part in self.texts.chunks():
            check = zlib.crc32(b"".join(text + b"\0" for text in part.encoded()), check)
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
    """The distinct ids in a party's id columns.

    InputError for ids that cannot be compared, and for repeated or missing ids where the party refuses them.
    """
    if not names:
        raise InputError(f"{who} must name its id column to be aligned. Found none. Set data.id in its file.")
    texts = _texts(who, names, columns, options)
    there = texts.lengths > 0
    present = np.flatnonzero(there)
    absent = len(texts) - present.size
    if absent and missing == "refuse":
        raise InputError(
            f"{who}: every row must have an id. Found {absent} without, the first in row {int(np.argmin(there)) + 1}. "
            'Mend the file, or drop them: data.missing_ids = "drop".'
        )
    rows = _distinct(who, texts, present, repeated)
    if rows.size > options.max_rows:
        raise InputError(f"{who} may bring {options.max_rows} ids. Found {rows.size}. Raise alignment.max_rows.")
    if not rows.size:
        raise InputError(f"{who} must bring at least one id. Found none that is left.")
    kept = texts if rows.size == len(texts) else texts.take(rows)
    return Ids(kept, rows, len(names), present.size - rows.size, absent)


def normal_id(text: str, width: int, options: AlignmentOptions) -> str:
    """An id, read from a list, as `clean_ids` writes it; empty where the text is no id.

    An id of `width` > 1 columns is a JSON list of them.
    """
    if width == 1:
        return options.normal(text)
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(parts, list) or len(parts) != width or not all(isinstance(part, str | int) for part in parts):
        return ""
    return json.dumps([options.normal(str(part)) for part in parts], ensure_ascii=False)


def check_still_there(
    who: str, found: Sequence[str], rows: Any, ids: Texts, width: int, options: AlignmentOptions
) -> None:
    """InputError unless the ids (n,) stand in these rows (n,) of a table that was read again; `found` are its ids (N,).

    A query may give its rows in another order each time, and a file may be written anew between two reads.
    """
    texts = found if isinstance(found, Texts) else Texts.of(found)
    for start in range(0, len(rows), _AT_ONCE):
        places, wanted = np.asarray(rows[start : start + _AT_ONCE]), ids[start : start + _AT_ONCE]
        if int(places.max()) < len(texts):
            here = texts.take(places)
            if here.framed() == wanted.framed():
                continue  # as nearly always: no id is a Python object
            if all(normal_id(text, width, options) == id_ for text, id_ in zip(here, wanted, strict=True)):
                continue
        raise other_rows(who)


def _texts(who: str, names: Sequence[str], columns: Sequence[Sequence[Any]], options: AlignmentOptions) -> Texts:
    """One text per row; it is empty where an id, or a part of it, is missing."""
    parts = [
        _column(f"{who}: the id column {name!r}", values, options) for name, values in zip(names, columns, strict=True)
    ]
    if len(parts) == 1:
        return parts[0]
    listed = (
        Texts.of(json.dumps(row, ensure_ascii=False) if all(row) else "" for row in zip(*some, strict=True))
        for some in zip(*(part.chunks() for part in parts), strict=True)
    )
    return Texts.joined(list(listed))


def _column(where: str, values: Sequence[Any], options: AlignmentOptions) -> Texts:
    """The values as they are compared; _AT_ONCE of them are read at a time."""
    kinds: set[type] = set()
    floating = True
    parts = []
    for start in range(0, len(values), _AT_ONCE):
        given = [None if _absent(value) else value for value in values[start : start + _AT_ONCE]]
        kinds |= {type(value) for value in given if value is not None}
        floating = floating and all(_floating(value) for value in given if value is not None)
        parts.append(_normal(where, given, options))
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
    if kinds == {str} and floating:
        # Ids that a spreadsheet or a data frame has turned into floating-point numbers would match nothing.
        example = next(value for value in values if not _absent(value))
        raise InputError(
            f"{where} must hold texts or whole numbers. Found floating-point numbers, like {example!r}: some program "
            "has converted them. Export the ids as texts."
        )
    return Texts.joined(parts)


def _normal(where: str, values: list[Any], options: AlignmentOptions) -> Texts:
    texts = ["" if value is None else options.normal(str(value)) for value in values]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where} must hold valid Unicode. Found: {error.reason}.") from None
    return Texts.of(texts)


def _distinct(who: str, texts: Texts, present: Places, choice: Repeated) -> Places:
    """The rows that are kept, of the rows `present` that have an id."""
    digests = texts.digests() if present.size == len(texts) else texts.take(present).digests()
    order = np.lexsort(digests.T)  # stable: of equal ids the first row stands first
    ordered = digests[order]
    del digests
    begins = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)) if order.size else np.empty(0, bool)
    repeated = order.size - int(np.count_nonzero(begins))
    if not repeated:
        return present
    if choice == "refuse":
        raise InputError(
            f"{who}: every id must stand in one row, once the rules of the job are applied. Found {repeated} rows too "
            'many. Mend the file, or set data.repeated_ids = "first" or "drop".'
        )
    if choice == "drop":
        begins &= np.append(begins[1:], True)  # ids in one row only: the row after it begins another id
    return present[np.sort(order[begins])]


def _absent(value: Any) -> bool:
    """Nothing, NaN, or white space."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _floating(value: Any) -> bool:
    """Whether a text is written as a floating-point number."""
    return isinstance(value, str) and _FLOATING.fullmatch(value.strip()) is not None
