"""What a party makes out from D^T g alone: where all scores are, how they move, and how the loss curves."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

import plait
from plait.methods.base import Block, Task
from plait.methods.protected.method import ProtectedCoordinator, ProtectedSubspace
from plait.methods.protected.party import ProtectedParty
from plait.methods.subspace.party_state import SubspacePartyState
from plait.problem.features import Features
from plait.problem.losses import Loss

ROWS = 3000


def correlated(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Three tables whose columns overlap, and scores."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((ROWS, 9)) @ (np.eye(9) + 0.4)
    return {"a": x[:, :3], "b": x[:, 3:6], "c": x[:, 6:]}, x @ rng.standard_normal(9) / 2


def after(rounds: int, parts: dict[str, np.ndarray], loss: Loss, y: np.ndarray, sums: bool) -> tuple[Any, Any]:
    """The parties' states and the coordinator's scores before every round, with D^T g given, not encrypted."""
    names, w = tuple(parts), np.full(ROWS, 1 / ROWS)
    method = ProtectedSubspace(plait.Subspace())
    coordinator = ProtectedCoordinator(Task(loss, y, w, names), 20, (names,) if sums else tuple((n,) for n in names))
    sides = {n: ProtectedParty(Block(Features(parts[n]), plait.L2(1e-4), loss, w)) for n in names}
    state, states, scores = coordinator.start(), {n: side.start() for n, side in sides.items()}, []
    assert isinstance(method.party_side(sides["a"].block), ProtectedParty)
    for _ in range(rounds):
        scores.append(state.z)
        shares = {}
        for name, request in coordinator.requests(state).items():
            assert request.vector is not None
            told = replace(request, vector=parts[name].T @ request.vector)
            sides[name].check(states[name], told)
            states[name], shares[name] = sides[name].respond(states[name], told)
        state, _ = coordinator.absorb(state, shares)
    return states, scores


def projected(columns: np.ndarray, scores: np.ndarray, weights: np.ndarray | float = 1.0) -> np.ndarray:
    """What columns explain of the scores, by weighted least squares."""
    root = np.sqrt(np.broadcast_to(weights, scores.shape))
    return np.asarray(columns @ np.linalg.lstsq(columns * root[:, None], scores * root, rcond=None)[0])


@pytest.mark.parametrize("sums", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_a_party_guesses_all_scores_as_far_as_its_columns_explain_them(kind: str, sums: bool) -> None:
    parts, z = correlated()
    rng = np.random.default_rng(1)
    if kind == "logistic":
        loss: Loss = plait.Logistic()
        y = np.where(rng.random(ROWS) < expit(z), 1.0, -1.0)
    else:
        loss, z = plait.Poisson(), z / 4
        y = rng.poisson(np.exp(z)) * 1.0
    states, scores = after(6, parts, loss, y, sums)
    for name, table in parts.items():
        best = projected(table, scores[-1])
        guess = table @ states[name].glimpse.scores
        assert np.corrcoef(best, guess)[0, 1] > 0.98
        assert guess.std() == pytest.approx(best.std(), rel=0.15)
        own = table @ states[name].x  # what the party would know without D^T g
        assert abs(guess.std() / best.std() - 1) < abs(own.std() / best.std() - 1)


def test_a_party_sees_the_part_of_every_move_that_its_columns_explain() -> None:
    parts, z = correlated(2)
    y = np.where(np.random.default_rng(3).random(ROWS) < expit(z), 1.0, -1.0)
    states, scores = after(4, parts, plait.Logistic(), y, True)
    moves = np.diff(scores, axis=0)
    for name, table in parts.items():
        state: SubspacePartyState = states[name]
        assert len(state.glimpse.moves) == len(moves)
        for seen, move, z0, z1 in zip(state.glimpse.moves, moves, scores, scores[1:], strict=False):
            curvature = (expit(z1) - expit(z0)) / move  # on average along the move
            assert np.corrcoef(table @ seen, projected(table, move, curvature))[0, 1] > 0.97
        np.testing.assert_allclose(state.glimpse.products, moves @ moves.T / ROWS, rtol=1e-9)
        images = state.glimpse.moves @ table.T
        np.testing.assert_allclose(state.glimpse.explained, images @ images.T / ROWS, rtol=1e-9)


def test_the_squared_loss_needs_no_guess_of_the_scores() -> None:
    parts, z = correlated(4)
    states, _ = after(4, parts, plait.Squared(), z, True)
    assert not states["a"].glimpse.scores.size
    assert len(states["a"].glimpse.moves) == 3


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 0.3), (0.7, 0.5), (-1.5, 0.2), (3.0, 0.01), (0.5, 0.0)])
def test_squared_hinge_bends_as_often_as_labels_drawn_by_the_scores_say(mean: float, variance: float) -> None:
    """Squared hinge is least where the score is 2 P(y = 1) - 1: labels are drawn so, and the true curvature counted."""
    rng = np.random.default_rng(2)
    z = mean + np.sqrt(variance) * rng.standard_normal(200_000)
    y = np.where(rng.random(z.size) < (1 + np.clip(z, -1, 1)) / 2, 1.0, -1.0)
    loss = plait.SquaredHinge()
    counted = float(loss.hessian(z, y).mean())
    assert loss.expected_curvature(np.array([mean]), variance)[0] == pytest.approx(counted, abs=0.01)
