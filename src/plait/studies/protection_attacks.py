"""What each protection leaves to a curious side: attacks on all that it can read in a run.

    labels   a party guesses coin-flip labels from what it receives.  Of an open gradient the sign is the label.  From
             D^T g, at scores of 0 a multiple of D^T y, least squares reads as many as the leverage rule says.
    rows     whoever reads the scores knows some rows of the helper.  They show which combination of the columns each
             vector is.  Integer programming then finds the 0/1 row that gives an unknown row's scores.

The run is played at the level of the method: D^T g is given to a party as decryption gives it, a sum to the coordinator
as masks leave it.  That they leave nothing else is what the tests of `plait.protection` show.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.optimize

from plait._types import Array
from plait.data.parts import equal_weights
from plait.methods.base import Block, Method, Task
from plait.methods.protected.method import ProtectedSubspace
from plait.methods.subspace.method import Subspace
from plait.privacy.audit.attacks import Ints, column_space_revealed, labels_from_gradient
from plait.problem.features import Features
from plait.problem.losses import Logistic
from plait.problem.penalties import L2
from plait.protection.blind import Disguise
from plait.protection.leverage import label_exposure, leverages
from plait.studies.attack_study import labels_found, overheard, settings

ROUNDS = 4  # of the run that is attacked: as many as reach 1e-3 of the optimum
KNOWN_ROWS, TRIED_ROWS = 60, 30  # of the helper: known to the attacker, and to be found
COINS = 5  # draws of coin-flip labels, of which the mean is shown
MODES = ("plain", "labels", "sums", "blind")
PRIVATE = "differential privacy, epsilon = 1"
_ALPHA = 1e-4  # strength of L2, per row
_SECONDS = 2.0  # for one row: a search that takes longer has failed


@dataclass(frozen=True)
class Heard:
    """What can be read in a run.

    received   what the helper reads of each gradient: g (N,) or D^T g (d,)
    seen       (T, N): what the one who minimises reads of the helper's scores, alone or in a sum
    """

    received: list[Array]
    seen: Array


@dataclass(frozen=True)
class ModeExposure:
    """What attacks found under one mode, as fractions.

    labels, rule   coin-flip labels that the helper read, and what it should read: all of an open gradient, by its
                   leverage of D^T g, e / (1 + e) of randomised ones
    space          how much of the helper's column space the vectors span
    rows           the unknown rows that were found, all columns right
    """

    mode: str
    labels: float
    rule: float
    space: float
    rows: float


def listen(mode: str, tables: Sequence[Array], y: Array, rounds: int = ROUNDS, silenced: bool = False) -> Heard:
    """Train on the tables, the first of which is the helper's; y (N,) of -1 and 1.

    silenced: a coordinator that breaks the protocol sends everybody else a gradient of almost nothing.
    """
    disguise = Disguise(secrets.token_bytes(32), "study", y.size)
    if mode == "blind":  # two owners; the machine trains on rows that are shuffled and sign-flipped
        tables = [np.column_stack([disguise.hide(column) for column in table.T]) for table in tables[:2]]
        y = disguise.hide(y)
    names = tuple(str(i) for i in range(len(tables)))
    loss, weights = Logistic(), equal_weights(y.size)
    method = _method(mode, names)
    coordinator = method.coordinator_side(Task(loss, y, weights, names))
    parties = [method.party_side(Block(Features(table), L2(_ALPHA), loss, weights)) for table in tables]
    state, states = coordinator.start(), [party.start() for party in parties]
    received, seen = [], []
    for _ in range(rounds):
        shares = {}
        for i, (name, request) in enumerate(coordinator.requests(state).items()):
            assert request.vector is not None
            told = request.vector * (1e-9 if silenced and i else 1.0)
            if mode != "plain":
                told = tables[i].T @ told
            states[i], shares[name] = parties[i].respond(states[i], replace(request, vector=told))
            received += [told] if i == 0 else []
        seen.append(_read(mode, [shares[name].vector for name in names]))
        state, _ = coordinator.absorb(state, shares)
    return Heard(received, np.array(seen))


def _method(mode: str, names: tuple[str, ...]) -> Method:
    if mode == "plain":
        return Subspace()
    return ProtectedSubspace(Subspace(), (names,) if mode in ("sums", "blind") else (), disguised=mode == "blind")


def _read(mode: str, vectors: Sequence[Array | None]) -> Array:
    """The helper's scores, or the sum of everybody's."""
    found = [vector for vector in vectors if vector is not None]
    return np.asarray(np.sum(found, axis=0) if mode in ("sums", "blind") else found[0])


def measure(mode: str, tables: Sequence[Array], y: Array, seed: int = 0) -> ModeExposure:
    """Attack runs of a mode: some with labels that are coin flips, one with the true ones."""
    rng, helper = np.random.default_rng(seed), tables[0]
    coins = rng.choice([-1.0, 1.0], (COINS, y.size))
    labels = float(np.mean([labels_read(mode, tables, each) for each in coins]))
    rule = float(label_exposure(leverages(helper, intercept=False).rows).mean())
    seen = listen(mode, tables, y).seen
    space, right = _found(seen, helper, rng)
    return ModeExposure(mode, labels, 1.0 if mode == "plain" else rule, space, right)


def measure_private(tables: Sequence[Array], y: Array, seed: int = 0) -> ModeExposure:
    """The same attacks on a private run: noisy scores once, and labels of which some are flipped."""
    rng, helper, own = np.random.default_rng(seed), tables[0], np.hstack(tables[1:])
    setting = next(s for s in settings(1) if s.policy.labels is not None)
    coins = rng.integers(0, 2, (COINS, y.size)).astype(np.float64)
    labels = float(np.mean([labels_found(*overheard(setting, own, helper, each)[:2], each) for each in coins]))
    heard, _, _ = overheard(setting, own, helper, (y > 0).astype(np.float64))
    seen = np.zeros((1, y.size)) if heard is None else np.array(heard.shares)
    space, right = _found(seen, helper, rng)
    return ModeExposure(PRIVATE, labels, 1 / (1 + np.exp(-1.0)), space, right)


def unheard(tables: Sequence[Array], seed: int = 0) -> float:
    """The fraction of tried rows that are the commonest of the known ones: found without any message."""
    helper = tables[0]
    known, tried = _chosen(np.random.default_rng(seed), len(helper))
    rows, counts = np.unique(helper[known], axis=0, return_counts=True)
    return float(np.all(helper[tried] == rows[np.argmax(counts)], axis=1).mean())


def _chosen(rng: np.random.Generator, rows: int) -> tuple[Ints, Ints]:
    order = rng.permutation(rows)
    return order[:KNOWN_ROWS], order[KNOWN_ROWS : KNOWN_ROWS + TRIED_ROWS]


def _found(seen: Array, helper: Array, rng: np.random.Generator) -> tuple[float, float]:
    """How much of the column space the vectors (T, N) show, and how many tried rows are found."""
    known, tried = _chosen(rng, len(helper))
    found = binary_rows(seen.T, helper, known, tried)
    return column_space_revealed(seen.T, helper), float(np.all(found == helper[tried], axis=1).mean())


def binary(table: Array) -> Array:
    """0/1 columns: 1 where a number is above its column's mean."""
    return (table > table.mean(axis=0)).astype(np.float64)


