"""The label party with one partner as a job of its own, and where a job may not ask for it."""

from pathlib import Path

import pytest

from plait import L1, L2, PlaitError
from plait.deployment.consent import check_consent
from plait.deployment.job_file import Job, PartyFile, read_job
from plait.deployment.pairs import keep_pair, pair_job, pair_runs, partners
from plait.deployment.party_settings import DataOptions, TrustOptions
from plait.deployment.run_folder import RunFolder
from plait.errors import ConfigError

REPORT = "[report]\npartners = true\n"


def job(folder: Path, *parties: str, protection: str = "plain", more: str = REPORT) -> Job:
    names = ", ".join(f'"{name}"' for name in parties)
    (folder / "job.toml").write_text(
        f'format = 1\nparties = [{names}]\nprotection = "{protection}"\n[coordinator]\nname = "bank"\n{more}'
    )
    return read_job(folder / "job.toml")


def test_a_pair_has_its_own_penalties_and_model_and_the_digest_and_rows_of_the_whole(tmp_path: Path) -> None:
    more = (
        '[model.penalties]\nshop = { name = "l1", alpha = 0.5 }\ntele = { name = "l1", alpha = 0.7 }\n'
        f'[fingerprints]\nbank = "{"0" * 32}"\nshop = "{"1" * 32}"\ntele = "{"2" * 32}"\n'
    )
    whole = job(tmp_path, "bank", "shop", "tele", more=REPORT + more)
    pair = pair_job(whole, "shop")
    assert partners(whole) == ("shop", "tele")
    assert pair.parties == ("bank", "shop")
    assert pair.penalties == {"bank": L2(1e-4), "shop": L1(0.5)}
    assert set(pair.fingerprints) == {"bank", "shop"}
    assert pair.digest == whole.digest, "the parties have the file of the whole job"
    assert len({whole.model_digest, pair.model_digest, pair_job(whole, "tele").model_digest}) == 3
    assert pair.pair_of == whole.parties
    assert partners(pair) == ()


def test_a_label_party_without_columns_lends_only_its_labels(tmp_path: Path) -> None:
    whole = job(tmp_path, "shop", "tele")
    assert partners(whole) == ("shop", "tele")
    assert pair_job(whole, "tele").parties == ("tele",)


def test_with_one_partner_there_is_nothing_to_add(tmp_path: Path) -> None:
    assert partners(job(tmp_path, "bank", "shop")) == ()
    assert partners(job(tmp_path, "bank", "shop", "tele", more="")) == ()


@pytest.mark.parametrize(
    ("protection", "more", "found"),
    [
        ("sums", "", 'Found protection = "sums", which hides them'),
        ("plain", '[privacy.parties]\nshop = { name = "recommended", epsilon = 1.0 }\n', r"Found \[privacy\]"),
    ],
)
def test_a_job_that_hides_scores_does_not_show_them_for_its_report(
    tmp_path: Path, protection: str, more: str, found: str
) -> None:
    with pytest.raises(ConfigError, match=found):
        job(tmp_path, "bank", "shop", "tele", protection=protection, more=REPORT + more)
    assert job(tmp_path, "bank", "shop", "tele", protection=protection, more=more)


def test_asking_for_pairs_later_changes_neither_the_model_nor_what_a_run_releases(tmp_path: Path) -> None:
    before, after = (job(tmp_path, "bank", "shop", "tele", more=more) for more in ("", REPORT))
    assert (before.model_digest, before.policy.run) == (after.model_digest, after.policy.run)
    assert before.digest != after.digest


def test_every_party_is_told_what_a_pair_shows_before_it_starts(tmp_path: Path) -> None:
    whole, trust = (
        job(tmp_path, "bank", "shop", "tele"),
        TrustOptions(accept_labels_shown=True, accept_scores_shown=True),
    )
    said: list[str] = []
    for name in whole.parties:
        check_consent(whole, PartyFile(name, tmp_path, DataOptions(file="a.csv"), trust=trust), said.append)
    assert any("shop and tele can then read bank's part" in line for line in said)
    assert any("one of bank and tele alone, which shows as much again" in line for line in said)


def test_the_runs_of_pairs_are_kept_with_the_run_of_all(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    assert pair_runs(folder) == {}
    keep_pair(folder, "shop", "20260101-000000-aaaaaa")
    keep_pair(folder, "tele", "20260101-000001-bbbbbb")
    assert pair_runs(folder) == {"shop": "20260101-000000-aaaaaa", "tele": "20260101-000001-bbbbbb"}
    (tmp_path / "pairs.json").write_text((tmp_path / "pairs.json").read_text().replace("aaaaaa", "cccccc"))
    with pytest.raises(PlaitError, match="checksum"):
        pair_runs(folder)
