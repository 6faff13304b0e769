"""Many texts without a Python object for each: UTF-8 in one buffer."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

_ROWS_AT_ONCE = 10_000  # texts that are Python objects at a time
_MOVED_AT_ONCE = 1 << 18  # texts that are copied at a time: the places of their bytes take some megabytes
_LONGEST_SORTED = 256  # bytes of a text: longer ones are rare, and sorting by so many words would be slow


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
        if len(parts) < 2:
            return parts[0] if parts else cls.of(())
        shifts = np.cumsum([0, *(part._data.size for part in parts)])
        ends = [part._ends + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
        data = [part._data for part in parts]
        return cls(np.concatenate(data), np.concatenate(ends))

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
        for raw in self.encoded():
            yield raw.decode("utf-8", "surrogatepass")

    def encoded(self) -> Iterator[bytes]:
        """Every text as UTF-8."""
        for part in self.chunks():
            raw, begin = part._data.tobytes(), 0
            for end in part._ends.tolist():
                yield raw[begin:end]
                begin = end

    def chunks(self) -> Iterator["Texts"]:
        """All texts in their order, some thousand at a time."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self[start : start + _ROWS_AT_ONCE]

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
        data = np.empty(int(ends[-1]) if ends.size else 0, np.uint8)
        for start in range(0, at.size, _MOVED_AT_ONCE):
            some = slice(start, start + _MOVED_AT_ONCE)
            first = int(ends[start - 1]) if start else 0
            shift = np.repeat(self._ends[at[some]] - ends[some], lengths[some])
            data[first : first + shift.size] = self._data[np.arange(first, first + shift.size) + shift]
        return Texts(data, ends)

    def framed(self) -> bytes:
        """Every text after its length, four bytes, the lowest first."""
        lengths = self.lengths
        out = np.empty(self._data.size + 4 * len(self), np.uint8)
        heads = self._ends - lengths + 4 * np.arange(len(self))
        out[heads[:, None] + np.arange(4)] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
        out[np.arange(self._data.size) + 4 * np.repeat(np.arange(1, len(self) + 1), lengths)] = self._data
        return out.tobytes()

    def argsort(self) -> npt.NDArray[np.int64]:
        """The places (N,) of all texts in the order of their UTF-8, which is that of their code points.

        A radix sort by words of eight bytes, the last one first; a text that ends early counts as if zeros followed,
        and where nothing else differs the shorter one stands first.
        """
        lengths = self.lengths
        longest = int(lengths.max(initial=0))
        if longest > _LONGEST_SORTED:
            return np.array(sorted(range(len(self)), key=self.__getitem__), np.int64)
        order = np.argsort(lengths, kind="stable")
        for start in range(8 * ((longest - 1) // 8), -1, -8):
            order = order[np.argsort(self._words(start)[order], kind="stable")]
        return order

    def _words(self, start: int) -> npt.NDArray[np.uint64]:
        """Eight bytes of every text (N,), from this place on, the first one weighs most."""
        lengths = self.lengths
        begins = self._ends - lengths + start
        words = np.zeros(len(self), np.uint64)
        for place in range(8):
            words <<= np.uint64(8)
            there = np.flatnonzero(lengths > start + place)
            words[there] |= self._data[begins[there] + place]
        return words

    def digests(self) -> npt.NDArray[np.uint64]:
        """128 bits (N, 2) of BLAKE2b of every text: the same ones mean the same texts."""
        found = np.empty((len(self), 2), np.uint64)
        done = 0
        for part in self.chunks():
            joined = b"".join(hashlib.blake2b(raw, digest_size=16).digest() for raw in part.encoded())
            found[done : done + len(part)] = np.frombuffer(joined, np.uint64).reshape(-1, 2)
            done += len(part)
        return found

    def repeated(self) -> int:
        """How many texts stand further up, too."""
        keys = self.hashes()
        ordered = np.sort(keys)
        doubtful = ordered[1:][ordered[1:] == ordered[:-1]]
        if not doubtful.size:
            return 0
        same = [self[int(i)] for i in np.flatnonzero(np.isin(keys, doubtful))]
        return len(same) - len(set(same))

    def hashes(self) -> npt.NDArray[np.uint64]:
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


def in_both_cases(texts: Iterable[str]) -> tuple[str, str] | None:
    """An id all in capitals and one all in small letters, where there are both, and no two differ by case.

    Random ids mix both in each one.  Where two ids differ by case alone, case tells them apart.
    """
    given = [text.strip() for text in texts]
    lettered = [text for text in given if text.lower() != text.upper()]
    upper = next((text for text in lettered if text == text.upper()), "")
    lower = next((text for text in lettered if text == text.lower()), "")
    if not (upper and lower) or len({text.casefold() for text in given}) < len(set(given)):
        return None
    return upper, lower
