"""The encrypted gradient: a party learns <E_j, G> for its columns and nothing else of G.  Semi-honest.

    seed = SHA-256 of both nonces gives the public a_1..a_C, each of k ring elements, and p of k times k
    once    party:        h_j = sum_i rev(E_ij) a_i + u_j p + e'_j
    round   coordinator:  b_i = -a_i s + e_i + 2^delta G_i,   p_t = -p s + e,   k_j = <h_j s>_0 + flood_j
            party:        <E_j, b> + <u_j p_t>_0 + k_j = 2^delta <E_j, G> + noise + flood_j;  rounded: <E_j, G>

<.>_0 is the constant coefficient.  u_j, h_j and s have k elements; u_j and s are ternary, e and e' binomial, everything
modulo q = 2^Q.  The round secret s is a function of (secret, seed, hints, round, G): the same round gives the same
bytes after a restart, and anything else gives independent ones.  docs/protection.md has the security argument.
"""

import hashlib
import secrets
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plait.errors import ProtocolError
from plait.protection import ring
from plait.protection.fixed_point import Columns
from plait.protection.messages import NONCE_BYTES, EncryptedGradient, Hints, KeyPart, Offer, key_ranges
from plait.protection.parameters import DROPPED_BITS, RING_DEGREE, Parameters, chunks_of
from plait.protection.randomness import KEY_BYTES, Stream, derive

Bytes = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int64]

_CHUNKS_AT_ONCE = 32  # ring elements that are multiplied together: they stay in the cache
_HINTS_AT_ONCE, _NUMBERS_AT_ONCE = 4, 1 << 21  # columns whose hints are formed together, and the numbers in them
_COLUMNS_AT_ONCE = 32  # columns whose u_j are turned from bytes into doubles together: 2 MB
_MANTISSA = 53  # bits of a whole number that a double holds exactly
_LARGEST_REST = 4  # quarters of the flood's bound: flood is at most 4, dropped bits and noise below 1; 8 round right
_FLOOD_BYTES = 16  # bytes drawn for each flood, of which f + 1 <= 69 bits are used


def public_seed(offer: Offer, party_nonce: bytes) -> bytes:
    """The seed of a_1..a_C and p: neither side alone chooses it."""
    return hashlib.sha256(b"plait public seed 1" + offer.encode() + party_nonce).digest()


def public_elements(parameters: Parameters, rows: int, seed: bytes) -> Iterator[Bytes]:
    """a_1..a_C and then the rows of p: in all (C + k, k, 2048, Q / 8) uniform bytes, some elements at a time."""
    stream = Stream(derive(seed, "public elements", parameters.name))
    shape = (parameters.rank, RING_DEGREE, parameters.modulus_bytes)
    elements = chunks_of(rows) + parameters.rank
    for first in range(0, elements, _CHUNKS_AT_ONCE):
        some = min(_CHUNKS_AT_ONCE, elements - first)
        yield stream.bytes(some * int(np.prod(shape))).reshape(some, *shape)


def _public_spectra(parameters: Parameters, rows: int, seed: bytes, limb_bits: int) -> Iterator[ring.Spectrum]:
    """The spectra (limbs, some, k, 1024) of the public elements."""
    for some in public_elements(parameters, rows, seed):
        yield ring.transform(ring.balanced_limbs(some, limb_bits))


