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
from scipy.stats import norm

from plait import errors
from plait._types import Array
from plait.deployment.score_limits import ScoreLimits
from plait.deployment.settings import TrustOptions
from plait.errors import BudgetError, InputError, PrivacyError, SettingError
from plait.estimators import VerticalLogisticRegression
from plait.messages import Broadcast
from plait.methods.base import Block
from plait.methods.private.noisy_shares import AdmmSide
from plait.methods.private.pass_messages import Step, say
from plait.methods.private.pass_parties import Protected
from plait.methods.subspace.method import Subspace
from plait.privacy.accounting import Cost
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.ledger.hash_chain import HashChain
from plait.privacy.ledger.ledger import Budget
from plait.privacy.ledger.release_gate import Book, LedgerFolder
from plait.privacy.mechanisms.helper_fit import Helper, HelperFit, Lesson, fit_helper, sketch_helper
from plait.privacy.mechanisms.helper_mixing import Layout
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoPrivacy
from plait.privacy.mechanisms.permanent import PermanentLabels
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.mechanisms.releases import NoisyGradient
from plait.privacy.noise import KeyedNoise, Noise, Release
from plait.privacy.policy import Policy
from plait.problem.features import Features
from plait.problem.losses import Huber, Logistic, Squared
from plait.problem.penalties import L2
from plait.training.fit import fit

ROWS, WIDTH = 400, 60  # enough numbers in every release to know its noise to a few per cent
_TOO_LITTLE = 0.85  # of the noise that is needed: below it, chance explains the measured noise no longer
_TOO_FAR = 8.0  # standard deviations: no draw of these probes lies further out


def small(seed: int = 0, rows: int = 120) -> tuple[Array, Array, Array]:
    """Columns of two parties and labels 0/1."""
    rng = np.random.default_rng(seed)
    own, other = rng.standard_normal((rows, 2)) / 4, rng.standard_normal((rows, 3)) / 4
    return own, other, (rng.random(rows) < 1 / (1 + np.exp(-4 * (own.sum(1) + other.sum(1))))).astype(np.float64)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is thrown away; witnesses go there, too."""
    with tempfile.TemporaryDirectory(prefix="plait-audit-") as folder:
        yield Path(folder)


class Recorder:
    """An account that keeps what was charged and what was released."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []
        self.released: dict[str, list[Array]] = {}

    def check(self, cost: Cost, run: str, plan: str = "") -> None:
        """Every cost is allowed."""

    def receipt(self, plan: str) -> int:
        return 0

    def check_receipt(self, receipt: int) -> None:
        """Every receipt is accepted."""

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        content = compute()
        self.costs.append(cost)
        self.released.setdefault(release.name, []).append(np.frombuffer(content, dtype="<f8"))
        return content


def refused(*kinds: type[Exception]) -> Callable[[Callable[[], Any]], bool]:
    """A question: does this call end with one of these errors?"""

    def ask(call: Callable[[], Any]) -> bool:
        try:
            call()
        except kinds:
            return True
        return False

    return ask


def one_pass() -> bool:
    """Everything that a helper draws in one pass has the noise that replacing any one row asks for.

    Gradients move by 2 B, the Gram matrix beside them is free while C <= A / 2, scores and sketch move by 2 B.
    """
    rng = np.random.default_rng(1)
    lesson = Lesson(Squared(), 3 * rng.standard_normal(ROWS), np.zeros(ROWS), np.ones(ROWS))
    return _enough_noise(lesson, lambda z: np.clip(z - lesson.labels, -0.5, 0.5), 0.5, 1.0)


def weighted_rows() -> bool:
    """The same for rows that count less where the offset is far from 0: no slope beyond the smallest bound."""
    rng = np.random.default_rng(3)
    labels, offset = rng.choice([-1.0, 1.0], ROWS), rng.uniform(-4.0, 4.0, ROWS)
    bounds = 1 / (1 + np.exp(-np.abs(offset) - Recommended(4.0).margin))
    least = float(bounds.min())
    lesson = Lesson(Logistic(), labels, offset, np.ones(ROWS), Recommended(4.0).margin)

    def slopes(z: Array) -> Array:
        slope = 1 / (1 + np.exp(-offset - z)) - (labels > 0)
        return np.clip(least / bounds * slope, -least, least)

    query = NoisyGradient.for_mu(1.0, ROWS, lesson.gradient_bound(1.0), Adjacency.REPLACE)
    far = [np.abs(query.value(ClippedRows.of(np.eye(ROWS)), lesson.slopes(np.full(ROWS, z)))) for z in (-50.0, 50.0)]
    if np.max(far) > 1:  # in units of the bound: the share of one row each
        return False
    p = 1 / (1 + np.exp(-offset))
    return _enough_noise(lesson, slopes, least, float(np.max(least / bounds * p * (1 - p))))


