"""Columns of Arrow as plait's: numbers, categories and texts."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from plait._names import plain
from plait._texts import Texts
from plait._types import Array
from plait.data.csv_tables import as_numbers
from plait.data.sources import Batch, Kind, Kinds, NotANumber
from plait.data.texts import Coded
from plait.errors import InputError, PlaitError


def arrow() -> Any:
    """The library, or how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise InputError(
            "Parquet, SQL and Arrow tables need pyarrow. Found it missing. Install it: pip install 'plait[parquet]'."
        ) from error
    return pyarrow


def guess_kinds(schema: Any) -> dict[str, Kind]:
    """How the columns of a schema are wanted where nobody says otherwise."""
    return {field.name: "category" if kind_of(field.type) == "text" else "number" for field in schema}


def names_of(schema: Any, where: str) -> tuple[str, ...]:
    """The names of the columns; InputError where two have the same."""
    repeated = [name for name, times in Counter(schema.names).items() if times > 1]
    if repeated:
        raise InputError(f"the columns of {where} must have different names. Found {repeated[0]!r} twice.")
    return tuple(schema.names)


def kind_of(type_: Any) -> str:
    """Whether a column of this type holds numbers, texts, or nothing but missing values."""
    types = arrow().types
    if types.is_null(type_):
        return "null"
    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    number = types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_) or types.is_decimal(type_)
    return "number" if number else "text"


def from_arrow(batch: Any, kinds: Kinds, where: str, first: int) -> Batch:
    """A record batch or table, its columns in the kinds that are wanted; `first` is the number of its first row."""
    numbers: dict[str, Array] = {}
    categories: dict[str, Coded] = {}
    texts: dict[str, Texts] = {}
    there = dict(zip(batch.schema.names, batch.columns, strict=True))
    double = arrow().float64()
    for name, kind in kinds.items():
        if kind == "number" and there[name].type == double:  # nearly every column
            numbers[name] = _as_array(there[name])
            continue
        column = _whole(there[name])
        if arrow().types.is_nested(column.type):
            raise _other_type(column, name, where, first)
        try:
            if kind == "number":
                numbers[name] = _numbers(column, name, where, first)
            elif kind == "category":
                categories[name] = _coded(column)
            else:
                texts[name] = _texts(column)
        except PlaitError:
            raise
        except (
            arrow().ArrowException,
            ValueError,
            OverflowError,
        ) as error:  # bytes that are no text, say
            raise _other_type(column, name, where, first, f" ({plain(str(error), 120)})") from error
    return Batch(batch.num_rows, numbers, categories, texts)


def _other_type(column: Any, name: str, where: str, first: int, why: str = "") -> InputError:
    return InputError(
        f"{where} {first}: column {name!r} must hold numbers or texts. Found {plain(str(column.type), 80)}{why}. "
        "Turn it into one of them first, or leave it out (data.drop)."
    )


def _whole(column: Any) -> Any:
    if not isinstance(column, arrow().ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(column: Any, name: str, where: str, first: int) -> Array:
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if kind_of(column.type) == "text":
        return _parsed(column, name, where, first)
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64(), safe=False)
    return _as_array(column)


def _as_array(column: Any, missing: float = np.nan, dtype: npt.DTypeLike = np.float64) -> Array:
    """A column of float64 or int32, where it lies if nothing is missing; `missing` stands where it holds nothing.

    Arrow's own `to_numpy` and `fill_null` would import pandas, which takes a quarter of a second and 40 MB.
    """
    column = _whole(column)
    if not len(column):
        return np.empty(0, dtype)
    there, numbers = column.buffers()
    first, last = column.offset, column.offset + len(column)
    found = np.frombuffer(numbers, dtype)[first:last]
    if not column.null_count:
        return found
    bits = np.unpackbits(np.frombuffer(there, np.uint8)[first // 8 : -(-last // 8)], bitorder="little")
    return np.where(bits[first % 8 :][: last - first], found, np.asarray(missing, dtype))


def _parsed(column: Any, name: str, where: str, first: int) -> Array:
    """Numbers that are written as texts: every different one is read once."""
    coded = _coded(column)
    values = as_numbers(coded.values)
    if values is None:
        bad = next(i for i, value in enumerate(coded.values) if as_numbers([value]) is None)
        raise NotANumber(f"{where} {first + int(np.flatnonzero(coded.codes == bad)[0])}", name, coded.values[bad])
    return np.asarray(values[coded.codes]) if len(values) else np.empty(0)


def _coded(column: Any) -> Coded:
    pa = arrow()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    values = [_text(value) for value in column.dictionary.to_pylist()]
    codes: npt.NDArray[Any] = _as_array(column.indices.cast(pa.int32()), len(values), np.int32)
    if column.indices.null_count:
        values.append("")
    found = Coded(tuple(values), codes)
    return found if len(set(values)) == len(values) else found.renamed(values)


def _text(value: Any) -> str:
    """A value as text; numbers as those of a CSV file are."""
    if value is None:
        return ""
    return str(float(value)) if isinstance(value, int | float) else str(value)


def _texts(column: Any) -> Texts:
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return Texts.of("" if value is None else str(value) for value in column.to_pylist())  # as Python writes them
    if not pa.types.is_large_string(column.type):
        column = column.cast(pa.large_utf8())
    if column.null_count:
        nothing = pa.Array.from_buffers(column.type, 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")])
        column = column.fill_null(nothing[0])  # a text of Python's would have Arrow import pandas
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    characters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    return Texts(characters.copy(), ends[1:] - ends[0])
