"""What a party keeps secret during one alignment: an exponent, and an order for every set that it passes on."""

import hashlib
from functools import cached_property
from typing import Any

import numpy as np

from plait.alignment import group

SEED_BYTES = 32  # bytes: 256 bits cannot be guessed, and one seed gives all secrets of an alignment


class Secret:
    """The secrets of one alignment.  All follow from one random seed, so that a restart has the same secrets."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes. Found {len(seed)}.")
        self._seed = seed

    @cached_property
    def exponent(self) -> bytes:
        return group.new_exponent(self._stream("exponent", group.HASH_BYTES))

    @cached_property
    def tag(self) -> bytes:
        """16 bytes that differ from secret to secret and tell nothing else about it."""
        return self._stream("tag", 16)

    def order(self, owner: str, size: int) -> Any:
        """A random permutation (size,) for the set of `owner`: what leaves at place q came at place order[q]."""
        keys = np.frombuffer(self._stream(f"order {owner}", 8 * size), "<u8")
        return np.argsort(keys, kind="stable")

    def _stream(self, purpose: str, size: int) -> bytes:
        """Bytes that nobody without the seed can tell from random ones."""
        return hashlib.shake_256(self._seed + purpose.encode()).digest(size)
