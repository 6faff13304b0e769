"""Columns of texts with few different values, by their codes; the keyed digest of a column of ids."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._texts import Texts


@dataclass(frozen=True)
class Coded:
    """A column of texts (N,) with few different values: the values, and the place of each row's value among them."""

    values: tuple[str, ...]
    codes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Coded":
        places: dict[str, int] = {}
        codes = np.fromiter((places.setdefault(text, len(places)) for text in texts), np.int32)
        return cls(tuple(places), codes)

    @classmethod
    def joined(cls, parts: Sequence["Coded"]) -> "Coded":
        """The rows of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        places: dict[str, int] = {}
        codes = []
        for part in parts:
            new = np.array([places.setdefault(value, len(places)) for value in part.values], np.int32)
            codes.append(new[part.codes] if new.size else part.codes)
        return cls(tuple(places), np.concatenate(codes) if codes else np.empty(0, np.int32))

    def renamed(self, values: Sequence[str]) -> "Coded":
        """The same rows with other texts for the values; some may become one."""
        return Coded.joined([Coded((), self.codes[:0]), Coded(tuple(values), self.codes)])

    def __len__(self) -> int:
        return int(self.codes.size)

    def __getitem__(self, rows: Any) -> "Coded":
        return Coded(self.values, np.atleast_1d(self.codes[rows]))

    @property
    def present(self) -> tuple[str, ...]:
        """The values that some row has."""
        return tuple(self.values[i] for i in np.unique(self.codes))

    def array(self) -> Any:
        """The texts (N,)."""
        return np.array(self.values or ("",))[self.codes]


def keyed_digest(ids: Sequence[str], key: bytes) -> str:
    """HMAC-SHA256 of all ids in order: equal digests mean the same rows in the same order."""
    seal = hmac.new(key, digestmod=hashlib.sha256)
    for start in range(0, len(ids), 10_000):
        part = ids[start : start + 10_000]
        seal.update((part if isinstance(part, Texts) else Texts.of(part)).framed())
    return seal.hexdigest()
