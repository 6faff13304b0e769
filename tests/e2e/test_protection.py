"""Protected training between real programs: the same bits as simulated, kills survived, hostile peers refused."""

import re
from typing import Any

import pytest

from plait.deployment.earlier_rows import note_rows
from plait.deployment.job_file import read_job, read_party
from plait.deployment.local_data import load_labels
from plait.deployment.message_log import read_log
from plait.errors import ConfigError, PrivacyError, StorageError
from tests.e2e.conftest import Job, JobMaker
from tests.e2e.test_kills import JOURNAL, PARTY, check

ROWS = 1200
LABELS: dict[str, Any] = {"method": 'name = "auto"', "protection": '"labels"', "rows": ROWS, "tol": 1e-9}
SUMS: dict[str, Any] = {**LABELS, "protection": '"sums"', "parties": ("bank", "shop", "tele")}
POINTS = {
    "party, hints journalled but not sent": ("shop", f"{JOURNAL}.append", "after", 1),
    "coordinator, hints taken but not journalled": ("bank", f"{JOURNAL}.append_behind", "before", 1),
    "party, a share journalled but not sent": ("shop", f"{JOURNAL}.append", "after", 3),
}
MORE_POINTS = {
    "party, before its hints": ("shop", f"{PARTY}.answer", "before", 1),
    "party, before it journals a share": ("shop", f"{JOURNAL}.append", "before", 3),
    "coordinator, asked but not answered": ("bank", "plait.transports.server:Hub.put", "after", 2),
    "coordinator, answered but not journalled": ("bank", f"{JOURNAL}.append_behind", "before", 3),
}


def run(job: Job) -> None:
    for name in job.parties:
        job.start(name)
    assert [job.wait(name) for name in job.parties] == [0] * len(job.parties), [job.log(n) for n in job.parties]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return JobMaker(tmp_path_factory.mktemp("undisturbed")).undisturbed(**LABELS)


def test_labels_are_hidden_between_two_programs_and_the_weights_are_the_simulated_ones(
    jobs: JobMaker, expected: dict[str, str]
) -> None:
    job = jobs(**LABELS)
    run(job)
    assert job.result() == expected
    assert "hides the labels" in job.log("bank")
    assert "can read most others after four rounds" in job.log("shop")  # the scores are shown, and that is said
    assert not list(job.folder.rglob("protection.json"))  # the secrets of a finished run are gone


@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_a_killed_program_goes_on_with_the_same_bits(
    jobs: JobMaker, point: tuple[str, str, str, int], expected: dict[str, str]
) -> None:
    check(jobs(**LABELS), point, expected)


@pytest.mark.slow
@pytest.mark.parametrize("point", MORE_POINTS.values(), ids=MORE_POINTS)
def test_a_program_killed_elsewhere_goes_on_with_the_same_bits(
    jobs: JobMaker, point: tuple[str, str, str, int], expected: dict[str, str]
) -> None:
    check(jobs(**LABELS), point, expected)


def test_sums_are_hidden_between_three_programs_and_a_killed_one_sends_the_same_masked_shares(jobs: JobMaker) -> None:
    job = jobs(**SUMS)
    masks = ("plait.deployment.run_keys:UsedMasks.__setitem__", "after", 2)
    check(job, ("shop", *masks), jobs.undisturbed(**SUMS))
    assert "learns sums over bank, shop and tele" in job.log("tele")
    sealed = [entry.facts for entry in read_log(max(job.folder.glob("runs/*/shop/audit.jsonl")))]
    sent = [facts["digest"] for facts in sealed if facts["what"] == "sent"]
    assert len(sent) == len(set(sent))


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        ("bank", f"{JOURNAL}.append_behind", "before", 4),
        ("bank", "plait.transports.server:Hub.put", "after", 2),
        ("tele", f"{JOURNAL}.append", "before", 4),
    ],
)
def test_killed_anywhere_sums_go_on_with_the_same_bits(jobs: JobMaker, point: tuple[str, str, str, int]) -> None:
    check(jobs(**SUMS), point, jobs.undisturbed(**SUMS))


@pytest.mark.slow
def test_sums_of_two_groups_run_as_six_programs(jobs: JobMaker) -> None:
    six = {**SUMS, "parties": tuple("abcdef"), "protection": '{ mode = "sums", groups = true }'}
    job = jobs(**six)
    run(job)
    assert job.result() == jobs.undisturbed(**six)
    assert "learns sums over b, d and f" in job.log("b")


def test_fine_gradients_and_hidden_row_weights_give_the_simulated_bits_too(jobs: JobMaker) -> None:
    """Beside L1 the last gradients have two ciphertexts; weights that tell the labels stay with the label party."""
    made = [jobs(**{**LABELS, "tol": 1e-7}, model="weighted = true") for _ in range(2)]
    for job in made:
        job.file.write_text(job.file.read_text().replace('"l2", alpha = 1e-3', '"l1", alpha = 3e-3'))
        head, *rows = (job.folder / "bank.csv").read_text().splitlines()
        weighted = [f"{row},{2.5 if row.endswith(',1') else 1}" for row in rows]
        (job.folder / "bank.csv").write_text("\n".join([f"{head},w", *weighted]) + "\n")
        own = (job.folder / "bank.toml").read_text().replace('label = "y"', 'label = "y"\nweight = "w"')
        (job.folder / "bank.toml").write_text(own)
    run(made[0])
    jobs.simulate(made[1])
    assert made[0].result() == made[1].result()
    log = read_log(max(made[0].folder.glob("runs/*/shop/audit.jsonl")))
    sizes = [entry.facts["bytes"] for entry in log if entry.facts["what"] == "received"]
    assert sizes[0] < 100 < 10 * 8 * ROWS < sizes[1]  # an offer, and at once an encrypted gradient: no row weights
    assert 1.9 < sizes[-1] / sizes[1] < 2.1


