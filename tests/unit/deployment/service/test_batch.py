"""Bodies of batches, read into rows."""

import tracemalloc

import pytest

from plait.deployment.service.answers import HttpRefusal
from plait.deployment.service.batch import BatchRow, read_rows


def test_each_line_is_a_row_and_empty_lines_are_none() -> None:
    body = b'{"id": "a"}\n\n  {"id": "\xc3\xa9"}\r\n{"id": ""}'
    assert read_rows(body) == [BatchRow("a"), BatchRow("é"), BatchRow("")]


@pytest.mark.threat("HTTP client", "batches of millions of short lines", "a million lines, counted before any is read")
def test_lines_without_number_do_not_fill_the_memory() -> None:
    body = b"\n" * (1 << 25)  # the largest body there is
    tracemalloc.start()
    with pytest.raises(HttpRefusal, match="at most 1000000 lines"):
        read_rows(body)
    assert tracemalloc.get_traced_memory()[1] < 1 << 16
    tracemalloc.reset_peak()
    rows = read_rows(b'{"id": "c0"}\n' * 10_000)
    assert tracemalloc.get_traced_memory()[1] < 250 * len(rows)
    tracemalloc.stop()
