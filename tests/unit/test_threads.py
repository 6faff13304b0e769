"""How work is shared among threads."""

import threading
import time

import numpy as np
import pytest

from plait import _threads
from plait._types import Array
from plait.problem.row_blocks import adjoint


def test_side_by_side_gives_answers_in_order_and_lets_the_caller_work() -> None:
    seen = set()

    def work(item: int) -> int:
        seen.add(threading.current_thread().name)
        time.sleep(0.001 * (item % 3))
        return item * item

    assert _threads.side_by_side(work, range(50)) == [i * i for i in range(50)]
    assert threading.current_thread().name in seen
    assert _threads.side_by_side(work, []) == []


@pytest.mark.parametrize("broken", [0, 7, 49])
def test_an_error_of_any_thread_reaches_the_caller_and_ends_the_work(broken: int) -> None:
    done = []

    def work(item: int) -> None:
        if item == broken:
            raise IndexError(f"item {item}")
        time.sleep(0.0005)
        done.append(item)

    with pytest.raises(IndexError, match=f"item {broken}"):
        _threads.side_by_side(work, range(50))
    assert broken not in done


def test_busy_helpers_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_cores", lambda: 2)
    stop = threading.Event()
    helpers = _threads._helpers()
    busy = [helpers.submit(stop.wait, 20) for _ in range(helpers._max_workers)]
    try:
        assert _threads.by_halves(lambda rows: rows.stop - rows.start, 11) == [5, 6]
        assert not any(one.done() for one in busy)
    finally:
        stop.set()


def test_other_threads_work_during_a_product_that_makes_few_numbers() -> None:
    """`@` holds the lock of the interpreter while it makes fewer than 500 numbers."""
    block, v = np.ones((4_000_000, 1)), np.ones(4_000_000)
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.0001):
            ticks.append(time.perf_counter())

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        assert max(_ticks_during_a_product(block, v, ticks) for _ in range(30)) >= 5
    finally:
        stop.set()
        ticker.join()


def _ticks_during_a_product(block: Array, v: Array, ticks: list[float]) -> int:
    begin = time.perf_counter()
    adjoint([(slice(0, len(v)), block)], [v])
    end = time.perf_counter()
    return sum(begin < t < end for t in ticks[-100:])  # one or two may fall before or after the product itself
