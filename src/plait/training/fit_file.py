"""A trained model in one JSON file: written at once or not at all, read strictly, no pickle.

    {"format": 1, "fit": {field: value}}

A value that JSON has no form for is an object with one key, which says what it is:

    {"array": [...]}    {"number": "nan"}    {"loss": {"name": "huber", "delta": 1.0}}    {"rounds": [...]}
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plait._files import read_json, write_json
from plait.errors import PlaitError, StorageError
from plait.methods.base import Method
from plait.methods.registry import METHODS
from plait.privacy.mechanisms.soft_logistic import SoftLogistic
from plait.problem.losses import Loss
from plait.problem.registry import LOSSES
from plait.training.history import History, Round

FORMAT = 1  # of the file; a file of another format is refused
_LOSSES: Mapping[str, Any] = {**LOSSES, "soft-logistic": SoftLogistic}
_TABLES: Mapping[str, Mapping[str, Any]] = {"loss": _LOSSES, "method": METHODS}


def save_fields(fit: Any, path: Path) -> None:
    """Write every field of a dataclass."""
    write_json(path, {"format": FORMAT, "fit": {f.name: _encode(getattr(fit, f.name)) for f in fields(fit)}})


def load_fields(kind: Any, path: Path) -> dict[str, Any]:
    """The fields of `kind` as they were saved; StorageError unless there are exactly these."""
    content = read_json(path, "a saved fit", {"fit": {}}, FORMAT)
    stored = content["fit"]
    names = [f.name for f in fields(kind)]
    if set(content) != {"format", "fit"} or set(stored) != set(names):
        raise StorageError(f"a saved fit must hold exactly {', '.join(names)}. Found another content in {path}.")
    try:
        return {name: _decode(stored[name]) for name in names}
    except (TypeError, ValueError, KeyError, PlaitError) as error:
        raise StorageError(f"a saved fit must be as plait wrote it. Found {path} damaged: {error}.") from error


def _encode(value: Any) -> Any:
    if isinstance(value, History):
        return {"rounds": [_encode(asdict(r))["dict"] for r in (value.start, *value)]}
    if isinstance(value, Loss):
        return {"loss": _named(value, _LOSSES, "loss")}
    if isinstance(value, Method):
        return {"method": _named(value, METHODS, "method")}
    if isinstance(value, np.ndarray):
        return {"array": [_encode(float(v)) for v in value]}
    if isinstance(value, np.generic):
        return _encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    if isinstance(value, Mapping):
        return {"dict": {str(k): _encode(v) for k, v in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [_encode(v) for v in value]}
    if isinstance(value, list):
        return [_encode(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise StorageError(f"a fit that is saved may hold numbers, text and arrays. Found a {type(value).__name__}.")


def _named(value: Any, table: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The name and the options of a loss or method of plait."""
    for name, kind in table.items():
        if type(value) is kind and is_dataclass(value):
            return {"name": name, **{f.name: _encode(getattr(value, f.name)) for f in fields(value) if f.init}}
    raise StorageError(f"a fit can be saved when its {what} is one of {', '.join(table)}. Found {value!r}.")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    if tag == "array":
        return np.array([_decode(v) for v in content], dtype=np.float64)
    if tag == "number":
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content]
    if tag == "dict":
        return {k: _decode(v) for k, v in content.items()}
    if tag == "tuple":
        return tuple(_decode(v) for v in content)
    if tag == "rounds":
        start, *rounds = (Round(**{k: _decode(v) for k, v in record.items()}) for record in content)
        return History(start, rounds)
    options = {k: _decode(v) for k, v in content.items()}
    return _TABLES[tag][options.pop("name")](**options)
