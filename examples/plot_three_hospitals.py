"""
Three departments, one model
============================

Each department of a hospital can train a model on its own columns. Together they are better than the best of them
alone.
"""

import matplotlib.pyplot as plt
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import plait

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
train, test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
columns = {"imaging": slice(0, 10), "laboratory": slice(10, 20), "pathology": slice(20, 30)}


def loss_with(names):
    """The log loss on new patients of a model over the columns of some departments."""
    model = plait.fit({n: train[:, columns[n]] for n in names}, y_train, penalty="l2", alpha=1e-2)
    return log_loss(y_test, expit(model.scores({n: test[:, columns[n]] for n in names})))


# %%
# Every department alone, and all together.

losses = {name: loss_with([name]) for name in columns} | {"together": loss_with(list(columns))}
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
bars = axes.barh(list(losses), list(losses.values()), color=["#b8bcc2"] * 3 + ["#0b6e4f"])
axes.bar_label(bars, fmt="%.3f", padding=4)
axes.set(xlabel="log loss on new patients (lower is better)", xlim=(0, 1.2 * max(losses.values())))
plt.show()
