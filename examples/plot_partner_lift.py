"""
What partners bring to a credit model
=====================================

A bank knows who defaulted. A telephone company and a shop know other things about the same customers. Which of them
should the bank work with? The tables here are made up, so the truth is known: the shop knows more than the telephone
company.
"""

import matplotlib.pyplot as plt
import numpy as np

import plait

rng = np.random.default_rng(0)
rows = 6000
bank, telephone, shop = rng.normal(size=(rows, 6)), rng.normal(size=(rows, 4)), rng.normal(size=(rows, 5))
risk = bank @ rng.normal(size=6) * 0.5 + 0.3 * telephone[:, 0] + shop[:, 0] - 0.7 * shop[:, 1] - 2
default = risk + rng.logistic(size=rows) > 0
tables = {"bank": bank, "telephone": telephone, "shop": shop}
train, test = slice(0, 4000), slice(4000, rows)

# %%
# The area under the ROC curve on new customers, with an interval: the customers are drawn again 200 times, with
# replacement.

groups = [("bank",), ("bank", "telephone"), ("bank", "shop"), ("bank", "telephone", "shop")]


def area(scores, positive):
    """The area under the ROC curve: how often a positive scores higher than a negative."""
    ranks = scores.argsort().argsort()
    count = positive.sum()
    return (ranks[positive].sum() - count * (count - 1) / 2) / (count * (~positive).sum())


figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for place, names in enumerate(groups):
    model = plait.fit({n: tables[n][train] for n in names}, default[train], penalty="l2", alpha=1e-4)
    scores = model.scores({n: tables[n][test] for n in names})
    drawn = [area(scores[i], default[test][i]) for i in rng.integers(2000, size=(200, 2000))]
    low, high = np.quantile(drawn, [0.025, 0.975])
    axes.plot([low, high], [place, place], color="#3066be", linewidth=3)
    axes.plot(area(scores, default[test]), place, "o", color="#3066be")
axes.set(yticks=range(4), yticklabels=[" + ".join(names) for names in groups], xlabel="AUC on new customers")
axes.invert_yaxis()
plt.show()
