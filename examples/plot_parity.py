"""
The same answer as scikit-learn
===============================

Three parties hold different columns of the same patients. plait trains one model over all of them. scikit-learn
trains on the pooled table, which nobody has in reality. Both find the same weights.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import plait

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
parts = {"imaging": X[:, :10], "laboratory": X[:, 10:20], "pathology": X[:, 20:]}

# %%
# ``C`` of scikit-learn is 1 / (alpha N) of plait.

alpha = 1e-2
joint = plait.fit(parts, y, penalty="l2", alpha=alpha, stopping=plait.Stopping(tol=1e-10))
pooled = LogisticRegression(C=1 / (alpha * len(y)), tol=1e-10, max_iter=1000).fit(X, y)
print(joint)

# %%
# Every point is one column: its weight in the pooled model, and its weight in the joint model.

figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
axes.axline((0, 0), slope=1, color="lightgrey")
for party, weights in joint.weights.items():
    columns = slice(*{"imaging": (0, 10), "laboratory": (10, 20), "pathology": (20, 30)}[party])
    axes.plot(pooled.coef_[0, columns], weights, "o", label=party)
axes.set(xlabel="weight in the pooled model (scikit-learn)", ylabel="weight in the joint model (plait)")
axes.legend(frameon=False)
plt.show()
