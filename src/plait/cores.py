"""How plait uses a machine's cores: parties work side by side, each with one BLAS thread.

NumPy and SciPy bring a BLAS each, and the idle threads of one spin while the other works: with more than one thread
in each, everything small gets several times slower.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


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
    return ThreadPoolExecutor(max(1, min(tasks, len(os.sched_getaffinity(0)))), "plait-party")
