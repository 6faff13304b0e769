"""Attacks on the account: smaller units, lost folders, witnesses that are gone, two programs at once, warm starts."""

import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plait
from plait.deployment.coordinator_program import coordinate
from plait.deployment.doctor import examine
from plait.deployment.job_file import read_job, read_party
from plait.deployment.party_privacy import policy_at
from plait.deployment.progress import Silent
from plait.errors import BudgetError, PrivacyError
from plait.privacy import (
    Adjacency,
    Budget,
    KeyedNoise,
    LedgerFolder,
    MechanismA,
    NoPrivacy,
    PaperNoise,
    Policy,
    RandomisedResponse,
    Recommended,
    Unlimited,
)
from plait.privacy.accounting import epsilon_of, mu_of
from plait.privacy.mechanisms.permanent import PermanentLabels
from plait.problem.penalties import L2
from plait.studies.privacy_mutations import Mutation
from tests.attacks.test_deployed import BUDGET, PLAIN, PRIVATE, RANGES
from tests.attacks.test_library import data, spent
from tests.e2e.conftest import JobMaker

OWN, OTHER, Y = data()


def train(root: Path, mechanism: Any, budget: Budget, run: str = "run", witness: Path | None = None) -> Any:
    ledger = LedgerFolder(root, budget, witness=witness)
    policy = Policy({"bank": NoPrivacy(), "shop": mechanism}, ledger=ledger, run=run)
    return plait.fit({"bank": OWN, "shop": OTHER}, Y, privacy=policy, penalty=L2(0.1))


@pytest.mark.parametrize("kind", [Recommended, MechanismA])
def test_attack_1_a_mechanism_in_a_smaller_unit_does_not_halve_its_price(tmp_path: Path, kind: Any) -> None:
    """Hiding whether a row is zeros costs about half of hiding what it was replaced by; the account says which."""
    blank = kind(1.0, adjacency=Adjacency.ZERO_OUT)
    with pytest.raises(PrivacyError, match="replace one row"):
        train(tmp_path / "replace", blank, Budget(1.0))
    train(tmp_path / "zeros", blank, Budget(1.0, adjacency=Adjacency.ZERO_OUT))
    with pytest.raises(PrivacyError, match="keeps the budget"):
        train(tmp_path / "zeros", kind(1.0), Budget(1.0), run="another")
    unchecked = Mutation(
        "unchecked", "privacy.ledger.budget:Budget.need_adjacency", lambda f: lambda *a: None, lambda: False
    )
    with unchecked.applied():
        train(tmp_path / "unchecked", blank, Budget(1.0))
    twice = epsilon_of(2 * mu_of(1.0, 1e-5), 1e-5)
    assert spent(tmp_path / "unchecked") <= 1.0 < twice, "what replacing a row would really have cost"


def test_attack_1_a_party_under_the_name_of_the_labels_gets_no_second_budget(tmp_path: Path) -> None:
    train(tmp_path, Recommended(1.0), Budget(1.0))
    policy = Policy({"bank": NoPrivacy(), "label holder": Recommended(1.0)}, ledger=LedgerFolder(tmp_path, Budget(1.0)))
    with pytest.raises(PrivacyError, match="a name of its own"):
        plait.fit({"bank": OWN, "label holder": OTHER}, 1 - Y, privacy=policy)
    assert spent(tmp_path) <= 1.0


@pytest.mark.parametrize("mechanism", [NoPrivacy(), PaperNoise(100.0)], ids=["nothing", "noise without a guarantee"])
def test_attack_10_a_party_with_a_budget_is_in_no_simulated_run_without_a_guarantee(
    tmp_path: Path, mechanism: Any
) -> None:
    train(tmp_path, Recommended(0.5), Budget(1.0))
    with pytest.raises(PrivacyError, match="only in runs that protect it"):
        train(tmp_path, mechanism, Budget(1.0), run="bare")
    labels = Policy(labels=RandomisedResponse(1.0), ledger=LedgerFolder(tmp_path, Budget(1.0)))
    with pytest.raises(PrivacyError, match="only in runs that protect it"):
        plait.fit({"bank": OWN, "shop": OTHER}, Y, privacy=labels)


def test_attack_1_a_budget_that_promises_nothing_is_refused(tmp_path: Path) -> None:
    """At delta = 1/2 a hundred runs would fit into epsilon = 1, and so would showing half of the rows."""
    for delta in (0.5, 1 / Y.size):
        with pytest.raises(PrivacyError, match="below 1/N"):
            train(tmp_path / "loose", Recommended(1.0), Budget(1.0, delta=delta))
    train(tmp_path / "small", Recommended(1.0), Budget(1.0, delta=1e-3))
    loose = Mutation("loose", "privacy.ledger.budget:Budget.check", lambda f: lambda *a: None, lambda: False)
    with loose.applied():
        for k in range(3):
            train(tmp_path / "hundred", Recommended(1.0), Budget(1.0, delta=0.5), run=str(k))
    assert spent(tmp_path / "hundred") > 1.5


