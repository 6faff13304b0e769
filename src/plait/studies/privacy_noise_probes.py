"""Probes of the noise: is there as much of it in everything that a party draws as replacing one row asks for?

Sensitivities come from their formulas, sums from NumPy, and the account from SciPy's normal distribution.
"""

import math
import secrets
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.stats import norm

from plait._types import Array
from plait.errors import PrivacyError
from plait.messages import Broadcast
from plait.methods.base import Block
from plait.methods.private.noisy_shares import AdmmSide
from plait.privacy.accounting import Cost
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.helper_fit import (
    Helper,
    HelperFit,
    Lesson,
    fit_helper,
    frame_rows,
    newton_of,
    sketch_helper,
)
from plait.privacy.mechanisms.helper_mixing import Layout
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.mechanisms.releases import NoisyGradient
from plait.privacy.mechanisms.row_frame import FramedRows
from plait.privacy.noise import KeyedNoise, Keystream, Noise, Release
from plait.problem.features import Features
from plait.problem.losses import Huber, Logistic, Squared
from plait.problem.penalties import L2
from plait.studies.privacy_probes import refused

ROWS, WIDTH = 400, 120  # enough numbers in every release to know its noise to a few per cent

DRAWS = 40  # releases of a short vector from which its noise is measured: chance errs by less than 1 %

BUCKETS = 2000  # of a sketch, each with noise of its own: its square is known to three per cent

_TOO_LITTLE = 0.85  # of the noise that is needed: below it, chance explains the measured noise no longer

_SHORT = 0.9  # the same for a whole pass, whose thousands of numbers tell its noise to two per cent
_TOO_FAR = 8.0  # standard deviations: no draw of these probes lies further out


