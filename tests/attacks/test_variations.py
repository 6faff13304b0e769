"""The attacks again, in other clothes: other settings, copies, grids, weights, mechanisms, saved models."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

import plait
from plait.deployment.coordinator_program import coordinate
from plait.deployment.job_file import Job, read_job, read_party
from plait.deployment.party_privacy import discreet, policy_at
from plait.deployment.progress import Silent
from plait.deployment.run_folder import RunFolder
from plait.deployment.scorer import Scorer
from plait.errors import BudgetError, ConfigError, PrivacyError
from plait.privacy import (
    Budget,
    LedgerFolder,
    MechanismA,
    NoisyLabel,
    NoPrivacy,
    Policy,
    RandomisedResponse,
    Recommended,
)
from plait.privacy.ledger.budget import Unlimited
from plait.privacy.ledger.canonical import canonical_digest
from plait.privacy.ledger.known_tables import LABEL_HOLDER
from plait.privacy.mechanisms.permanent import PermanentLabels
from plait.privacy.noise import KeyedNoise
from plait.problem.penalties import L1, L2
from plait.studies.privacy_mutations import Mutation
from tests.attacks.test_deployed import (
    BUDGET,
    KEY,
    PLAIN,
    PRIVATE,
    RANGES,
    all_rows,
    new_rows,
    scored,
    set_trust,
    trained,
)
from tests.attacks.test_library import N, data, spent
from tests.e2e.conftest import JobMaker
from tests.e2e.test_private import IN_THE_LOOP

OWN, OTHER, Y = data()
OTHERWISE: Mapping[str, dict[str, Any]] = {
    "another loss": {"loss": plait.SquaredHinge()},
    "another penalty": {"penalty": plait.L2(0.3)},
    "no offset": {"offset": False},
    "weights": {"sample_weight": np.linspace(1, 2, N)},
    "no intercept": {"fit_intercept": False},
    "float16": {"table": OTHER.astype(np.float16)},
    "a data frame": {"table": pd.DataFrame(OTHER), "labels": 1 - Y},
    "by columns": {"table": sp.csc_matrix(OTHER), "labels": 1 - Y},
    "one column": {"table": OTHER[:, :1]},
}


def fit_again(root: Path, run: str = "run", budget: float = 1.0, **options: Any) -> Any:
    table, labels = options.pop("table", OTHER), options.pop("labels", Y)
    policy = Policy({"bank": NoPrivacy(), "shop": Recommended(1.0)}, offset=options.pop("offset", True), run=run,
                    ledger=LedgerFolder(root, Budget(budget)))  # fmt: skip
    return plait.fit({"bank": OWN, "shop": table}, labels, privacy=policy, **options)


@pytest.mark.parametrize("how", OTHERWISE)
def test_attack_1_the_same_people_trained_otherwise_have_one_account(tmp_path: Path, how: str) -> None:
    fit_again(tmp_path)
    with pytest.raises(BudgetError):
        fit_again(tmp_path, **OTHERWISE[how])
    assert spent(tmp_path) <= 1.0


def test_attack_1_rows_given_twice_have_one_account(tmp_path: Path) -> None:
    fit_again(tmp_path)
    policy = Policy([NoPrivacy(), Recommended(1.0)], ledger=LedgerFolder(tmp_path, Budget(1.0)))
    twice = {"bank": np.vstack([OWN, OWN]), "shop": np.vstack([OTHER, OTHER])}
    with pytest.raises(BudgetError):
        plait.fit(twice, np.hstack([Y, Y]), privacy=policy)


def test_attack_1_a_grid_search_pays_for_every_fit(tmp_path: Path) -> None:
    policy = Policy({"bank": NoPrivacy(), "shop": Recommended(1.0)}, ledger=LedgerFolder(tmp_path, Budget(1.0)))
    model = plait.VerticalLogisticRegression({"bank": [0, 1, 2], "shop": [3, 4, 5, 6]}, privacy=policy)
    with pytest.raises(BudgetError):
        GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=2, error_score="raise").fit(np.hstack([OWN, OTHER]), Y)
    assert spent(tmp_path) <= 1.0


def test_attack_9_two_copies_of_a_ledger_do_not_spend_twice(tmp_path: Path) -> None:
    """The copy is as new as the original: whichever is used first goes on, and the other one is then too old."""
    first, copy = tmp_path / "first", tmp_path / "copy"
    fit_again(first, "1", budget=2.0)
    shutil.copytree(first, copy)
    fit_again(copy, "2", budget=2.0)
    with pytest.raises(PrivacyError, match="newest"):
        fit_again(first, "3", budget=2.0)


def weights_refused() -> bool:
    """Whether weights made from protected labels are refused by `plait.fit` and by an estimator."""
    telling, policy = np.where(Y > 0, 2.0, 1.0), Policy(labels=RandomisedResponse(1.0))
    estimator = plait.VerticalLogisticRegression(2, privacy=policy)
    for train in (lambda: plait.fit([OWN, OTHER], Y, privacy=policy, sample_weight=telling),
                  lambda: estimator.fit(np.hstack([OWN, OTHER]), Y, sample_weight=telling)):  # fmt: skip
        try:
            train()
        except PrivacyError:
            continue
        return False
    return True


def test_attack_3_weights_that_tell_labels_are_refused() -> None:
    assert weights_refused()
    told = Mutation(
        "weights unchecked", "privacy.policy:Policy.check_weights", lambda f: lambda *a: None, weights_refused
    )
    assert told.caught()
    public = Policy(labels=RandomisedResponse(1.0), public_weights=True)
    plait.fit([OWN, OTHER], Y, privacy=public, sample_weight=np.linspace(1, 2, N))
    plait.fit([OWN, OTHER], Y, privacy=Policy(labels=RandomisedResponse(1.0)), sample_weight=np.full(N, 2.0))


def test_attack_2_ids_in_another_order_report_the_same_and_ids_of_others_are_paid_for(tmp_path: Path) -> None:
    ids, folder, order = [f"p{i}" for i in range(N)], LedgerFolder(tmp_path, Budget(1.0)), np.random.default_rng(0)
    labels, shuffled = 2 * Y - 1, order.permutation(N)

    def seen(values: np.ndarray, names: list[str] | None, run: str) -> np.ndarray:
        return Policy(labels=RandomisedResponse(1.0), ledger=folder, ids=names, run=run).protect_labels(values)[0]

    first = seen(labels, ids, "first")
    assert np.array_equal(first[shuffled], seen(labels[shuffled], [ids[i] for i in shuffled], "second"))
    for names in (ids[1:] + ids[:1], None):
        with pytest.raises(BudgetError):
            seen(labels, names, "third")


MECHANISMS = {
    MechanismA(2.0): {"epsilon": 2.5, "rounds": 9, "kappa": 0.9, "delta": 1e-6, "radius": 9.0, "target_bound": 1.9,
                      "adjacency": plait.privacy.Adjacency.ZERO_OUT, "output_bound": 1.9, "residual": 1e-7,
                      "clip": 2.0, "rest": L1(0.1), "scale": 2.0},
    RandomisedResponse(1.0): {"epsilon": 1.5, "classes": 3},
    NoisyLabel(1.0, 0.0, 1.0): {"epsilon": 1.5, "low": -1.0, "high": 2.0},
}  # fmt: skip


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
def test_attack_7_every_field_of_every_mechanism_is_in_its_digest(mechanism: Any) -> None:
    changes = MECHANISMS[mechanism]
    assert set(changes) == {f.name for f in fields(mechanism)}
    digests = {
        canonical_digest(mechanism),
        *(canonical_digest(replace(mechanism, **{k: v})) for k, v in changes.items()),
    }
    assert len(digests) == 1 + len(changes)


def test_attack_7_a_range_of_numeric_labels_makes_other_noise() -> None:
    drawer, labels, ids = PermanentLabels(KeyedNoise(), "bank", "people"), np.full(40, 0.5), [str(i) for i in range(40)]
    one, two = (drawer.draw(NoisyLabel(1.0, low, 1.0), labels, ids) for low in (0.0, -1e-9))
    assert not np.allclose(one, two)


def test_attack_6_a_saved_model_still_refuses_to_score_with_uncovered_weights(tmp_path: Path) -> None:
    model = plait.fit([OWN, OTHER], Y, privacy=[NoPrivacy(), MechanismA(8.0, rounds=3)], penalty=L2(0.1))
    model.save(tmp_path / "model")
    with pytest.raises(PrivacyError, match="weights"):
        plait.Fit.load(tmp_path / "model").scores([OWN[:1], OTHER[:1]])


PAPER = '[privacy.parties]\nshop = { name = "paper-noise", sigma = 100.0 }\n'
LABELS_ONLY = '[privacy]\nlabels = { name = "randomised-response", epsilon = 2.0 }\n'


@pytest.mark.parametrize("more", ["", PAPER, LABELS_ONLY], ids=["no privacy", "noise without a guarantee", "labels"])
def test_attack_10_a_party_with_a_budget_is_in_no_run_that_guarantees_it_nothing(jobs: JobMaker, more: str) -> None:
    made = jobs(**{**PLAIN, "more": more, "own": {"shop": RANGES + BUDGET}})
    job, shop = read_job(made.file), read_party(made.file, "shop")
    with pytest.raises(PrivacyError, match="only in runs that protect it"):
        policy_at(job, shop)
    unchecked = Mutation("unchecked", "deployment.party_privacy:guaranteed", lambda f: lambda *a: True, lambda: False)
    with unchecked.applied():
        assert policy_at(job, shop).ledger is not None, "without the check it would take part"


def test_attack_10_a_budget_that_is_taken_out_of_the_file_is_still_in_the_ledger(jobs: JobMaker) -> None:
    """What was promised to the people of a table does not end with a line of a file."""
    _, files, _ = trained(jobs, PRIVATE)
    folder = files["shop"].folder
    job = without_privacy(folder / "job.toml")
    for name in ("bank", "shop"):
        path = folder / f"{name}.toml"
        path.write_text(path.read_text().replace(BUDGET, ""))
    bank, shop = (read_party(folder / "job.toml", name) for name in ("bank", "shop"))
    assert shop.privacy.epsilon is None
    with pytest.raises(PrivacyError, match="only in runs that protect it"):
        coordinate(job, bank, [bank, shop], None, Silent())
    policy_at(job, bank)  # whose people were promised nothing
    policy_at(job, replace(shop, privacy=replace(shop.privacy, table="suppliers")))
    forgets = Mutation("forgets", "privacy.ledger.known_tables:Tables.keeps", lambda f: lambda *a: False, lambda: False)
    with forgets.applied():
        policy_at(job, shop)


def test_attack_10_a_protected_party_without_a_budget_takes_no_part(jobs: JobMaker) -> None:
    made = jobs(**{**PLAIN, "more": '[privacy.parties]\nshop = { name = "recommended", epsilon = 2.0 }\n'})
    with pytest.raises(ConfigError, match="will spend"):
        policy_at(read_job(made.file), read_party(made.file, "shop"))


def test_attack_10_noise_without_a_guarantee_is_recorded_and_nothing_is_protected_afterwards(jobs: JobMaker) -> None:
    made = jobs(**{**PLAIN, "more": PAPER})
    policy = policy_at(read_job(made.file), read_party(made.file, "shop"))
    assert policy.ledger is not None
    assert isinstance(policy.ledger.budget, Unlimited)


def test_attack_3_folds_by_row_number_tell_nothing_and_stratified_folds_do() -> None:
    """Why docs/privacy/proofs.md asks for KFold where others see which rows take part."""
    swapped = np.where(np.arange(N) % 3 == 0, 1 - Y, Y)

    def rows(folds: Any) -> list[list[int]]:
        return [test.tolist() for _, test in folds]

    assert rows(KFold(5).split(OWN, Y)) == rows(KFold(5).split(OWN, swapped))
    assert rows(StratifiedKFold(5).split(OWN, Y)) != rows(StratifiedKFold(5).split(OWN, swapped))


def test_attack_8_a_label_party_that_protects_labels_says_one_sentence_too(jobs: JobMaker) -> None:
    for more, quiet in ((LABELS_ONLY, True), ("", False)):
        made = jobs(**{**PLAIN, "more": more})
        job = read_job(made.file)
        assert discreet(job, read_party(made.file, job.coordinator.name)) is quiet


def test_attack_3_several_classes_are_reported_once_for_all_models(tmp_path: Path) -> None:
    """The models of all classes are made of one report per row: labels that report the same give the same models."""
    three = np.digitize(OWN[:, 0] + OTHER[:, 0], [-0.1, 0.1])
    folder, response = LedgerFolder(tmp_path, Budget(50.0)), RandomisedResponse(1.0, classes=3)
    ids = [str(i) for i in range(N)]

    def reports(labels: np.ndarray) -> np.ndarray:
        drawer = PermanentLabels(folder.noise(LABEL_HOLDER), LABEL_HOLDER, folder.table)
        return drawer.draw(response, labels.astype(np.float64), ids)

    other = (three + 1) % 3
    twins = np.where(reports(three) == reports(other), other, three)
    assert (twins != three).sum() > 20
    models = [
        plait.VerticalLogisticRegression(2, privacy=Policy(labels=response, ledger=folder, ids=ids))
        .fit(np.hstack([OWN, OTHER]), labels)
        for labels in (three, twins)
    ]  # fmt: skip
    assert np.array_equal(models[0].coef_, models[1].coef_)
    assert np.array_equal(models[0].intercept_, models[1].intercept_)


def test_attack_3_a_run_with_protected_labels_measures_nothing_on_training_rows(jobs: JobMaker) -> None:
    options = {**PLAIN, "more": LABELS_ONLY, "own": {"bank": f'[prepare]\nscale = "none"\n{BUDGET}'}}
    made = jobs(**options)
    job = read_job(made.file)
    files = [read_party(made.file, name) for name in job.parties]
    folder = coordinate(job, files[0], files, None, Silent())
    assert json.loads((folder / "model.json").read_text())["metrics"] == {}


def test_every_test_that_the_list_of_label_channels_names_exists() -> None:
    root = Path(__file__).parents[2]
    named = re.findall(r"`(test_\w+)`", (root / "docs/privacy/proofs.md").read_text())
    written = "\n".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    assert len(named) >= 9
    assert [name for name in named if f"def {name}(" not in written] == []


def without_privacy(file: Path) -> Job:
    """The job of a file from which the section [privacy] was taken out after training."""
    text = file.read_text()
    begin = text.index("[privacy")
    end = text.find("\n[", begin)
    file.write_text(text[:begin] + (text[end:] if end >= 0 else ""))
    return read_job(file)


def test_attack_6_a_job_without_privacy_does_not_lift_the_protection_of_a_run(jobs: JobMaker) -> None:
    """A party remembers with its weights how they were protected, whatever the job says when scores are asked for."""
    _, files, run = trained(jobs, {**IN_THE_LOOP, "rows": 200})
    shop, plain = files["shop"], without_privacy(files["shop"].folder / "job.toml")
    with pytest.raises(PrivacyError, match="weights"):
        Scorer(plain, shop, run, KEY, new_rows(shop))
    _, files, run = trained(jobs, PRIVATE)
    shop, plain = files["shop"], without_privacy(files["shop"].folder / "job.toml")
    asked = set_trust(shop, score_training_rows=True)
    assert not scored(all_rows(Scorer(plain, asked, run, KEY, "shop.csv")))
    assert RunFolder(shop.folder / "runs" / run / "shop").weights().mean == 0.0, "the mean is about the rows"
    forgets = Mutation("forgets", "deployment.run_folder:RunFolder.weights",
                       lambda f: lambda self: f(self)._replace(guaranteed=False), lambda: False)  # fmt: skip
    with forgets.applied(), pytest.raises(PrivacyError, match="weights that were protected"):
        Scorer(plain, asked, run, KEY, "shop.csv")
    without_budget = replace(asked, privacy=replace(asked.privacy, epsilon=None))
    assert not scored(all_rows(Scorer(plain, without_budget, run, KEY, "shop.csv")))
    with forgets.applied():
        assert scored(all_rows(Scorer(plain, without_budget, run, KEY, "shop.csv"))), "else they would be scored"
