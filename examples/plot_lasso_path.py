"""
The path of the lasso
=====================

A strong L1 penalty sets most weights to zero. As it gets weaker, columns enter one by one. Each party sees only its
own weights; a simulation sees all of them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import plait

X, y = load_diabetes(return_X_y=True)
X = X / X.std(axis=0)
y = (y - y.mean()) / y.std()
parts = {"clinic": X[:, :4], "laboratory": X[:, 4:]}

# %%
# Twenty strengths of the penalty, from strong to weak.

strengths = np.geomspace(0.6, 0.003, 20)
path = [plait.fit(parts, y, loss="squared", penalty="l1", alpha=a).weights for a in strengths]

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for party, style in (("clinic", "-"), ("laboratory", "--")):
    lines = axes.semilogx(strengths, [weights[party] for weights in path], style)
    lines[0].set_label(party)
axes.invert_xaxis()
axes.axhline(0, color="lightgrey", zorder=0)
axes.set(xlabel="strength of the penalty", ylabel="weight")
axes.legend(frameon=False)
plt.show()
