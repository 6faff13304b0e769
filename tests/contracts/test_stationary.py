"""Non-convex losses and penalties: V goes to zero, and the end is a stationary point by an independent check."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import plait
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty

ROWS, WIDTH = 120, 9
STOPPING = plait.Stopping(max_rounds=3000, tol=0, lyapunov=1e-14)


def data(loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(21)
    x = rng.standard_normal((ROWS, WIDTH))
    z = x @ rng.standard_normal(WIDTH)
    if loss.classifies:
        return x, np.where(z + 2 * rng.standard_normal(ROWS) > 0, 1.0, -1.0)
    if isinstance(loss, plait.Poisson):
        return x, rng.poisson(np.exp(0.3 * z)).astype(float)
    y = z + 0.3 * rng.standard_normal(ROWS)
    y[:12] += 30 * rng.standard_normal(12)
    return x, y


def mean_loss(loss: Loss, z: np.ndarray, y: np.ndarray) -> float:
    """Written out anew, in terms of the textbook formulas."""
    if isinstance(loss, plait.Cauchy):
        return float(np.mean(loss.scale**2 / 2 * np.log(1 + ((z - y) / loss.scale) ** 2)))
    if isinstance(loss, plait.Logistic):
        return float(np.mean(np.log(1 + np.exp(-y * z))))
    if isinstance(loss, plait.Squared):
        return float(np.mean((z - y) ** 2) / 2)
    if isinstance(loss, plait.SquaredHinge):
        return float(np.mean(np.clip(1 - y * z, 0, None) ** 2))
    if isinstance(loss, plait.Poisson):
        return float(np.mean(np.exp(z) - y * z))
    assert isinstance(loss, plait.Huber)
    r = np.abs(z - y)
    return float(np.mean(np.where(r < loss.delta, r**2 / 2, loss.delta * (r - loss.delta / 2))))


def gradient(loss: Loss, x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Central differences of the mean loss."""
    h = 1e-5
    return np.array(
        [(mean_loss(loss, x @ (w + h * e), y) - mean_loss(loss, x @ (w - h * e), y)) / (2 * h) for e in np.eye(WIDTH)]
    )


def train(
    loss: Loss, penalty: Penalty, parties: int, method: plait.Method | str = "auto"
) -> tuple[np.ndarray, plait.Fit, np.ndarray, np.ndarray]:
    x, y = data(loss)
    parts = np.array_split(x, parties, axis=1)
    fit = plait.fit(parts, y, loss=loss, penalty=penalty, method=method, stopping=STOPPING, fit_intercept=False)
    return np.concatenate(fit.weights), fit, x, y


def settles(fit: plait.Fit) -> None:
    assert fit.converged
    assert fit.history[-1].lyapunov <= 1e-14


@pytest.mark.parametrize("method", ["auto", plait.Proximal()], ids=["auto", "proximal"])
@pytest.mark.parametrize("parties", [1, 3, 9])
@pytest.mark.parametrize(
    "penalty",
    [
        plait.NoPenalty(),
        plait.L2(0.05),
        plait.L1(0.03),
        plait.ElasticNet(0.05, 0.5),
        plait.Box(-0.5, 0.5),
        plait.NonNegative(),
        plait.Ball(0.6),
    ],
    ids=str,
)
def test_cauchy_ends_at_a_stationary_point(penalty: Penalty, parties: int, method: plait.Method | str) -> None:
    loss = plait.Cauchy(1.5)
    w, fit, x, y = train(loss, penalty, parties, method)
    settles(fit)
    g = gradient(loss, x, y, w)
    if isinstance(penalty, plait.L1 | plait.ElasticNet):
        l1 = penalty.alpha * getattr(penalty, "l1_ratio", 1.0)
        g = g + penalty.ridge * w
        assert np.abs(g[w != 0] + l1 * np.sign(w[w != 0])).max(initial=0) <= 1e-6
        assert np.abs(g[w == 0]).max(initial=0) <= l1 + 1e-6
    elif isinstance(penalty, plait.Box):
        assert np.abs(np.clip(w - g, penalty.lower, penalty.upper) - w).max() <= 1e-6
    elif isinstance(penalty, plait.Ball):
        for part, slope in zip(np.array_split(w, parties), np.array_split(g, parties), strict=True):
            moved = part - slope
            size = np.linalg.norm(moved)
            assert np.abs(moved * min(1, 0.6 / size) - part).max() <= 1e-6
    else:
        assert np.abs(g + penalty.ridge * w).max() <= 1e-6


@pytest.mark.parametrize("method", ["auto", plait.Proximal()], ids=["auto", "proximal"])
@pytest.mark.parametrize("parties", [1, 3])
@pytest.mark.parametrize(
    "loss",
    [plait.Logistic(), plait.Squared(), plait.SquaredHinge(), plait.Huber(), plait.Poisson(), plait.Cauchy()],
    ids=str,
)
def test_log_penalty_ends_at_a_stationary_point(loss: Loss, parties: int, method: plait.Method | str) -> None:
    w, fit, x, y = train(loss, plait.LogPenalty(0.3, 0.2), parties, method)
    settles(fit)
    slope = approx_fprime(w, lambda v: 0.3 * 0.2**2 / 2 * np.log(1 + (v / 0.2) ** 2).sum(), 1e-8)
    assert np.abs(gradient(loss, x, y, w) + slope).max() <= 1e-6


@pytest.mark.parametrize("parties", [1, 3])
def test_log_penalty_in_a_box_ends_at_a_stationary_point(parties: int) -> None:
    w, fit, x, y = train(plait.Logistic(), plait.LogPenalty(0.05, 0.2) + plait.Box(-0.1, 0.3), parties)
    settles(fit)
    g = gradient(plait.Logistic(), x, y, w) + 0.05 * w / (1 + (w / 0.2) ** 2)
    assert np.abs(np.clip(w - g, -0.1, 0.3) - w).max() <= 1e-6
    assert np.abs(w).max() > 0.099
