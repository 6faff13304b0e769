"""
Which rows do we share?
=======================

Two organisations hold different customers in different orders. With a section ``[alignment]`` in the job file the
programs find the common rows first. No organisation learns which other customers the other one has.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
folder = Path(tempfile.mkdtemp())
customers = [f"customer-{i}" for i in range(1000)]
at_bank, at_shop = rng.permutation(1000)[:700], rng.permutation(1000)[:600]

# %%
# The tables, the party files and the job file.

risk = rng.normal(size=(1000, 4))
defaulted = (risk.sum(axis=1) + rng.logistic(size=1000) > 0).astype(int)
bank = [f"{customers[i]},{risk[i, 0]},{risk[i, 1]},{defaulted[i]}" for i in at_bank]
shop = [f"{customers[i]},{risk[i, 2]},{risk[i, 3]}" for i in at_shop]
(folder / "bank.csv").write_text("\n".join(["id,income,debt,default", *bank]) + "\n")
(folder / "shop.csv").write_text("\n".join(["id,orders,returns", *shop]) + "\n")
for name, label in (("bank", "default"), ("shop", "")):
    (folder / f"{name}.toml").write_text(f'[data]\nfile = "{name}.csv"\nid = "id"\nlabel = "{label}"\n')
(folder / "job.toml").write_text(
    'format = 1\nparties = ["bank", "shop"]\nprotection = "plain"\n'
    '[coordinator]\nname = "bank"\naddress = "127.0.0.1:7443"\n[alignment]\n'
)

# %%
# ``plait fit`` runs the whole job on this machine. ``--yes`` agrees to use the common rows, however many they are.

done = subprocess.run(
    [sys.executable, "-m", "plait", "fit", str(folder / "job.toml"), "--yes"],
    capture_output=True,
    text=True,
    check=True,
)
print(done.stdout)

# %%
# The programs found as many common rows as there are.

common = len(set(at_bank) & set(at_shop))
assert f"{common} rows" in done.stdout or f"{common} common" in done.stdout
figure, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
bars = axes.barh(["bank", "shop", "both"], [700, 600, common], color=["#b8bcc2", "#b8bcc2", "#0b6e4f"])
axes.bar_label(bars, padding=4)
axes.set(xlabel="customers", xlim=(0, 800))
plt.show()
