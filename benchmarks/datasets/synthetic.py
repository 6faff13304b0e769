"""Synthetic data: dense with correlated columns, and sparse with columns of very different popularity."""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from benchmarks.datasets import split


def dense(rows: int, widths: list[int], seed: int = 0):
    """Columns that share a few common factors, across parties too; labels from a noisy linear score."""
    rng = np.random.default_rng(seed)
    d = sum(widths)
    table = rng.standard_normal((rows, d))
    table += rng.standard_normal((rows, 5)) @ rng.standard_normal((5, d))
    table /= np.sqrt(6)
    score = table @ (rng.standard_normal(d) * (rng.random(d) < 0.3)) * 3 / np.sqrt(0.3 * d)
    y = np.where(rng.random(rows) < expit(score), 1.0, -1.0)
    return tuple(np.ascontiguousarray(p) for p in split(table, widths)), y


def sparse(rows: int, width: int, parties: int, per_row: int, seed: int = 0):
    """per_row ones in every row and party, each in a field of its own, whose values are not equally common."""
    rng = np.random.default_rng(seed)
    field = width // per_row
    parts, score = [], np.zeros(rows)
    for _ in range(parties):
        picked = (field * rng.random((rows, per_row), dtype=np.float32) ** 3).astype(np.int32)
        picked += np.arange(per_row, dtype=np.int32) * field
        pointers = np.arange(rows + 1, dtype=np.int32) * per_row
        part = sp.csr_matrix((np.ones(rows * per_row), picked.ravel(), pointers), shape=(rows, width))
        score += part @ (rng.standard_normal(width) / np.sqrt(per_row * parties))
        parts.append(part)
    return tuple(parts), np.where(rng.random(rows) < expit(2 * score), 1.0, -1.0)
