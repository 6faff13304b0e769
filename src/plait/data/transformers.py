"""Stored scikit-learn transformers: a fixed list of types, and nothing else is ever loaded.

The file is in the skops format.  Its outline is read first: every part of it must be plain data, or one of the types
below.  A file cannot name its own types, functions, or methods: there is no way from it to running code.
"""

import importlib
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from plait.errors import ConfigError, StorageError

TRANSFORMERS = {
    f"{module}:{name}"
    for module, names in {
        "sklearn.preprocessing": "Binarizer KBinsDiscretizer MaxAbsScaler MinMaxScaler Normalizer PolynomialFeatures "
        "PowerTransformer QuantileTransformer RobustScaler StandardScaler",
        "sklearn.decomposition": "PCA TruncatedSVD",
        "sklearn.kernel_approximation": "Nystroem RBFSampler",
        "sklearn.random_projection": "GaussianRandomProjection",
    }.items()
    for name in names.split()
}
"""All that prepare.transformer may be."""
_INNER = "sklearn.preprocessing:OneHotEncoder"  # what KBinsDiscretizer keeps inside
_DATA = {
    ("DictNode", "builtins", "dict"),
    ("ListNode", "builtins", "list"),
    ("TupleNode", "builtins", "tuple"),
    ("JsonNode", "builtins", "str"),
    ("TypeNode", "builtins", "str"),
    ("NdArrayNode", "numpy", "ndarray"),
    ("NdArrayNode", "numpy", "float64"),
    ("NdArrayNode", "numpy", "int64"),
    ("DTypeNode", "numpy", "dtype"),
}
"""Parts that hold data: their reader, module and class in the outline."""
_FIELD = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,60}")
_LARGEST_OUTLINE, _DEEPEST, _MOST_TIMES = (
    1 << 24,
    40,
    1000,
)  # bytes; levels; how much larger than the file its parts are


def make(import_path: str, options: dict[str, Any]) -> Any:
    """A new transformer of the list; ConfigError for any other."""
    if import_path not in TRANSFORMERS:
        raise ConfigError(
            f"prepare.transformer must be one of {', '.join(sorted(TRANSFORMERS))}. Found {import_path[:80]!r}."
        )
    _skops()  # it is needed to keep what was trained: said before training, not after
    try:
        return _class(import_path)(**options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"prepare.options must suit {import_path}. Found: {error}.") from error


def output_names(transformer: Any, inputs: tuple[str, ...], width: int) -> list[str]:
    """The names of a transformer's outputs: its own, the inputs' where there are as many, else numbered."""
    try:
        return [str(name) for name in transformer.get_feature_names_out(list(inputs))]
    except (AttributeError, ValueError, TypeError):
        if width == len(inputs):
            return list(inputs)
        return [f"{type(transformer).__name__}[{j}]" for j in range(width)]


def import_path_of(transformer: Any) -> str:
    """The name of a transformer's type in the list; StorageError for any other."""
    for path in TRANSFORMERS:
        if type(transformer) is _class(path):
            return path
    raise StorageError(f"a transformer must be one of plait's list to be kept. Found {type(transformer).__name__}.")


def dump(transformer: Any) -> bytes:
    """The transformer as bytes."""
    import_path_of(transformer)
    return bytes(_skops().dumps(transformer))


def load(path: Path, import_path: str) -> Any:
    """What `dump` gave; StorageError unless every part of the file is data, or a type of the list."""
    if import_path not in TRANSFORMERS:
        raise StorageError(f"a stored transformer must be one of plait's list. Found {import_path[:80]!r}.")
    try:
        data = path.read_bytes()
        _check(data)
        transformer = _skops().loads(data, _trusted(data))
    except StorageError:
        raise
    except Exception as error:  # whatever a library of another author raises over damaged bytes
        raise StorageError(f"{path} must hold a transformer. Found it damaged: {type(error).__name__}.") from error
    if type(transformer) is not _class(import_path):
        raise StorageError(f"{path} must hold {import_path}. Found {type(transformer).__name__}.")
    return transformer


def _trusted(data: bytes) -> list[str]:
    """skops knows its own list; whatever else is in a file that passed ours is data."""
    return list(_skops().get_untrusted_types(data=data))


def _check(data: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(part.file_size for part in archive.infolist()) > max(1 << 20, _MOST_TIMES * len(data)):
            raise StorageError("a stored transformer must not grow when it is unpacked. Found one that does.")
        if archive.getinfo("schema.json").file_size > _LARGEST_OUTLINE:
            raise StorageError("the outline of a stored transformer must be short. Found a long one.")
        _walk(json.loads(archive.read("schema.json")), _allowed(), 0)


def _allowed() -> set[tuple[str, str, str]]:
    kinds = [_class(path) for path in (*TRANSFORMERS, _INNER)]
    return _DATA | {("ObjectNode", kind.__module__, kind.__name__) for kind in kinds}


def _walk(node: Any, allowed: set[tuple[str, str, str]], depth: int) -> None:
    if depth > _DEEPEST:
        raise StorageError("a stored transformer must be flat. Found one that is nested deep.")
    if isinstance(node, list):
        for item in node:
            _walk(item, allowed, depth + 1)
    if not isinstance(node, dict):
        return
    named = [node.get(key) for key in ("__loader__", "__module__", "__class__")]
    if any(name is not None for name in named) and tuple(named) not in allowed:
        raise StorageError(f"a stored transformer may hold data and types of plait's list. Found {str(named)[:120]}.")
    for key, value in node.items():
        if not _FIELD.fullmatch(key):
            raise StorageError("the fields of a stored transformer must be names. Found others.")
        _walk(value, allowed, depth + 1)


def _class(import_path: str) -> Any:
    module, _, name = import_path.partition(":")
    return getattr(importlib.import_module(module), name)


def _skops() -> Any:
    try:
        from skops import io as skops
    except ImportError as error:
        raise StorageError(
            "a party with prepare.transformer needs skops, which keeps the transformer. Found it missing. Install it: "
            "pip install 'plait[skops]'."
        ) from error
    return skops
