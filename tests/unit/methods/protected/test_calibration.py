"""Scores in the space of a party's columns are found, from moments alone, however far away they are."""

import numpy as np
import pytest

import plait
from plait.methods.base import Block
from plait.methods.protected import calibration
from plait.methods.protected.calibration import calibrated
from plait.methods.protected.outlook import MOVES, Outlook
from plait.methods.protected.sight import HiddenGradient
from plait.methods.subspace.curvature import Curvature
from plait.problem.features import Features
from plait.problem.losses import Loss


def found(loss: Loss, a: np.ndarray, x: np.ndarray, rounds: int) -> np.ndarray:
    """What a party makes out of D^T mu(z) for z = D a, after so many rounds; it begins at 0, with a flat curvature."""
    rows = len(x)
    w = np.full(rows, 1 / rows)
    block = Block(Features(x), plait.L2(1e-4), loss, w)
    z = x @ a
    mean_curvature = float(np.mean(loss.hessian(z, np.ones(rows))))
    told = Outlook(float(z.mean()), float(z.var()), 1.0, mean_curvature, 1.0, np.zeros(MOVES))
    response = np.exp(z) if isinstance(loss, plait.Poisson) else 1 / (1 + np.exp(-z))
    hidden, ridge = HiddenGradient(block), np.full(x.shape[1], 1e-4)
    guess, bent = np.zeros(x.shape[1]), mean_curvature * w
    for _ in range(rounds):
        inverse = Curvature(block.features, bent, ridge, 1e-4)
        guess = calibrated(block, hidden, told, x.T @ (w * response), guess, inverse)
        bent = hidden.doubted(told, hidden.away(x @ guess), 1.0)
    return guess


@pytest.mark.parametrize("loss", [plait.Logistic(), plait.Poisson()])
@pytest.mark.parametrize("cheap", [True, False])
def test_scores_within_the_columns_are_found(loss: Loss, cheap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    x = np.exp(0.7 * rng.standard_normal((2000, 5)))  # skewed: a few rows hold most of the moments
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    a = np.array([0.9, -0.6, 0.4, 0.5, -0.8])
    if not cheap:
        monkeypatch.setattr(calibration, "SMALL", 0.0)
    guess = found(loss, a, x, 10 if cheap else 20)
    assert np.linalg.norm(x @ (guess - a)) < 0.05 * np.linalg.norm(x @ a)
