"""
What the others can learn
=========================

Not sharing columns is not the same as revealing nothing. Here a partner tries to read the labels from what it
receives. The gradient of the logistic loss has the sign of the label, so it succeeds, unless the labels are
protected.
"""

import matplotlib.pyplot as plt
import numpy as np

from plait.studies.attack_study import measure, settings

rng = np.random.default_rng(0)
own, helper = rng.normal(size=(400, 4)), rng.normal(size=(400, 5))
labels = (own[:, 0] + helper[:, 0] + rng.logistic(size=400) > 0).astype(float)

# %%
# Real runs, without protection and under each protection, and what attacks take from them.

found = [measure(setting, own, helper, labels) for setting in settings(rounds=15)]
names = [exposure.setting for exposure in found]

figure, axes = plt.subplots(figsize=(7, 0.6 + 0.6 * len(names)), layout="constrained")
places = np.arange(len(names))
axes.barh(places - 0.2, [e.labels for e in found], 0.38, label="labels that the partner reads correctly")
axes.barh(places + 0.2, [e.records for e in found], 0.38, label="rows that the coordinator reconstructs")
axes.axvline(max(labels.mean(), 1 - labels.mean()), color="grey", linestyle=":", label="guessing the commoner label")
axes.set(yticks=places, yticklabels=names, xlim=(0, 1.05), xlabel="part that is recovered")
axes.invert_yaxis()
axes.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.4, -0.25))
plt.show()
