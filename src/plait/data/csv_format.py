"""How a CSV file is written: its separator, decimal mark, quotes and encoding, stated or found."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from plait.errors import ConfigError, InputError

_SAMPLE_BYTES = 1 << 18  # 256 kB: a few hundred rows of a wide table, read in a millisecond
_SEPARATORS = (",", ";", "\t", "|")
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
_POINT_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)\.\d+([eE][+-]?\d+)?")
_GROUPED = {",": re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?"), ".": re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")}


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written.

    separator   the character between two fields
    decimal     the decimal mark: "." or ","
    thousands   the mark between groups of three digits; empty for none
    quote       the character around fields that hold separators
    encoding    a text encoding that Python knows
    """

    separator: str = ","
    decimal: str = "."
    thousands: str = ""
    quote: str = '"'
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or len(self.quote) != 1 or self.separator in f'\r\n{self.quote}"':
            raise ConfigError(
                f"separator and quote of a CSV file must be two different characters. Found {self.separator!r} and "
                f"{self.quote!r}."
            )
        if self.decimal not in (".", ",") or self.thousands not in ("", ".", ",", "'", " ", "_"):
            raise ConfigError(
                'the decimal mark must be "." or ",", and thousands one of . , \' _ or a space, or empty. '
                f"Found {self.decimal!r} and {self.thousands!r}."
            )
        if self.decimal in (self.thousands, self.separator) and self.decimal != ",":
            raise ConfigError(f"decimal, thousands and separator must differ. Found {self.decimal!r} twice.")
        if self.decimal == self.thousands:
            raise ConfigError(f"decimal and thousands must differ. Found {self.decimal!r} twice.")
        try:
            "".encode(self.encoding)
        except LookupError as error:
            raise ConfigError(f"encoding must be one that Python knows. Found {self.encoding!r}.") from error

    def number(self, text: str) -> float:
        """The number that a text stands for; ValueError where it is none: 01.02.2020 is a date, not 1022020."""
        if self.thousands and self.thousands in text:
            whole = text.strip().split(self.decimal)[0].lstrip("+-")
            first, *groups = whole.split(self.thousands)
            if not 1 <= len(first) <= 3 or any(len(group) != 3 for group in groups):
                raise ValueError(f"{text!r} is not grouped by thousands")
            text = text.replace(self.thousands, "")
        return float(text if self.decimal == "." else text.replace(self.decimal, "."))

    @property
    def plain(self) -> bool:
        """Whether numbers are written as Python writes them."""
        return self.decimal == "." and not self.thousands

    @property
    def differences(self) -> dict[str, str]:
        """The settings that are not the default ones, by name."""
        plain = CsvFormat()
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != getattr(plain, f.name)}


def detect(path: Path) -> CsvFormat:
    """The format of a CSV file, guessed from its first 256 kB."""
    try:
        with path.open("rb") as file:
            data = file.read(_SAMPLE_BYTES)
    except OSError as error:
        raise InputError(f"the data file must be readable. Found {path}: {error.strerror}.") from error
    encoding = _encoding(data)
    text = data.decode(encoding, errors="ignore").lstrip("\ufeff")
    if len(data) == _SAMPLE_BYTES and "\n" in text:
        text = text[: text.rindex("\n") + 1]  # the last line may be cut
    separator, quote = _separator(text)
    cells = [cell.strip() for row in _rows(text, separator, quote)[1:] for cell in row]
    decimal, thousands = _marks(cells)
    return CsvFormat(separator, decimal, thousands, quote, encoding)


def _encoding(data: bytes) -> str:
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return name
    try:
        data[: data.rfind(b"\n") + 1 or len(data)].decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"  # what spreadsheets write where they do not write UTF-8; it decodes nearly every byte
    return "utf-8"


def _separator(text: str) -> tuple[str, str]:
    """The separator and quote that cut the most lines into as many fields as the header, and as many as possible."""
    best, choice = (0.0, 0), (",", '"')
    for quote in ('"', "'"):
        for separator in _SEPARATORS:
            widths = [len(row) for row in _rows(text, separator, quote)]
            if not widths or widths[0] < 2:
                continue
            rank = (widths.count(widths[0]) / len(widths), widths[0])
            quoted = quote == '"' or f"{separator}{quote}" in text or f"\n{quote}" in text
            if rank > best and quoted:
                best, choice = rank, (separator, quote)
    return choice


def _rows(text: str, separator: str, quote: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, quotechar=quote) if row]
    except csv.Error:
        return []


def _marks(cells: Sequence[str]) -> tuple[str, str]:
    """The decimal mark, and the mark between thousands where there is one."""
    commas = sum(1 for cell in cells if _COMMA_NUMBER.fullmatch(cell))
    points = sum(1 for cell in cells if _POINT_NUMBER.fullmatch(cell))
    decimal = "," if commas > points else "."
    other = "." if decimal == "," else ","
    grouped = any(_GROUPED[decimal].fullmatch(cell) for cell in cells)
    sure = commas > points or any(_POINT_NUMBER.fullmatch(c) and "," in c for c in cells)
    return decimal, other if grouped and sure else ""
