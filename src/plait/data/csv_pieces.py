"""A CSV file cut into pieces of whole rows, in UTF-8, without its header."""

import codecs
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from plait.data.csv_format import CsvFormat
from plait.errors import InputError

_PIECE_BYTES = 4 << 20  # 4 MiB: thousands of rows, and a few pieces at a time need little memory
_LONGEST_ROW = 64 << 20  # bytes: a longer row is a quote that nobody closed
_LIKE_ASCII = ("utf-8", "utf-8-sig", "ascii")
_NEWLINE, _RETURN = 10, 13  # the bytes that end a row


@dataclass(frozen=True)
class Piece:
    """Whole rows of a file.

    regular   whether quotes stand only around whole fields, and rows end in a newline
    quoted    whether there are quotes at all
    """

    data: bytes
    regular: bool
    quoted: bool

    @property
    def gaps(self) -> bool:
        """Whether there may be empty lines, which are rows with too few fields."""
        return self.data.startswith((b"\n", b"\r\n")) or b"\n\n" in self.data or b"\n\r\n" in self.data

    @cached_property
    def rows(self) -> int:
        """Rows of a piece without quotes."""
        return self.data.count(b"\n") + (not self.data.endswith(b"\n"))

    def even(self, separator: str, width: int) -> bool:
        """Whether all rows of a piece without quotes have so many fields."""
        if len(separator.encode()) != 1:
            return False
        found = np.frombuffer(self.data, np.uint8)
        ends = np.flatnonzero(found == _NEWLINE)
        if not self.data.endswith(b"\n"):
            ends = np.append(ends, found.size)
        between = np.searchsorted(np.flatnonzero(found == ord(separator)), ends)
        return bool((np.diff(between, prepend=0) == width - 1).all())


def pieces_of(path: Path, form: CsvFormat) -> Iterator[Piece]:
    """The rows after the header."""
    quote = form.quote.encode()
    with path.open("rb") as file:
        read, rest, header = _utf8(file, form.encoding), b"", True
        size = min(_PIECE_BYTES, 1 + os.fstat(file.fileno()).st_size)  # a buffer of this size is made for each
        while True:
            data = read(size)
            piece = rest + data
            if header and (data or piece):
                after = _first_row_end(piece, quote)
                if after == 0 and data:
                    rest = piece
                    _check_length(path, rest)
                    continue
                piece, header = piece[after:] if after else b"", False
            end = _last_row_end(piece, quote) if data else len(piece)
            if end:
                yield _piece(piece[:end], form)
            rest = piece[end:]
            if not data:
                return
            _check_length(path, rest)


def _piece(data: bytes, form: CsvFormat) -> Piece:
    quote = form.quote.encode()
    quoted = quote in data
    if not quoted and b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    regular = data.count(b"\r") == data.count(b"\r\n") and not (quoted and _odd_quotes(data, quote, form))
    return Piece(data, regular, quoted)


def _odd_quotes(data: bytes, quote: bytes, form: CsvFormat) -> bool:
    """Whether some quote stands within a field, where it means itself."""
    if len(quote) != 1 or len(form.separator.encode()) != 1:
        return True
    found = np.frombuffer(data, np.uint8)
    at = np.flatnonzero(found == quote[0])
    around = np.zeros(256, bool)
    around[[_NEWLINE, _RETURN, quote[0], ord(form.separator)]] = True
    before = around[found[np.maximum(at - 1, 0)]] | (at == 0)
    after = around[found[np.minimum(at + 1, found.size - 1)]] | (at == found.size - 1)
    return at.size % 2 == 1 or not bool((before | after).all())


def _row_ends(piece: bytes, quote: bytes) -> npt.NDArray[np.intp]:
    """Where the newlines are that no quotes enclose."""
    found = np.frombuffer(piece, np.uint8)
    newlines = np.flatnonzero(found == _NEWLINE)
    if len(quote) != 1 or quote not in piece:
        return newlines
    before = np.searchsorted(np.flatnonzero(found == quote[0]), newlines)
    return newlines[before % 2 == 0]


def _first_row_end(piece: bytes, quote: bytes) -> int:
    end = piece.find(b"\n") + 1
    if quote not in piece[:end]:
        return end
    ends = _row_ends(piece, quote)
    return int(ends[0]) + 1 if ends.size else 0


def _last_row_end(piece: bytes, quote: bytes) -> int:
    if quote not in piece:
        return piece.rfind(b"\n") + 1
    ends = _row_ends(piece, quote)
    return int(ends[-1]) + 1 if ends.size else 0


def _utf8(file: BinaryIO, encoding: str) -> Callable[[int], bytes]:
    """A reader of the file's text as UTF-8, without a byte order mark."""
    if encoding.lower() in _LIKE_ASCII:
        if file.read(3) != codecs.BOM_UTF8:
            file.seek(0)
        return file.read
    decoder = codecs.getincrementaldecoder(encoding)()

    def read(size: int) -> bytes:
        while data := file.read(size):
            if text := decoder.decode(data):
                return text.lstrip("\ufeff").encode()
        return decoder.decode(b"", final=True).encode()

    return read


def _check_length(path: Path, rest: bytes) -> None:
    if len(rest) > _LONGEST_ROW:
        raise InputError(
            f"a row of {path.name} must be shorter than {_LONGEST_ROW >> 20} MiB. Found a longer one. Look for a quote "
            "that is not closed, or set data.quote."
        )
