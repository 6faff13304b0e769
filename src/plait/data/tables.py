"""Read a party's file: CSV, Parquet, LIBSVM or NumPy, into numbers, texts and ids."""

import csv
import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait.errors import InputError

_MISSING = {"", "na", "nan", "null", "none", "n/a"}


@dataclass(frozen=True)
class Table:
    """Rows with ids; numbers (N, p) dense or CSR with NaN for missing; texts by column."""

    ids: tuple[str, ...]
    numbers: Any
    names: tuple[str, ...]
    texts: dict[str, Any]

    @property
    def rows(self) -> int:
        return int(self.numbers.shape[0])

    def column(self, name: str) -> Any:
        """One column, (N,), of numbers or texts."""
        if name in self.texts:
            return self.texts[name]
        if name not in self.names:
            raise InputError(f"the file must have a column {name!r}. Found {', '.join((*self.names, *self.texts))}.")
        column = self.numbers[:, [self.names.index(name)]]
        return np.asarray(column.toarray() if sp.issparse(column) else column)[:, 0]


def read_table(path: Path, id_column: str = "") -> Table:
    """A file by its extension; without an id column the rows are numbered."""
    readers = {
        ".csv": _read_csv,
        ".parquet": _read_parquet,
        ".svm": _read_libsvm,
        ".libsvm": _read_libsvm,
        ".npy": _read_numpy,
        ".npz": _read_numpy,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"a data file must end in {', '.join(readers)}. Found {path.name!r}.")
    if not path.is_file():
        raise InputError(f"the data file must be at {path}. Found no such file.")
    return reader(path, id_column)


def keyed_digest(ids: Sequence[str], key: bytes) -> str:
    """HMAC-SHA256 of all ids in order: equal digests mean the same rows in the same order."""
    seal = hmac.new(key, digestmod=hashlib.sha256)
    for start in range(0, len(ids), 10_000):
        encoded = [text.encode() for text in ids[start : start + 10_000]]
        seal.update(b"".join(len(text).to_bytes(4, "little") + text for text in encoded))
    return seal.hexdigest()


def _read_csv(path: Path, id_column: str) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = list(reader)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path.name} must be a CSV file in UTF-8. Found: {error}.") from error
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise InputError(f"{path.name}, line {number} must have {len(header)} fields. Found {len(row)}.")
    if not rows:
        raise InputError(f"{path.name} must have a header and at least one row. Found {len(header)} fields and no row.")
    return _from_columns(path, dict(zip(header, zip(*rows, strict=True), strict=True)), id_column)


def _read_parquet(path: Path, id_column: str) -> Table:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("Parquet files need pyarrow. Install it: pip install 'plait[parquet]'.") from error
    table = parquet.read_table(path)
    return _from_columns(path, {name: table.column(name).to_pylist() for name in table.column_names}, id_column)


def _from_columns(path: Path, columns: dict[str, Any], id_column: str) -> Table:
    ids = _ids(path, columns, id_column)
    numbers: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    for name, values in columns.items():
        read = _as_numbers(values)
        if read is None:
            texts[name] = np.array(["" if v is None else str(v) for v in values])
        else:
            numbers[name] = read
    matrix = np.column_stack(list(numbers.values())) if numbers else np.empty((len(ids), 0))
    return Table(ids, np.ascontiguousarray(matrix), tuple(numbers), texts)


def _ids(path: Path, columns: dict[str, Any], id_column: str) -> tuple[str, ...]:
    if not id_column:
        return tuple(str(i) for i in range(len(next(iter(columns.values())))))
    if id_column not in columns:
        raise InputError(f"{path.name} must have the id column {id_column!r}. Found {', '.join(columns)}.")
    ids = tuple(str(v) for v in columns.pop(id_column))
    if len(set(ids)) != len(ids):
        raise InputError(f"the ids in {path.name} must be different. Found {len(ids) - len(set(ids))} repeated.")
    return ids


def _as_numbers(values: Sequence[Any]) -> Any:
    """Values as float64 with NaN for missing ones; None when they are texts."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        pass
    try:
        return np.array([_number(v) for v in values])
    except (TypeError, ValueError):
        return None


def _number(value: Any) -> float:
    if value is None or (isinstance(value, str) and value.strip().lower() in _MISSING):
        return float("nan")
    return float(value)


def _read_libsvm(path: Path, id_column: str) -> Table:
    from sklearn.datasets import load_svmlight_file

    _no_ids(path, id_column)
    try:
        matrix, labels = load_svmlight_file(str(path))
    except ValueError as error:
        raise InputError(f"{path.name} must be in LIBSVM form. Found: {error}.") from error
    names = tuple(str(j) for j in range(matrix.shape[1]))
    both = sp.csr_matrix(sp.hstack([matrix, sp.csr_matrix(labels[:, None])]))
    return Table(_numbered(matrix), both, (*names, "label"), {})


def _read_numpy(path: Path, id_column: str) -> Table:
    """A .npy matrix; or a .npz with X (N, d), and if wanted ids, columns and one array per further column."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{path.name} must hold plain arrays. Found: {error}.") from error
    arrays: dict[str, Any] = {"X": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    if "X" not in arrays or arrays["X"].ndim != 2:
        raise InputError(f"{path.name} must hold a matrix X with rows and columns. Found {sorted(arrays)}.")
    matrix = np.asarray(arrays.pop("X"), dtype=np.float64)
    named = arrays.pop("columns", None)
    names = [str(n) for n in named] if named is not None else [str(j) for j in range(matrix.shape[1])]
    ids = _numbered(matrix)
    if id_column:
        if id_column not in arrays:
            raise InputError(f"{path.name} must hold the ids as {id_column!r}. Found {sorted(arrays)}.")
        ids = tuple(str(v) for v in arrays.pop(id_column))
    for name, values in arrays.items():
        names.append(name)
        matrix = np.column_stack([matrix, np.asarray(values, dtype=np.float64)])
    return Table(ids, np.ascontiguousarray(matrix), tuple(names), {})


def _no_ids(path: Path, id_column: str) -> None:
    if id_column:
        raise InputError(f"{path.name} cannot hold ids. Found id = {id_column!r}. Leave it empty, or use CSV.")


def _numbered(matrix: Any) -> tuple[str, ...]:
    return tuple(str(i) for i in range(matrix.shape[0]))
