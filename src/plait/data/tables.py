"""Read a party's file: CSV, Parquet, LIBSVM or NumPy, into numbers, texts and ids."""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait.data.csv_format import CsvFormat
from plait.data.csv_tables import as_numbers, header_of, read_columns, read_texts
from plait.errors import InputError

Reader = Callable[[Path, tuple[str, ...], CsvFormat], Any]


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

    def pick(self, rows: Any, ids: tuple[str, ...]) -> "Table":
        """These rows (n,) in this order, under these ids."""
        return Table(ids, self.numbers[rows], self.names, {name: texts[rows] for name, texts in self.texts.items()})

    def column(self, name: str) -> Any:
        """One column, (N,), of numbers or texts."""
        if name in self.texts:
            return self.texts[name]
        if name not in self.names:
            raise InputError(f"the file must have a column {name!r}. Found {', '.join((*self.names, *self.texts))}.")
        column = self.numbers[:, [self.names.index(name)]]
        return np.asarray(column.toarray() if sp.issparse(column) else column)[:, 0]


def read_table(
    path: Path, id_columns: str | tuple[str, ...] = (), distinct: bool = True, form: CsvFormat | None = None
) -> Table:
    """A file by its extension; without id columns the rows are numbered; `distinct` refuses repeated ids.

    `form` says how a CSV file is written.
    """
    readers = {
        ".csv": _read_csv,
        ".parquet": _read_parquet,
        ".svm": _read_libsvm,
        ".libsvm": _read_libsvm,
        ".npy": _read_numpy,
        ".npz": _read_numpy,
    }
    names = (id_columns,) if isinstance(id_columns, str) and id_columns else tuple(id_columns)
    table = _choose(path, readers)(path, names, form or CsvFormat())
    if distinct and names and len(set(table.ids)) != table.rows:
        raise InputError(
            f"the ids in {path.name} must be different. Found {table.rows - len(set(table.ids))} repeated."
        )
    return table


def read_id_columns(path: Path, names: tuple[str, ...], form: CsvFormat | None = None) -> list[list[Any]]:
    """The values of the id columns alone, as they stand in the file: the other columns need no memory."""
    readers = {".csv": _csv_columns, ".parquet": _parquet_columns, ".npy": _numpy_columns, ".npz": _numpy_columns}
    return _choose(path, readers)(path, names, form or CsvFormat())


def _choose(path: Path, readers: Mapping[str, Reader]) -> Reader:
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"a data file must end in {', '.join(readers)}. Found {path.name!r}.")
    if not path.is_file():
        raise InputError(f"the data file must be at {path}. Found no such file.")
    return reader


def keyed_digest(ids: Sequence[str], key: bytes) -> str:
    """HMAC-SHA256 of all ids in order: equal digests mean the same rows in the same order."""
    seal = hmac.new(key, digestmod=hashlib.sha256)
    for start in range(0, len(ids), 10_000):
        encoded = [text.encode() for text in ids[start : start + 10_000]]
        seal.update(b"".join(len(text).to_bytes(4, "little") + text for text in encoded))
    return seal.hexdigest()


def _read_csv(path: Path, id_columns: tuple[str, ...], form: CsvFormat) -> Table:
    return _from_columns(path, read_columns(path, form, id_columns), id_columns)


def _csv_columns(path: Path, names: tuple[str, ...], form: CsvFormat) -> list[list[Any]]:
    _need_columns(path, names, header_of(path, form))
    return [column.tolist() for column in read_texts(path, form, names).values()]


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise InputError("Parquet files need pyarrow. Install it: pip install 'plait[parquet]'.") from error
    return parquet


def _read_parquet(path: Path, id_columns: tuple[str, ...], form: CsvFormat) -> Table:
    table = _parquet().read_table(path)
    return _from_columns(path, {name: table.column(name).to_pylist() for name in table.column_names}, id_columns)


