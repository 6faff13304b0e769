"""
How many rounds does a run take?
================================

In every round each party sends one number per row. The default method needs few rounds. A tracker is told each of
them as it ends.
"""

import matplotlib.pyplot as plt
import numpy as np

import plait

rng = np.random.default_rng(0)
parts = {"bank": rng.normal(size=(2000, 8)), "shop": rng.normal(size=(2000, 8))}
parts["shop"][:, :4] += parts["bank"][:, :4]  # what two parties know is often alike
repaid = parts["bank"][:, 0] - parts["shop"][:, 1] + rng.logistic(size=2000) > 0

# %%
# A tracker of your own is a class with a method for each round.


class Kept(plait.tracking.Tracker):
    """Keeps the objective of every round."""

    def begin(self, facts):
        self.objectives = []

    def round(self, record):
        self.objectives.append(record.objective)


methods = {"subspace (the default)": plait.Subspace(), "proximal ADMM": plait.Proximal()}
tracks = {name: Kept() for name in methods}
for name, method in methods.items():
    stopping = plait.Stopping(tol=1e-7, max_rounds=300)
    plait.fit(parts, repaid, penalty="l2", alpha=1e-3, method=method, stopping=stopping, callbacks=[tracks[name]])

best = min(min(track.objectives) for track in tracks.values())
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, track in tracks.items():
    gaps = np.maximum(np.array(track.objectives) - best, 1e-12)
    axes.semilogy(range(1, len(gaps) + 1), gaps, "o-", markersize=3, label=name)
axes.set(xlabel="round", ylabel="objective above the best", ylim=(1e-10, None))
axes.legend(frameon=False)
plt.show()
