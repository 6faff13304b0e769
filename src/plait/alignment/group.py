"""ristretto255 in batches: texts become group elements, elements are raised to a secret exponent, on every core.

Elements are 32 canonical bytes (RFC 9496), one after another.  libsodium does the arithmetic in constant time and
outside the interpreter's lock, so threads use every core.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from plait.errors import ProtocolError

ELEMENT_BYTES = 32  # bytes of an encoded element: RFC 9496
HASH_BYTES = 64  # bytes that the one-way map takes: RFC 9496
DOMAIN = b"plait-alignment-v1-with-ristretto255_XMD:SHA-512_R255MAP_RO_"
_SLICE = 256  # elements per task of a thread: about 20 ms, far longer than a task's start and far shorter than a batch

Bytes = bytes | memoryview


def hash_to_group(message: bytes, domain: bytes = DOMAIN) -> bytes:
    """The element that RFC 9380 derives from a message: expand_message_xmd with SHA-512, then the one-way map."""
    out = np.empty(ELEMENT_BYTES, np.uint8)
    _sodium().crypto_core_ristretto255_from_hash(out.ctypes.data, _uniform(message, domain))
    return out.tobytes()


def new_exponent(seed: bytes) -> bytes:
    """An exponent from 64 uniform bytes."""
    if len(seed) != HASH_BYTES:
        raise ValueError(f"an exponent needs {HASH_BYTES} bytes. Found {len(seed)}.")
    out = np.empty(ELEMENT_BYTES, np.uint8)
    _sodium().crypto_core_ristretto255_scalar_reduce(out.ctypes.data, seed)
    return out.tobytes()


def hash_and_blind(messages: Sequence[bytes], exponent: bytes) -> bytes:
    """The elements of these messages, each raised to the exponent."""
    sodium = _sodium()
    derive, raise_to = sodium.crypto_core_ristretto255_from_hash, sodium.crypto_scalarmult_ristretto255
    out = np.empty(len(messages) * ELEMENT_BYTES, np.uint8)
    at = out.ctypes.data

    def work(first: int, last: int) -> None:
        element = np.empty(ELEMENT_BYTES, np.uint8)
        place = element.ctypes.data
        for i in range(first, last):
            derive(place, _uniform(messages[i], DOMAIN))
            if raise_to(at + i * ELEMENT_BYTES, exponent, place):
                raise ArithmeticError("a hash gave the identity element")  # has probability 2^-252

    _on_every_core(len(messages), work)
    return out.tobytes()


def blind(elements: Bytes, exponent: bytes) -> bytes:
    """Every element raised to the exponent; ProtocolError names the first that is malformed or the identity."""
    given = _given(elements)
    out = np.empty_like(given)
    source, target, raise_to = given.ctypes.data, out.ctypes.data, _sodium().crypto_scalarmult_ristretto255

    def work(first: int, last: int) -> None:
        for at in range(first * ELEMENT_BYTES, last * ELEMENT_BYTES, ELEMENT_BYTES):
            if raise_to(target + at, exponent, source + at):
                raise _refused(at // ELEMENT_BYTES)

    _on_every_core(given.size // ELEMENT_BYTES, work)
    return out.tobytes()


def check(elements: Bytes) -> None:
    """Raise ProtocolError unless all are canonical encodings of elements, none of them the identity."""
    given = _given(elements)
    source, is_valid = given.ctypes.data, _sodium().crypto_core_ristretto255_is_valid_point

    def work(first: int, last: int) -> None:
        for i in range(first, last):
            if not is_valid(source + i * ELEMENT_BYTES):
                raise _refused(i)

    _on_every_core(given.size // ELEMENT_BYTES, work)
    zero = np.flatnonzero(~given.reshape(-1, ELEMENT_BYTES).any(axis=1))
    if zero.size:
        raise _refused(int(zero[0]))


def _uniform(message: bytes, domain: bytes) -> bytes:
    """64 uniform bytes: expand_message_xmd of RFC 9380, section 5.3.1, for SHA-512 and one block."""
    suffix = domain + bytes([len(domain)])
    first = hashlib.sha512(bytes(128) + message + HASH_BYTES.to_bytes(2, "big") + b"\0" + suffix).digest()
    return hashlib.sha512(first + b"\1" + suffix).digest()


def _given(elements: Bytes) -> Any:
    if len(elements) % ELEMENT_BYTES:
        raise ProtocolError(f"group elements have {ELEMENT_BYTES} bytes each. Found {len(elements)} bytes in all.")
    return np.frombuffer(elements, np.uint8)


def _refused(index: int) -> ProtocolError:
    return ProtocolError(
        f"blinded ids must be canonical ristretto255 elements, none of them the identity. Found another at "
        f"place {index} of a message. The sender is faulty, or not honest."
    )


def _on_every_core(count: int, work: Callable[[int, int], None]) -> None:
    """Do the work in slices; an error of any slice is raised."""
    starts = range(0, count, _SLICE)
    for _ in _pool().map(lambda start: work(start, min(start + _SLICE, count)), starts):
        pass


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(len(os.sched_getaffinity(0)), "plait-group")


@cache
def _sodium() -> Any:
    """libsodium, as rbcl brings it; loaded when it is first needed."""
    import rbcl

    library = rbcl._sodium
    with contextlib.suppress(OSError):
        Path(library._name).unlink()  # rbcl unpacks the library anew for every process, and would leave it behind
    library.crypto_core_ristretto255_from_hash.argtypes = [c_void_p, c_void_p]
    library.crypto_core_ristretto255_scalar_reduce.argtypes = [c_void_p, c_void_p]
    library.crypto_core_ristretto255_is_valid_point.argtypes = [c_void_p]
    library.crypto_scalarmult_ristretto255.argtypes = [c_void_p, c_void_p, c_void_p]
    return library
