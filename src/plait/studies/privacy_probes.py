"""Probes of the private mode as it is shipped: each plays one attack on the real code and says whether it held.

What a probe compares with is computed here, by other means: sensitivities by their formulas, sums by NumPy, the account
by SciPy's normal distribution.  `plait.studies.privacy_mutations` puts faults into the shipped code, and every one of
them must make some probe fail.
"""

import math
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from plait import errors
from plait._types import Array
from plait.deployment.party_settings import TrustOptions
from plait.deployment.score_limits import ScoreLimits
from plait.errors import BudgetError, InputError, PrivacyError, ProtocolError, SettingError
from plait.estimators import VerticalLogisticRegression
from plait.methods.base import Block
from plait.methods.private.pass_messages import Step, say
from plait.methods.private.pass_parties import Protected
from plait.methods.subspace.method import Subspace
from plait.privacy.accounting import Cost
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.ledger.budget import Budget
from plait.privacy.ledger.hash_chain import HashChain
from plait.privacy.ledger.release_gate import Book, LedgerFolder
from plait.privacy.ledger.witness import state_folder
from plait.privacy.mechanisms.helper_fit import Helper, Lesson
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoPrivacy
from plait.privacy.mechanisms.permanent import PermanentLabels
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.mechanisms.releases import NoisyGradient
from plait.privacy.noise import KeyedNoise, Release
from plait.privacy.policy import Policy
from plait.problem.features import Features
from plait.problem.losses import Logistic
from plait.problem.penalties import L2
from plait.training.fit import fit


