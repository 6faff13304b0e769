"""The audit that `plait privacy audit` runs: plait's own mechanisms, which must pass, and mutants, which must fail."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from plait._types import Array
from plait.privacy.accounting import Cost, mu_of
from plait.privacy.audit.games import (
    Finding,
    game,
    hill_climb,
    independence_test,
    likelihood_ratio,
    one_run,
    scale_test,
    sensitivity_search,
    support_test,
)
from plait.privacy.clipping import Adjacency, ClippedRows
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.helper_fit import Helper, Lesson, fit_helper
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.noisy_newton import NoisyNewton
from plait.privacy.mechanisms.paper import ColumnNoise
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.mechanisms.releases import NoisyGradient, NoisyGram, NoisyScores
from plait.privacy.noise import KeyedNoise, Keystream, Noise, Release
from plait.problem.losses import Logistic
from plait.problem.penalties import L2

REPLACE = Adjacency.REPLACE
GRADIENT = NoisyGradient.for_mu(1.0, 2, 1.0, REPLACE)  # mu 1, 2 columns, slopes up to 1: small and fast
REST = np.full((3, 2), 0.2)  # the other rows, known to the attacker: their values do not matter to the guarantee
SHORT, FULL = 300, 5000  # runs of a game: seconds, which catch every mutant; minutes, which catch subtler faults
Run = Callable[[Array, Array, int], Array]


@dataclass(frozen=True)
class Effort:
    """How many runs a game has, and where the audit's randomness comes from."""

    runs: int = SHORT
    noise: Noise = field(default_factory=KeyedNoise)

    def stream(self, seed: int) -> Keystream:
        return self.noise.stream(Release("audit", "party", seed, "", ""))


@dataclass(frozen=True)
class Check:
    """One line of the audit: its name, and the test that it runs."""

    name: str
    run: Callable[[Effort], Finding]


def gradient_game(run: Run, effort: Effort, record: float = 1.0, residual: float = 1.0) -> Finding:
    """Is row 0 +record e_1 or -record e_1?  `run` maps features, residuals and a seed to a release."""
    q = np.array([residual, 0.1, 0.1, 0.1])
    one, two = np.vstack([[record, 0.0], REST]), np.vstack([[-record, 0.0], REST])
    means = [GRADIENT.value(ClippedRows.of(m), q) for m in (one, two)]
    ratio = likelihood_ratio(means[0], means[1], GRADIENT.sigma)
    return game(lambda k: run(one, q, k), lambda k: run(two, q, k), ratio, 1.0, effort.runs)


def _real(effort: Effort) -> Run:
    return lambda features, q, seed: GRADIENT.release(ClippedRows.of(features), q, effort.stream(seed))


def _gram_search(effort: Effort) -> Finding:
    gram = NoisyGram.for_mu(1.0, 3, 1.0, REPLACE)

    def pair(v: Array) -> tuple[Array, Array]:
        rows = [ClippedRows.of(np.vstack([half, np.full((2, 3), 0.3)])) for half in (v[:3], v[3:])]
        one, two = (gram.full(gram.value(r, np.ones(3))) for r in rows)
        return one.ravel(), two.ravel()

    def change(v: Array) -> float:
        one, two = pair(v)
        return float(np.linalg.norm(one - two))

    rng = np.random.default_rng(0)
    _, at = hill_climb(change, rng.standard_normal(6), effort.runs, rng)
    extreme = np.array([1.0, 0, 0, 0, 1.0, 0])
    return sensitivity_search([pair(at), pair(extreme)], gram.sensitivity)


def _scale(effort: Effort, factor: float = 1.0) -> Finding:
    return scale_test(factor * GRADIENT.grid.noisy(np.zeros(20_000), effort.stream(1)), GRADIENT.sigma)


def _independence(effort: Effort, second_seed: int = 2) -> Finding:
    wide = NoisyGradient.for_mu(1.0, 300, 1.0, REPLACE)
    data = ClippedRows.of(np.random.default_rng(0).standard_normal((5, 300)))
    first, second = (
        wide.release(data, q, effort.stream(seed)) - wide.value(data, q)
        for q, seed in ((np.ones(5), 1), (np.zeros(5), second_seed))
    )
    return independence_test(first, second)


