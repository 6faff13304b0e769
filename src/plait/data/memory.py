"""How much memory a party's process may take, and so whether its table lies in memory or on disk."""

import math
import os
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._mapped_files import Workspace, in_file
from plait.errors import InputError, SettingError

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
"""Bytes in a unit."""
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_SHARE = 3  # a table lies in memory while it takes at most a third: reading and preparing hold it twice
_PROGRAM = 800 << 20  # bytes that Python, NumPy, SciPy, gRPC, their threads and two BLAS take: measured without data
_VECTORS = 3  # vectors of one number per row that a step holds in memory: measured with 10 and 20 million rows

_SLIGHT = 10 << 20  # bytes, 1 % of what the program takes: what is free is not asked for then, as asking takes time
_HELD = 40  # vectors of one number per row that a coordinator with two parties holds where memory is plenty: measured


@dataclass(frozen=True)
class Room:
    """Where a table may lie.

    limit    bytes that the process may take in all; 0 for what is free on this machine
    folder   where blocks and vectors are written that do not fit into memory; None for the system's temporary folder
    dtype    how numbers are stored: "float64", or "float32" in half the space; arithmetic is in float64 either way
    """

    limit: int = 0
    folder: Path | None = None
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if self.dtype not in ("float64", "float32"):
            raise SettingError(f'numbers must be stored as "float64" or "float32". Found {self.dtype!r}.')

    @property
    def bytes(self) -> int:
        """Bytes that the process may take."""
        return self.limit or free_memory()

    @property
    def for_table(self) -> int:
        """Bytes that a table may take in memory."""
        return self.bytes // _SHARE

    def workspace(self, rows: int) -> Workspace:
        """Where the vectors of a run over so many rows lie: in mapped files where memory is short."""
        held = _HELD * 8 * rows
        if not self.limit and held <= _SLIGHT:
            return Workspace(folder=self.folder)
        return Workspace(held > self.for_table, self.folder)

    def check(self, rows: int) -> None:
        """InputError where not even the vectors of a run fit."""
        need = least_memory(rows)
        if self.limit and need > self.limit:
            raise InputError(
                f"memory must be at least {in_words(need)} for {rows} rows: the program and {_VECTORS} vectors of one "
                f"number per row. Found {in_words(self.limit)}. Raise data.memory, or leave it out."
            )

    def describe(self, matrix: Any) -> str:
        """Where this table lies, and why, in one sentence."""
        if sp.issparse(matrix):
            size, kind = in_words(stored_bytes(matrix)), "a CSR matrix"
        else:
            size, kind = in_words(matrix.shape[0] * matrix.shape[1] * np.dtype(matrix.dtype).itemsize), matrix.dtype
        share = f"a third of {in_words(self.bytes)}, {'the limit' if self.limit else 'which is free'}"
        if self is IN_MEMORY:
            return f"the table takes {size} as {kind} and lies in memory"
        if isinstance(matrix, np.ndarray) or (sp.issparse(matrix) and not in_file(matrix.data)):
            return f"the table takes {size} as {kind} and lies in memory: at most {share}, is for it"
        if hasattr(matrix, "through"):
            return f"the table takes {size} as {kind}, and the actors of a Ray cluster hold it"
        return f"the table takes {size} as {kind} and lies on disk, in row blocks: more than {share}"


IN_MEMORY = Room(limit=1 << 62)
"""For tables that lie in memory whatever their size."""


def amount(text: str | int | None) -> int:
    """Bytes, from "1.5 GB" and the like; 0 for nothing."""
    if text is None or (isinstance(text, str) and not text):
        return 0
    found = _AMOUNT.fullmatch(str(text))
    if isinstance(text, bool) or found is None or found.group(2).upper() not in _UNITS:
        raise SettingError(f'memory must be an amount, such as "1.5 GB" or "900 MB". Found {text!r}.')
    bytes_ = float(found.group(1)) * _UNITS[found.group(2).upper()]
    if math.isinf(bytes_):
        raise SettingError("memory must be an amount that a machine can have. Found one that is too large to count.")
    if bytes_ < _PROGRAM:
        raise SettingError(f"memory must be at least {in_words(_PROGRAM)}: the program takes as much. Found {text!r}.")
    return int(bytes_)


def lend_no_memory() -> None:
    """Have Arrow give back what it frees: its own pools reserve gigabytes, and return little, in the whole process."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.set_memory_pool(arrow.system_memory_pool())
    else:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def stored_bytes(matrix: Any) -> int:
    """Bytes of a CSR matrix."""
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def least_memory(rows: int) -> int:
    """Bytes that a run over so many rows takes, wherever the table lies."""
    return _PROGRAM + _VECTORS * 8 * rows


def in_words(count: int) -> str:
    """So many bytes, as a person says it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB"


def free_memory() -> int:
    """Bytes that this process can still have: what the machine has free, within the limits set on the process."""
    known = [os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            known = [int(line.split()[1]) * 1024]
    known += [int(text) for text in _lines("/sys/fs/cgroup/memory.max") if text.strip().isdigit()]
    known += [int(text) for text in _lines("/sys/fs/cgroup/memory/memory.limit_in_bytes") if text.strip().isdigit()]
    known += [soft for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA) if (soft := resource.getrlimit(kind)[0]) > 0]
    return min(known)


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
