"""A cross-validation is paid fit by fit: what it costs is known, and covered, before its first fit."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import plait
from plait.errors import BudgetError, SettingError
from plait.privacy import (
    Budget,
    LedgerFolder,
    MechanismA,
    NoPrivacy,
    Policy,
    RandomisedResponse,
    Recommended,
    mu_of,
)
from plait.privacy.ledger.spending import read_spending
from plait.problem.penalties import L2
from plait.studies.privacy_mutations import Mutation
from tests.attacks.test_library import data, folder_is_unspent, spent

OWN, OTHER, Y = data()
TABLE = np.hstack([OWN, OTHER])
PARTIES = {"bank": [0, 1, 2], "shop": [3, 4, 5, 6]}
NAMES = list(PARTIES)
THREE = np.digitize(OWN[:, 0] + OTHER[:, 0], [-0.1, 0.1])
ONE = mu_of(1.0, 1e-5)


def policy(root: Path, budget: float = 3.0, mechanism: Any = Recommended(1.0), **options: Any) -> Policy:  # noqa: B008
    return Policy({"bank": NoPrivacy(), "shop": mechanism}, ledger=LedgerFolder(root, Budget(budget)), **options)


def estimator(privacy: Policy) -> plait.VerticalLogisticRegression:
    return plait.VerticalLogisticRegression(PARTIES, penalty=L2(0.1), privacy=privacy)


def folds(privacy: Policy, count: int, y: np.ndarray = Y, **options: Any) -> Any:
    return cross_val_score(estimator(privacy), TABLE, y, cv=KFold(count), error_score="raise", **options)


def paid(root: Path, party: str = "shop") -> int:
    """How many fits of one party stand in the ledger."""
    (found,) = (s for s in read_spending(root) if s.party == party)
    return len({c.release.plan for c in found.charges})


def spent_mu(root: Path) -> float:
    (found,) = (s for s in read_spending(root) if s.party == "shop")
    return found.guaranteed.mu


SEARCHES = {
    "cross-validation": lambda m: cross_val_score(m, TABLE, Y, cv=5),
    "in two processes": lambda m: cross_val_score(m, TABLE, Y, cv=5, n_jobs=2),
    "grid": lambda m: GridSearchCV(m, {"alpha": [0.1, 1.0]}, cv=2).fit(TABLE, Y),
    "in a pipeline": lambda m: cross_val_score(make_pipeline(FunctionTransformer(), m), TABLE, Y, cv=3),
    "by hand": lambda m: clone(m).fit(TABLE, Y),
    "a copy of a copy": lambda m: clone(clone(m)).set_params(alpha=0.2).fit(TABLE, Y),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("search", SEARCHES)
def test_a_search_that_does_not_say_its_number_of_fits_is_refused_before_the_first(tmp_path: Path, search: str) -> None:
    with pytest.raises(
        ValueError if search not in ("by hand", "a copy of a copy") else BudgetError, match=r"fits=\.\.\."
    ):
        SEARCHES[search](estimator(policy(tmp_path)))
    assert folder_is_unspent(tmp_path)


def test_the_refusal_says_what_fits_cost_and_how_many_the_budget_covers(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=r"one fit costs epsilon = 1, ten cost 3\.619, and the budget covers 7 more"):
        folds(policy(tmp_path), 5)
    covered = next(n for n in range(1, 100) if plait.privacy.epsilon_of(ONE * np.sqrt(n + 1), 1e-5) > 3.0)
    assert covered == 7


def test_a_search_that_was_not_asked_would_spend_before_it_is_refused(tmp_path: Path) -> None:
    unasked = Mutation("unasked", "privacy.several_fits:SeveralFits.refusal", lambda f: lambda *a: None, lambda: False)
    with unasked.applied(), pytest.raises((BudgetError, TypeError)):
        folds(policy(tmp_path), 10)
    never = Mutation("never a copy", "estimators.base:Vertical.__sklearn_clone__",
                     lambda f: lambda self: type(self)(**self.get_params(deep=False)), lambda: False)  # fmt: skip
    with never.applied(), pytest.raises(BudgetError):
        folds(policy(tmp_path / "never"), 10)
    assert paid(tmp_path / "never") == 7


@pytest.mark.parametrize(("budget", "enough"), [(2.9, False), (3.0, True)])
def test_all_fits_are_covered_before_the_first_or_none_is_made(tmp_path: Path, budget: float, enough: bool) -> None:
    seven = policy(tmp_path, budget, fits=7)
    if enough:
        folds(seven, 7)
        assert paid(tmp_path) == 7
        assert spent_mu(tmp_path) == pytest.approx(ONE * np.sqrt(7), rel=1e-6)
    else:
        with pytest.raises(BudgetError, match="all 7 fits"):
            folds(seven, 7)
        assert folder_is_unspent(tmp_path)


@pytest.mark.parametrize("mechanism", [Recommended(1.0), MechanismA(1.0, rounds=3)], ids=lambda m: type(m).__name__)
def test_a_budget_of_the_quoted_size_is_enough_to_the_last_fit(tmp_path: Path, mechanism: Any) -> None:
    quoted = policy(tmp_path, mechanism=mechanism).quote(NAMES, 6)["shop"]
    six = policy(tmp_path, quoted, mechanism, fits=6)
    for train, _ in KFold(6).split(TABLE):
        plait.fit({"bank": OWN[train], "shop": OTHER[train]}, Y[train], privacy=six, penalty=L2(0.1))
    assert paid(tmp_path) == 6
    assert quoted == pytest.approx(plait.privacy.epsilon_of(ONE * np.sqrt(6), 1e-5), rel=1e-6)


def test_fits_beyond_the_announced_number_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="announced 2 fits"):
        folds(policy(tmp_path, fits=2), 5)
    assert paid(tmp_path) == 2
    folds(policy(tmp_path, fits=4, run="another"), 4)
    assert paid(tmp_path) == 6


def test_classes_are_announced_as_one_fit(tmp_path: Path) -> None:
    exact = policy(tmp_path, policy(tmp_path).quote(NAMES, 4)["shop"], fits=4)
    folds(exact, 4, THREE)
    assert spent_mu(tmp_path) == pytest.approx(2 * ONE, rel=1e-3)
    with pytest.raises(BudgetError, match="announced 4 fits"):
        folds(exact, 3, THREE)


def test_a_search_that_is_repeated_pays_nothing_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    exact = policy(tmp_path, policy(tmp_path).quote(NAMES, 5)["shop"], fits=5)
    splits = list(KFold(5).split(TABLE))
    cross_val_score(estimator(exact), TABLE, Y, cv=splits[:2], error_score="raise")
    first = folds(exact, 5)
    assert np.array_equal(first, folds(exact, 5))
    assert paid(tmp_path) == 5


def test_labels_are_counted_too(tmp_path: Path) -> None:
    """Without ids every fold is another vector of labels, and pays for them."""
    labels = RandomisedResponse(1.0)
    many = policy(tmp_path, 4.9, labels=labels, fits=5)
    assert many.quote(NAMES)["label holder"] == 5.0
    with pytest.raises(BudgetError, match="all 5 fits"):
        folds(many, 5)
    assert folder_is_unspent(tmp_path)
    folds(policy(tmp_path / "enough", 5.0, labels=labels, fits=5), 5)
    only = Policy(labels=labels, ledger=LedgerFolder(tmp_path / "labels", Budget(2.0)))
    with pytest.raises(BudgetError, match="'label holder' one fit costs epsilon = 1"):
        folds(only, 3)


def test_labels_that_were_reported_for_their_ids_cost_no_more(tmp_path: Path) -> None:
    ids, labels = [f"p{i}" for i in range(Y.size)], RandomisedResponse(1.0)
    plait.fit([OWN, OTHER], Y, privacy=Policy(labels=labels, ids=ids, ledger=LedgerFolder(tmp_path, Budget(1.0))))
    grid = Policy(labels=labels, ids=ids, fits=3, run="grid", ledger=LedgerFolder(tmp_path, Budget(1.0)))
    grid.require(["party 0", "party 1"])
    for alpha in (0.1, 1.0, 10.0):
        plait.fit([OWN, OTHER], Y, alpha=alpha, privacy=grid)
    without = Policy(labels=labels, fits=3, run="folds", ledger=LedgerFolder(tmp_path, Budget(1.0)))
    with pytest.raises(BudgetError, match="all 3 fits"):
        plait.fit([OWN, OTHER], Y, privacy=without)


def test_two_searches_at_once_spend_no_more_than_the_budget(tmp_path: Path) -> None:
    endings: list[str] = []

    def search(run: str) -> None:
        try:
            folds(policy(tmp_path, 3.0, fits=5, run=run), 5)
            endings.append("done")
        except BudgetError:
            endings.append("refused")

    threads = [threading.Thread(target=search, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "refused" in endings
    assert spent(tmp_path) <= 3.0


def test_a_fit_of_ones_own_and_a_search_without_a_ledger_need_no_number(tmp_path: Path) -> None:
    estimator(policy(tmp_path)).fit(TABLE, Y)
    assert paid(tmp_path) == 1
    simulated = Policy({"bank": NoPrivacy(), "shop": Recommended(1.0)})
    assert folds(simulated, 3).shape == (3,)


@pytest.mark.parametrize("fits", [0, -1, 2.5, "3"])
def test_the_number_of_fits_must_be_a_count(fits: Any) -> None:
    with pytest.raises((SettingError, TypeError), match="fits"):
        Policy(fits=fits)
