"""The rival of the private pass: full-batch gradient descent with noise, under the same guarantee.

Same protocol, clipping and account: the helper knows labels and the label party's out-of-fold scores. Its rows are
clipped to norm 1, so that replacing one moves a gradient by at most 2. T of them with noise 2 sqrt(T) / mu are mu-GDP.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from benchmarks.private_tables import Split
from plait import fit
from plait.methods.private.pass_messages import FOLDS, held_out
from plait.privacy import ClippedRows, mu_of

RIDGE = 1e-4  # per row: plait's default penalty
SETTINGS = [(steps, rate) for steps in (5, 20, 80) for rate in (0.1, 0.5, 2.0, 8.0)]
"""Twelve settings: steps, and the step in units of 4 / N, the inverse of the largest possible curvature."""


@dataclass(frozen=True)
class Task:
    """What the helper sees: clipped rows (N, d), offset (N,), labels (N,); then the test rows and their own scores."""

    rows: np.ndarray
    offset: np.ndarray
    labels: np.ndarray
    held: np.ndarray
    own: np.ndarray
    truth: np.ndarray

    @classmethod
    def of(cls, split: Split) -> "Task":
        """The label party's model, of all rows and without each fold, as in a private pass."""
        train, t, test, tt = split
        own, held = (ClippedRows.of(parts[0]).matrix for parts in (train, test))
        offset = np.zeros(t.size)
        for step in range(1, FOLDS + 1):
            out = held_out(t.size, step)
            offset[out] = fit([own[~out]], t[~out], fit_intercept=True).scores([own[out]])
        scores = np.asarray(fit([own], t, fit_intercept=True).scores([held]))
        return cls(ClippedRows.of(train[1]).matrix, offset, t, ClippedRows.of(test[1]).matrix, scores, tt)

    def loss(self, weights: np.ndarray, shift: float = 0.0) -> float:
        """The test log loss of the label party's score and the helper's, whose `shift` the intercept takes."""
        z = self.own + self.held @ weights + shift
        return float(np.mean(np.logaddexp(0, z) - self.truth * z))


def descend(task: Task, epsilon: float, steps: int, rate: float, rng: np.random.Generator) -> np.ndarray:
    """The helper's weights (d,)."""
    rows, width = task.rows.shape
    sigma = 2 * np.sqrt(steps) / mu_of(epsilon, 1e-5)
    weights = np.zeros(width)
    for _ in range(steps):
        slopes = expit(task.offset + task.rows @ weights) - task.labels
        noisy = task.rows.T @ slopes + sigma * rng.standard_normal(width)
        weights = weights - rate * 4 / rows * (noisy + rows * RIDGE * weights)
    return weights


def best_setting(tasks: list[Task], epsilon: float, draws: int) -> tuple[float, tuple[int, float]]:
    """The least mean test loss of the twelve settings, chosen with the test rows in view, and the setting."""
    found = {}
    for steps, rate in SETTINGS:
        losses = [
            task.loss(descend(task, epsilon, steps, rate, np.random.default_rng([s, draw])))
            for s, task in enumerate(tasks)
            for draw in range(draws)
        ]
        found[steps, rate] = float(np.mean(losses))
    setting = min(found, key=lambda k: found[k])
    return found[setting], setting
