"""A CSV file cut into pieces of whole rows, in UTF-8, without its header."""

import codecs
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from io import FileIO
from pathlib import Path

import numpy as np

from plait._threads import keep_freed_memory
from plait.data.csv_format import CsvFormat
from plait.errors import InputError

_PIECE_BYTES = 4 << 20  # 4 MiB: thousands of rows, and a few pieces at a time need little memory
_LONGEST_ROW = 64 << 20  # bytes: a longer row is a quote that nobody closed
_TAIL_BYTES = 64 << 10  # at the end of a piece: where most tables have the end of a row
_LIKE_ASCII = ("utf-8", "utf-8-sig", "ascii")
_NEWLINE, _RETURN = 10, 13  # the bytes that end a row


@dataclass(frozen=True)
class Piece:
    """Whole rows of a file."""

    data: bytes
    form: CsvFormat

    @cached_property
    def quoted(self) -> bool:
        """Whether there are quotes at all."""
        return self.form.quote.encode() in self.data

    @cached_property
    def regular(self) -> bool:
        """Whether quotes stand only around whole fields, and rows end in a newline."""
        ends = b"\r" not in self.data or self.data.count(b"\r") == self.data.count(b"\r\n")
        return ends and not (self.quoted and _odd_quotes(self.data, self.form.quote.encode(), self.form))

    @property
    def gaps(self) -> bool:
        """Whether there may be empty lines, which are rows with too few fields."""
        newlines = np.frombuffer(self.data, np.uint8) == _NEWLINE  # NumPy is faster than the methods of bytes here
        twice = self.data.startswith((b"\n", b"\r\n")) or bool((newlines[1:] & newlines[:-1]).any())
        return twice or (b"\r" in self.data and b"\n\r\n" in self.data)

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
    with path.open("rb", buffering=0) as file:  # large pieces need no buffer between
        read, rest, header = _utf8(file, form.encoding), b"", True
        size = min(_PIECE_BYTES, 1 + os.fstat(file.fileno()).st_size)  # a buffer of this size is made for each
        if size == _PIECE_BYTES:
            keep_freed_memory()  # pieces are as large as the ones before them
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
            end = _without_empty_lines(piece, _last_row_end(piece, quote) if data else len(piece))
            if end:
                yield _piece(piece[:end], form)
            if not data:
                return
            rest = piece[end:]
            _check_length(path, rest)


def _piece(data: bytes, form: CsvFormat) -> Piece:
    if b"\r" in data and form.quote.encode() not in data:
        data = data.replace(b"\r\n", b"\n")
    return Piece(data, form)


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


def _first_row_end(piece: bytes, quote: bytes) -> int:
    """Where the first row ends: at the first newline with an even number of quotes before it; 0 where none does."""
    end = piece.find(b"\n") + 1
    while end and piece.count(quote, 0, end) % 2:
        end = piece.find(b"\n", end) + 1
    return end


def _last_row_end(piece: bytes, quote: bytes) -> int:
    """Where the last whole row ends; 0 where none does."""
    end = piece.rfind(b"\n") + 1
    if quote not in piece:
        return end
    found = np.frombuffer(piece, np.uint8, end)
    quotes = int(np.count_nonzero(found == quote[0])) if len(quote) == 1 else 0
    while end and quotes % 2:
        before = piece.rfind(b"\n", 0, end - 1) + 1
        quotes -= piece.count(quote, before, end)
        end = before
    return end


def _without_empty_lines(piece: bytes, end: int) -> int:
    """Where the rows before `end` end, without empty lines after them: at the end of a file these mean nothing."""
    while piece.endswith((b"\n\n", b"\n\r\n"), 0, end):
        end -= 2 if piece.endswith(b"\r\n", 0, end) else 1
    return 0 if piece[:end] in (b"\n", b"\r\n") else end


def _utf8(file: FileIO, encoding: str) -> Callable[[int], bytes]:
    """A reader of the file's text as UTF-8, without a byte order mark."""
    if encoding.lower() in _LIKE_ASCII:
        if file.read(3) != codecs.BOM_UTF8:
            file.seek(0)
        return lambda size: _rows_up_to(file, size)
    decoder = codecs.getincrementaldecoder(encoding)()

    def read(size: int) -> bytes:
        while data := file.read(size):
            if text := decoder.decode(data):
                return text.lstrip("\ufeff").encode()
        return decoder.decode(b"", final=True).encode()

    return read


def _rows_up_to(file: FileIO, size: int) -> bytes:
    """Up to so many bytes, without the beginning of a row at their end where that is short: it need not be moved."""
    tail = os.pread(file.fileno(), _TAIL_BYTES, max(0, file.tell() + size - _TAIL_BYTES))
    end = tail.rfind(b"\n") + 1
    return file.read(size - len(tail) + end if size > len(tail) == _TAIL_BYTES and end else size)


def _check_length(path: Path, rest: bytes) -> None:
    if len(rest) > _LONGEST_ROW:
        raise InputError(
            f"a row of {path.name} must be shorter than {_LONGEST_ROW >> 20} MiB. Found a longer one. Look for a quote "
            "that is not closed, or set data.quote."
        )
