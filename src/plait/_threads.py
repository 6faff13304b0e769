"""How plait uses a machine: parties work side by side, each with one BLAS thread, and so do halves of a table.

NumPy and SciPy bring a BLAS each, and the idle threads of one spin while the other works: with more than one thread
in each, everything small gets several times slower.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")

_KEPT_BYTES = (32 << 20) - (1 << 16)  # bytes: glibc learns to keep freed blocks up to 32 MiB; 64 KiB are for its head


@cache
def _controller() -> Any:
    """Looking for the libraries takes milliseconds, so it is done once."""
    return ThreadpoolController()


def blas_threads(count: int = 1) -> AbstractContextManager[Any]:
    """Lets every BLAS use so many threads within this context."""
    keep_freed_memory()
    limited: AbstractContextManager[Any] = _controller().limit(limits=count, user_api="blas")
    return limited


def keep_freed_memory() -> None:
    """Let vectors of one number per row reuse memory instead of fetching it from the system page by page.

    The allocator of Linux (glibc) learns from the largest block that was freed, up to 32 MiB, what to keep for later.
    One such block, never touched, is freed at once.  Without it a quarter of a short run goes into page faults.
    """
    np.empty(_KEPT_BYTES, dtype=np.uint8)


def workers(tasks: int) -> ThreadPoolExecutor:
    """Threads for so many tasks at once, no more than there are cores."""
    return ThreadPoolExecutor(max(1, min(tasks, _cores())), "plait-worker")


def side_by_side(work: Callable[[S], T], items: Sequence[S]) -> list[T]:
    """What `work` gives for every item, in their order; whichever thread is free takes the next item.

    The caller works as well, and does not wait for a thread that has not begun: on a busy machine it does all itself.
    """
    found: dict[int, T] = {}
    waiting = deque(enumerate(items))

    def take() -> None:
        while waiting:
            try:
                at, item = waiting.popleft()
            except IndexError:
                return  # another thread was faster
            found[at] = work(item)

    others = [_helpers().submit(take) for _ in range(min(_cores(), len(items)) - 1)]
    try:
        take()
    finally:
        waiting.clear()
    for other in others:
        if not other.cancel():
            other.result()
    return [found[at] for at in range(len(items))]


def by_halves(work: Callable[[slice], T], rows: int) -> list[T]:
    """What `work` gives for the first and for the second half of the rows; the halves are the same on every machine."""
    return side_by_side(work, [slice(0, rows // 2), slice(rows // 2, rows)])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores(), "plait-half")


def in_order(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """What `work` gives for every item, in their order; two items more than there are cores are under way at a time."""
    waiting: deque[Future[T]] = deque()
    pool, most = _helpers(), _cores() + 2
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for one in waiting:
            one.cancel()
