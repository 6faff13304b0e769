"""Which values stand in every one of several sets: exact, in bounded memory."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from plait.alignment.group import ELEMENT_BYTES
from plait.errors import ProtocolError


def common_places(sets: Sequence[Any], most_at_once: int = 1 << 21) -> list[Any]:
    """For each of several arrays (N_i, 32) of bytes, the ascending places of the values that all of them hold.

    Values are compared in buckets of about `most_at_once` values (200 MB).  Group elements spread evenly over buckets.
    """
    found: list[list[Any]] = [[] for _ in sets]
    for buckets in _buckets(sets, most_at_once):
        for kept, places in zip(found, _match(sets, buckets), strict=True):
            kept.append(places)
    return [np.sort(np.concatenate(kept)) if kept else np.empty(0, np.int64) for kept in found]


def _buckets(sets: Sequence[Any], most_at_once: int) -> Iterator[list[Any]]:
    """The places of each set whose values fall into one bucket, for every bucket."""
    count = max(1, -(-sum(map(len, sets)) // most_at_once))
    first = [np.ascontiguousarray(values[:, :4]).view("<u4")[:, 0] % count for values in sets]
    for bucket in range(count):
        yield [np.flatnonzero(of == bucket) for of in first]


def _match(sets: Sequence[Any], buckets: list[Any]) -> Iterator[Any]:
    values = np.concatenate([values[places] for values, places in zip(sets, buckets, strict=True)])
    owner = np.repeat(np.arange(len(sets)), [len(places) for places in buckets])
    words = values.reshape(-1, ELEMENT_BYTES).view("<u8")
    order = np.lexsort(words.T)
    words, owner = words[order], owner[order]
    begins = np.flatnonzero(np.append(True, (words[1:] != words[:-1]).any(axis=1))) if len(words) else np.empty(0, int)
    sizes = np.diff(np.append(begins, len(words)))
    _need_distinct(owner, begins, sizes)
    shared = np.repeat(sizes == len(sets), sizes)
    places = np.concatenate(buckets)[order]
    for i in range(len(sets)):
        yield places[shared & (owner == i)]


def _need_distinct(owner: Any, begins: Any, sizes: Any) -> None:
    """Refuse a set that holds a value twice.

    lexsort is stable, so equal values stand in the order of their owners, and those of one owner side by side.
    """
    same = np.ones(len(owner), bool)
    same[begins] = False
    repeated = np.flatnonzero(same[1:] & (owner[1:] == owner[:-1])) if len(owner) else np.empty(0, int)
    if repeated.size:
        raise ProtocolError(
            f"every blinded id must come once. Found {repeated.size} repeated in set {owner[repeated[0]]}. "
            "A party is faulty, or not honest."
        )
