"""
A loss of your own
==================

A loss is a small class: its value, its gradient, and its proximal step. Here a delivery that is late costs three
times as much as one that is early, and both cost quadratically (an expectile).
"""

from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

import plait


@dataclass(frozen=True)
class Expectile(plait.Loss):
    """w r^2 / 2 with r = z - y: w is `low` where the score is too low, and 1 where it is too high."""

    low: float = 3.0
    curvature: ClassVar[float] = 3.0

    def _weight(self, r):
        return np.where(r < 0, self.low, 1.0)

    def value(self, z, y):
        return self._weight(z - y) * (z - y) ** 2 / 2

    def gradient(self, z, y):
        return self._weight(z - y) * (z - y)

    def prox(self, v, step, y):
        return y + (v - y) / (1 + step * self._weight(v - y))


# %%
# The proximal ADMM needs no more than this. The model lies above that of the squared loss: being too low costs more.

rng = np.random.default_rng(0)
x = np.sort(rng.random(300))
days = 1 + 2 * x + rng.normal(scale=0.3 + 0.4 * x)
parts = {"shop": x[:, None], "carrier": rng.normal(size=(300, 1))}
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.plot(x, days, ".", color="lightgrey")
for loss in (plait.Squared(), Expectile()):
    model = plait.fit(parts, days, loss=loss, method=plait.Proximal(), penalty="none")
    flat = {"shop": x[:, None], "carrier": np.zeros((300, 1))}
    axes.plot(x, model.scores(flat), label=type(loss).__name__)
axes.set(xlabel="distance", ylabel="days")
axes.legend(frameon=False)
plt.show()
