"""
A transformer of your own
=========================

Every party prepares its own columns before training: nobody else sees how. In Python this is any transformer of
scikit-learn, or a class of your own. Here a party turns an hour of the day into a place on a circle, because 23
o'clock is close to 1 o'clock.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, TransformerMixin

import plait


class Circle(TransformerMixin, BaseEstimator):
    """An hour of the day as two columns: the cosine and the sine of its angle."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        angle = 2 * np.pi * np.asarray(X) / 24
        return np.hstack([np.cos(angle), np.sin(angle)])


# %%
# A shop knows the hour of an order, a bank knows the amount. Fraud happens around midnight.

rng = np.random.default_rng(0)
hour, amount = rng.uniform(0, 24, size=(2000, 1)), rng.normal(size=(2000, 1))
fraud = (2 * np.cos(2 * np.pi * hour[:, 0] / 24) + amount[:, 0] - 1.5 + rng.logistic(size=2000)) > 0

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
day = np.linspace(0, 24, 100)[:, None]
average = np.zeros((100, 1))
for name, prepare in (("hour as it is", lambda x: x / 24), ("hour on a circle", Circle().fit_transform)):
    model = plait.fit({"shop": prepare(hour), "bank": amount}, fraud, penalty="l2", alpha=1e-4)
    probability = expit(model.scores({"shop": prepare(day), "bank": average}))
    axes.plot(day, probability, label=f"{name}: objective {model.objective:.3f}")
axes.set(xlabel="hour of the day", ylabel="probability of fraud", xticks=range(0, 25, 4))
axes.legend(frameon=False)
plt.show()
