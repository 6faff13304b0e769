"""Tables in Arrow's form: Parquet files and folders of them, SQL through DuckDB, and any Arrow C stream."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plait._names import plain
from plait.data.arrow_columns import arrow, from_arrow, guess_kinds, kind_of, names_of
from plait.data.csv_format import CsvFormat
from plait.data.sources import Batch, Kind, Kinds
from plait.errors import ConfigError, InputError

_BATCH_ROWS = 1 << 15  # rows at a time: long enough columns for Arrow and NumPy, some MB for a wide table

_BUFFER_BYTES = 1 << 18  # 256 KiB of each column of a Parquet file at a time, where a row group may be the whole file

_QUERY_SETTINGS = (
    "set preserve_insertion_order = true",  # the same rows in the same order, every time
    "set autoinstall_known_extensions = false",  # nothing is fetched from the network unasked
)


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file, or all of a folder in the order of their names, as one table."""

    path: Path
    about: int | None = None
    form: CsvFormat | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def place(self, row: int) -> str:
        for path in self.files:
            count = self._opened(path).metadata.num_rows
            if row < count:
                return f"{path.name}, row {row + 1}"
            row -= count
        return self.name

    @cached_property
    def files(self) -> tuple[Path, ...]:
        if not self.path.is_dir():
            return (self.path,)
        found = tuple(
            sorted(p for p in self.path.rglob("*.parquet") if not p.is_dir() and not p.name.startswith((".", "_")))
        )
        if not found:
            raise InputError(f"the folder {self.path.name} must hold files that end in .parquet. Found none.")
        return found

    @cached_property
    def _schemas(self) -> list[Any]:
        return [self._opened(path).schema_arrow for path in self.files]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        first = self._schemas[0]
        names_of(first, self.files[0].name)
        for path, schema in zip(self.files[1:], self._schemas[1:], strict=True):
            for name in {*first.names} ^ {*schema.names}:
                raise InputError(
                    f"all files of {self.name} must have the same columns. Found {name!r} in only one of "
                    f"{self.files[0].name} and {path.name}."
                )
            for name in first.names:
                types = [one.field(name).type for one in (first, schema)]
                if len({kind_of(type_) for type_ in types} - {"null"}) > 1:
                    raise InputError(
                        f"column {name!r} must have one type in all files of {self.name}. Found {types[0]} in "
                        f"{self.files[0].name} and {types[1]} in {path.name}."
                    )
        return tuple(first.names)

    @cached_property
    def rows(self) -> int:
        return sum(self._opened(path).metadata.num_rows for path in self.files)

    def guess(self) -> dict[str, Kind]:
        kinds = {name: {kind_of(schema.field(name).type) for schema in self._schemas} for name in self.columns}
        return {name: "category" if "text" in found else "number" for name, found in kinds.items()}

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        for path in self.files:
            done = 0
            try:
                with self._opened(path) as file:
                    for batch in file.iter_batches(_BATCH_ROWS, columns=list(kinds)):
                        yield from_arrow(batch, kinds, f"{path.name}, row", done + 1)
                        done += batch.num_rows
            except (OSError, arrow().ArrowException) as error:
                raise _damaged(path, error) from error

    def _opened(self, path: Path) -> Any:
        arrow()
        from pyarrow import parquet

        try:
            return parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        except (OSError, arrow().ArrowException) as error:
            raise _damaged(path, error) from error


@dataclass(frozen=True)
class ArrowSource:
    """A file in Arrow's own format (Feather), which is mapped into memory and read batch by batch."""

    path: Path
    rows: int | None = None
    about: int | None = None
    form: CsvFormat | None = None

    @property
    def name(self) -> str:
        return self.path.name

    def place(self, row: int) -> str:
        return f"{self.name}, row {row + 1}"

    @cached_property
    def _schema(self) -> Any:
        with self._opened() as file:
            return file.schema

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return names_of(self._schema, self.name)

    def guess(self) -> dict[str, Kind]:
        return guess_kinds(self._schema)

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        done = 0
        with self._opened() as file:
            for i in range(file.num_record_batches):
                try:
                    whole = file.get_batch(i).select(list(kinds))
                    whole.validate(full=True)  # a damaged offset would read foreign memory
                except (OSError, arrow().ArrowException) as error:
                    raise _damaged(self.path, error) from error
                for start in range(0, whole.num_rows, _BATCH_ROWS):
                    yield from_arrow(whole.slice(start, _BATCH_ROWS), kinds, f"{self.name}, row", done + start + 1)
                done += whole.num_rows

    def _opened(self) -> Any:
        pa = arrow()
        try:
            return pa.ipc.open_file(pa.memory_map(str(self.path)))
        except (OSError, pa.ArrowException) as error:
            raise _damaged(self.path, error) from error


