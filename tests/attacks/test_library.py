"""Attacks through the library: everything that `plait.fit` and the estimators let a curious caller try."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import cross_val_score

import plait
from plait.errors import BudgetError, PlaitError, PrivacyError, SettingError
from plait.messages import Broadcast, Share, Transport
from plait.methods.base import Block
from plait.methods.private.pass_messages import Step, say
from plait.methods.private.pass_parties import Protected
from plait.privacy import Budget, LedgerFolder, MechanismA, NoPrivacy, Policy, RandomisedResponse, Recommended
from plait.privacy.ledger.spending import read_spending
from plait.problem.features import Features
from plait.problem.penalties import L2
from plait.training import session as session_module

N = 240


def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    own, other = rng.standard_normal((N, 3)) / 4, rng.standard_normal((N, 4)) / 4
    labels = (rng.random(N) < 1 / (1 + np.exp(-4 * (own.sum(1) + other.sum(1))))).astype(float)
    return own, other, labels


def spent(folder: Path) -> float:
    """The most that any one party's people have spent, all ledgers of the folder together."""
    ledgers = [s for s in read_spending(folder) if s.party != "label holder"]
    total = sum((s.guaranteed for s in ledgers), plait.privacy.Cost())
    return total.epsilon(1e-5)


def train(folder: Path, own: Any, other: Any, y: Any, name: str = "shop", run: str = "run", **options: Any) -> Any:
    policy = Policy({"bank": NoPrivacy(), name: Recommended(1.0)}, ledger=LedgerFolder(folder, Budget(1.0)), run=run)
    return plait.fit({"bank": own, name: other}, y, privacy=policy, **options)