def _enough_noise(lesson: Lesson, slopes: Callable[[Array], Array], bound: float, curvature: float) -> bool:
    """Whether a pass with these slopes, at most `bound`, and curvatures, at most `curvature`, has enough noise."""
    table = 3 * np.random.default_rng(1).standard_normal((ROWS, WIDTH))
    mechanism = Recommended(4.0, score_share=0.2, score_bound=1e-4, gradient_clip=0.5)
    account = Recorder()
    helper = Helper.of(
        ClippedRows.of(table, 2.0), L2(0.01), mechanism, lesson, Book("audit", "helper", account=account), sketch=True
    )
    fitted = fit_helper(helper, lesson)
    layout = Layout.of("audit", ROWS, 200)
    sketch_helper(helper, HelperFit(fitted.weights, fitted.energy, fitted.plan), np.ones(ROWS), layout)
    rows = table / 2 / np.maximum(1.0, np.linalg.norm(table / 2, axis=1))[:, None]
    noise = _noise_of_pass(rows, slopes, lesson, helper, account, fitted, layout)
    if noise is None:
        return False
    sigma = {name: [float(np.sqrt(np.mean(part**2))) for part in parts] for name, parts in noise.items()}
    gradients = sum((bound / s) ** 2 for s in sigma["gradient"])
    diagonal, beside = sigma["Gram"]
    gram = max((_TOO_LITTLE * curvature / diagonal) ** 2, (curvature / beside) ** 2 / 2)  # few numbers on the diagonal
    rest = (2e-4 / sigma["scores"][0]) ** 2 + (2.0 / sigma["sketch"][0]) ** 2
    stated = _mu(4.0, 1e-5)
    independent = _other_words() and abs(np.corrcoef(noise["gradient"][0], noise["gradient"][1])[0, 1]) < 0.9
    free = gram <= gradients / 2 / _TOO_LITTLE**2
    paid = sum(account.costs, Cost()).mu <= stated * (1 + 1e-6)
    return bool(independent and free and paid and math.sqrt(4 * gradients + rest) <= stated / _TOO_LITTLE)


def _other_words() -> bool:
    """Whether a release that differs in its run, party, round, name or inputs gets other random words."""
    noise, one = KeyedNoise(), Release("run", "party", 1, "name", "inputs")
    others = [replace(one, run="r"), replace(one, party="p"), replace(one, round=2), replace(one, name="n"),
              replace(one, digest="i")]  # fmt: skip
    return len({noise.stream(r).words(4).tobytes() for r in (one, *others)}) == 1 + len(others)


def _noise_of_pass(
    rows: Array,
    slopes: Callable[[Array], Array],
    lesson: Lesson,
    helper: Helper,
    account: Recorder,
    fitted: HelperFit,
    layout: Layout,
) -> dict[str, list[Array]] | None:
    """What each release has beside its clean value, the sketch in units of its clip; None for far too much."""
    from plait.privacy.mechanisms.noisy_newton import NoisyNewton

    plan, released = helper.plan, account.released
    curvature = lesson.curvature(plan.slope_bound)
    row, column = np.triu_indices(rows.shape[1])
    gram = released["Gram"][0] - ((rows * curvature[:, None]).T @ rows)[row, column]
    noise = {"Gram": [gram[row == column], gram[row < column]], "gradient": []}
    newton = NoisyNewton.of(plan.gram.full(released["Gram"][0]), plan.gram.sigma, float(curvature.sum()))
    state = newton.start()
    for found, query in zip(released["gradient"], plan.gradients, strict=True):
        noise["gradient"].append(found - rows.T @ slopes(rows @ state.weights))
        state = newton.step(state, found, query.sigma, helper.penalty, lesson.mass)
    noise["scores"] = [released["scores"][0] - np.clip(rows @ fitted.weights, -1e-4, 1e-4)]
    bound = max(float(np.sqrt(fitted.energy / ROWS)), 1e-6)
    told = np.clip(rows @ fitted.weights, -bound, bound)
    clean = np.bincount(layout.bucket, layout.sign * told, layout.buckets)
    noise["sketch"] = [(released["sketch"][0][:-1] - clean) / bound]
    scores, sketch = 2 * (plan.scores or plan.gram).sigma, plan.sketch(layout.buckets, 1.0).sigma
    limits = {"Gram": plan.gram.sigma, "gradient": plan.gradients[0].sigma, "scores": scores, "sketch": sketch}
    near = all(np.abs(np.concatenate(parts)).max() < _TOO_FAR * limits[name] for name, parts in noise.items())
    return noise if near else None


def _mu(epsilon: float, delta: float) -> float:
    """The mu whose delta at this epsilon is the given one, by SciPy and bisection."""
    low, high = 1e-6, 50.0
    for _ in range(200):
        mu = (low + high) / 2
        found = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        low, high = (low, mu) if found > delta else (mu, high)
    return low


