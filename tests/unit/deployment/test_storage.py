"""States, journals and the audit log: what comes back, and what a crash or a forger leaves behind."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3

from plait.alignment.spool import Spool
from plait.deployment import state
from plait.deployment.journal import Journal, Record
from plait.deployment.message_log import AuditLog, read_log
from plait.errors import StorageError
from plait.messages import Share
from plait.methods.admm.proximal import Proximal
from plait.methods.admm.sharing import Iterate, SharingState
from plait.methods.base import Measured, Task
from plait.problem.losses import Logistic


def test_state_of_a_method_returns_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    iterate = Iterate(rng.standard_normal((2, 9)), rng.standard_normal(9), np.array([np.inf, np.nan, -0.0]), 5e-324)
    before = SharingState(iterate, iterate, 0.1, Measured(3, 1 / 3, np.inf, np.nan), past=(iterate,))
    after = state.decode(state.encode(before))
    assert type(after) is SharingState
    assert state.encode(after) == state.encode(before)
    assert after.past[0].shares.tobytes() == iterate.shares.tobytes()
    assert after.end.intercept == 5e-324


def test_start_state_of_the_default_method_can_be_stored() -> None:
    task = Task(Logistic(), np.array([-1.0, 1.0]), np.array([0.5, 0.5]), ("a", "b"))
    start = Proximal().coordinator_side(task).start()
    assert state.encode(state.decode(state.encode(start))) == state.encode(start)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PLTS\x03",
        b"PLTS\x03" + (2).to_bytes(8, "little") + b"{}",
        b"PLTS\x03" + (20).to_bytes(8, "little") + b'{"class":"os:system"}',
    ],
)
def test_damaged_or_foreign_states_are_refused(data: bytes) -> None:
    with pytest.raises(StorageError):
        state.decode(data)


def test_state_names_no_class_outside_the_package() -> None:
    outline = json.dumps({"class": "subprocess:Popen", "fields": {"args": "true"}}).encode()
    with pytest.raises(StorageError, match="only states and messages of plait"):
        state.decode(b"PLTS\x03" + len(outline).to_bytes(8, "little") + outline)


@dataclass(frozen=True)
class WithCache:
    x: float
    factor: object = field(default=None, metadata=state.CACHE)


def test_caches_are_left_out() -> None:
    assert b"factor" not in state.encode(WithCache(1.0, object()))


def test_journal_drops_only_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path)
    journal.append(1, [b"one"])
    journal.append(2, [b"tw", memoryview(b"o")])
    journal.close()
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        again = Journal(path)
        kept = list(again.records())
        assert kept == [Record(1, b"one"), Record(2, b"two")][: len(kept)]
        assert len(kept) == (cut >= len(whole) // 2)
        again.append(9, [b"more"])
        assert list(again.records())[-1] == Record(9, b"more")
        again.close()


@pytest.mark.parametrize("parts", [[30_000], [7, 29_993], [4096, 8192, 17_712], [5, 4091, 1, 25_903]])
def test_journal_notices_any_page_that_did_not_reach_the_disk(tmp_path: Path, parts: list[int]) -> None:
    path, page = tmp_path / "journal", 4096
    content = (np.random.default_rng(0).bytes(page) * 8)[:30_000]  # pages that are all alike
    ends = np.cumsum(parts)
    journal = Journal(path)
    journal.append(1, [content[end - size : end] for end, size in zip(ends, parts, strict=True)])
    journal.close()
    whole = path.read_bytes()
    for first in range(0, len(whole), page):
        for lost in (1, 2):
            hole = bytes(min(lost * page, len(whole) - first))
            path.write_bytes(whole[:first] + hole + whole[first + len(hole) :])
            again = Journal(path)
            assert again.bytes == 0
            again.close()


def test_lines_of_long_messages_wait_until_it_is_a_good_time(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.message("sent", "shop", 1, Share(1, np.zeros(200_000)))
    time.sleep(0.1)
    assert path.read_bytes() == b""
    log.catch_up()
    deadline = time.monotonic() + 5
    while not path.read_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [entry.facts["seq"] for entry in read_log(path)] == [1]
    log.message("sent", "shop", 2, Share(2, np.zeros(200_000)))
    log.close()
    assert [entry.facts["seq"] for entry in read_log(path)] == [1, 2]


def test_more_long_messages_than_may_wait_are_written_unasked(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    for seq in range(80):
        log.message("sent", "shop", seq, Share(seq, np.zeros(140_000)))
    log.close()
    assert [entry.facts["seq"] for entry in read_log(tmp_path / "audit.jsonl")] == list(range(80))


def test_audit_log_continues_its_chain_and_shows_tampering(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    share = Share(1, np.arange(4.0), np.array([2.0]))
    log = AuditLog(path)
    log.note("started")
    log.message("sent", "coordinator", 1, share)
    log.close()
    with path.open("ab") as file:
        file.write(b'{"torn')
    log = AuditLog(path)
    log.note("resumed")
    log.close()
    assert [e.facts["what"] for e in read_log(path)] == ["started", "sent", "resumed"]
    lines = path.read_bytes().splitlines(keepends=True)
    for forged in ([lines[0], lines[2]], [lines[0], lines[1].replace(b"40", b"41"), lines[2]], lines[1:]):
        path.write_bytes(b"".join(forged))
        with pytest.raises(StorageError, match="unbroken"):
            list(read_log(path))


def test_audit_lines_of_long_and_short_messages_keep_their_order(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl")
    sizes = [1, 200_000, 200_001, 2, 200_002, 3, 5_000_000, 4]
    for seq, size in enumerate(sizes):
        log.message("sent", "shop", seq, Share(seq, np.arange(float(size))))
    log.close()
    lines = [entry.facts for entry in read_log(tmp_path / "audit.jsonl")]
    assert [line["seq"] for line in lines] == list(range(len(sizes)))
    assert [line["bytes"] for line in lines] == [8 * size for size in sizes]
    vector = np.arange(200_000.0)
    assert lines[1]["digest"] == blake3((1).to_bytes(8, "little") + vector.tobytes()).hexdigest()


def test_a_spool_keeps_whole_records_and_drops_what_was_cut_short(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "deep" / "spool", 4)
    assert spool.records().shape == (0, 4)
    spool.append(b"aaaabbbb")
    with spool.path.open("ab") as file:
        file.write(b"cc")
    again = Spool(spool.path, 4)
    assert again.count == 2
    again.append(b"dddd")
    assert again.records().tobytes() == b"aaaabbbbdddd"


def test_a_spool_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="must be writable"):
        Spool(tmp_path / "file" / "spool", 4).append(b"aaaa")
