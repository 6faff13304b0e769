"""What the reproduction runs: the paper's two data sets, or two small ones that stand in for them."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from plait._types import Array
from plait.data.datasets import Dataset, load


@dataclass(frozen=True)
class Plan:
    """One data set's share of the experiments.

    figure          the paper's figure that shows it: {figure}a and {figure}b
    rhos            the grid for ADMM sharing, in units of 1/N
    steps, decays   the grid for SGD: every pair, as many settings as there are rhos
    batch           SGD's mini-batches
    tuning          epochs of every run in both grids
    epochs          of the chosen settings
    rounds          of the subspace method
    sigmas, seeds   noise levels, each run with every seed
    noisy           epochs under noise
    iterations      where the pooled solver is stopped early
    strengths       scikit-learn's C
    timed           rounds that the paper's prototype is timed for
    crowd           parties of a second split, for the theory; 0 for none
    """

    data: str
    figure: int
    rhos: tuple[float, ...]
    steps: tuple[float, ...]
    decays: tuple[float, ...] = (0.0, 0.1)
    batch: int = 256
    tuning: int = 30
    epochs: int = 100
    rounds: int = 20
    sigmas: tuple[float, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    noisy: int = 30
    iterations: tuple[int, ...] = (3, 5, 10, 15, 20, 30, 40, 60, 80)
    strengths: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
    timed: int = 3
    crowd: int = 0

    def load(self) -> Dataset:
        return _STAND_INS[self.data]() if self.data in _STAND_INS else load(self.data)


@dataclass(frozen=True)
class Study:
    """Both experiments: few columns (a9a in the paper) and many (gisette)."""

    narrow: Plan
    wide: Plan
    faithful: bool
    """Whether these are the paper's own data sets."""

    @property
    def plans(self) -> tuple[Plan, Plan]:
        return self.narrow, self.wide


A9A = Plan(
    "a9a",
    figure=1,
    rhos=(0.01, 0.03, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0),
    steps=(0.1, 0.3, 1.0, 3.0),
    sigmas=(0.0, 1.0, 3.0, 10.0, 20.0, 30.0, 100.0),
    crowd=10,
)
GISETTE = Plan(
    "gisette",
    figure=2,
    rhos=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0),
    steps=(0.003, 0.01, 0.03, 0.1),
    rounds=15,
    timed=2,
    sigmas=(0.0, 0.1, 0.3, 0.6, 1.0, 3.0, 10.0),
)
FULL = Study(A9A, GISETTE, faithful=True)


def _quick(plan: Plan, data: str) -> Plan:
    return replace(
        plan,
        data=data,
        batch=32,
        tuning=8,
        epochs=15,
        rounds=6,
        sigmas=plan.sigmas[::2],
        seeds=(0,),
        noisy=8,
        iterations=(3, 10),
        strengths=(0.1, 1.0),
        timed=2,
        crowd=3 if plan.crowd else 0,
    )


QUICK = Study(_quick(A9A, "breast-cancer"), _quick(GISETTE, "digits"), faithful=False)


def _breast_cancer() -> Dataset:
    x, y = load_breast_cancer(return_X_y=True)
    note = "Breast cancer data of scikit-learn, standardised, 16 / 14 columns: a small stand-in for a9a."
    return _split("breast-cancer", (x - x.mean(axis=0)) / x.std(axis=0), 2.0 * y - 1, (16,), note)


def _digits() -> Dataset:
    x, y = load_digits(return_X_y=True)
    rows = np.isin(y, (4, 9))
    note = "The digits 4 and 9 of scikit-learn, in [-1, 1], 26 / 26 / 12 columns: a small stand-in for gisette."
    return _split("digits", x[rows] / 8 - 1, np.where(y[rows] == 9, 1.0, -1.0), (26, 52), note)


def _split(name: str, x: Array, y: Array, ends: tuple[int, ...], note: str) -> Dataset:
    """Every third row for testing, consecutive columns for each party."""
    test = np.arange(len(y)) % 3 == 0
    cut = dict(zip("ABC", np.split(x, ends, axis=1), strict=False))
    train_parts = {party: block[~test] for party, block in cut.items()}
    test_parts = {party: block[test] for party, block in cut.items()}
    return Dataset(name, train_parts, y[~test], test_parts, y[test], note)


_STAND_INS = {"breast-cancer": _breast_cancer, "digits": _digits}