def labels_read(mode: str, tables: Sequence[Array], y: Array) -> float:
    """The fraction of labels that the helper guesses right from the first thing that it receives."""
    first, helper = listen(mode, tables, y, rounds=1).received[0], tables[0]
    if mode == "plain":
        return float(np.mean(labels_from_gradient(first) == (y > 0)))
    # The helper knows its own disguise, so that a blind machine changes nothing for it.
    guess = helper @ np.linalg.lstsq(helper.T @ helper, -first, rcond=None)[0]
    return float(np.mean(np.sign(guess) == y))


def binary_rows(scores: Array, table: Array, known: Ints, tried: Ints) -> Array:
    """The 0/1 rows (n, d) that best explain scores (N, T) of the tried rows, given the known rows of the table."""
    mixing: Array = np.linalg.lstsq(table[known], scores[known], rcond=None)[0].astype(np.float64)
    groups = _exclusive(table)
    return np.array([_best_row(mixing, scores[i], groups) for i in tried])


def _exclusive(table: Array) -> list[range]:
    """Runs of neighbouring columns of which a row has one at the most: what anybody knows of one-hot columns."""
    groups, start = [], 0
    for end in range(1, table.shape[1] + 1):
        if end == table.shape[1] or table[:, start : end + 1].sum(axis=1).max() > 1:
            groups.append(range(start, end))
            start = end
    return groups


def _best_row(mixing: Array, scores: Array, groups: Sequence[range]) -> Array:
    """The x in {0, 1}^d, at most one in each group, with the least largest error |mixing^T x - scores|."""
    columns, vectors = mixing.shape
    scale = np.maximum(np.abs(mixing).max(axis=0), 1e-300)
    a, b = (mixing / scale).T, scores / scale
    slack = -np.ones((vectors, 1))
    limits = [
        scipy.optimize.LinearConstraint(np.hstack([a, slack]), -np.inf, b),
        scipy.optimize.LinearConstraint(np.hstack([-a, slack]), -np.inf, -b),
    ]
    one = np.zeros((len(groups), columns + 1))
    for i, group in enumerate(groups):
        one[i, group] = 1.0
    found = scipy.optimize.milp(
        np.append(np.zeros(columns), 1.0),
        integrality=np.append(np.ones(columns), 0.0),
        bounds=scipy.optimize.Bounds(0.0, np.append(np.ones(columns), np.inf)),
        constraints=[*limits, scipy.optimize.LinearConstraint(one, -np.inf, 1.0)],
        options={"time_limit": _SECONDS},
    )
    return np.full(columns, np.nan) if found.x is None else np.rint(found.x[:columns])
