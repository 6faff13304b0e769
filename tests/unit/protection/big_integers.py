"""A second implementation of the ring with Python's integers: a polynomial is packed into one large number."""

import numpy as np

from plait.protection.parameters import RING_DEGREE


def numbers(element: np.ndarray) -> list[int]:
    """The coefficients of an element (n, bytes)."""
    return [int.from_bytes(row.tobytes(), "little") for row in element]


def negacyclic(a: list[int], small: np.ndarray, modulus: int) -> list[int]:
    """a times a small element, modulo X^n + 1 and the modulus."""
    bits = 8 * (-(-(modulus.bit_length() + 40) // 8))
    positive, negative = (_product(a, np.maximum(sign * small, 0), bits) for sign in (1, -1))
    full = [x - y for x, y in zip(positive, negative, strict=True)]
    return [(full[k] - full[k + RING_DEGREE]) % modulus for k in range(RING_DEGREE)]


def _product(a: list[int], b: np.ndarray, bits: int) -> list[int]:
    width = bits // 8
    packed_a = int.from_bytes(b"".join(x.to_bytes(width, "little") for x in a), "little")
    packed_b = int.from_bytes(b"".join(int(x).to_bytes(width, "little") for x in b), "little")
    data = (packed_a * packed_b).to_bytes(2 * RING_DEGREE * width, "little")
    return [int.from_bytes(data[i * width : (i + 1) * width], "little") for i in range(2 * RING_DEGREE)]


def inner_products(columns: np.ndarray, vector: np.ndarray) -> list[int]:
    """columns^T vector in Python's integers."""
    return [sum(int(x) * int(y) for x, y in zip(column, vector, strict=True)) for column in columns.T]