def small(seed: int = 0, rows: int = 120) -> tuple[Array, Array, Array]:
    """Columns of two parties and labels 0/1."""
    rng = np.random.default_rng(seed)
    own, other = rng.standard_normal((rows, 2)) / 4, rng.standard_normal((rows, 3)) / 4
    return own, other, (rng.random(rows) < 1 / (1 + np.exp(-4 * (own.sum(1) + other.sum(1))))).astype(np.float64)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is thrown away; witnesses go there, too."""
    with tempfile.TemporaryDirectory(prefix="plait-audit-") as folder, state_folder(Path(folder) / "state"):
        yield Path(folder)


def refused(*kinds: type[Exception]) -> Callable[[Callable[[], Any]], bool]:
    """A question: does this call end with one of these errors?"""

    def ask(call: Callable[[], Any]) -> bool:
        try:
            call()
        except kinds:
            return True
        return False

    return ask


def _fit(root: Path, other: Any = None, y: Any = None, **names: str) -> Any:
    own, table, labels = small()
    table, labels = (table if other is None else other), (labels if y is None else y)
    name = names.get("party", "shop")
    ledger = LedgerFolder(root / "ledgers", Budget(1.0), witness=root / "witness")
    mechanism = NoPrivacy() if "unprotected" in names else Recommended(1.0)
    policy = Policy({"bank": NoPrivacy(), name: mechanism}, ledger=ledger, run=names.get("run", "run"))
    return fit({"bank": own, name: table}, labels, privacy=policy)


def one_account() -> bool:
    """The same people, otherwise scaled, ordered or named, in the same run or another, get no second budget."""
    with scratch() as root:
        _, other, y = small()
        _fit(root)
        _fit(root)
        out = refused(BudgetError, PrivacyError)
        disguises = [out(lambda: _fit(root, 0.999999 * other)), out(lambda: _fit(root, other[:, ::-1])),
                     out(lambda: _fit(root, y=1 - y)), out(lambda: _fit(root, run="another")),
                     out(lambda: _fit(root, party="store")), out(lambda: _fit(root, party="label holder")),
                     out(lambda: _fit(root, unprotected="yes"))]  # fmt: skip
        ledger = LedgerFolder(root / "ledgers", Budget(1.0), witness=root / "witness").ledger("shop")
        more, noise = Cost(mu=0.2), KeyedNoise()
        again = Release("run", "shop", 0, "Gram", "other inputs")
        direct = [
            out(lambda: ledger.check(more, "run", "another plan")),
            out(lambda: ledger.reserve(again, more, "R", noise)),
        ]
        return all(disguises) and all(direct) and len(ledger.charges()) == 1 + Recommended(1.0).gradients


def announced_fits() -> bool:
    """A cross-validation spends nothing unless it says how many fits it makes, and the budget covers all of them."""
    own, other, y = small()
    with scratch() as root:
        ledger = LedgerFolder(root, Budget(2.0), witness=root / "witness")

        def search(count: int, fits: int | None) -> Any:
            policy = Policy([NoPrivacy(), Recommended(1.0)], ledger=ledger, run=f"{count} of {fits}", fits=fits)
            parties = {"party 0": range(own.shape[1]), "party 1": range(own.shape[1], own.shape[1] + other.shape[1])}
            for k in range(count):
                copy = clone(VerticalLogisticRegression(parties, privacy=policy))
                copy.fit(np.hstack([own, other])[k:], y[k:])

        out = refused(BudgetError)
        before = out(lambda: search(2, None)) and out(lambda: search(9, 9)) and not ledger.ledger("party 1").charges()
        return before and out(lambda: search(2, 1)) and len(ledger.ledger("party 1").charges()) == 13


def one_unit() -> bool:
    """An account that counts replaced rows takes no price that was stated for rows of zeros."""
    _, other, _ = small()
    with scratch() as root:
        policy = Policy(ledger=LedgerFolder(root, Budget(1.0), witness=root / "witness"))
        blank = Recommended(1.0, adjacency=Adjacency.ZERO_OUT)
        return refused(PrivacyError)(lambda: policy.gate("shop", other, blank))


def people() -> bool:
    """Whoever was in a run is known for ever, also to a copy of the party that has another file."""
    with scratch() as root:
        folder = LedgerFolder(root, Budget(1.0), witness=root / "witness")
        folder.ledger("shop")
        folder.people("shop").add([b"ann", b"bob"])
        folder.people("shop").add([b"cem"])
        found = folder.people("shop").include([b"ann", b"dora", b"cem"])
        for path in root.glob("*/people-*.bin"):
            path.unlink()
        return found.tolist() == [True, False, True] and refused(PrivacyError)(
            lambda: folder.people("shop").include([b"ann"])
        )


def newest_ledger() -> bool:
    """An old copy of a ledger is refused, and so is one that was lost, has no witness, or was made without the key."""
    with scratch() as root:
        folder = LedgerFolder(root / "ledgers", Budget(1.0), witness=root / "witness")
        folder.ledger("shop")
        shutil.copytree(root / "ledgers", root / "old")
        _fit(root)
        shutil.rmtree(root / "ledgers")
        shutil.copytree(root / "old", root / "ledgers")
        old = refused(PrivacyError)(lambda: folder.ledger("shop"))
        (root / "witness").rename(root / "away")
        with state_folder(root / "another user"):
            unseen = refused(PrivacyError)(lambda: folder.ledger("shop"))
        (root / "away").rename(root / "witness")
        shutil.rmtree(root / "ledgers")
        lost = refused(PrivacyError)(lambda: folder.ledger("shop"))
        forged = LedgerFolder(root / "forged", Budget(1.0), witness=root / "elsewhere").ledger("shop")
        chain, body = forged.path.parent, {"party": "shop", "table": "people", "budget": Budget(1.0).encode()}
        for path in (forged.path, chain.with_name(chain.name + ".head.json")):
            path.unlink()
        shutil.rmtree(root / "elsewhere")
        other = HashChain(chain, b"no such key" * 3)
        with other.locked() as entries:
            other.append(entries, "open", body)
        ledger = LedgerFolder(root / "forged", Budget(1.0), witness=root / "elsewhere")
        return old and unseen and lost and refused(PrivacyError)(lambda: ledger.ledger("shop"))


def permanent_labels() -> bool:
    """Labels lie often enough, always alike for the same id and label, apart for another epsilon, and are charged."""
    with scratch() as root:
        ids, labels = [f"p{i}" for i in range(2000)], (np.arange(2000) % 2).astype(np.float64)
        noise, response = KeyedNoise(), RandomisedResponse(1.0)
        ledger = LedgerFolder(root, Budget(1.0), witness=root / "witness").ledger("bank")
        drawer = PermanentLabels(noise, "bank", "people", ledger)
        first = drawer.draw(response, labels, ids)
        again = drawer.draw(response, labels[500:], ids[500:])
        lies = float(np.mean(first != labels))
        changed = refused(BudgetError)(lambda: drawer.draw(response, 1 - labels, ids))
        renamed = refused(BudgetError)(lambda: drawer.draw(response, labels, [f"other {name}" for name in ids]))
        free = PermanentLabels(noise, "bank", "people")
        other = free.draw(RandomisedResponse(1.0 + 1e-9), labels, ids)
        spread = free.draw(NoisyLabel(1.0, 0.0, 1.0), np.full(300, 0.5), ids[:300]) - 0.5
        return bool(
            np.array_equal(again, first[500:])
            and abs(lies - 1 / (1 + math.e)) < 0.05
            and changed
            and renamed
            and len(ledger.charges()) == 1
            and not np.array_equal(other, first)
            and np.mean(np.abs(spread)) > 0.75
        )


def helper_order() -> bool:
    """A helper takes each step of its plan once; one that forgot its state still knows from its ledger."""
    _, other, y = small()
    block = Block(Features(other), L2(1e-3), Logistic(), np.full(y.size, 1 / y.size))
    labels = np.where(y > 0, 1.0, -1.0)
    out = refused(PrivacyError)
    with scratch() as root:
        ledger = LedgerFolder(root, Budget(9.0), witness=root / "witness")
        book = Book("audit", "shop", ledger.noise("shop"), ledger.ledger("shop"))
        sides = [Protected(Subspace(), Recommended(1.0), book, sketch=True).party_side(block) for _ in range(2)]
        states = []
        for side in sides:
            state, _ = side.respond(side.start(), say(Step.LABELS, vector=labels))
            state, _ = side.respond(state, say(Step.FIT, 0.0))
            states.append(state)
        again = out(lambda: sides[0].respond(states[0], say(Step.FIT, 0.5)))
        sides[0].respond(states[0], say(Step.SKETCH, 16))
        forgotten = out(lambda: sides[1].respond(states[1], say(Step.SKETCH, 17)))
        return again and forgotten and len(ledger.ledger("shop").charges()) == 2 + Recommended(1.0).gradients


def digests() -> bool:
    """Every setting, row, label, offset, weight and penalty makes another plan, and so other noise."""
    _, other, y = small()
    usual = Recommended(1.0)
    lesson = Lesson(Logistic(), np.where(y > 0, 1.0, -1.0), np.zeros(y.size), np.ones(y.size))
    nudged = np.where(np.arange(y.size) == 3, 0.5, 0.0)

    def plan(rows: Array, mechanism: Recommended, told: Lesson, penalty: float) -> bytes:
        return Helper.of(ClippedRows.of(rows), L2(penalty), mechanism, told, Book("run", "shop"), sketch=False).known

    others = [
        *(plan(other, replace(usual, **{k: v}), lesson, 0.1) for k, v in _OTHER.items()),
        plan(other + 0.01 * nudged[:, None], usual, lesson, 0.1),
        plan(other, usual, replace(lesson, labels=lesson.labels * (1 - 4 * nudged)), 0.1),
        plan(other, usual, replace(lesson, offset=nudged), 0.1),
        plan(other, usual, replace(lesson, weights=lesson.weights - nudged), 0.1),
        plan(other, usual, replace(lesson, shifts=True), 0.1),
        plan(other, usual, lesson, 0.2),
    ]
    return len({plan(other, usual, lesson, 0.1), *others}) == len(others) + 1


_OTHER: dict[str, Any] = {"epsilon": 1.5, "delta": 1e-6, "gradients": 5, "gram_share": 0.2, "frame_share": 0.2,
                          "sketch_share": 0.2, "score_share": 0.1, "score_bound": 3.0, "clip": 2.0,
                          "gradient_clip": 2.0, "even": False}  # fmt: skip


def covered_scores() -> bool:
    """Weights that no guarantee covers are not scored with, and weights of classes or rows do not tell labels."""
    own, other, y = small()
    model = fit([own, other], y, privacy=[NoPrivacy(), MechanismA(8.0, rounds=2)], penalty=L2(0.1))
    policy = Policy(labels=RandomisedResponse(1.0))
    weighted = VerticalLogisticRegression(2, class_weight="balanced", privacy=policy)
    return (
        refused(PrivacyError)(lambda: model.scores([own[:1], other[:1]]))
        and refused(SettingError)(lambda: weighted.fit(np.hstack([own, other]), y))
        and refused(PrivacyError)(lambda: fit([own, other], y, privacy=policy, sample_weight=1 + y))
        and refused(PrivacyError)(lambda: fit([own, other], y, privacy=policy, start=model.weights))
    )


def score_limits() -> bool:
    """Limits per minute, per id and per run hold for ever, whoever asks again."""
    with scratch() as root:

        def take(name: str, ids: list[str], **limits: int) -> Any:
            trust = replace(TrustOptions(max_queries=0, max_scores=0, scores_per_id=0), **limits)  # type: ignore[arg-type]
            return ScoreLimits(root / name, trust).take("run", ids)[0]

        minute = [take("a", ["x"] * 6, max_queries=10) is None for _ in range(2)]
        per_id = [bool(take("b", ["x"], scores_per_id=2).all()) for _ in range(3)]
        per_run = [bool(take("c", ["x", "y"], max_scores=3).all()) for _ in range(2)]
        return minute == [False, True] and per_id == [True, True, False] and per_run == [True, False]


def quiet() -> bool:
    """No value of a row stops the clip or leaves it unbounded, no lesson ends the noise, no error says a value."""
    for value in (np.nan, np.inf, 1e300, 50.0):
        found = ClippedRows.of(np.array([[0.3, 0.4], [value, 0.1]])).matrix
        if not (np.isfinite(found).all() and np.linalg.norm(found, axis=1).max() <= 1):
            return False
    gradient = NoisyGradient.for_mu(1.0, 2, 1.0, Adjacency.REPLACE)
    slopes = gradient.value(ClippedRows.of(np.eye(2)), np.array([np.nan, -np.inf]))
    if not (np.isfinite(slopes).all() and np.linalg.norm(slopes) <= 1):
        return False
    lesson = Lesson(Logistic(), np.array([np.inf, 1.0]), np.zeros(2), np.ones(2))
    rows, book = ClippedRows.of(np.eye(2)), Book("run", "shop")
    with np.errstate(invalid="ignore"):
        if not refused(ProtocolError)(lambda: Helper.of(rows, L2(0.1), Recommended(1.0), lesson, book, sketch=False)):
            return False
    return errors.unspecific(InputError("row 7 holds 31.5")) == errors.unspecific(PrivacyError("nothing"))