DISGUISES: Mapping[str, Callable[[Any, Any, Any], tuple[Any, Any, Any]]] = {
    "one cell by 1e-12": lambda a, b, y: (a, b + 1e-12 * (np.arange(b.size) == 5).reshape(b.shape), y),
    "rows permuted": lambda a, b, y: (a[::-1], b[::-1], y[::-1]),
    "columns permuted": lambda a, b, y: (a, b[:, ::-1], y),
    "sparse": lambda a, b, y: (a, sp.csr_matrix(b), y),
    "float32": lambda a, b, y: (a, b.astype(np.float32), y),
    "one row dropped": lambda a, b, y: (a[1:], b[1:], y[1:]),
    "a zero column more": lambda a, b, y: (a, np.hstack([b, np.zeros((N, 1))]), y),
    "times 0.999999": lambda a, b, y: (a, 0.999999 * b, y),
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_attack_1_the_same_people_in_disguise_have_one_account(tmp_path: Path, disguise: str) -> None:
    own, other, y = data()
    train(tmp_path, own, other, y)
    changed = DISGUISES[disguise](own, other, 1 - y)
    with pytest.raises(BudgetError):
        train(tmp_path, *changed)
    assert spent(tmp_path) <= 1.0


def test_attack_1_a_renamed_party_gets_no_second_budget(tmp_path: Path) -> None:
    own, other, y = data()
    train(tmp_path, own, other, y)
    with pytest.raises(PrivacyError, match="plait privacy open"):
        train(tmp_path, own, other, y, name="store")
    other_table = LedgerFolder(tmp_path, Budget(1.0), table="customers again")
    policy = Policy([NoPrivacy(), Recommended(1.0)], ledger=other_table)
    with pytest.raises(PrivacyError, match="the owner opens an account"):
        plait.fit([own, other], y, privacy=policy)
    assert spent(tmp_path) <= 1.0
    LedgerFolder(tmp_path, Budget(1.0), table="suppliers").open("store", because="companies, not people")
    fresh = Policy({"bank": NoPrivacy(), "store": Recommended(1.0)},
                   ledger=LedgerFolder(tmp_path, Budget(1.0), table="suppliers"))  # fmt: skip
    plait.fit({"bank": own, "store": other}, y, privacy=fresh)


def test_attack_1_folds_are_charged_for_what_they_are(tmp_path: Path) -> None:
    own, other, y = data()
    parties = {"bank": [0, 1, 2], "shop": [3, 4, 5, 6]}
    policy = Policy({"bank": NoPrivacy(), "shop": Recommended(1.0)}, ledger=LedgerFolder(tmp_path, Budget(1.0)))
    model = plait.VerticalLogisticRegression(parties, privacy=policy)
    with pytest.raises(BudgetError):
        cross_val_score(model, np.hstack([own, other]), y, cv=10, error_score="raise")
    assert spent(tmp_path) <= 1.0


def test_attack_1_a_grid_is_quoted_and_refused_before_its_first_fit(tmp_path: Path) -> None:
    policy = Policy([NoPrivacy(), Recommended(1.0)], ledger=LedgerFolder(tmp_path, Budget(3.0)))
    names = ["party 0", "party 1"]
    quoted = policy.quote(names, 10)["party 1"]
    ten = plait.privacy.ExactAccountant().epsilon(1 / plait.privacy.mu_of(1.0, 1e-5), 10, 1e-5)
    assert quoted == pytest.approx(ten, rel=1e-6)
    policy.require(names, 4)
    with pytest.raises(BudgetError, match="fits"):
        policy.require(names, 10)
    assert folder_is_unspent(tmp_path)


def folder_is_unspent(folder: Path) -> bool:
    return all(not s.charges for s in read_spending(folder))


def test_attack_1_leaving_out_one_id_in_each_run_does_not_add_up(tmp_path: Path) -> None:
    own, other, y = data()
    for left_out in range(11):
        keep = np.arange(N) != left_out
        try:
            train(tmp_path, own[keep], other[keep], y[keep], run=f"run {left_out}")
        except BudgetError:
            continue
    assert spent(tmp_path) <= 1.0


def test_attack_2_a_majority_vote_over_runs_recovers_no_more_labels_than_one_run(tmp_path: Path) -> None:
    _, _, y = data()
    folder = LedgerFolder(tmp_path, Budget(100.0))
    votes = []
    for k in range(20):
        changed = y.copy()
        changed[k] = 1 - changed[k]
        policy = Policy(labels=RandomisedResponse(1.0), ledger=folder)
        targets, _ = policy.protect_labels(np.where(changed > 0, 1.0, -1.0))
        votes.append(targets > 0.5)
    stable = np.arange(20, N)
    assert all(np.array_equal(v[stable], votes[0][stable]) for v in votes)
    right = np.mean((np.mean(votes, axis=0) > 0.5)[stable] == (y[stable] > 0.5))
    assert right < 0.73 + 4 * 0.5 / np.sqrt(stable.size)


def test_attack_3_class_weights_do_not_tell_labels() -> None:
    own, other, y = data()
    policy = Policy(labels=RandomisedResponse(1.0))
    for weight in ("balanced", {0: 1.0, 1: 3.0}):
        with pytest.raises(SettingError, match="class_weight"):
            plait.VerticalLogisticRegression(2, class_weight=weight, privacy=policy).fit(np.hstack([own, other]), y)


def twins(mechanism: RandomisedResponse, folder: LedgerFolder, y: np.ndarray) -> np.ndarray:
    """Other labels that report the same: those are swapped whose two labels have the same permanent report."""
    policy = Policy(labels=mechanism, ledger=folder)

    def reports(labels: np.ndarray) -> np.ndarray:
        return policy.protect_labels(np.where(labels > 0, 1.0, -1.0))[0]

    same = reports(y) == reports(1 - y)
    assert 20 < same.sum() < N - 20
    return np.where(same, 1 - y, y)


class Tap:
    """A transport that keeps every number that crosses it, both ways."""

    def __init__(self, inner: Transport, seen: list[bytes]) -> None:
        self._inner, self._seen = inner, seen

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        shares = self._inner.exchange(requests)
        for message in (*requests.values(), *shares.values()):
            vector = b"" if message.vector is None else message.vector.tobytes()
            self._seen.append(vector + message.scalars.tobytes())
        return shares


@pytest.mark.parametrize("features", [NoPrivacy(), Recommended(1.0)], ids=["plain", "recommended"])
@pytest.mark.parametrize("offset", [True, False])
def test_attack_3_everything_that_leaves_the_label_party_depends_on_reported_labels_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, features: Any, offset: bool
) -> None:
    own, other, y = data()
    folder, response = LedgerFolder(tmp_path, Budget(50.0)), RandomisedResponse(1.0)
    seen: list[list[bytes]] = []
    in_process = session_module.InProcess
    for labels in (y, twins(response, folder, y)):
        seen.append([])
        monkeypatch.setattr(session_module, "InProcess", lambda *a, tap=seen[-1]: Tap(in_process(*a), tap))
        policy = Policy([NoPrivacy(), features], labels=response, offset=offset, ledger=folder)
        model = plait.fit([own, other], labels, privacy=policy, fit_intercept=True)
        seen[-1].append(repr((model.intercept, model.rounds, model.reason, model.objective)).encode())
    assert len(seen[0]) > 4
    assert seen[0] == seen[1], "intercept, offset, early stopping, weights and every message"


