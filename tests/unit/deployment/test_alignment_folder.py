"""Alignments on disk: who may use one again."""

from pathlib import Path

import pytest

from plait.alignment.proposal import agree
from plait.deployment.align import align
from plait.deployment.align_party import PartyAlignment
from plait.deployment.alignment_folder import find_alignment, is_usable
from plait.deployment.job_file import read_job, read_party
from plait.deployment.progress import Silent
from plait.errors import StorageError

JOB = """format = 1
name = "t"
parties = ["bank", "shop"]
protection = "plain"
[coordinator]
name = "bank"
[alignment]
min_rows = 3
{rules}
{more}
"""


def aligned(folder: Path) -> str:
    """Align two small tables; returns the name of the alignment."""
    for name, ids in (("bank", "abcdef"), ("shop", "fedcxy")):
        rows = [f"{i},1,2" for i in ids]
        (folder / f"{name}.csv").write_text("\n".join(["id,p,q", *rows]) + "\n")
        (folder / f"{name}.toml").write_text(f'[data]\nfile = "{name}.csv"\nid = "id"\nlabel = "p"\n')
    return align(*parts(folder), None, agree, Silent()).parent.name


def parts(folder: Path, rules: str = "", more: str = "") -> tuple:  # type: ignore[type-arg]
    (folder / "job.toml").write_text(JOB.format(rules=rules, more=more))
    job = read_job(folder / "job.toml")
    files = [read_party(folder / "job.toml", name) for name in job.parties]
    return job, files[0], files


def keeper(folder: Path, rules: str = "", more: str = "", name: str = "shop") -> PartyAlignment:
    job, _, files = parts(folder, rules, more)
    file = next(f for f in files if f.name == name)
    return PartyAlignment(job, file, agree, Silent(), "coordinator" if name == "bank" else name)


def test_other_settings_use_the_same_alignment(tmp_path: Path) -> None:
    name = aligned(tmp_path)
    for more in ("", "[stopping]\nmax_rounds = 7", '[model]\nloss = "squared"'):
        found = keeper(tmp_path, more=more)
        assert found.order(name).ids == ("c", "d", "e", "f")
        members = [keeper(tmp_path, more=more, name="bank"), found]
        assert find_alignment(members, resume=False) is not None


def test_a_coordinator_cannot_name_an_alignment_by_other_rules(tmp_path: Path) -> None:
    name = aligned(tmp_path)
    other = keeper(tmp_path, rules='case = "fold"')
    assert not is_usable(other, name)
    with pytest.raises(StorageError, match="by these id rules"):
        other.order(name)
    with pytest.raises(StorageError, match="by these id rules"):
        keeper(tmp_path).order("20260101-120000-0a1b2c")


def test_changed_ids_are_noticed(tmp_path: Path) -> None:
    name = aligned(tmp_path)
    with (tmp_path / "shop.csv").open("a") as file:
        file.write("z,1,2\n")
    changed = keeper(tmp_path)
    assert find_alignment([keeper(tmp_path, name="bank"), changed], resume=False) is None
    with pytest.raises(StorageError, match="plait align --refresh"):
        changed.order(name)


def test_what_was_on_its_way_is_gone_when_a_party_declines(tmp_path: Path) -> None:
    aligned(tmp_path)
    job, own, files = parts(tmp_path)
    with pytest.raises(Exception, match="declined"):
        align(job, own, files, None, lambda proposal: proposal.party != "shop", Silent(), refresh=True)
    left = [path.name for path in (tmp_path / "alignments").rglob("*")]
    assert "relay" not in left
    assert "work" not in left
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "alignments").rglob("*"))