def test_a_sum_with_one_party_less_than_before_is_refused(jobs: JobMaker) -> None:
    """The first shares of two runs are equal: one sum less the other would be the share of the party that is away.

    Where a tenth of the rows has gone in between, it would nearly be that.
    """
    job = jobs(**{**SUMS, "parties": ("bank", "shop", "tele", "news"), "rows": 400, "patience": 20})
    for _ in range(2):  # the same parties again are no other sum
        run(job)
    text = job.file.read_text()
    job.file.write_text(text.replace(', "news"]', "]"))
    cut(job, 360)
    for name in ("bank", "shop", "tele"):
        job.start(name)
    assert [job.wait(name, 60) != 0 for name in ("shop", "tele", "bank")] == [True] * 3
    words = "over bank, shop and tele, shows that of news together with bank, news, shop and tele before"
    assert words in job.log("shop") + job.log("tele")
    assert "Traceback" not in job.log("shop") + job.log("tele")
    assert not list(max((job.folder / "runs").iterdir()).glob("shop/audit.jsonl"))  # nothing was heard or sent
    for name in ("shop", "tele"):
        with (job.folder / f"{name}.toml").open("a") as file:  # its last section is [trust]
            file.write("accept_other_sums = true\n")
    run(Job(job.folder, ("bank", "shop", "tele"), "bank", job.programs))


def with_rows(job: Job, rows: int, columns: int | None = 4) -> None:
    """Leave so many rows in every file, and note them as a run does; `columns` as at `note_rows`."""
    cut(job, rows)
    spec, file = read_job(job.file), read_party(job.file, "bank")
    labels = load_labels(spec, file)
    note_rows(spec, file, labels.ids, labels.values, columns)


def cut(job: Job, rows: int) -> None:
    for name in job.parties:
        path = job.folder / f"{name}.csv"
        path.write_text("\n".join(path.read_text().splitlines()[: 1 + rows]) + "\n")


def test_a_run_with_one_row_less_than_before_is_refused(jobs: JobMaker) -> None:
    """D^T y of two runs would differ by that row's label times its columns."""
    job = jobs(**LABELS)
    with_rows(job, ROWS)
    cut(job, ROWS - 1)
    for name in job.parties:
        job.start(name)
    assert [job.wait(name) != 0 for name in job.parties] == [True, True]
    assert "must be 40 or more together: a party would learn labels of fewer" in job.log("bank")
    assert "Found 1. Train with the same rows as before" in job.log("bank")
    assert "Traceback" not in job.log("bank")
    log = read_log(max(job.folder.glob("runs/*/shop/audit.jsonl")))
    assert [entry.facts["seq"] for entry in log if entry.facts["what"] == "received"] == [1], "an offer, no gradient"
    with_rows(job, ROWS - 40)  # 10 rows a column
    with pytest.raises(PrivacyError, match="Found 5"):
        with_rows(job, ROWS - 45)
    with (job.folder / "bank.toml").open("a") as file:  # its last section is [trust]
        file.write("accept_other_rows = true\n")
    with_rows(job, ROWS - 45)


def test_rows_without_ids_must_be_those_of_before(jobs: JobMaker) -> None:
    job = jobs(**LABELS)
    path = job.folder / "bank.toml"
    path.write_text(path.read_text().replace('id = "id"\n', ""))
    with_rows(job, ROWS)
    with_rows(job, ROWS)
    with pytest.raises(PrivacyError, match="Name the ids"):
        with_rows(job, ROWS - 40)


def test_a_damaged_record_of_rows_is_named(jobs: JobMaker) -> None:
    job = jobs(**LABELS)
    with_rows(job, ROWS)
    (path,) = (job.folder / "counts" / "bank-rows").glob("*-*")
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(StorageError, match="must hold the rows of an earlier run"):
        with_rows(job, ROWS - 40)


@pytest.mark.parametrize("options", [LABELS, SUMS], ids=["labels", "sums"])
def test_a_run_that_ends_where_it_begins_is_protected_too(jobs: JobMaker, options: dict[str, Any]) -> None:
    """All weights are 0 under a strong L1 penalty: the run closes in round 0."""
    made = [jobs(**options) for _ in range(2)]
    for job in made:
        job.file.write_text(job.file.read_text().replace('"l2", alpha = 1e-3', '"l1", alpha = 10.0'))
    run(made[0])
    jobs.simulate(made[1])
    assert made[0].result() == made[1].result()


def test_sums_that_would_hide_nothing_are_refused(jobs: JobMaker) -> None:
    with pytest.raises(ConfigError, match="2 parties outside the label party's organisation"):
        jobs(**{**SUMS, "parties": ("bank", "shop")})


def test_a_job_that_does_not_say_its_protection_is_refused(jobs: JobMaker) -> None:
    job = jobs(**LABELS)
    job.file.write_text(re.sub("protection = .*\n", "", job.file.read_text()))
    assert job.start("bank").wait(60) != 0
    assert 'Write protection = "labels"' in job.log("bank")
