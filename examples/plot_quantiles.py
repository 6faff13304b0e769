"""
Quantiles instead of the mean
=============================

How long will a delivery take, and how long at worst? The pinball loss answers the second question. A shop knows the
parcel, a carrier knows the way.
"""

import matplotlib.pyplot as plt
import numpy as np

import plait

rng = np.random.default_rng(0)
rows = 800
weight, distance = rng.random(rows), rng.random(rows)
days = 1 + 2 * distance + weight + rng.exponential(0.3 + distance, size=rows)  # the farther, the less sure
parts = {"shop": weight[:, None], "carrier": distance[:, None]}

# %%
# Three models: the time that one tenth, one half and nine tenths of the deliveries do not exceed.

grid = np.linspace(0, 1, 50)
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.plot(distance, days, ".", color="lightgrey")
for level in (0.1, 0.5, 0.9):
    model = plait.fit(parts, days, loss=plait.Pinball(level), penalty="l2", alpha=1e-6)
    below = np.mean(days <= model.scores(parts))
    line = model.scores({"shop": np.full((50, 1), 0.5), "carrier": grid[:, None]})
    axes.plot(grid, line, label=f"{level:.0%} quantile ({below:.0%} of the rows are below)")
axes.set(xlabel="distance (known to the carrier)", ylabel="days")
axes.legend(frameon=False)
plt.show()