def noisy_shares() -> bool:
    """A share of MechanismA has the noise of its proved sensitivity, is kept as it was sent, and asked for once."""
    rng = np.random.default_rng(2)
    mechanism = replace(MechanismA(2.0, rounds=2), kappa=0.5)
    block = Block(Features(rng.standard_normal((ROWS, 4)) / 4), L2(0.1), Huber(), np.full(ROWS, 1 / ROWS))
    side = AdmmSide(mechanism, block, Book("audit", "helper", account=Recorder()))
    # rho + tau = N ridge / kappa makes the x-update the one that the mechanism was calibrated for.
    rho = ROWS * 0.1 / 0.5
    ask = Broadcast(1, rng.standard_normal(ROWS), np.array([rho, 0.0]))
    state, share = side.respond(side.start(), ask)
    assert share.vector is not None
    clean = np.clip(side.rows.forward(state.x), -2.0, 2.0)
    needed = math.sqrt(16 + 144 / 0.5) / (_mu(2.0, 1e-5) / math.sqrt(2))
    enough = float(np.std(share.vector - clean)) >= _TOO_LITTLE * needed
    again = refused(PrivacyError)(lambda: side.respond(state, replace(ask, vector=np.zeros(ROWS))))
    return enough and again and np.array_equal(state.released, share.vector)


def _fit(root: Path, other: Any = None, y: Any = None, **names: str) -> Any:
    own, table, labels = small()
    table, labels = (table if other is None else other), (labels if y is None else y)
    name = names.get("party", "shop")
    ledger = LedgerFolder(root / "ledgers", Budget(1.0), witness=root / "witness")
    policy = Policy({"bank": NoPrivacy(), name: Recommended(1.0)}, ledger=ledger, run=names.get("run", "run"))
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
                     out(lambda: _fit(root, party="store"))]  # fmt: skip
        ledger = LedgerFolder(root / "ledgers", Budget(1.0), witness=root / "witness").ledger("shop")
        more, noise = Cost(mu=0.2), KeyedNoise()
        again = Release("run", "shop", 0, "Gram", "other inputs")
        direct = [
            out(lambda: ledger.check(more, "run", "another plan")),
            out(lambda: ledger.reserve(again, more, "R", noise)),
        ]
        return all(disguises) and all(direct) and len(ledger.charges()) == 1 + Recommended(1.0).gradients


def newest_ledger() -> bool:
    """An old copy of a ledger is refused, and so is one that somebody without the key has made."""
    with scratch() as root:
        folder = LedgerFolder(root / "ledgers", Budget(1.0), witness=root / "witness")
        folder.ledger("shop")
        shutil.copytree(root / "ledgers", root / "old")
        _fit(root)
        shutil.rmtree(root / "ledgers")
        shutil.copytree(root / "old", root / "ledgers")
        old = refused(PrivacyError)(lambda: folder.ledger("shop"))
        forged = LedgerFolder(root / "forged", Budget(1.0), witness=root / "elsewhere").ledger("shop")
        chain, body = forged.path.parent, {"party": "shop", "table": "people", "budget": Budget(1.0).encode()}
        for path in (forged.path, chain.with_name(chain.name + ".head.json")):
            path.unlink()
        shutil.rmtree(root / "elsewhere")
        other = HashChain(chain, b"no such key" * 3)
        with other.locked() as entries:
            other.append(entries, "open", body)
        ledger = LedgerFolder(root / "forged", Budget(1.0), witness=root / "elsewhere")
        return old and refused(PrivacyError)(lambda: ledger.ledger("shop"))


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
        free = PermanentLabels(noise, "bank", "people")
        other = free.draw(RandomisedResponse(1.0 + 1e-9), labels, ids)
        spread = free.draw(NoisyLabel(1.0, 0.0, 1.0), np.full(300, 0.5), ids[:300]) - 0.5
        return bool(
            np.array_equal(again, first[500:])
            and abs(lies - 1 / (1 + math.e)) < 0.05
            and changed
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
        plan(other, usual, lesson, 0.2),
    ]
    return len({plan(other, usual, lesson, 0.1), *others}) == len(others) + 1


_OTHER: dict[str, Any] = {"epsilon": 1.5, "delta": 1e-6, "gradients": 5, "gram_share": 0.2, "sketch_share": 0.2,
                          "score_share": 0.1, "score_bound": 3.0, "clip": 2.0, "gradient_clip": 2.0,
                          "margin": 0.3}  # fmt: skip


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
    """No value of a row stops the clip or leaves it unbounded, and no error says what was found."""
    for value in (np.nan, np.inf, 1e300, 50.0):
        found = ClippedRows.of(np.array([[0.3, 0.4], [value, 0.1]])).matrix
        if not (np.isfinite(found).all() and np.linalg.norm(found, axis=1).max() <= 1):
            return False
    return errors.unspecific(InputError("row 7 holds 31.5")) == errors.unspecific(PrivacyError("nothing"))
