"""Exact products in Z_q[X] / (X^n + 1) with q = 2^Q, by floating-point FFTs of split numbers.

A ring element is an array (..., n, Q / 8) of bytes, little-endian.  Its limbs of l bits are whole numbers x_i with
sum_i 2^(l i) x_i = x modulo q.  One limb times a small element is so small that its rounded double is exact.  Limbs
are joined by carries in int64.  Since X^(n/2) = i in C[X] / (X^(n/2) - i), a real element of length n
is a complex one of length n / 2:  transform(a) = FFT(twist * (a_low + i a_high)),  twist_k = exp(i pi k / n).

Why powers of two: limbs are bytes, wrapping costs nothing, and no product needs a modular reduction.  The hardness of
ring-LWE and module-LWE does not depend on the arithmetic form of q (Peikert, Regev, Stephens-Davidowitz 2017;
Langlois, Stehlé 2015).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.fft

from plait.errors import ProtocolError
from plait.protection.parameters import DROPPED_BITS, RING_DEGREE

Bytes = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int64]
Spectrum = npt.NDArray[np.complex128]

SECRET_LIMB_BITS = 40  # a limb times a ternary element: its rounding error has standard deviation 0.007, 1/70 of 1/2
_WORD = 8  # bytes of a 64-bit word
_LOW_40 = (1 << 40) - 1  # the bits of one limb
_HALF = RING_DEGREE // 2
_TWIST = np.exp(1j * np.pi * np.arange(_HALF) / RING_DEGREE)
_UNTWIST = _TWIST.conj()
_ROUNDING_LIMIT = 0.25  # a result farther than this from a whole number was not exact


def transform(element: npt.NDArray[Any]) -> Spectrum:
    """The spectrum (..., n / 2) of a real element (..., n)."""
    folded = np.empty((*element.shape[:-1], _HALF), dtype=np.complex128)
    folded.real, folded.imag = element[..., :_HALF], element[..., _HALF:]
    folded *= _TWIST
    return np.asarray(scipy.fft.fft(folded, axis=-1, overwrite_x=True))


def inverse(spectrum: Spectrum) -> Whole:
    """The whole numbers (..., n) whose spectrum this is."""
    folded = scipy.fft.ifft(spectrum, axis=-1)
    folded *= _UNTWIST
    found = np.concatenate([folded.real, folded.imag], axis=-1)
    rounded = np.rint(found)
    np.subtract(found, rounded, out=found)
    if max(found.max(), -found.min()) > _ROUNDING_LIMIT:  # impossible within the bounds of parameters.py
        raise ProtocolError("a product in the ring must be exact. It was not. Report this as an error of plait.")
    return rounded.astype(np.int64)


def balanced_limbs(element: Bytes, limb_bits: int) -> npt.NDArray[np.float64]:
    """Limbs (count, ..., n) in [-2^(l-1), 2^(l-1)] of an element; a carry out of the last limb is a multiple of q."""
    out = limbs(element, limb_bits)
    bits = 8 * element.shape[-1]
    for i, limb in enumerate(out):
        size = 2.0 ** min(limb_bits, bits - limb_bits * i)
        carry = limb >= size / 2
        limb -= size * carry
        if i + 1 < len(out):
            out[i + 1] += carry
    return out


def limbs(element: Bytes, limb_bits: int) -> npt.NDArray[np.float64]:
    """Limbs (count, ..., n) in [0, 2^l) of an element, l <= 56."""
    *shape, bytes_each = element.shape
    width = limb_bits // 8
    starts = range(0, bytes_each, width)
    out = np.empty((len(starts), *shape))
    data = _readable(element)
    for limb, start in zip(out, starts, strict=True):
        limb.reshape(-1)[:] = _read(data, start, bytes_each, min(width, bytes_each - start), limb.size)
    return out


def read_little(numbers: Bytes) -> Whole:
    """The numbers (...) that up to seven little-endian bytes (..., width) stand for."""
    *shape, width = numbers.shape
    return _read(_readable(numbers), 0, width, width, int(np.prod(shape))).reshape(shape)


def _readable(element: Bytes) -> bytes:
    """The bytes, padded so that a whole word can be read from each of them on."""
    return element.tobytes() + bytes(_WORD)


def _read(data: bytes, start: int, stride: int, width: int, count: int) -> Whole:
    """`count` numbers of `width` bytes, every `stride` bytes: whole words, of which the upper bytes are cut off."""
    words: Whole = np.ndarray((count,), dtype="<i8", buffer=data, offset=start, strides=(stride,))
    return words & ((1 << (8 * width)) - 1)


def join(limbs: list[Whole], limb_bits: int, bytes_each: int) -> Bytes:
    """sum_i 2^(l i) limbs_i modulo 2^(8 bytes_each), as bytes; limbs may have any sign and up to 62 bits."""
    width = limb_bits // 8
    out = np.empty((*limbs[0].shape, bytes_each), dtype=np.uint8)
    carry: Any = 0
    for i, limb in enumerate(limbs):
        value = limb + carry
        part = out[..., i * width : (i + 1) * width]
        part[...] = value.astype("<i8")[..., None].view(np.uint8)[..., : part.shape[-1]]
        carry = value >> limb_bits
    return out


def join_high(limbs: list[Whole], bytes_each: int) -> Bytes:
    """floor(sum_i 2^(40 i) limbs_i / 2^40) modulo 2^(8 bytes_each), as bytes; three limbs, 7 to 10 bytes."""
    low = (limbs[0] >> DROPPED_BITS) + limbs[1]
    high = limbs[2] + (low >> 40)
    out = np.empty((*low.shape, bytes_each), dtype=np.uint8)
    words = ((low & _LOW_40) | (high << 40)).astype("<i8", copy=False)
    first = min(bytes_each, 8)
    out[..., :first] = words[..., None].view(np.uint8)[..., :first]
    if bytes_each > 8:
        rest = (high >> 24).astype("<i8", copy=False)
        out[..., 8:] = rest[..., None].view(np.uint8)[..., : bytes_each - 8]
    return out


def reversed_element(element: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """rev(a)(X) = a(1 / X): the constant coefficient of rev(a) b is the inner product <a, b>."""
    out = np.empty_like(element)
    out[..., 0] = element[..., 0]
    out[..., 1:] = -element[..., :0:-1]
    return out
