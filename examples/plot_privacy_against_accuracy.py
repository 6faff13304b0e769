"""
Privacy against accuracy
========================

A partner protects its rows with differential privacy. The smaller epsilon is, the stronger is the protection, and the
less the partner helps. A simulation on made-up data shows what to expect before anything is spent.
"""

import matplotlib.pyplot as plt

from plait.studies.privacy_preview import preview, synthetic

found = preview(synthetic(3000, own=10, helper=10), epsilons=[0.1, 0.3, 1.0, 3.0, 8.0], repeats=3)

# %%
# The two lines are the ends: the partner is left out, or it is not protected at all.

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.semilogx(list(found.private), list(found.private.values()), "o-", label="with protection")
axes.axhline(found.local, color="#c8553d", linestyle="--", label="without the partner")
axes.axhline(found.pooled, color="#2b2d33", linestyle=":", label="with the partner, not protected")
axes.set(xlabel="epsilon (smaller is more private)", ylabel="log loss on new rows")
axes.legend(frameon=False)
plt.show()