def helper(book: Any, sketch: bool = False) -> Any:
    _, other, _ = data()
    block = Block(Features(other), L2(1e-3), plait.Logistic(), np.full(N, 1 / N))
    return Protected(plait.Subspace(), Recommended(1.0), book, sketch=sketch).party_side(block)


@pytest.mark.parametrize("request_again", [say(Step.FIT, 0.5), say(Step.LABELS, vector=np.ones(N)),
                                           say(Step.SKETCH, 33), say(Step.FACTOR, 0.5)])  # fmt: skip
def test_attack_5_a_helper_makes_each_release_once(tmp_path: Path, request_again: Broadcast) -> None:
    _, _, y = data()
    folder = LedgerFolder(tmp_path, Budget(9.0))
    policy = Policy([NoPrivacy(), Recommended(1.0)], ledger=folder)
    side = helper(policy.gate("shop", np.zeros((N, 4)), Recommended(1.0)), sketch=True)
    state, _ = side.respond(side.start(), say(Step.LABELS, vector=np.where(y > 0, 1.0, -1.0)))
    state, _ = side.respond(state, say(Step.FIT, 0.0))
    state, _ = side.respond(state, say(Step.SKETCH, 16))
    before = len(folder.ledger("shop").charges())
    state, _ = side.respond(state, say(Step.FACTOR, 1.0))
    for _ in range(6):
        with pytest.raises(PrivacyError, match="Nothing was"):
            side.respond(state, request_again)
    assert len(folder.ledger("shop").charges()) == before == 2 + Recommended(1.0).gradients
    assert spent(tmp_path) <= 1.0 + 1e-9, "what the run prints is what the ledger says"


def test_attack_5_forgotten_state_does_not_help(tmp_path: Path) -> None:
    """A helper whose state was reset still knows from its ledger which releases of a plan were made."""
    _, _, y = data()
    folder = LedgerFolder(tmp_path, Budget(9.0))
    book = Policy([NoPrivacy(), Recommended(1.0)], ledger=folder).gate("shop", np.zeros((N, 4)), Recommended(1.0))
    for buckets, refused in ((16, False), (16, False), (17, True)):
        side = helper(book, sketch=True)
        state, _ = side.respond(side.start(), say(Step.LABELS, vector=np.where(y > 0, 1.0, -1.0)))
        state, _ = side.respond(state, say(Step.FIT, 0.0))
        if refused:
            with pytest.raises(PrivacyError, match="made once"):
                side.respond(state, say(Step.SKETCH, buckets))
        else:
            side.respond(state, say(Step.SKETCH, buckets))
    assert len(folder.ledger("shop").charges()) == 2 + Recommended(1.0).gradients


def test_attack_5_a_plan_is_checked_against_all_other_charges_of_its_run(tmp_path: Path) -> None:
    own, other, y = data()
    train(tmp_path, own, other, y, run="same name")
    with pytest.raises(BudgetError):
        train(tmp_path, own, other, 1 - y, run="same name")
    assert (
        len(next(s for s in read_spending(tmp_path) if s.party == "shop").charges) == 15
    )  # mean, spread, Gram, gradients


def test_attack_6_weights_that_are_not_covered_are_not_scored_with() -> None:
    own, other, y = data()
    privacy = [NoPrivacy(), MechanismA(8.0, rounds=3)]
    model = plait.fit([own, other], y, privacy=privacy, penalty=L2(0.1))
    with pytest.raises(PrivacyError, match="weights"):
        model.scores([own[:1], other[:1]])
    table = np.hstack([own, other])
    estimator = plait.VerticalLogisticRegression(
        {"a": range(3), "b": range(3, 7)}, alpha=0.1, privacy={"a": privacy[0], "b": privacy[1]}
    ).fit(table, y)
    for ask in (estimator.predict, estimator.decision_function, estimator.predict_proba):
        with pytest.raises(PrivacyError, match="weights"):
            ask(table[:1])


