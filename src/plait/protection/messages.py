"""The bytes of the encrypted gradient's three messages.  A message of any other size or version is refused unread.

    offer     coordinator -> party, once      rows N, the coordinator's nonce
    hints     party -> coordinator, once      parameters, N, d, the party's nonce, h (d, n)
    gradient  coordinator -> party, a round   parameters, N, d, round, exponent, digest of the hints, and for each key
                                              b (C, 2048), p_t (n), k (its columns)

Whole numbers in headers are big-endian; coefficients are little-endian.
"""

import hashlib
import itertools
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plait.errors import ProtocolError
from plait.protection.parameters import MAX_ROWS, RING_DEGREE, SETS, Parameters, chunks_of

Bytes = npt.NDArray[np.uint8]

VERSION = 2  # version of the three formats together
NONCE_BYTES = 32  # bytes of each side's part of the public seed
MAX_COLUMNS = 4096  # columns of one party: more would take over 400 MB of hints
MAX_EXPONENT = 1100  # largest power of two: beyond it a double overflows
_OFFER = struct.Struct(">4sBI32s")
_HINTS = struct.Struct(">4sBBII32s")
_GRADIENT = struct.Struct(">4sBBIIQh32s")
_OFFER_MARK, _HINTS_MARK, _GRADIENT_MARK = b"PLpo", b"PLph", b"PLpg"


@dataclass(frozen=True)
class Offer:
    """The coordinator's half of the public seed, for a table of so many rows."""

    rows: int
    nonce: bytes

    def encode(self) -> bytes:
        return _OFFER.pack(_OFFER_MARK, VERSION, self.rows, self.nonce)

    @staticmethod
    def decode(data: bytes) -> "Offer":
        mark, version, rows, nonce = _header(_OFFER, data, "offer", exact=True)
        _check_head(mark, _OFFER_MARK, version, rows, 1)
        return Offer(rows, nonce)


@dataclass(frozen=True)
class Hints:
    """A party's encrypted columns h (d, n, bytes) and its half of the public seed."""

    parameters: Parameters
    rows: int
    nonce: bytes
    elements: Bytes

    @property
    def columns(self) -> int:
        return int(self.elements.shape[0])

    def encode(self) -> bytes:
        head = _HINTS.pack(_HINTS_MARK, VERSION, self.parameters.code, self.rows, self.columns, self.nonce)
        return head + self.elements.tobytes()

    @staticmethod
    def decode(data: bytes) -> "Hints":
        mark, version, code, rows, columns, nonce = _header(_HINTS, data, "hints")
        _check_head(mark, _HINTS_MARK, version, rows, columns)
        parameters = _parameters(code)
        shape = (columns, parameters.dimension, parameters.hint_bytes)
        (elements,) = _split(data[_HINTS.size :], [shape], "hints")
        return Hints(parameters, rows, nonce, elements)

    def digest(self) -> bytes:
        """SHA-256 of the encoded message: binds a round's secret to these hints."""
        return hashlib.sha256(self.encode()).digest()


@dataclass(frozen=True)
class KeyPart:
    """What one round secret encrypts: b (C, 2048, w), p_t (k, 2048, w) and k_j (columns of the key, w).

    A number has w bytes.
    """

    gradient: Bytes
    image: Bytes
    keys: Bytes