def _parquet_columns(path: Path, names: tuple[str, ...], form: CsvFormat) -> list[list[Any]]:
    _need_columns(path, names, _parquet().read_schema(path).names)
    table = _parquet().read_table(path, columns=list(names))
    return [table.column(name).to_pylist() for name in names]


def _numpy_columns(path: Path, names: tuple[str, ...], form: CsvFormat) -> list[list[Any]]:
    arrays = _arrays(path)
    _need_columns(path, names, sorted(arrays))
    return [list(arrays[name].reshape(-1).tolist()) for name in names]


def _need_columns(path: Path, names: tuple[str, ...], found: Sequence[str]) -> None:
    for name in names:
        if name not in found:
            raise InputError(f"{path.name} must have the id column {name!r}. Found {', '.join(found)}.")


def _from_columns(path: Path, columns: dict[str, Any], id_columns: tuple[str, ...]) -> Table:
    ids = _ids(path, columns, id_columns)
    numbers: dict[str, Any] = {}
    texts: dict[str, Any] = {}
    for name, values in columns.items():
        read = values if isinstance(values, np.ndarray) else as_numbers(values)
        if read is None or read.dtype.kind in "US":
            texts[name] = np.array(["" if v is None else str(v) for v in values]) if read is None else read
        else:
            numbers[name] = read
    matrix = np.column_stack(list(numbers.values())) if numbers else np.empty((len(ids), 0))
    return Table(ids, np.ascontiguousarray(matrix), tuple(numbers), texts)


def _ids(path: Path, columns: dict[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """One text per row; a JSON list of texts where several columns make the id."""
    if not names:
        return tuple(str(i) for i in range(len(next(iter(columns.values())))))
    _need_columns(path, names, list(columns))
    parts = [[str(v) for v in columns.pop(name)] for name in dict.fromkeys(names)]
    if len(parts) == 1:
        return tuple(parts[0])
    return tuple(json.dumps(row, ensure_ascii=False) for row in zip(*parts, strict=True))


def _read_libsvm(path: Path, id_columns: tuple[str, ...], form: CsvFormat) -> Table:
    from sklearn.datasets import load_svmlight_file

    if id_columns:
        raise InputError(f"{path.name} cannot hold ids. Found id = {id_columns}. Leave it empty, or use CSV.")
    try:
        matrix, labels = load_svmlight_file(str(path))
    except ValueError as error:
        raise InputError(f"{path.name} must be in LIBSVM form. Found: {error}.") from error
    names = tuple(str(j) for j in range(matrix.shape[1]))
    both = sp.csr_matrix(sp.hstack([matrix, sp.csr_matrix(labels[:, None])]))
    return Table(_numbered(matrix), both, (*names, "label"), {})


def _arrays(path: Path) -> dict[str, Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
        return {"X": loaded} if isinstance(loaded, np.ndarray) else dict(loaded)
    except ValueError as error:
        raise InputError(f"{path.name} must hold plain arrays. Found: {error}.") from error


def _read_numpy(path: Path, id_columns: tuple[str, ...], form: CsvFormat) -> Table:
    """A .npy matrix; or a .npz with X (N, d), and if wanted ids, columns and one array per further column."""
    arrays = _arrays(path)
    if "X" not in arrays or arrays["X"].ndim != 2:
        raise InputError(f"{path.name} must hold a matrix X with rows and columns. Found {sorted(arrays)}.")
    matrix = np.asarray(arrays.pop("X"), dtype=np.float64)
    named = arrays.pop("columns", None)
    names = [str(n) for n in named] if named is not None else [str(j) for j in range(matrix.shape[1])]
    ids = _numbered(matrix)
    if id_columns:
        ids = _ids(path, arrays, id_columns)
    for name, values in arrays.items():
        names.append(name)
        matrix = np.column_stack([matrix, np.asarray(values, dtype=np.float64)])
    return Table(ids, np.ascontiguousarray(matrix), tuple(names), {})


def _numbered(matrix: Any) -> tuple[str, ...]:
    return tuple(str(i) for i in range(matrix.shape[0]))
