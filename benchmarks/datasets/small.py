"""Small data sets that come with scikit-learn: for `make bench-quick`."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks.datasets import split, standardised


def breast_cancer():
    table, y = load_breast_cancer(return_X_y=True)
    return split(standardised(table), [10, 10, 10]), 2.0 * y - 1


def digits():
    """Odd against even, the left half of the picture against the right one."""
    table, y = load_digits(return_X_y=True)
    left = np.arange(64) % 8 < 4
    table = standardised(table)
    return (table[:, left].copy(), table[:, ~left].copy()), np.where(y % 2 == 1, 1.0, -1.0)
