"""One digest for any value that a release depends on: every field of every dataclass counts.

The digest reads the fields of the dataclasses themselves, so it also covers a field that is added later.  FORMAT is
part of every digest: another encoding gives other digests, and then every release is a new one, which pays again.
"""

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait.errors import SettingError

FORMAT = b"plait digest 2"  # the encoding below; format 1 was a repr, which left out private fields


def canonical_digest(*values: Any) -> bytes:
    """SHA-256 over all of these values, with their types, names and shapes."""
    state = hashlib.sha256(FORMAT)
    _feed(values, state.update)
    return state.digest()


def _feed(value: Any, put: Callable[[bytes], None]) -> None:
    if value is None or isinstance(value, bool | int | str | bytes):
        content = value if isinstance(value, bytes) else repr(value).encode()
        put(_head(type(value).__name__, len(content)) + content)
    elif isinstance(value, float):
        put(_head("float", 8) + struct.pack("<d", value))
    elif isinstance(value, Enum):
        _feed((type(value).__name__, value.name), put)
    elif isinstance(value, np.ndarray | np.generic):
        _feed_array(np.asarray(value), put)
    elif sp.issparse(value):
        rows = sp.csr_matrix(value)
        _feed(("csr", *rows.shape, rows.data, rows.indices, rows.indptr), put)
    elif is_dataclass(value) and not isinstance(value, type):
        _feed((type(value).__name__, *((f.name, getattr(value, f.name)) for f in fields(value))), put)
    elif isinstance(value, Mapping):
        _feed(("mapping", *sorted(value.items())), put)
    elif isinstance(value, tuple | list):
        put(_head("list", len(value)))
        for item in value:
            _feed(item, put)
    else:
        raise SettingError(
            f"what a release depends on must be numbers, text, arrays or dataclasses of them. Found {type(value)!r}."
        )


def _feed_array(array: np.ndarray[Any, Any], put: Callable[[bytes], None]) -> None:
    if array.dtype.hasobject:
        raise SettingError("what a release depends on must be numbers. Found an array of Python objects.")
    _feed(("array", array.dtype.str, *array.shape), put)
    put(np.ascontiguousarray(array).tobytes())


def _head(kind: str, size: int) -> bytes:
    return f"{kind}:{size};".encode()
