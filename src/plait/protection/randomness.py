"""Streams of AES-256-CTR: the same key gives the same numbers, another key gives independent ones."""

import hashlib
import hmac

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from plait.protection.parameters import BINOMIAL_HALF

KEY_BYTES = 32  # bytes of an AES-256 key, which are those of a SHA-256 digest
_REJECT_FROM = 255  # bytes below it are uniform modulo 3
_SPARE_BYTES = 512  # bytes beyond `count`: about 32 of 8192 are rejected, so that these nearly always suffice
_POPULATION = np.array([bin(i).count("1") for i in range(1 << 16)], dtype=np.int8)


def derive(key: bytes, *context: bytes | str | int) -> bytes:
    """A 32-byte key: HMAC-SHA256 of the context, each part with its length, so that different contexts differ."""
    mac = hmac.new(key, digestmod=hashlib.sha256)
    for part in context:
        if isinstance(part, int):
            part = part.to_bytes(16, "big", signed=True)
        elif isinstance(part, str):
            part = part.encode()
        mac.update(len(part).to_bytes(8, "big") + part)
    return mac.digest()


class Stream:
    """The key stream of AES-256-CTR from counter 0; a key must be used for one stream only."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a stream key must have {KEY_BYTES} bytes. Found {len(key)}. Use derive().")
        self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()

    def bytes(self, count: int) -> npt.NDArray[np.uint8]:
        """The next `count` bytes."""
        return np.frombuffer(self._cipher.update(bytes(count)), dtype=np.uint8)

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """The next `count` uniform numbers of Z_2^64."""
        return self.bytes(8 * count).view("<u8")

    def ternary(self, count: int) -> npt.NDArray[np.int8]:
        """`count` uniform numbers of {-1, 0, 1}, by rejection."""
        drawn = self.bytes(count + _SPARE_BYTES)
        kept = drawn[drawn < _REJECT_FROM]
        while kept.size < count:
            drawn = self.bytes(_SPARE_BYTES)
            kept = np.concatenate([kept, drawn[drawn < _REJECT_FROM]])
        return (kept[:count] % 3).astype(np.int8) - 1

    def binomial(self, count: int) -> npt.NDArray[np.int64]:
        """`count` centred binomial numbers: the sum of 21 bits minus the sum of 21 others."""
        words = self.bytes(8 * count).view("<u2").reshape(count, 4)
        rest = np.uint16((1 << (BINOMIAL_HALF - 16)) - 1)
        positive = _POPULATION[words[:, 0]] + _POPULATION[words[:, 1] & rest]
        negative = _POPULATION[words[:, 2]] + _POPULATION[words[:, 3] & rest]
        return (positive - negative).astype(np.int64)
