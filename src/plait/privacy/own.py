"""The label holder's side of the one-pass mode: its loss, its own model, and the offset it sends.

Nothing here is private by itself. The offset tells every helper one number per record about the own features.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

Floats = NDArray[np.float64]

FOLDS = 5
LEAST_CURVATURE = 0.02


@dataclass(frozen=True)
class SoftLogistic:
    """log(1 + e^z) - t z for targets t that may lie outside [0, 1]: |l'| <= max(t, 1 - t), l'' <= 1/4."""

    gradient_bound: float = 1.0
    curvature_bound: float = 0.25

    @classmethod
    def of(cls, targets: Floats) -> "SoftLogistic":
        return cls(gradient_bound=float(max(np.max(targets), np.max(1 - targets))))

    def value(self, z: Floats, t: Floats) -> Floats:
        return np.logaddexp(0.0, z) - t * z

    def gradient(self, z: Floats, t: Floats) -> Floats:
        slope: Floats = expit(z) - t
        return slope

    def curvature(self, z: Floats) -> Floats:
        p = expit(z)
        return np.maximum(p * (1 - p), LEAST_CURVATURE)


@dataclass(frozen=True, eq=False)
class OwnModel:
    """The label holder's own linear model with an unpenalised intercept."""

    weights: Floats
    intercept: float

    def score(self, rows: Floats) -> Floats:
        result: Floats = rows @ self.weights + self.intercept
        return result


def fit_own(rows: Floats, targets: Floats, loss: SoftLogistic, penalty: float) -> OwnModel:
    """Minimise sum_i loss(z_i, t_i) + penalty |x|^2 / 2 over the label holder's own features."""
    n, d = rows.shape

    def objective(x: Floats) -> tuple[float, Floats]:
        z = rows @ x[:d] + x[d]
        q = loss.gradient(z, targets)
        value = float(loss.value(z, targets).sum() + penalty * (x[:d] @ x[:d]) / 2)
        return value / n, np.append(rows.T @ q + penalty * x[:d], q.sum()) / n

    found = minimize(objective, np.zeros(d + 1), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    return OwnModel(np.asarray(found.x[:d]), float(found.x[d]))


def out_of_fold_scores(rows: Floats, targets: Floats, loss: SoftLogistic, penalty: float) -> Floats:
    """Each record's score by a model that did not see it: an own model that overfits leaves no residual."""
    n = rows.shape[0]
    fold = np.random.default_rng(n).permutation(n) % FOLDS
    scores = np.zeros(n)
    for k in range(FOLDS):
        rest, held = fold != k, fold == k
        scores[held] = fit_own(rows[rest], targets[rest], loss, penalty).score(rows[held])
    return scores


def label_noise_factor(targets: Floats) -> float:
    """How much noisier soft targets make a fit than 0/1 labels, and so how much more penalty it needs.

    A label has variance rate (1 - rate); an unbiased soft target t adds mean(t^2 - t), which is 0 for labels.
    """
    rate = float(np.clip(targets.mean(), 0.05, 0.95))
    excess = max(0.0, float(np.mean(targets * (targets - 1))))
    return 1 + excess / (rate * (1 - rate))


def prior_scores(targets: Floats) -> Floats:
    """The log odds of the mean target for every record: an offset that tells nothing about features."""
    rate = float(np.clip(targets.mean(), 1e-3, 1 - 1e-3))
    return np.full(targets.size, np.log(rate / (1 - rate)))