SHOWN = {
    "an unlimited ledger": {"shop": NoPrivacy()},
    "noise and an unlimited ledger": {"shop": PaperNoise(100.0)},
}


@pytest.mark.parametrize("how", SHOWN)
def test_attack_10_a_ledger_without_a_limit_does_not_lift_the_budget_of_an_account(tmp_path: Path, how: str) -> None:
    train(tmp_path, Recommended(0.5), Budget(1.0))
    policy = Policy({"bank": NoPrivacy(), **SHOWN[how]}, ledger=LedgerFolder(tmp_path, Unlimited()))
    with pytest.raises(PrivacyError, match="only in runs that protect it"):
        plait.fit({"bank": OWN, "shop": OTHER}, Y, privacy=policy)
    train(tmp_path, Recommended(0.5), Budget(1.0), run="nothing was shown, and what is left may be spent")
    unasked = Mutation(
        "unasked", "privacy.ledger.release_gate:LedgerFolder._limited", lambda f: lambda *a: False, lambda: False
    )
    with unasked.applied(), warnings.catch_warnings(action="ignore"):
        plait.fit({"bank": OWN, "shop": OTHER}, Y, privacy=policy)


def test_attack_3_labels_with_a_budget_are_in_no_run_that_shows_them(tmp_path: Path) -> None:
    ledger = LedgerFolder(tmp_path, Budget(2.0))
    plait.fit([OWN, OTHER], Y, privacy=Policy(labels=RandomisedResponse(1.0), ledger=ledger))
    for privacy in (NoPrivacy(), [NoPrivacy(), Recommended(1.0)]):
        policy = Policy(privacy, ledger=ledger, run="another")
        with pytest.raises(PrivacyError, match="a budget for the labels"):
            plait.fit([OWN, OTHER], Y, privacy=policy)
        with pytest.raises(PrivacyError, match="a budget for the labels"):
            plait.VerticalLogisticRegression({"party 0": [0, 1, 2], "party 1": [3, 4, 5, 6]}, privacy=policy).fit(
                np.hstack([OWN, OTHER]), Y
            )


def test_attack_3_a_job_that_leaves_out_the_protection_of_labels_does_not_get_them(jobs: JobMaker) -> None:
    """The label party is a helper, too, and so takes part in runs that protect its columns."""
    both = '[privacy]\n{labels}[privacy.parties]\nbank = {{ name = "recommended", epsilon = 1.0 }}\n'
    labels = 'labels = { name = "randomised-response", epsilon = 1.0 }\n'
    own = {"bank": RANGES + BUDGET, "shop": '[prepare]\nscale = "none"\n'}
    made = jobs(**{**PLAIN, "more": both.format(labels=labels), "own": own})
    job = read_job(made.file)
    files = [read_party(made.file, name) for name in job.parties]
    coordinate(job, files[0], files, None, Silent())
    made.file.write_text(made.file.read_text().replace(labels, ""))
    job = read_job(made.file)
    with pytest.raises(PrivacyError, match="or for its labels"):
        policy_at(job, read_party(made.file, "bank"))


def test_attack_1_a_job_does_not_choose_the_unit_of_a_partys_budget(jobs: JobMaker) -> None:
    zeros = '[privacy.parties]\nshop = { name = "recommended", epsilon = 2.0, adjacency = "zero-out" }\n'
    made = jobs(**{**PRIVATE, "more": zeros})
    job, shop = read_job(made.file), read_party(made.file, "shop")
    with pytest.raises(PrivacyError, match="zero-out"):
        policy_at(job, shop)
    assert any(f.what == "privacy" and f.level == "fail" for f in examine(job, shop, None, None, None))
    path = made.folder / "shop.toml"
    path.write_text(path.read_text().replace("[privacy]\n", '[privacy]\nadjacency = "zero-out"\n'))
    policy_at(job, read_party(made.file, "shop"))


def test_attack_9_a_ledger_that_was_lost_is_missed_by_the_witness_that_its_owner_chose(tmp_path: Path) -> None:
    root, witness = tmp_path / "ledgers", tmp_path / "witness"
    train(root, Recommended(1.0), Budget(1.0), witness=witness)
    shutil.rmtree(root)
    with pytest.raises(PrivacyError, match="was lost"):
        train(root, Recommended(1.0), Budget(1.0), run="again", witness=witness)
    with pytest.raises(PrivacyError, match="was lost"):
        train(tmp_path / "elsewhere", Recommended(1.0), Budget(1.0), run="again", witness=witness)


