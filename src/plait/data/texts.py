"""Columns of texts without a Python object per row: ids in a row, and categories by their codes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

_ROWS_AT_ONCE = 10_000  # texts that are Python objects at a time


class Texts(Sequence[str]):
    """Texts (N,) as UTF-8, one after the other, and where each ends."""

    def __init__(self, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> None:
        self._data, self._ends = data, ends

    @classmethod
    def of(cls, values: Iterable[str]) -> "Texts":
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), ends)

    @classmethod
    def joined(cls, parts: Sequence["Texts"]) -> "Texts":
        """The texts of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        shifts = np.cumsum([0, *(part._data.size for part in parts)])
        ends = [part._ends + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
        data = [part._data for part in parts]
        return cls(np.concatenate(data) if data else np.empty(0, np.uint8), np.concatenate(ends))

    def __len__(self) -> int:
        return int(self._ends.size)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> "Texts": ...
    def __getitem__(self, at: int | slice) -> "str | Texts":
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            if step != 1:
                return self.take(np.arange(first, last, step))
            begin = int(self._ends[first - 1]) if first else 0
            end = int(self._ends[last - 1]) if last > first else begin
            return Texts(self._data[begin:end], self._ends[first : max(first, last)] - begin)
        at = range(len(self))[at]
        begin = int(self._ends[at - 1]) if at else 0
        return bytes(self._data[begin : int(self._ends[at])]).decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _ROWS_AT_ONCE):
            part = self[start : start + _ROWS_AT_ONCE]
            raw, begin = part._data.tobytes(), 0
            for end in part._ends.tolist():
                yield raw[begin:end].decode("utf-8", "surrogatepass")
                begin = end

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str) or len(other) != len(self):
            return False
        return all(mine == its for mine, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Bytes of every text, (N,)."""
        return np.diff(self._ends, prepend=0)

    def take(self, rows: Any) -> "Texts":
        """The texts of these rows (n,), in this order."""
        at = np.asarray(rows)
        lengths = self.lengths[at]
        ends = np.cumsum(lengths, dtype=np.int64)
        shift = np.repeat(self._ends[at] - ends, lengths)
        return Texts(self._data[np.arange(shift.size) + shift], ends)

    def framed(self) -> bytes:
        """Every text after its length, four bytes, the lowest first."""
        lengths = self.lengths
        out = np.empty(self._data.size + 4 * len(self), np.uint8)
        heads = self._ends - lengths + 4 * np.arange(len(self))
        out[heads[:, None] + np.arange(4)] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
        out[np.arange(self._data.size) + 4 * np.repeat(np.arange(1, len(self) + 1), lengths)] = self._data
        return out.tobytes()

    def repeated(self) -> int:
        """How many texts stand further up, too."""
        keys = self._hashes()
        ordered = np.sort(keys)
        doubtful = ordered[1:][ordered[1:] == ordered[:-1]]
        if not doubtful.size:
            return 0
        same = [self[int(i)] for i in np.flatnonzero(np.isin(keys, doubtful))]
        return len(same) - len(set(same))

    def _hashes(self) -> npt.NDArray[np.uint64]:
        """64 bits of every text: different ones mean different texts."""
        lengths = self.lengths
        keys = lengths.astype(np.uint64)
        begins, longest = self._ends - lengths, int(lengths.max(initial=0))
        alive = np.arange(len(self))
        for place in range(longest):
            alive = alive[lengths[alive] > place]
            keys[alive] = (keys[alive] ^ self._data[begins[alive] + place]) * np.uint64(0x100000001B3)
            keys[alive] ^= keys[alive] >> np.uint64(29)
        return keys


class RowNumbers(Texts):
    """The texts "0" to "N - 1": the ids of a table that has none."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Texts: ...
    def __getitem__(self, at: int | slice) -> str | Texts:
        rows = range(self._count)[at]
        return str(rows) if isinstance(rows, int) else _written(np.asarray(rows, dtype=np.int64))

    def take(self, rows: Any) -> Texts:
        return _written(np.arange(self._count)[rows])

    def repeated(self) -> int:
        return 0


def _written(numbers: npt.NDArray[np.int64]) -> Texts:
    if not numbers.size:
        return Texts.of(())
    characters = numbers.astype("S20").view(np.uint8).reshape(numbers.size, 20)
    there = characters > 0
    return Texts(characters[there], np.cumsum(there.sum(axis=1), dtype=np.int64))


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
