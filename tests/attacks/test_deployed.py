"""Attacks on deployed parties: what they answer, what they say when they fail, and what they start at all."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from plait.deployment.consent import check_consent
from plait.deployment.coordinator_program import coordinate
from plait.deployment.doctor import examine
from plait.deployment.job_file import Job, PartyFile, read_job, read_party
from plait.deployment.party_privacy import policy_at
from plait.deployment.progress import Silent
from plait.deployment.score import predict
from plait.deployment.scorer import PREDICT, SERVE, Scorer
from plait.deployment.service.program import serve as serve_scores
from plait.deployment.service.serve_options import ServeOptions
from plait.errors import BudgetError, InputError, PlaitError, PrivacyError, ProtocolError, StorageError, unspecific
from plait.messages import Broadcast, Share
from plait.studies.privacy_mutations import Mutation
from plait.transports.handshake import Query
from tests.e2e.conftest import JobMaker
from tests.e2e.test_private import BUDGET, IN_THE_LOOP, RANGES

KEY = "00" * 32
PRIVATE: dict[str, object] = {
    "method": 'name = "auto"',
    "rows": 200,
    "more": '[privacy.parties]\nshop = { name = "recommended", epsilon = 2.0 }\n',
    "own": {"shop": RANGES + BUDGET},
}
PLAIN: dict[str, object] = {"rows": 120, "rounds": 6, "tol": 1e-3}


def trained(jobs: JobMaker, options: dict[str, object]) -> tuple[Job, dict[str, PartyFile], str]:
    """A job that was simulated, its party files, and the name of the run."""
    made = jobs(**options)
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    folder = coordinate(job, files["bank"], list(files.values()), None, Silent())
    return job, files, folder.parent.name


def new_rows(file: PartyFile, count: int = 5) -> str:
    """A file of rows that nobody trained on."""
    lines = ["id,a,b,c,d", *(f"new{i},{0.1 * i},0.2,0.3,-0.1" for i in range(count))]
    (file.folder / "new.csv").write_text("\n".join(lines) + "\n")
    return "new.csv"


def all_rows(scorer: Scorer) -> Share:
    """The answer about all rows of a batch; then another program may use the folder."""
    try:
        return scorer.look_up([Query(list(scorer.rows.ids))])[0]
    finally:
        scorer.close()


def scored(share: Share) -> bool:
    """Whether every row has a score; else none has."""
    assert share.vector is not None
    assert share.scalars.all() or not share.scalars.any()
    assert share.vector.any() == (not share.scalars.any())
    return not share.scalars.any()


def set_trust(file: PartyFile, **options: object) -> PartyFile:
    from dataclasses import replace

    return replace(file, trust=replace(file.trust, **options))


@pytest.mark.parametrize("options", [PRIVATE, PLAIN], ids=["private", "plain"])
def test_attack_4_training_rows_are_not_scored(jobs: JobMaker, options: dict[str, object]) -> None:
    job, files, run = trained(jobs, options)
    shop = files["shop"]
    with pytest.raises(PlaitError, match=r"set data\.score"):
        Scorer(job, shop, run, KEY, shop.data.score)
    for purpose in (PREDICT, SERVE):
        scorer = Scorer(job, shop, run, KEY, "shop.csv", purpose)
        with pytest.raises(ProtocolError, match="by id"):
            scorer.answer(1, Broadcast(0))
        known, unknown = scorer.look_up([Query(["r0", "nobody"])])[0], scorer.look_up([Query(["r9", "r8"])])[0]
        assert known.vector is not None
        assert not known.vector.any()
        assert np.array_equal(known.scalars, unknown.scalars), "a refused id is not told from an unknown one"
        assert "were trained on, and are not scored" in scorer.remarks[-1], "their owner is told"
        scorer.close()
    asked = set_trust(shop, score_training_rows=True)
    assert scored(all_rows(Scorer(job, asked, run, KEY, "shop.csv"))) == (options is not PRIVATE)


def test_attack_4_the_owner_rounds(jobs: JobMaker) -> None:
    job, files, run = trained(jobs, PLAIN)
    shop = files["shop"]
    rows = new_rows(shop)
    for decimals in (1, 4):
        share = all_rows(Scorer(job, set_trust(shop, score_decimals=decimals), run, KEY, rows))
        assert share.vector is not None
        assert np.array_equal(share.vector, np.round(share.vector, decimals))
        assert share.vector.any()


def test_attack_6_mechanism_a_neither_predicts_nor_serves(jobs: JobMaker) -> None:
    job, files, run = trained(jobs, {**IN_THE_LOOP, "rows": 200})
    rows = new_rows(files["shop"])
    with pytest.raises(PrivacyError, match="weights"):
        Scorer(job, files["shop"], run, KEY, rows)
    with pytest.raises(PrivacyError, match="weights"):
        predict(job, files["bank"], list(files.values()), None, rows, run, Silent())
    with pytest.raises(PrivacyError, match="weights"):
        serve_scores(job, files["bank"], None, ServeOptions(), run, rows, Silent())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error", [InputError("row 17 has income 1e9"), PrivacyError("Found 4.2 in row 3"), StorageError("x")], ids=repr
)
def test_attack_8_errors_of_a_private_party_are_one_sentence(error: PlaitError) -> None:
    assert unspecific(error) == unspecific(PrivacyError("anything else"))
    assert "code budget" in unspecific(BudgetError("0.7 spent"))
    assert not any(c.isdigit() for c in unspecific(error))


@pytest.mark.parametrize("cell", ["", "nan", "inf", "1e308", "-1e308"])
def test_attack_8_no_value_of_a_private_row_stops_a_run(jobs: JobMaker, cell: str) -> None:
    made = jobs(**PRIVATE)
    path = made.folder / "shop.csv"
    head, first, *rest = path.read_text().splitlines()
    cells = first.split(",")
    path.write_text("\n".join([head, ",".join([cells[0], cell, *cells[2:]]), *rest]) + "\n")
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    folder = coordinate(job, files["bank"], list(files.values()), None, Silent())
    log = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    sizes = [(e["what"], e["peer"], e["bytes"]) for e in log if e["what"] in ("sent", "received")]
    assert len([s for s in sizes if s[1] == "shop"]) == 4
    assert len({s[2] for s in sizes if s[:2] == ("received", "shop")}) <= 2


def test_attack_10_a_party_with_a_budget_takes_no_part_in_unprotected_runs(jobs: JobMaker) -> None:
    made = jobs(**{**PLAIN, "own": {"shop": RANGES + BUDGET}})
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    with pytest.raises(PrivacyError, match="only in runs that protect it"):
        policy_at(job, files["shop"])
    with pytest.raises(PrivacyError, match="only in runs that protect it"):
        coordinate(job, files["bank"], list(files.values()), None, Silent())
    findings = list(examine(job, files["shop"], None, None, None))
    assert any(f.what == "privacy" and f.level == "fail" for f in findings)


def test_attack_10_plain_runs_are_consented_to_by_the_owner_of_what_is_shown(jobs: JobMaker) -> None:
    made = jobs(**PLAIN)
    job = read_job(made.file)
    said: list[str] = []
    for name, option, word in (("bank", "accept_labels_shown", "label"), ("shop", "accept_scores_shown", "score")):
        file = read_party(made.file, name)
        check_consent(job, file, said.append)
        assert word in said[-1]
        with pytest.raises(PrivacyError, match=option):
            check_consent(job, set_trust(file, **{option: False}), said.append)
    protected = read_job(jobs(**PRIVATE).file)
    check_consent(protected, set_trust(read_party(made.file, "shop"), accept_scores_shown=False), said.append)


def test_attack_11_the_allowance_is_one_on_every_path_and_survives_restarts(jobs: JobMaker) -> None:
    job, files, run = trained(jobs, PLAIN)
    shop = set_trust(files["shop"], max_queries=10)
    rows = new_rows(shop, 50)
    service = Scorer(job, shop, run, KEY, rows, SERVE)
    ids = [f"new{i}" for i in range(10)]
    assert not service.look_up([Query(ids)])[0].scalars.any()
    with pytest.raises(ProtocolError, match="by id"):
        service.answer(1, Broadcast(0))
    service.close()
    again = Scorer(job, shop, run, "11" * 32, rows, SERVE)
    assert (again.look_up([Query(ids)])[0].scalars < 0).all(), "another key, another connection: the same allowance"
    again.close()
    batch = all_rows(Scorer(job, shop, run, KEY, rows, PREDICT))
    assert (batch.scalars < 0).all(), "a batch has no other allowance"


def test_attack_11_requests_that_one_query_joins_have_the_limits_of_each_alone(jobs: JobMaker) -> None:
    job, files, run = trained(jobs, PLAIN)
    shop = set_trust(files["shop"], max_queries=6, scores_per_id=2, max_scores=7)
    service = Scorer(job, shop, run, KEY, new_rows(shop, 12), SERVE)
    joined = Query(["new0", "new1", "new2", "new3", "new0", "new4", "new0"], requests=[3, 4])
    marks = service.look_up([joined])[0].scalars.tolist()
    assert marks == [0, 0, 0, -1, -1, -1, -1], "the second request does not fit into the minute: all of it is refused"
    marks = service.look_up([Query(["new0", "new0", "new5"], requests=[1, 2])])[0].scalars.tolist()
    assert marks == [0, 1, 0], "an id has its limit across requests"
    service.close()
    free = Scorer(job, set_trust(shop, max_queries=0), run, KEY, new_rows(shop, 12), SERVE)
    marks = free.look_up([Query(["new6", "new7", "new8"], requests=[2, 1])])[0].scalars.tolist()
    assert marks == [1, 1, 0], "the run has one score left: a request of two gets none"
    assert free.look_up([Query(["new9"])])[0].scalars.all()
    free.close()


def test_attack_11_ids_and_runs_have_limits_for_ever(jobs: JobMaker) -> None:
    job, files, run = trained(jobs, PLAIN)
    shop = set_trust(files["shop"], max_queries=0, scores_per_id=3, max_scores=8)
    rows = new_rows(shop)
    given = []
    for _ in range(4):
        service = Scorer(job, shop, run, KEY, rows, SERVE)
        given.append(int((service.look_up([Query(["new0"])])[0].scalars == 0).sum()))
        service.close()
    assert given == [1, 1, 1, 0]
    service = Scorer(job, shop, run, KEY, rows, SERVE)
    assert not service.look_up([Query(["new1", "new2", "new3", "new4"])])[0].scalars.any()
    assert service.look_up([Query(["new1"])])[0].scalars.all()
    assert service.look_up([Query(["nobody"])])[0].scalars.all()
    service.close()


def test_attack_9_a_peer_remembers_a_ledger_that_was_rolled_back(
    jobs: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger and both witnesses are put back; the label party still has a receipt of what came after."""
    made = jobs(**{**PRIVATE, "own": {"shop": RANGES + BUDGET + 'ledger_witness = "witness"\n'}})
    monkeypatch.setenv("PLAIT_STATE", str(made.folder / "state"))
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    policy = policy_at(job, files["shop"])
    assert policy.ledger is not None
    policy.ledger.ledger("shop")
    for name in ("ledgers", "witness", "state"):
        shutil.copytree(made.folder / name, made.folder / f"old-{name}")
    coordinate(job, files["bank"], list(files.values()), None, Silent())
    for name in ("ledgers", "witness", "state"):
        shutil.rmtree(made.folder / name)
        shutil.copytree(made.folder / f"old-{name}", made.folder / name)
    with pytest.raises(PrivacyError, match="receipt of a later state"):
        coordinate(job, files["bank"], list(files.values()), None, Silent())


