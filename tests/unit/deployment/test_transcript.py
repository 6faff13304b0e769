"""A recorded conversation: every bit of every message comes back, also after a crash and from a full disk's party."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from plait.deployment.message_log import AuditLog, read_log
from plait.deployment.transcript import NAME, Recorded, read_transcript
from plait.errors import StorageError
from plait.messages import Broadcast, Share

rng = np.random.default_rng(0)
WORDS = rng.integers(0, 1 << 64, 9, dtype=np.uint64, endpoint=False) | np.uint64(1 << 63 | 1)  # no float64 holds them
SENT = {
    "float64": Share(1, np.array([0.1, -0.0, 5e-324, 1e100]), np.array([1 / 3])),
    "float32": Share(2, np.array([0.1, 7.0], dtype=np.float32)),
    "int16": Share(3, np.array([-32767, 5], dtype=np.int16), np.array([2.0]), step=0.1, change=True),
    "words": Share(4, WORDS, np.array([0.5])),
    "none": Share(5, None, np.array([1.0, 2.0])),
}


class Answers:
    """Gives the share of the exchange that it is asked for."""

    def answer(self, seq: int, broadcast: Broadcast) -> Share:
        return list(SENT.values())[seq - 1]


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def asked(seq: int) -> Broadcast:
    return Broadcast(seq, WORDS[:seq], np.array([float(seq)]), closing=seq == 5)


def test_every_bit_of_every_number_format_comes_back(tmp_path: Path) -> None:
    party = Recorded(Answers(), tmp_path, (9, 2))
    for seq in range(1, 6):
        party.answer(seq, asked(seq))
    found = read_transcript(tmp_path)
    assert found.shape == (9, 2)
    for exchange, sent in zip(found.exchanges, SENT.values(), strict=True):
        received = asked(exchange.seq)
        assert exchange.received.digest == received.digest
        assert exchange.received.closing == received.closing
        assert exchange.sent.digest == sent.digest
        assert (exchange.sent.step, exchange.sent.change) == (sent.step, sent.change)
        kinds = [None if share.vector is None else share.vector.dtype for share in (exchange.sent, sent)]
        assert kinds[0] == kinds[1]


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_line_that_a_crash_cut_short_is_dropped_and_written_again(tmp_path: Path, cut: int) -> None:
    party = Recorded(Answers(), tmp_path, (9, 2))
    for seq in (1, 2):
        party.answer(seq, asked(seq))
    path = tmp_path / NAME
    path.write_bytes(path.read_bytes()[:-cut])
    again = Recorded(Answers(), tmp_path, (9, 2))
    for seq in (2, 3):
        again.answer(seq, asked(seq))
    assert [exchange.seq for exchange in read_transcript(tmp_path).exchanges] == [1, 2, 3]


def test_a_full_disk_ends_a_recorded_run_with_the_remedy(tmp_path: Path) -> None:
    party = Recorded(Answers(), tmp_path, (9, 2))
    with full_disk(100), pytest.raises(StorageError, match=r"must be writable.*Make room"):
        party.answer(1, asked(1))
    again = Recorded(Answers(), tmp_path, (9, 2))
    again.answer(1, asked(1))
    assert read_transcript(tmp_path).exchanges[0].sent.digest == SENT["float64"].digest


def test_a_transcript_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text('{"format": 1, "rows": 9, "width": 2}\n')
    with pytest.raises(StorageError, match="format 1 of another version"):
        read_transcript(tmp_path)


@pytest.mark.parametrize("numbers", [10, 1 << 18, (1 << 22) + 1], ids=["short", "long", "huge"])
def test_a_full_disk_ends_a_message_of_any_size_with_the_remedy(tmp_path: Path, numbers: int) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    log.message("sent", "shop", 1, Share(1, np.zeros(10)))

    def send() -> None:
        log.message("sent", "shop", 2, Share(2, np.zeros(numbers)))
        log.settle()

    with full_disk(300), pytest.raises(StorageError, match=r"audit log .* must be writable.*Make room"):
        send()
    log.close()
    again = AuditLog(tmp_path / "audit.jsonl")
    again.note("resumed")
    again.close()
    whats = [entry.facts["what"] for entry in read_log(tmp_path / "audit.jsonl")]
    assert whats[0] == "sent"
    assert whats[-1] == "resumed"
