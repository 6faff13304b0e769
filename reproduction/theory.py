"""The paper's convergence theory, and the support of its noise, held against runs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from plait._types import Array
from plait.data.datasets import Dataset
from plait.methods.admm.jacobi import Jacobi
from plait.privacy.mechanisms.paper import ColumnNoise
from plait.privacy.noise import InsecureTestNoise, Release
from plait.problem.losses import Logistic, Squared
from plait.problem.penalties import L2
from plait.training.fit import fit
from plait.training.stopping import Stopping
from reproduction.experiments import Say
from reproduction.plans import Plan
from reproduction.records import Replay, Support, Theory
from reproduction.subject import Subject, Weights, quietly, side_by_side

SUFFICIENT_RHO = 0.5
"""Meets the paper's assumption 1.2(c) for the logistic loss, whose L is 1/4: rho >= L and rho^2 > 2 L^2."""
EXAMPLE_RHO, EXAMPLE_ALPHA, EXAMPLE_ROUNDS, EXAMPLE_PARTIES = 2.0, 0.1, 40, (2, 3, 4)
_GAMES, _SIGMA, _CHANGE = 100, 1e3, 1e-3


def check_theory(subject: Subject, plan: Plan, rho: float, say: Say) -> Theory:
    """Replay the tuned run and one with a larger rho, crowd the columns with parties, and run the counterexample."""
    replays = []
    for value in dict.fromkeys((rho, SUFFICIENT_RHO)):
        say(f"theory, rho = {value:g}, {plan.epochs} epochs")
        trail, states = subject.run_with_weights(Jacobi(rho=value), plan.epochs, f"rho = {value:g}")
        replays.append(Replay(value, trail, *replay(subject, states, value)))
    crowded = []
    if plan.crowd:
        many = Subject.of(crowd(subject.data, plan.crowd))
        for value in plan.rhos:
            say(f"theory, {plan.crowd} parties, rho = {value:g}")
            crowded.append(many.run(Jacobi(rho=value), plan.tuning, f"rho = {value:g}"))
    examples = tuple((m, counterexample(m)) for m in EXAMPLE_PARTIES)
    return Theory(tuple(replays), plan.crowd, tuple(crowded), examples)


def replay(subject: Subject, states: Sequence[Weights], rho: float) -> tuple[tuple[float, ...], float]:
    """The augmented Lagrangian over N after every epoch, and the largest norm of x_m, y = rho u and z.

    The parties' weights determine everything else: z and u follow from the scores, epoch by epoch.
    """
    labels, loss = subject.data.y, Logistic()
    n, step = labels.size, np.full(labels.size, 1 / rho)
    u, values, bound = np.zeros(n), [], 0.0
    with quietly():
        for total, weights in zip(subject.training_scores(states).T[1:], states[1:], strict=True):
            z = loss.prox(total + u, step, labels)
            gap = total - z
            u = u + gap
            ridge = subject.alpha / 2 * sum(float(x @ x) for x in weights.values())
            coupling = rho / n * float(u @ gap + gap @ gap / 2)
            values.append(float(loss.value(z, labels).mean()) + ridge + coupling)
            bound = max(bound, *(float(np.linalg.norm(v)) for v in (*weights.values(), rho * u, z)))
    return tuple(values), bound


def crowd(data: Dataset, parties: int) -> Dataset:
    """The same columns, in the same order, held by more parties."""

    def cut(parts: dict[str, Any]) -> dict[str, Any]:
        table = side_by_side(parts)
        ends = np.linspace(0, table.shape[1], parties + 1).astype(int)
        return {f"{i:02d}": table[:, a:b] for i, (a, b) in enumerate(pairwise(ends), 1)}

    return replace(data, parts=cut(data.parts), test_parts=cut(data.test_parts))


def counterexample(parties: int) -> tuple[float, ...]:
    """The objective, round by round, of equal columns under a squared loss: the paper's assumption 1 holds in full.

    D_m = (1, 1), l = ||z - b||^2 / 2, so L = 1 and gamma_m = 0.2 + 2 rho = 4.2 >= 2 lambda_max = 4, rho (rho + 1) > 2.
    """
    rule = Stopping(max_rounds=EXAMPLE_ROUNDS, tol=0, guarded=False)
    tables, method = [np.ones((2, 1))] * parties, Jacobi(rho=EXAMPLE_RHO)
    with quietly():
        done = fit(
            tables,
            [1.0, 2.0],
            loss=Squared(),
            penalty=L2(EXAMPLE_ALPHA),
            method=method,
            stopping=rule,
            fit_intercept=False,
        )
    return (done.history.start.objective, *(r.objective for r in done.history))


def guess_the_table(subject: Subject, say: Say) -> Support:
    """Does a noised share tell a table from its neighbour, in which one entry is larger by a thousandth?

    A share of the paper's mechanism lies in the column space of its table: the guess is the table that fits better.
    """
    say(f"guessing tables from noised shares, {_GAMES} games")
    name, part = min(subject.parts.items(), key=lambda item: item[1].matrix.shape[1])
    table = part.matrix.toarray() if sp.issparse(part.matrix) else part.matrix
    column = int(np.argmax(np.linalg.norm(table, axis=0) > 0))
    neighbour = table.copy()
    neighbour[0, column] += _CHANGE
    noises = [ColumnNoise.of(d.T @ d) for d in (table, neighbour)]
    source, coin, right = InsecureTestNoise(0), np.random.default_rng(0), 0
    for game in range(_GAMES):
        made = int(coin.integers(2))
        stream = source.stream(Release("guess", name, game, "share", ""))
        share = (table, neighbour)[made] @ noises[made].sample(_SIGMA, stream)
        off = [_distance(d, n, share) for d, n in zip((table, neighbour), noises, strict=True)]
        right += int(np.argmin(off)) == made
    return Support(name, _SIGMA, _CHANGE, _GAMES, right)


def _distance(table: Array, noise: ColumnNoise, share: Array) -> float:
    """How far the share is from the column space of the table; the second pass removes the first one's rounding."""
    rest = share
    for _ in range(2):
        rest = rest - table @ (noise.factor @ (noise.factor.T @ (table.T @ rest)))
    return float(np.linalg.norm(rest))
