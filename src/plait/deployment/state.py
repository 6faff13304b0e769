"""One encoding for the state of every method: frozen dataclasses of arrays, numbers, tuples and dataclasses.

    "PLTS" | version u8 | size of the outline u64 | outline (JSON) | the arrays, raw, one after another

No pickle: decoding builds only dataclasses of this package, from their fields.  A field marked
`field(metadata=CACHE)` is left out and decoded as None; whoever uses it rebuilds it.
"""

import importlib
import json
import math
import struct
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from blake3 import blake3

from plait.errors import StorageError

CACHE = {"cache": True}
_MAGIC, _VERSION = b"PLTS", 3  # versions 1 and 2 named classes by modules that have moved since
_HEADING = _MAGIC + bytes([_VERSION])
_SIZE = struct.Struct("<Q")
_KINDS = "fiub"
_SEAL_BYTES = 32  # bytes of a BLAKE3 digest
_MODULES = ("plait.methods.", "plait.messages", "plait.training.", "plait.deployment.", "plait.alignment.")
"""Where the classes of states are; decoding imports nothing else."""
Buffer: TypeAlias = bytes | memoryview


def encode(state: Any) -> bytes:
    """The state as bytes."""
    return b"".join(encode_parts(state))


def encode_parts(state: Any) -> list[Buffer]:
    """The same bytes in pieces, the arrays not copied."""
    arrays: list[Buffer] = []
    outline = json.dumps(_outline(state, arrays), separators=(",", ":")).encode()
    return [_HEADING, _SIZE.pack(len(outline)), outline, *arrays]


def decode(data: bytes) -> Any:
    """The state that `encode` was given, bit for bit; StorageError when the bytes are not one."""
    start = len(_HEADING) + _SIZE.size
    if data[: len(_MAGIC)] != _MAGIC or len(data) < start:
        raise StorageError("a stored state must begin with 'PLTS' and a version. Found something else.")
    if (found := data[len(_MAGIC)]) != _VERSION:
        raise StorageError(
            f"a stored state must have version {_VERSION}. Found {found}: another release of plait wrote it. "
            "Finish the run with that release, or start over with --fresh."
        )
    (size,) = _SIZE.unpack_from(data, len(_HEADING))
    try:
        outline = json.loads(data[start : start + size])
    except (ValueError, RecursionError) as error:
        raise StorageError("a stored state must have a readable outline. Found a damaged file.") from error
    reader = _Arrays(memoryview(data)[start + size :])
    try:
        state = _build(outline, reader)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise StorageError(f"a stored state must be as plait wrote it. Found a damaged one: {error!r}.") from error
    reader.finish()
    return state


def sealed(parts: list[Buffer], owner: str) -> list[Buffer]:
    """The parts and a BLAKE3 digest of them and their owner (a party of a run): for a file that is read whole."""
    return [*parts, _seal(parts, owner)]


def _seal(parts: list[Buffer], owner: str) -> bytes:
    seal = blake3(key=blake3(owner.encode()).digest())
    for part in parts:
        seal.update(part)
    return seal.digest()


def unsealed(data: bytes, path: Path, owner: str) -> bytes:
    """What was sealed; StorageError where a byte of it has changed, some are missing, or another run's are there."""
    content, seal = data[:-_SEAL_BYTES], data[-_SEAL_BYTES:]
    if _seal([content], owner) != seal:
        raise StorageError(
            f"{path} must be as plait wrote it. Found it damaged, or of another run. Restore the folder, or start over."
        )
    return content


def _outline(value: Any, arrays: list[Buffer]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _outline(value.item(), arrays)
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise TypeError(f"a state may hold numeric arrays. Found {value.dtype}.")
        arrays.append(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        return {"array": value.dtype.str, "shape": list(value.shape)}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_outline(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_outline(k, arrays), _outline(v, arrays)] for k, v in value.items()]}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        kept = [f.name for f in fields(value) if not f.metadata.get("cache")]
        return {
            "class": f"{kind.__module__}:{kind.__qualname__}",
            "fields": {name: _outline(getattr(value, name), arrays) for name in kept},
        }
    raise TypeError(f"a state may hold dataclasses, arrays, numbers, tuples and dicts. Found {type(value).__name__}.")


class _Arrays:
    """Hands out the arrays in the order in which they were written."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, dtype: Any, shape: Any) -> Any:
        try:
            kind = np.dtype(dtype)
            count = math.prod(int(n) for n in shape)
        except (TypeError, ValueError, OverflowError, SyntaxError) as error:
            raise StorageError("a stored state must name its arrays' types. Found a damaged file.") from error
        end = self._at + count * kind.itemsize
        if kind.kind not in _KINDS or min((0, *map(int, shape))) < 0 or end > len(self._data):
            raise StorageError("a stored state must hold the arrays it names. Found a truncated file.")
        array = np.frombuffer(self._data[self._at : end], dtype=kind).reshape(shape).copy()
        self._at = end
        return array

    def finish(self) -> None:
        if self._at != len(self._data):
            raise StorageError("a stored state must end with its last array. Found more bytes.")


def _build(outline: Any, arrays: _Arrays) -> Any:
    if not isinstance(outline, dict):
        return outline
    if "array" in outline:
        return arrays.take(outline["array"], outline["shape"])
    if "tuple" in outline:
        return tuple(_build(item, arrays) for item in outline["tuple"])
    if "list" in outline:
        return [_build(item, arrays) for item in outline["list"]]
    if "dict" in outline:
        return {_build(k, arrays): _build(v, arrays) for k, v in outline["dict"]}
    kind = _class(str(outline.get("class")))
    given = {name: _build(item, arrays) for name, item in outline["fields"].items()}
    absent = {f.name: None for f in fields(kind) if f.metadata.get("cache")}
    try:
        return kind(**absent, **given)
    except TypeError as error:
        raise StorageError(
            f"a stored {kind.__name__} must have its fields. Found another version's: {error}."
        ) from error


def _class(name: str) -> Any:
    module, _, qualified = name.partition(":")
    if not module.startswith(_MODULES):
        raise StorageError(f"a stored state may name only states and messages of plait. Found {name[:80]!r}.")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise StorageError(f"a stored state must name a class of this version of plait. Found {name!r}.") from error
    if not (isinstance(found, type) and is_dataclass(found)):
        raise StorageError(f"a stored state may name only dataclasses. Found {name!r}.")
    return found