@dataclass(frozen=True)
class EncryptedGradient:
    """One round's message to one party."""

    parameters: Parameters
    rows: int
    columns: int
    round: int
    exponent: int
    hints_digest: bytes
    parts: tuple[KeyPart, ...]

    def encode(self) -> bytes:
        head = _GRADIENT.pack(
            _GRADIENT_MARK,
            VERSION,
            self.parameters.code,
            self.rows,
            self.columns,
            self.round,
            self.exponent,
            self.hints_digest,
        )
        arrays = [array for part in self.parts for array in (part.gradient, part.image, part.keys)]
        return b"".join([head, *(array.tobytes() for array in arrays)])

    @staticmethod
    def decode(data: bytes) -> "EncryptedGradient":
        head = _header(_GRADIENT, data, "encrypted gradient")
        mark, version, code, rows, columns, number, exponent, digest = head
        _check_head(mark, _GRADIENT_MARK, version, rows, columns)
        parameters = _parameters(code)
        if abs(exponent) > MAX_EXPONENT:
            raise ProtocolError(f"an exponent must be within {MAX_EXPONENT}. Found {exponent}. End the run.")
        shapes: list[tuple[int, ...]] = []
        for start, stop in key_ranges(columns, parameters):
            one = (RING_DEGREE, parameters.sent_bytes)
            shapes += [(chunks_of(rows), *one), (parameters.rank, *one), (stop - start, parameters.sent_bytes)]
        arrays = _split(data[_GRADIENT.size :], shapes, "encrypted gradient")
        parts = tuple(KeyPart(*arrays[i : i + 3]) for i in range(0, len(arrays), 3))
        return EncryptedGradient(parameters, rows, columns, number, exponent, digest, parts)


def offer_size() -> int:
    """Bytes of an offer."""
    return _OFFER.size


def hints_size(columns: int, parameters: Parameters) -> int:
    """Bytes of the hints of so many columns."""
    return _HINTS.size + columns * parameters.dimension * parameters.hint_bytes


def gradient_size(rows: int, columns: int, parameters: Parameters) -> int:
    """Bytes of a round's message for a table of so many rows and columns."""
    elements = (chunks_of(rows) + parameters.rank) * RING_DEGREE * len(key_ranges(columns, parameters)) + columns
    return _GRADIENT.size + elements * parameters.sent_bytes


def key_ranges(columns: int, parameters: Parameters) -> list[tuple[int, int]]:
    """The columns [start, stop) of each key: as few keys as the set allows, of nearly equal size."""
    count = -(-columns // parameters.columns_per_key)
    edges = [columns * i // count for i in range(count + 1)]
    return list(itertools.pairwise(edges))


def _header(layout: struct.Struct, data: bytes, what: str, exact: bool = False) -> tuple[Any, ...]:
    if len(data) < layout.size or (exact and len(data) != layout.size):
        raise ProtocolError(f"the {what} must have a header of {layout.size} bytes. Found {len(data)}. End the run.")
    return layout.unpack_from(data)


def _check_head(mark: bytes, expected: bytes, version: int, rows: int, columns: int) -> None:
    if mark != expected or version != VERSION:
        raise ProtocolError(
            f"a protected message must start with {expected!r} and version {VERSION}. Found {mark!r} and {version}."
            " Use the same version of plait everywhere."
        )
    if not 0 < rows <= MAX_ROWS or not 0 < columns <= MAX_COLUMNS:
        raise ProtocolError(
            f"a protected table must have 1 to {MAX_ROWS} rows and 1 to {MAX_COLUMNS} columns."
            f" Found {rows} and {columns}. Use fewer columns."
        )


def _parameters(code: int) -> Parameters:
    for parameters in SETS:
        if parameters.code == code:
            return parameters
    raise ProtocolError(
        f"parameters must be one of {[p.code for p in SETS]}. Found {code}. Use the same version of plait."
    )


def _split(body: bytes, shapes: list[tuple[int, ...]], what: str) -> list[Bytes]:
    sizes = [int(np.prod(shape)) for shape in shapes]
    if len(body) != sum(sizes):
        raise ProtocolError(
            f"the {what} must hold {sum(sizes)} bytes after its header. Found {len(body)}. End the run."
        )
    whole = np.frombuffer(body, dtype=np.uint8)
    edges = np.cumsum([0, *sizes])
    return [whole[a:b].reshape(s) for a, b, s in zip(edges[:-1], edges[1:], shapes, strict=True)]