def test_attack_9_an_old_copy_is_not_accepted_where_the_witness_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, witness, old = tmp_path / "ledgers", tmp_path / "witness", tmp_path / "old"
    folder = LedgerFolder(root, Budget(1.0), witness=witness)
    folder.admit(["shop"])
    folder.ledger("shop")
    shutil.copytree(root, old)
    train(root, Recommended(1.0), Budget(1.0), witness=witness)
    shutil.rmtree(root)
    shutil.copytree(old, root)
    shutil.rmtree(witness)
    monkeypatch.setenv("PLAIT_STATE", str(tmp_path / "another user"))
    with pytest.raises(PrivacyError, match="is gone"):
        train(root, Recommended(1.0), Budget(1.0), run="again", witness=witness)
    unasked = Mutation("unasked", "privacy.ledger.witness:Witness._need_new", lambda f: lambda *a: None, lambda: False)
    with unasked.applied():
        train(root, Recommended(1.0), Budget(1.0), run="again", witness=witness)


def test_attack_9_a_copy_of_a_folder_with_its_witness_inside_is_no_new_budget(tmp_path: Path) -> None:
    """A party's whole folder is copied after the first run, witness included; both copies go on."""
    one, two = tmp_path / "one", tmp_path / "two"
    train(one / "ledgers", Recommended(1.0), Budget(1.5), witness=one / "witness")
    shutil.copytree(one, two)
    train(one / "ledgers", Recommended(1.0, gradients=5), Budget(1.5), "second", one / "witness")
    with pytest.raises(PrivacyError, match="newest"):
        train(two / "ledgers", Recommended(1.0, gradients=6), Budget(1.5), "third", two / "witness")


def test_the_users_own_folder_may_be_out_of_reach_beside_a_chosen_witness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("PLAIT_STATE", str(tmp_path / "file" / "below"))
    train(tmp_path / "ledgers", Recommended(1.0), Budget(1.0), witness=tmp_path / "witness")
    with pytest.raises(PrivacyError, match="Name another folder"):
        train(tmp_path / "others", Recommended(1.0), Budget(1.0))


def test_a_witness_may_be_chosen_later_and_changed(tmp_path: Path) -> None:
    for k, witness in enumerate((None, tmp_path / "one", tmp_path / "two", tmp_path / "one")):
        train(tmp_path / "ledgers", Recommended(1.0), Budget(5.0), run=str(k), witness=witness)


def drawn_at_once(folder: LedgerFolder) -> list[str]:
    """How two programs end that report opposite labels of the same people at the same time."""
    ids, labels, secret = [f"p{i}" for i in range(50)], (np.arange(50) % 2).astype(float), KeyedNoise()
    begun, ended = threading.Event(), threading.Event()
    endings: list[str] = []

    def slow(original: Any) -> Any:
        """The first program to pay is slow: meanwhile the other one could read what is reported so far."""

        def reserve(self: Any, *args: Any) -> Any:
            if not begun.is_set():
                begun.set()
                ended.wait(4.0)  # seconds: the other program needs far less, unless it has to wait
            return original(self, *args)

        return reserve

    def program(values: np.ndarray) -> None:
        try:
            drawer = PermanentLabels(secret, "bank", "people", folder.ledger("bank"))
            drawer.draw(RandomisedResponse(1.0), values, ids)
            endings.append("reported")
        except BudgetError:
            endings.append("refused")
        ended.set()

    with Mutation("slow", "privacy.ledger.ledger:Ledger.reserve", slow, lambda: False).applied():
        threads = [threading.Thread(target=program, args=(each,)) for each in (labels, 1 - labels)]
        threads[0].start()
        begun.wait()
        threads[1].start()
        for thread in threads:
            thread.join()
    return sorted(endings)


def test_attack_2_two_programs_at_once_report_no_label_twice_for_one_price(tmp_path: Path) -> None:
    assert drawn_at_once(LedgerFolder(tmp_path / "ledgers", Budget(1.0))) == ["refused", "reported"]

    @contextmanager
    def open_to_all(self: Any) -> Iterator[Any]:
        yield self.read()

    unlocked = Mutation("unlocked", "privacy.ledger.noted_file:NotedFile.locked", lambda f: open_to_all, lambda: False)
    with unlocked.applied():
        assert drawn_at_once(LedgerFolder(tmp_path / "unlocked", Budget(1.0))) == ["reported", "reported"]


def test_attack_3_a_run_with_protected_labels_does_not_begin_where_true_labels_led(tmp_path: Path) -> None:
    """From a warm start the first broadcast shows a model of the true labels."""
    clear = plait.fit([OWN, OTHER], Y)
    policy = Policy(labels=RandomisedResponse(0.1))
    with pytest.raises(PrivacyError, match="begins at zero"):
        plait.fit([OWN, OTHER], Y, privacy=policy, start=clear.weights)
    table = np.hstack([OWN, OTHER])
    estimator = plait.VerticalLogisticRegression(2, warm_start=True).fit(table, Y)
    with pytest.raises(PrivacyError, match="warm_start"):
        estimator.set_params(privacy=policy).fit(table, Y)