def test_attack_9_a_renamed_party_file_gets_no_second_budget(jobs: JobMaker) -> None:
    _, files, _ = trained(jobs, PRIVATE)
    folder: Path = files["shop"].folder
    for name in ("job.toml", "shop.toml"):
        text = (folder / name).read_text().replace('"shop"', '"store"').replace("shop =", "store =")
        (folder / name.replace("shop", "store")).write_text(text)
    (folder / "store.csv").write_text((folder / "shop.csv").read_text())
    renamed = read_job(folder / "job.toml")
    assert renamed.parties == ("bank", "store")
    again = [read_party(folder / "job.toml", name) for name in renamed.parties]
    with pytest.raises(PrivacyError, match="plait privacy open"):
        coordinate(renamed, again[0], again, None, Silent())


@pytest.mark.parametrize("case", ["several columns", "wide characters", "upper case"])
def test_attack_4_training_rows_are_known_by_the_rules_of_the_job(jobs: JobMaker, case: str) -> None:
    """However its id is written, a row that was trained on has no score."""
    rules = {"several columns": "", "wide characters": 'unicode = "NFKC"\n', "upper case": 'case = "fold"\n'}[case]
    made = jobs(**PLAIN, more=f'[alignment]\nmin_rows = 3\n{rules}[scoring]\njoin = "list"\n')
    for name in made.parties:
        table, config = made.folder / f"{name}.csv", made.folder / f"{name}.toml"
        if case == "several columns":
            lines = table.read_text().splitlines()
            table.write_text("\n".join(["land," + lines[0], *("de," + line for line in lines[1:])]) + "\n")
            config.write_text(config.read_text().replace('id = "id"', 'id = ["land", "id"]'))
        elif case == "wide characters":
            table.write_text(table.read_text().replace("\nr5,", "\n\uff52\uff15,"))
    job = read_job(made.file)
    files = {name: read_party(made.file, name) for name in job.parties}
    run = coordinate(job, files["bank"], list(files.values()), None, Silent()).parent.name
    known = {"several columns": "de,r5", "wide characters": "r5", "upper case": " R5"}[case]
    asked = {"several columns": '["de", "r5"]', "wide characters": "r5", "upper case": "r5"}[case]
    unknown = "de,new" if case == "several columns" else "new"
    head = "land,id,a,b,c,d" if case == "several columns" else "id,a,b,c,d"
    (made.folder / "new.csv").write_text(f"{head}\n{known},0,1,2,3\n{unknown},0,1,2,3\n")
    scorer = Scorer(job, files["shop"], run, KEY, "new.csv")
    found = scorer.look_up([Query([asked, '["de", "new"]' if case == "several columns" else "new"])])[0]
    scorer.close()
    assert list(found.scalars) == [1.0, 0.0]


