"""The one writer of files, and what the chains of sealed entries share."""

import hashlib
import json
import os
import stat
import threading
from pathlib import Path

import pytest

from plait._files import make_folder, open_private, write_atomically
from plait.deployment.message_log import read_log
from plait.deployment.run_folder import RunFolder, Status
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


@pytest.mark.threat("local user", "links in the place of files and folders", "links are not followed")
@pytest.mark.parametrize("mode", ["ab", "wb", "r+b"])
def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path, mode: str) -> None:
    (tmp_path / "theirs").write_bytes(b"as it was")
    (tmp_path / "journal").symlink_to(tmp_path / "theirs")
    with pytest.raises(StorageError, match="a link in its place"):
        open_private(tmp_path / "journal", mode)
    assert (tmp_path / "theirs").read_bytes() == b"as it was"


@pytest.mark.threat("local user", "links in the place of files and folders", "links are not followed")
def test_a_link_in_the_place_of_a_file_is_replaced_by_an_atomic_write(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"as it was")
    (tmp_path / "weights.json").symlink_to(tmp_path / "theirs")
    (tmp_path / f".weights.json.{threading.get_native_id()}.tmp").symlink_to(tmp_path / "theirs")
    write_atomically(tmp_path / "weights.json", b"mine")
    assert (tmp_path / "theirs").read_bytes() == b"as it was"
    assert (tmp_path / "weights.json").read_bytes() == b"mine"
    assert not (tmp_path / "weights.json").is_symlink()


@pytest.mark.threat("local user", "links in the place of files and folders", "links are not followed")
def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal")
    with pytest.raises(StorageError, match="must be writable"):
        open_private(tmp_path / "journal", "ab")


@pytest.mark.threat("local user", "links in the place of files and folders", "links are not followed")
@pytest.mark.parametrize("at", ["", "shop", "shop/checkpoint"])
def test_a_run_folder_that_is_a_link_is_refused(tmp_path: Path, at: str) -> None:
    link, elsewhere = tmp_path / "runs" / "20260101-120000-0a1b2c" / at, tmp_path / "elsewhere"
    link.parent.mkdir(parents=True)
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    folder = RunFolder(tmp_path / "runs" / "20260101-120000-0a1b2c" / "shop")
    with pytest.raises(StorageError, match=r"a folder of its own\. Found a link"):
        folder.begin(Status("20260101-120000-0a1b2c", "job", "shop", ""))
    assert not any(elsewhere.iterdir())


@pytest.mark.threat("local user", "links in the place of files and folders", "links are not followed")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
def test_a_folder_behind_another_users_link_is_refused_and_behind_ones_own_is_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "alignments").symlink_to(tmp_path / "elsewhere")
    make_folder(tmp_path / "alignments" / "mine")
    assert (tmp_path / "elsewhere" / "mine").is_dir()
    os.chown(tmp_path / "alignments", 12345, 12345, follow_symlinks=False)
    with pytest.raises(StorageError, match="another user"):
        make_folder(tmp_path / "alignments" / "theirs")
    assert not (tmp_path / "elsewhere" / "theirs").exists()


@pytest.mark.threat("local user", "links in the place of files and folders", "links are not followed")
def test_a_ledger_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_bytes(b"")
    folder = make_folder(tmp_path / "ledger")
    (folder / "journal.jsonl").symlink_to(tmp_path / "theirs")
    chain = HashChain(folder, b"key")
    with pytest.raises(StorageError), chain.locked() as entries:
        chain.append(entries, "charge", {"epsilon": 1.0})
    assert (tmp_path / "theirs").read_bytes() == b""