def _canaries(effort: Effort, factor: float = 1.0, records: int = 32_561) -> Finding:
    """Every row a canary with a secret sign, released once as a noisy score."""
    epsilon, delta = 1.0, 1e-5
    scores = NoisyScores.for_mu(mu_of(epsilon, delta), records, 1.0, REPLACE)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], records)
    data = ClippedRows.of(signs[:, None])
    clean = scores.value(data, np.ones(1))
    noise = scores.release(data, np.ones(1), effort.stream(3)) - clean
    return one_run(clean + factor * noise, signs, epsilon, delta, records // 50)


def _support(effort: Effort, projected: bool = False) -> Finding:
    rng = np.random.default_rng(0)
    data = ClippedRows.of(rng.standard_normal((50, 4)))
    if projected:
        noise = ColumnNoise.of(data.gram()).sample(100.0, effort.stream(4))
        return support_test(data.forward(rng.standard_normal(4) + noise), data.matrix)
    return support_test(MechanismA(1.0).release(data, rng.standard_normal(50), effort.stream(4)), data.matrix)


def _cache(effort: Effort, clean_cache: bool = False) -> Finding:
    """Two rounds of MechanismA's update: the second may not contain the noise of the first."""
    mechanism = MechanismA(8.0, 2, 0.01, radius=100.0, target_bound=1e4, output_bound=1e4)
    rng = np.random.default_rng(0)
    data, target = ClippedRows.of(rng.standard_normal((60, 40))), rng.standard_normal(60)
    first, second = [], []
    for _ in range(40):
        clean = mechanism.value(data, target)
        n1, n2 = rng.standard_normal((2, 60))
        sent = clean + n1
        kept = clean if clean_cache else sent
        first.append(n1)
        second.append(mechanism.value(data, target - sent + kept) + n2 - mechanism.value(data, target))
    return independence_test(np.concatenate(first), np.concatenate(second))


class _Kept:
    """An account that keeps what is released and charges nothing."""

    def __init__(self) -> None:
        self.releases: list[Array] = []

    def check(self, cost: Cost, run: str, plan: str = "") -> None: ...

    def receipt(self, plan: str) -> int:
        return 0

    def check_receipt(self, receipt: int) -> None: ...

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        content = compute()
        self.releases.append(np.frombuffer(content, dtype="<f8"))
        return content


def _whole_pass(effort: Effort) -> Finding:
    """The distinguishing game on all releases of one helper in the recommended mode, by the code that runs it."""
    others = np.full((4, 1), 0.5)
    data = [ClippedRows.of(np.vstack([[[sign]], others])) for sign in (1.0, -1.0)]
    mechanism = Recommended(8.0, gradients=3)
    labels, offset = np.array([1.0, -1, 1, -1, 1]), np.array([-3.0, 0, 0, 0, 0])
    lesson = Lesson(Logistic(), labels, offset, np.ones(5), mechanism.even)

    def play(which: int, seed: int) -> Array:
        account = _Kept()
        book = Book(f"game {seed}", "helper", effort.noise, account)
        fit_helper(Helper.of(data[which], L2(0.1), mechanism, lesson, book, sketch=False), lesson)
        return np.concatenate(account.releases)

    plan = Helper.of(data[0], L2(0.1), mechanism, lesson, Book("", ""), sketch=False).plan
    newton_of = NoisyNewton.of

    def ratio(transcript: Array) -> float:
        """sum over releases of the log likelihood ratio, each given the releases before it."""
        curvature = lesson.curvature(plan.slope_bound)
        gram = [plan.gram.value(rows, curvature) * plan.gram.unit for rows in data]
        total = likelihood_ratio(gram[0], gram[1], plan.gram.sigma)(transcript[:1])
        newton = newton_of(plan.gram.full(transcript[:1]), plan.gram.sigma, float(curvature.sum()))
        state = newton.start()
        for g, query in zip(transcript[1:], plan.gradients, strict=True):
            means = [query.value(rows, lesson.slopes(rows.forward(state.weights))) * query.unit for rows in data]
            total += likelihood_ratio(means[0], means[1], query.sigma)(np.array([g]))
            state = newton.step(state, np.array([g]), query.sigma, L2(0.1), lesson.mass)
        return total

    stated = mu_of(mechanism.epsilon, mechanism.delta)
    return game(lambda k: play(0, k), lambda k: play(1, k), ratio, stated, max(effort.runs // 2, 100))


CHECKS = (
    Check("Gram matrix: neighbours that move it most", _gram_search),
    Check("gradient: game on extreme rows", lambda e: gradient_game(_real(e), e, 50.0, 50.0)),
    Check("gradient: game on ordinary rows", lambda e: gradient_game(_real(e), e)),
    Check("noise: spread", _scale),
    Check("noise: two releases are independent", _independence),
    Check("noise: leaves the column space of the data", _support),
    Check("shares: go on from what was released", _cache),
    Check("scores: one run, every row a canary", _canaries),
    Check("the whole private pass: game", _whole_pass),
)


def _noise_halved(e: Effort) -> Run:
    half = replace(GRADIENT, grid=replace(GRADIENT.grid, exponent=GRADIENT.grid.exponent - 1))
    return lambda features, q, seed: half.release(ClippedRows.of(features), q, e.stream(seed))


def _adjacency_forgotten(e: Effort) -> Run:
    blank = NoisyGradient.for_mu(1.0, 2, 1.0, Adjacency.ZERO_OUT)
    return lambda features, q, seed: blank.release(ClippedRows.of(features), q, e.stream(seed))


def _row_clip_removed(e: Effort) -> Run:
    return lambda features, q, seed: GRADIENT.release(ClippedRows(features, 20), q, e.stream(seed))


def _residual_clip_removed(e: Effort) -> Run:
    return lambda features, q, seed: GRADIENT.grid.noisy(features.T @ q, e.stream(seed))


def _unlogged_retry(e: Effort) -> Run:
    run = _real(e)
    return lambda features, q, seed: np.mean([run(features, q, 3 * seed + k) for k in range(3)], axis=0)


MUTANTS = (
    Check("half the noise", lambda e: gradient_game(_noise_halved(e), e)),
    Check("the adjacency factor forgotten", lambda e: gradient_game(_adjacency_forgotten(e), e)),
    Check("no clip of rows", lambda e: gradient_game(_row_clip_removed(e), e, 3.0)),
    Check("no clip of slopes", lambda e: gradient_game(_residual_clip_removed(e), e, 1.0, 3.0)),
    Check("a retry with fresh noise, unlogged", lambda e: gradient_game(_unlogged_retry(e), e)),
    Check("the un-noised cache subtracted", lambda e: _cache(e, clean_cache=True)),
    Check("noise used twice", lambda e: _independence(e, second_seed=1)),
    Check("noise in the column space (the paper's)", lambda e: _support(e, projected=True)),
    Check("an un-noised validation score", lambda e: _scale(e, factor=0.0)),
    Check("a third of the noise, seen in one run", lambda e: _canaries(e, factor=1 / 3)),
)