@pytest.mark.parametrize("budget", ["epsilon = 2.0\n", ""], ids=["with a budget", "without one"])
@pytest.mark.parametrize("move", ["another folder", "ledgers deleted"])
def test_attack_9_another_ledger_folder_is_no_second_budget(jobs: JobMaker, budget: str, move: str) -> None:
    """Neither for a run that charges a new account, nor for one that protects nothing, nor for scores."""
    job, files, run = trained(jobs, PRIVATE)
    config = files["shop"].folder / "shop.toml"
    ledger = "elsewhere" if move == "another folder" else "ledgers"
    text = config.read_text().replace(BUDGET, f'[privacy]\nledger = "{ledger}"\n{budget}')
    config.write_text(text)
    if move == "ledgers deleted":
        shutil.rmtree(files["shop"].folder / "ledgers")
    shop = read_party(files["shop"].folder / "job.toml", "shop")
    path = shop.folder / "job.toml"
    path.write_text(path.read_text().replace("epsilon = 2.0", "epsilon = 1.9"))
    asked = read_job(path)
    if not budget:
        path.write_text(path.read_text().partition("[privacy.parties]")[0])
        asked = read_job(path)

    (shop.folder / "bank.receipts.json").unlink()  # as for another label party, which has seen no ledger

    def begin() -> None:
        coordinate(asked, files["bank"], [files["bank"], shop], None, Silent())

    with pytest.raises(PrivacyError, match="must name the ledger folder"):
        begin()
    with pytest.raises(PrivacyError, match="must name the ledger folder"):
        Scorer(job, shop, run, KEY, new_rows(shop))
    blind = Mutation("blind", "deployment.party_privacy:need_same_ledger", lambda f: lambda file: None, lambda: False)
    forgets = Mutation("forgets", "deployment.ledger_note:need_same_ledger", lambda f: lambda file: None, lambda: False)
    with blind.applied(), forgets.applied():
        begin()