class GradientDecryptor:
    """A party's side: it keeps E and u_1..u_d, makes the hints once, and decrypts each round's message."""

    def __init__(self, columns: Columns, offer: Offer, secret: bytes, nonce: bytes | None = None) -> None:
        if offer.rows != columns.shape[0]:
            raise ProtocolError(
                f"the offer must be for {columns.shape[0]} rows. Found {offer.rows}. Align the tables anew."
            )
        self.columns, self.parameters = columns, columns.parameters
        self.nonce = secrets.token_bytes(NONCE_BYTES) if nonce is None else nonce
        self._seed = public_seed(offer, self.nonce)
        self._secret = derive(secret, "hints", self._seed, _digest_of(columns))
        self._digit_bits = _MANTISSA - int(columns.largest_column_sum()).bit_length()

    @cached_property
    def hints(self) -> Hints:
        """h (d, n): encryptions of this party's columns under keys that it keeps."""
        parameters, (rows, count) = self.parameters, self.columns.shape
        found = _public_spectra(parameters, rows, self._seed, parameters.hint_limb_bits)
        by_frequency = np.concatenate([np.ascontiguousarray(some.transpose(3, 1, 0, 2)) for some in found], axis=1)
        elements = np.empty((count, parameters.dimension, parameters.hint_bytes), dtype=np.uint8)
        at_once = max(1, min(_HINTS_AT_ONCE, _NUMBERS_AT_ONCE // rows))
        for first in range(0, count, at_once):
            stop = min(first + at_once, count)
            elements[first:stop] = self._some_hints(first, stop, by_frequency)
        return Hints(parameters, rows, self.nonce, elements)

    def _some_hints(self, first: int, stop: int, spectra: ring.Spectrum) -> Bytes:
        """sum_i rev(E_ij) a_i + u_j p + e'_j, rounded, from spectra (1024, C + k, limbs, k) of a_1..a_C and p."""
        parameters, rank = self.parameters, self.parameters.rank
        _, chunks, limb_count, _ = spectra.shape
        small = np.zeros((stop - first, chunks, RING_DEGREE))
        for j in range(first, stop):
            small[j - first].reshape(-1)[: self.columns.shape[0]] = self.columns.column(j)
        small[:, -rank:] = self._masks[first:stop].reshape(-1, rank, RING_DEGREE)
        transformed = np.ascontiguousarray(ring.transform(small).transpose(2, 0, 1))
        columns = transformed[..., :-rank]
        np.conjugate(columns, out=columns)  # the spectra of the reversed elements
        products = transformed @ spectra.reshape(*spectra.shape[:2], -1)
        found = ring.inverse(np.ascontiguousarray(products.transpose(2, 1, 0)))
        limbs = list(found.reshape(limb_count, rank, stop - first, RING_DEGREE).swapaxes(1, 2))
        streams = (Stream(derive(self._secret, "hint error", j)) for j in range(first, stop))
        errors = np.stack([stream.binomial(parameters.dimension) for stream in streams])
        limbs[0] = limbs[0] + errors.reshape(limbs[0].shape) + ((1 << parameters.hint_dropped_bits) >> 1)
        whole = ring.join(limbs, parameters.hint_limb_bits, parameters.modulus_bytes)
        dropped = parameters.hint_dropped_bits // 8
        return whole.reshape(stop - first, parameters.dimension, -1)[..., dropped:]

    @cached_property
    def _masks(self) -> npt.NDArray[np.int8]:
        """u (d, n), ternary; u_j is used for column j of this table only."""
        streams = (Stream(derive(self._secret, "mask", j)) for j in range(self.columns.shape[1]))
        return np.stack([stream.ternary(self.parameters.dimension) for stream in streams])

    @cached_property
    def _hints_digest(self) -> bytes:
        return self.hints.digest()

    def decrypt(self, message: EncryptedGradient) -> Whole:
        """<E_j, G> (d,), exactly."""
        self._check(message)
        ranges = key_ranges(message.columns, self.parameters)
        sums = [
            x for part, (start, stop) in zip(message.parts, ranges, strict=True) for x in self._sums(part, start, stop)
        ]
        return np.array([self._rounded(x) for x in sums], dtype=np.int64)

    def _check(self, message: EncryptedGradient) -> None:
        found = (message.parameters, (message.rows, message.columns), message.hints_digest)
        if found != (self.parameters, self.columns.shape, self._hints_digest):
            raise ProtocolError("an encrypted gradient must be for this party's hints. Found another. Start a new run.")

    def _sums(self, part: KeyPart, start: int, stop: int) -> Iterator[int]:
        """<E_j, b> + <u_j p_t>_0 + k_j for the columns of one key: whole numbers nearest to zero modulo 2^(8 w)."""
        half = 1 << (8 * self.parameters.sent_bytes - 1)
        b = part.gradient.reshape(-1, self.parameters.sent_bytes)[: self.columns.shape[0]]
        products, images = self._products(b, start, stop), self._images(part.image, start, stop)
        for product, image, key in zip(products, images, part.keys, strict=True):
            yield (product + image + int.from_bytes(key.tobytes(), "little") + half) % (2 * half) - half

    def _products(self, numbers: Bytes, start: int, stop: int) -> list[int]:
        """<E_j, b> for each column, at least modulo 2^(8 w)."""
        if self._wrapping is not None and numbers.shape[1] < 8:  # int64 wraps, and 2^(8 w) divides 2^64
            return [int(x) for x in self._wrapping[start:stop] @ ring.read_little(numbers)]
        digits = _digits(numbers, self._digit_bits)
        return _joined(np.asarray(self.columns.values[:, start:stop].T @ digits), self._digit_bits)

    @cached_property
    def _wrapping(self) -> Any:
        """E^T as int64 where E is sparse."""
        values = self.columns.values
        return values.T.astype(np.int64).tocsr() if sp.issparse(values) else None

    def _images(self, image: Bytes, start: int, stop: int) -> list[int]:
        """<u_j p_t>_0 for each column."""
        digit_bits = _MANTISSA - self.parameters.dimension.bit_length()
        digits = _digits(image.reshape(-1, self.parameters.sent_bytes), digit_bits)
        found: list[int] = []
        for first in range(start, stop, _COLUMNS_AT_ONCE):
            masks = self._turned_masks[first : min(first + _COLUMNS_AT_ONCE, stop)].astype(np.float64)
            found += _joined(masks @ digits, digit_bits)
        return found

    @cached_property
    def _turned_masks(self) -> npt.NDArray[np.int8]:
        return _turned(self._masks)

    def _rounded(self, total: int) -> int:
        """The whole number nearest to total / 2^(delta - t); ProtocolError where the rest exceeds flood and noise."""
        shift = self.parameters.scale_bits - DROPPED_BITS
        value = (total + (1 << (shift - 1))) >> shift
        rest = abs(total - (value << shift)) >> (self.parameters.flood_bits - DROPPED_BITS - 2)
        if abs(value) >= 1 << (self.parameters.column_bits + self.parameters.gradient_bits) or rest > _LARGEST_REST:
            raise ProtocolError("an encrypted gradient must open under this party's keys. It did not. End the run.")
        return value


class GradientEncryptor:
    """The coordinator's side for one party: it keeps that party's hints and encrypts each round's gradient."""

    def __init__(self, offer: Offer, hints: Hints, secret: bytes) -> None:
        if offer.rows != hints.rows:
            raise ProtocolError(f"hints must be for {offer.rows} rows. Found {hints.rows}. Align the tables anew.")
        if len(secret) != KEY_BYTES:
            raise ProtocolError(f"the coordinator's secret must have {KEY_BYTES} bytes. Found {len(secret)}.")
        self.parameters, self.rows, self.columns = hints.parameters, hints.rows, hints.columns
        self._seed, self._digest = public_seed(offer, hints.nonce), hints.digest()
        self._secret = derive(secret, "rounds", self._seed, self._digest)
        found = _public_spectra(self.parameters, self.rows, self._seed, ring.SECRET_LIMB_BITS)
        self._spectra = np.concatenate(list(found), axis=1)
        self._hint_limbs = ring.limbs(hints.elements, ring.SECRET_LIMB_BITS)

    def encrypt(self, gradient: Whole, exponent: int, round_number: int) -> EncryptedGradient:
        """The message of one round for G (N,) with ||G||_2 < 2^gamma."""
        norm = float(np.linalg.norm(gradient.astype(np.float64)))
        if gradient.shape != (self.rows,) or not norm < 2.0**self.parameters.gradient_bits:
            raise ProtocolError(
                f"an encoded gradient must have {self.rows} numbers and norm below 2^{self.parameters.gradient_bits}."
                f" Found {gradient.shape} and {norm:.3g}. Use encode_gradient()."
            )
        key = self._round_key(gradient, exponent, round_number)
        ranges = key_ranges(self.columns, self.parameters)
        parts = tuple(self._part(gradient, derive(key, i), *columns) for i, columns in enumerate(ranges))
        return EncryptedGradient(self.parameters, self.rows, self.columns, round_number, exponent, self._digest, parts)

    def _round_key(self, gradient: Whole, exponent: int, round_number: int) -> bytes:
        digest = hashlib.sha256(gradient.astype("<i8").tobytes()).digest()
        return derive(self._secret, round_number, exponent, digest)

    def _part(self, gradient: Whole, key: bytes, start: int, stop: int) -> KeyPart:
        rank = self.parameters.rank
        secret = Stream(derive(key, "secret")).ternary(self.parameters.dimension)
        errors = Stream(derive(key, "errors"))
        spectrum = ring.transform(-secret.reshape(rank, RING_DEGREE))
        chunks = self._spectra.shape[1]
        plain = np.zeros((chunks, RING_DEGREE), dtype=np.int64)
        plain.reshape(-1)[: self.rows] = gradient
        sealed = np.empty((chunks, RING_DEGREE, self.parameters.sent_bytes), dtype=np.uint8)
        for first in range(0, chunks, _CHUNKS_AT_ONCE):
            rows = slice(first, first + _CHUNKS_AT_ONCE)
            limbs = list(ring.inverse(np.einsum("lckf,kf->lcf", self._spectra[:, rows], spectrum)))
            limbs[0] += errors.binomial(limbs[0].size).reshape(limbs[0].shape) + (1 << (DROPPED_BITS - 1))
            limbs[1] += plain[rows] << (self.parameters.scale_bits - ring.SECRET_LIMB_BITS)
            sealed[rows] = ring.join_high(limbs, self.parameters.sent_bytes)
        return KeyPart(sealed[:-rank], sealed[-rank:], self._keys(secret, derive(key, "flood"), start, stop))

    def _keys(self, secret: npt.NDArray[np.int8], key: bytes, start: int, stop: int) -> Bytes:
        """k_j = <h_j s>_0 + flood_j without its low t bits, as bytes (stop - start, w)."""
        turned = _turned(secret).astype(np.float64)
        totals = _joined((self._hint_limbs[:, start:stop] @ turned).T, ring.SECRET_LIMB_BITS)
        width = self.parameters.sent_bytes
        found = bytearray()
        for total, flood in zip(totals, self._floods(key, stop - start), strict=True):
            whole = (total << self.parameters.hint_dropped_bits) + flood
            kept = (whole + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS
            found += (kept % (1 << (8 * width))).to_bytes(width, "little")
        return np.frombuffer(bytes(found), dtype=np.uint8).reshape(-1, width)

    def _floods(self, key: bytes, count: int) -> list[int]:
        """Whole numbers, uniform in [-2^f, 2^f)."""
        drawn = Stream(key).bytes(_FLOOD_BYTES * count).tobytes()
        bound = 1 << self.parameters.flood_bits
        starts = range(0, len(drawn), _FLOOD_BYTES)
        return [int.from_bytes(drawn[i : i + _FLOOD_BYTES], "little") % (2 * bound) - bound for i in starts]


def _turned(elements: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Each of the k ring elements of (..., n) reversed: <a b>_0 is the inner product of the reversed a and b."""
    return ring.reversed_element(elements.reshape(*elements.shape[:-1], -1, RING_DEGREE)).reshape(elements.shape)


def _joined(partial: npt.NDArray[np.float64], digit_bits: int) -> list[int]:
    """sum_i 2^(digit_bits i) partial_ji for each row j, from exact partial products (d, digits)."""
    return [sum(x << (digit_bits * i) for i, x in enumerate(row)) for row in partial.astype(np.int64).tolist()]


def _digits(numbers: Bytes, digit_bits: int) -> npt.NDArray[np.float64]:
    """Digits (N, count) of base 2^digit_bits, lowest first."""
    padded = np.zeros((numbers.shape[0], 16), dtype=np.uint8)
    padded[:, : numbers.shape[1]] = numbers
    low, high = padded.view("<u8").T
    count = -(-8 * numbers.shape[1] // digit_bits)
    out = np.empty((numbers.shape[0], count))
    mask = np.uint64((1 << digit_bits) - 1)
    for i in range(count):
        shift = digit_bits * i
        if shift >= 64:
            piece = high >> np.uint64(shift - 64)
        else:
            piece = low >> np.uint64(shift)
            if shift:
                piece = piece | (high << np.uint64(64 - shift))
        out[:, i] = piece & mask
    return out


def _digest_of(columns: Columns) -> bytes:
    """SHA-256 of the whole numbers: another table gets other masks u."""
    digest = hashlib.sha256(repr(columns.shape).encode())
    if sp.issparse(columns.values):
        for array in (columns.values.data, columns.values.indices, columns.values.indptr):
            digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
    else:
        digest.update(np.ascontiguousarray(columns.values).data)
    return digest.digest()