@dataclass(frozen=True)
class QuerySource:
    """The result of an SQL query, which DuckDB runs in `folder`: relative file names in it start there."""

    query: str
    folder: Path
    rows: int | None = None
    about: int | None = None
    name: str = "the query"
    form: CsvFormat | None = None

    def place(self, row: int) -> str:
        return f"{self.name}, row {row + 1}"

    @cached_property
    def _schema(self) -> Any:
        with self._run(f"select * from {self._table} limit 0") as found:
            return found.schema

    @property
    def _table(self) -> str:
        """The query within a query; a comment may stand at its end."""
        return f"({self.query.strip().rstrip(';')}\n)"

    @property
    def columns(self) -> tuple[str, ...]:
        return names_of(self._schema, self.name)

    def guess(self) -> dict[str, Kind]:
        return guess_kinds(self._schema)

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        chosen = ", ".join('"' + name.replace('"', '""') + '"' for name in kinds) or "1"
        done = 0
        with self._run(f"select {chosen} from {self._table}") as found:
            for batch in _translated(found):
                yield from_arrow(batch, kinds, f"{self.name}, row", done + 1)
                done += batch.num_rows

    def _run(self, query: str) -> Any:
        arrow()
        try:
            import duckdb
        except ImportError as error:
            raise ConfigError(
                "data.source is a query, which needs DuckDB. Found it missing. Install it: pip install 'plait[duckdb]'."
            ) from error
        try:
            connection = duckdb.connect(config={"file_search_path": str(self.folder)})
            for option in _QUERY_SETTINGS:
                connection.execute(option)
            return arrow().RecordBatchReader.from_stream(connection.sql(query))
        except duckdb.Error as error:
            raise InputError(
                f"data.source must be a query that DuckDB can run. Found: {plain(str(error), 300)}."
            ) from error


@dataclass(frozen=True)
class StreamSource:
    """A table of another library that offers Arrow's C stream interface: polars, pyarrow, pandas, DuckDB."""

    table: Any
    name: str
    rows: int | None = None
    about: int | None = None
    form: CsvFormat | None = None

    def place(self, row: int) -> str:
        return f"{self.name}, row {row + 1}"

    @cached_property
    def _reader(self) -> Any:
        return _stream(self.table)

    @property
    def columns(self) -> tuple[str, ...]:
        return names_of(self._reader.schema, self.name)

    def guess(self) -> dict[str, Kind]:
        return guess_kinds(self._reader.schema)

    def batches(self, kinds: Kinds) -> Iterator[Batch]:
        done = 0
        for batch in _translated(self.__dict__.pop("_reader", None) or _stream(self.table)):
            yield from_arrow(batch.select(list(kinds)), kinds, f"{self.name}, row", done + 1)
            done += batch.num_rows


def _stream(table: Any) -> Any:
    """The stream of another library's table; DuckDB runs its query here, and fails with errors of its own."""
    try:
        return arrow().RecordBatchReader.from_stream(table)
    except Exception as error:
        raise unreadable(error) from error


def _translated(batches: Any) -> Iterator[Any]:
    """The batches of a stream; an error of the library behind it becomes one of plait's."""
    try:
        yield from batches
    except (OSError, arrow().ArrowException) as error:
        raise unreadable(error) from error


def unreadable(error: Exception) -> InputError:
    """What another library's table says when it is read."""
    return InputError(f"the table must be readable to its end. Found: {plain(str(error), 300)}.")


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path.name} must be a whole {path.suffix} file. Found it damaged, or another kind: {plain(str(error), 200)}."
    )
