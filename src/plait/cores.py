"""How plait uses a machine's cores: parties work side by side, each with one BLAS thread, and so do halves of a table.

NumPy and SciPy bring a BLAS each, and the idle threads of one spin while the other works: with more than one thread
in each, everything small gets several times slower.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")


@cache
def _controller() -> Any:
    """Looking for the libraries takes milliseconds, so it is done once."""
    return ThreadpoolController()


def blas_threads(count: int = 1) -> AbstractContextManager[Any]:
    """Lets every BLAS use so many threads within this context."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=count, user_api="blas")
    return limited


def workers(tasks: int) -> ThreadPoolExecutor:
    """Threads for so many tasks at once, no more than there are cores."""
    return ThreadPoolExecutor(max(1, min(tasks, _cores())), "plait-worker")


def by_halves(work: Callable[[slice], T], rows: int) -> tuple[T, T]:
    """What `work` gives for the first and for the second half of the rows; the halves are the same on every machine."""
    first, second = slice(0, rows // 2), slice(rows // 2, rows)
    if _cores() == 1:
        return work(first), work(second)
    other = _helpers().submit(work, second)
    return work(first), other.result()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), "plait-half")