OTHER: Mapping[str, Any] = {
    "epsilon": 1.5,
    "delta": 1e-6,
    "adjacency": plait.privacy.Adjacency.ZERO_OUT,
    "gradients": 5,
    "gram_share": 0.2,
    "frame_share": 0.2,
    "sketch_share": 0.2,
    "score_share": 0.1,
    "score_bound": 3.0,
    "clip": 2.0,
    "gradient_clip": 2.0,
    "even": False,
}


@pytest.mark.parametrize("name", [f.name for f in fields(Recommended)])
def test_attack_7_every_field_of_the_mechanism_makes_other_noise(name: str) -> None:
    from plait.privacy.clipping import ClippedRows
    from plait.privacy.ledger.release_gate import Book
    from plait.privacy.mechanisms.helper_fit import Helper, Lesson

    _, other, y = data()
    lesson = Lesson(plait.Logistic(), np.where(y > 0, 1.0, -1.0), np.zeros(N), np.ones(N))
    usual = Recommended(1.0)
    plans = {
        Helper.of(ClippedRows.of(other), L2(0.1), mechanism, lesson, Book("run", "shop"), sketch=False).known
        for mechanism in (usual, replace(usual, **{name: OTHER[name]}))
    }
    assert len(plans) == 2


def test_attack_7_the_epsilon_of_labels_makes_other_noise(tmp_path: Path) -> None:
    _, _, y = data()
    folder = LedgerFolder(tmp_path, Budget(50.0))
    drawn = [
        Policy(labels=RandomisedResponse(e), ledger=folder).protect_labels(2 * y - 1)[0] > 0.5
        for e in (1.0, 1.0 + 1e-9)
    ]
    assert not np.array_equal(*drawn), "the same coins at two settings would show a label that is just between them"


def test_attack_8_a_long_row_stops_nothing_and_is_seen_by_nobody(tmp_path: Path) -> None:
    own, other, y = data()
    counts = set()
    for value in (1.0, 1e3, 1e200):
        rows = other.copy()
        rows[0, 0] = value
        model = plait.fit([own, rows], y, privacy=[NoPrivacy(), Recommended(1.0)])
        counts.add((model.rounds, sum(r.bytes_up + r.bytes_down for r in model.history)))
    assert len(counts) == 1, "as many messages, of the same sizes"


def test_attack_9_an_old_copy_of_the_folder_is_refused(tmp_path: Path) -> None:
    own, other, y = data()
    folder, old = tmp_path / "ledgers", tmp_path / "copy"
    LedgerFolder(folder, Budget(1.0)).ledger("shop")
    shutil.copytree(folder, old)
    train(folder, own, other, y)
    new = tmp_path / "new"
    shutil.copytree(folder, new)
    shutil.rmtree(folder)
    shutil.copytree(old, folder)
    with pytest.raises(PrivacyError, match="old copy"):
        train(folder, own, other, y, run="again")
    with pytest.raises(PrivacyError, match="old copy"):
        train(old, own, other, y, run="again")
    shutil.rmtree(folder)
    shutil.copytree(new, folder)
    with pytest.raises(BudgetError):
        train(folder, own, other, y, run="again")


def test_attack_9_a_forged_chain_is_refused(tmp_path: Path) -> None:
    """Whoever can write the files, and knows the format, but has no key, cannot make a ledger that is accepted."""
    from plait.privacy.ledger.hash_chain import HashChain

    own, other, y = data()
    train(tmp_path, own, other, y)
    ledger = LedgerFolder(tmp_path, Budget(1.0)).ledger("shop")
    opening = ledger.path.read_text().splitlines()[0]
    chain = ledger.path.parent
    for path in (ledger.path, chain.with_name(chain.name + ".head.json")):
        path.unlink()
    import json

    forged = HashChain(chain, b"x" * 32)
    with forged.locked() as entries:
        forged.append(entries, "open", json.loads(opening)["body"])
    with pytest.raises(PlaitError, match="counts as spent"):
        train(tmp_path, own, other, y, run="again")
