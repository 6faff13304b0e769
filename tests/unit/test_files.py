"""The one writer of files, and what the chains of sealed entries share."""

import hashlib
import json
import stat
from pathlib import Path

import pytest

from plait._files import write_atomically
from plait.deployment.message_log import read_log
from plait.errors import StorageError
from plait.privacy.ledger.hash_chain import HashChain


def test_a_write_makes_its_folders_and_leaves_nothing_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, b"first")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_failed_write_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageError, match="taken"):
        write_atomically(tmp_path / "taken", b"a file cannot replace a folder")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_only_the_owner_reads_a_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "secret", b"key")
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_a_ledger_written_line_by_line_by_other_code_is_read(tmp_path: Path) -> None:
    """The format on disk is a promise: an old ledger must stay readable, or its budget counts as spent."""
    folder, previous, lines = tmp_path / "ledger", "0" * 64, []
    for seq, body in enumerate(({"epsilon": 1.5}, {"party": "bank", "a": None}), start=1):
        text = json.dumps([1, seq, previous, "charge", body], sort_keys=True)
        previous = hashlib.sha256(text.encode()).hexdigest()
        lines.append(json.dumps({"version": 1, "seq": seq, "kind": "charge", "body": body, "hash": previous}))
    folder.mkdir()
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
    head = {"version": 1, "seq": 2, "hash": previous, "pending": None}
    (tmp_path / "ledger.head.json").write_text(json.dumps(head))
    with HashChain(folder).locked() as entries:
        assert [e.body for e in entries] == [{"epsilon": 1.5}, {"party": "bank", "a": None}]


def test_an_audit_log_written_by_other_code_is_read_and_a_changed_line_is_noticed(tmp_path: Path) -> None:
    path, previous, lines = tmp_path / "audit.jsonl", "0" * 64, []
    for facts in ({"what": "sent", "bytes": 8}, {"what": "received", "bytes": 16}):
        previous = hashlib.sha256((previous + json.dumps(facts, sort_keys=True)).encode()).hexdigest()
        lines.append(json.dumps({**facts, "seal": previous}))
    path.write_text("\n".join(lines) + "\n")
    assert [line.facts["bytes"] for line in read_log(path)] == [8, 16]
    for other in ("9", "NaN"):
        path.write_text("\n".join(lines).replace("8", other, 1) + "\n")
        with pytest.raises(StorageError, match="line 1"):
            list(read_log(path))