class Recorder:
    """An account that keeps what was charged and what was released."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []
        self.released: dict[str, list[Array]] = {}
        self._kept: dict[Release, bytes] = {}

    def check(self, cost: Cost, run: str, plan: str = "") -> None:
        """Every cost is allowed."""

    def receipt(self, plan: str) -> int:
        return 0

    def check_receipt(self, receipt: int) -> None:
        """Every receipt is accepted."""

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        if release not in self._kept:
            self._kept[release] = compute()
            self.costs.append(cost)
            self.released.setdefault(release.name, []).append(np.frombuffer(self._kept[release], dtype="<f8"))
        return self._kept[release]


def one_pass() -> bool:
    """Everything that a helper draws in one pass has the noise that replacing any one row asks for.

    Gradients move by 2 B, the Gram matrix beside them is free while C <= A / 2, scores and sketch move by 2 B, the sum
    of rows by 2 and their spread by sqrt(2).
    """
    rng = np.random.default_rng(1)
    labels = 30 * rng.standard_normal(ROWS) + 30 * _table()[:, 0]
    lesson = Lesson(Squared(), labels, np.zeros(ROWS), np.ones(ROWS), shifts=True)
    return _enough_noise(lesson, lambda z: np.clip(z - lesson.labels, -0.5, 0.5), 0.5, 1.0)


def weighted_rows() -> bool:
    """The same for rows that count less where the score is far from 0: no slope beyond the smallest bound."""
    rng = np.random.default_rng(3)
    labels, offset = rng.choice([-1.0, 1.0], ROWS), rng.uniform(-4.0, 4.0, ROWS)
    bounds = 1 / (1 + np.exp(-np.abs(offset)))
    least = float(bounds.min())
    lesson = Lesson(Logistic(), labels, offset, np.ones(ROWS), Recommended(4.0).even)

    def slopes(z: Array) -> Array:
        p = 1 / (1 + np.exp(-offset - z))
        return least / np.maximum(p, 1 - p) * (p - (labels > 0))

    query = NoisyGradient.for_mu(1.0, ROWS, lesson.gradient_bound(1.0), Adjacency.REPLACE)
    far = [np.abs(query.value(ClippedRows.of(np.eye(ROWS)), lesson.slopes(np.full(ROWS, z)))) for z in (-50.0, 50.0)]
    if np.max(far) > 1:  # in units of the bound: the share of one row each
        return False
    p = 1 / (1 + np.exp(-offset))
    return _enough_noise(lesson, slopes, least, float(np.max(least / bounds * p * (1 - p))))


def framed_rows() -> bool:
    """Rows that are centred, scaled and clipped by released values have norm at most 1, however far out they lay."""
    table = 3 * np.random.default_rng(4).standard_normal((50, 6))
    rows, centre = ClippedRows.of(table), np.full(6, 0.2)
    framed = FramedRows.of(rows, centre, 0.25)
    length = np.linalg.norm(framed.rows.matrix, axis=1)
    return bool(length.max() <= 1 and np.allclose(framed.rows.matrix, _framed(rows.matrix, framed), atol=1e-6))


def _enough_noise(lesson: Lesson, slopes: Callable[[Array], Array], bound: float, curvature: float) -> bool:
    """Whether a pass with these slopes, at most `bound`, and curvatures, at most `curvature`, has enough noise."""
    table = _table()
    mechanism = Recommended(4.0, score_share=0.2, score_bound=1e-6, gradient_clip=0.5)
    account = Recorder()
    helper = Helper.of(
        ClippedRows.of(table, 2.0), L2(0.01), mechanism, lesson, Book("audit", "helper", account=account), sketch=True
    )
    fitted = fit_helper(helper, lesson)
    layout = Layout.of("audit", ROWS, BUCKETS)
    sketch_helper(helper, fitted, np.ones(ROWS), layout)
    rows = table / 2 / np.maximum(1.0, np.linalg.norm(table / 2, axis=1))[:, None]
    noise = _noise_of_pass(rows, slopes, lesson, helper, account, fitted, layout)
    if noise is None:
        return False
    sigma = {name: [float(np.sqrt(np.mean(part**2))) for part in parts] for name, parts in noise.items()}
    gradients = sum((bound / s) ** 2 for s in sigma["gradient"])
    diagonal, beside = sigma["Gram"]
    gram = max((_TOO_LITTLE * curvature / diagonal) ** 2, (curvature / beside) ** 2 / 2)  # few numbers on the diagonal
    rest = (2e-6 / sigma["scores"][0]) ** 2 + (2.0 / sigma["sketch"][0]) ** 2
    if lesson.shifts:
        frame = 2.0 / max(_noise_of_mean(helper, rows), 1e-9), math.sqrt(2) / max(_noise_of_spread(helper), 1e-9)
        if math.hypot(*frame) > _mu(4.0, 1e-5) * math.sqrt(mechanism.frame_share) / _TOO_LITTLE:
            return False
        rest += frame[0] ** 2 + frame[1] ** 2
    stated = _mu(4.0, 1e-5)
    independent = _other_words() and abs(np.corrcoef(noise["gradient"][0], noise["gradient"][1])[0, 1]) < 0.9
    free = gram <= gradients / 2 / _TOO_LITTLE**2
    paid = sum(account.costs, Cost()).mu <= stated * (1 + 1e-6)
    return bool(independent and free and paid and math.sqrt(4 * gradients + rest) <= stated / _SHORT)


def _table() -> Array:
    return 3 * np.random.default_rng(1).standard_normal((ROWS, WIDTH)) + 0.3


def _noise_of_mean(helper: Helper, rows: Array) -> float:
    """The standard deviation of the noise in a sum of rows: one release of WIDTH numbers tells it to 6 % only."""
    assert helper.plan.frame is not None
    query = helper.plan.frame.mean
    drawn = [query.release(helper.rows, Keystream(secrets.token_bytes(32))) for _ in range(DRAWS)]
    return float(np.std(np.array(drawn) - rows.sum(axis=0)))


def _noise_of_spread(helper: Helper) -> float:
    """The standard deviation of the noise in a spread, from many draws of its two numbers."""
    assert helper.plan.frame is not None
    query, apart = helper.plan.frame.spread, np.full(ROWS, 3.0)  # all further out than 1
    drawn = [query.release(apart, 20, Keystream(secrets.token_bytes(32))) for _ in range(10 * DRAWS)]
    found = np.array(drawn) - ROWS
    return float(np.sqrt(np.mean(found**2))) if np.abs(found).max() < _TOO_FAR * query.sigma else 0.0


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
    plan, released = helper.plan, account.released
    noise: dict[str, list[Array]] = {"gradient": []}
    framed = FramedRows.plain(helper.rows)
    if plan.frame:
        noise["mean"] = [released["mean"][0] - rows.sum(axis=0)]
        framed = frame_rows(helper)
        rows = _framed(rows, framed)
    curvature = lesson.curvature(plan.slope_bound)
    row, column = np.triu_indices(rows.shape[1])
    gram = released["Gram"][0] - ((rows * curvature[:, None]).T @ rows)[row, column]
    noise["Gram"] = [gram[row == column], gram[row < column]]
    newton = newton_of(plan, framed, released["Gram"][0], lesson)
    state = newton.start()
    for found, query in zip(released["gradient"], plan.gradients, strict=True):
        noise["gradient"].append(found - rows.T @ slopes(framed.scale * (rows @ state.weights)))
        scale = framed.scale
        state = newton.step(state, scale * found, scale * query.sigma, helper.penalty, lesson.mass)
    scores = framed.scale * (rows @ framed.joined(fitted.weights, fitted.shift))
    noise["scores"] = [released["scores"][0] - np.clip(scores, -1e-6, 1e-6)]
    bound = max(float(np.sqrt(fitted.energy / ROWS)), 1e-6)
    told = np.clip(scores, -bound, bound)
    clean = np.bincount(layout.bucket, layout.sign * told, layout.buckets)
    noise["sketch"] = [(released["sketch"][0][:-1] - clean) / bound]
    sketch = plan.sketch(layout.buckets, 1.0).sigma
    sigma = {"Gram": [plan.gram.sigma] * 2, "gradient": [g.sigma for g in plan.gradients], "sketch": [sketch],
             "scores": [2 * (plan.scores or plan.gram).sigma],
             "mean": [plan.frame.mean.sigma if plan.frame else math.inf]}  # fmt: skip
    near = all(
        np.abs(part).max() < _TOO_FAR * limit
        for name, parts in noise.items()
        for part, limit in zip(parts, sigma[name], strict=True)
    )
    return noise if near else None


def _framed(rows: Array, frame: FramedRows) -> Array:
    """The rows around this centre within this radius, with a constant column: norms of at most 1."""
    moved = rows - frame.centre
    moved *= np.minimum(1 / frame.radius, 1 / np.linalg.norm(moved, axis=1))[:, None]
    return np.column_stack([moved, np.full(len(rows), 0.3)]) / math.sqrt(1.09)


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
