"""The logistic loss for targets that randomised response has made: unbiased and convex; targets lie outside [0, 1]."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit, xlogy

from plait._types import Array
from plait.problem.losses import Loss, Seen
from plait.problem.penalties import L2, Penalty
from plait.problem.scalar_roots import logistic_root


@dataclass(frozen=True)
class SoftLogistic(Loss):
    """log(1 + e^z) - t z for targets t in {low, high}, low <= 0 and high >= 1; 0 and 1 make it the logistic loss."""

    low: float = 0.0
    high: float = 1.0
    classifies: ClassVar[bool] = True
    gives_odds: ClassVar[bool] = True
    bends_slowly: ClassVar[bool] = True
    curvature: ClassVar[float] = 0.25

    def value(self, z: Array, y: Array) -> Array:
        return np.logaddexp(0.0, z) - y * z

    def gradient(self, z: Array, y: Array) -> Array:
        return expit(z) - y

    def hessian(self, z: Array, y: Array) -> Array:
        p = expit(z)
        return p * (1 - p)

    def seen(self, gradient: Array, first: Array, start: float) -> Seen:
        """The sign of the gradient tells the target: negative for the high one.  Target and gradient tell the score."""
        # Doubles near 0 and 1, whose logarithms are finite.
        p = np.clip(gradient + np.where(gradient < 0, self.high, self.low), 1e-16, 1 - 1e-16)
        return Seen(np.log(p) - np.log1p(-p), np.ones(p.shape, dtype=bool), p * (1 - p))

    def slope(self) -> float:
        return max(self.high, 1 - self.low)

    def conjugate(self, v: Array, y: Array) -> Array:
        """s log s + (1 - s) log(1 - s),  s = v + y in [0, 1]."""
        s = v + y
        return np.where((s < 0) | (s > 1), np.inf, xlogy(s, s) + xlogy(1 - s, 1 - s))

    def prox(self, v: Array, step: Array, y: Array) -> Array:
        return -logistic_root(-(v + step * y), np.broadcast_to(np.asarray(step, dtype=np.float64), np.shape(v)))


SCORE_VARIANCE = 0.77
"""The prior variance of a party's score between rows, in squared logits."""


def steadied(penalty: Penalty, factor: float, row_square: float, records: int) -> Penalty:
    """The penalty for labels that are noisier by `factor`, for rows of this mean squared norm.

    penalty + L2((factor - 1) row_square / (SCORE_VARIANCE N)).  Noisy labels hold 1 / factor of the information, so a
    prior on the weights begins to matter: it has variance SCORE_VARIANCE / row_square, and counts factor - 1 times.
    """
    extra = (factor - 1) * row_square / SCORE_VARIANCE / records
    return penalty + L2(extra) if extra > 0 else penalty


def label_noise_factor(targets: Array) -> float:
    """How much noisier soft targets make a fit than 0/1 labels.

    A label has variance rate (1 - rate); an unbiased soft target t adds mean(t^2 - t), which is 0 for labels.
    """
    rate = float(np.clip(targets.mean(), 0.05, 0.95))  # noise may move the mean outside (0, 1)
    excess = max(0.0, float(np.mean(targets * (targets - 1))))
    return 1 + excess / (rate * (1 - rate))
