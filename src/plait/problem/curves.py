"""Curves of scores against classes: ROC, precision and recall, calibration, lift; and the spread of scores."""

import numpy as np
from numpy.typing import NDArray

from plait._types import Array
from plait.problem.metrics import cumulative

_BINS = 10  # groups of rows in a calibration curve: the usual tenths
_BARS = 24  # of a histogram: enough to see two humps


def roc(scores: Array, positive: Array) -> tuple[Array, Array]:
    """The false positive rate and the true positive rate (K,), from the highest score down; `positive` is 0 or 1."""
    hits, misses = cumulative(scores, positive)
    return misses / misses[-1], hits / hits[-1]


def precision_recall(scores: Array, positive: Array) -> tuple[Array, Array]:
    """Recall and precision (K,), from the highest score down."""
    hits, misses = cumulative(scores, positive)
    return hits[1:] / hits[-1], hits[1:] / (hits + misses)[1:]


def calibration(probability: Array, positive: Array) -> tuple[Array, Array]:
    """For tenths of the rows, by probability: the mean probability and the share of positives (10,)."""
    groups = np.array_split(np.argsort(probability, kind="stable"), min(_BINS, probability.size))
    return np.array([probability[g].mean() for g in groups]), np.array([positive[g].mean() for g in groups])


def reach(values: Array, labels: Array) -> tuple[Array, Array]:
    """The part of the rows with the highest values, and the mean label of these rows (K,)."""
    order = np.argsort(-values, kind="stable")
    taken = np.arange(1, values.size + 1)
    return taken / values.size, np.cumsum(labels[order]) / taken


def lift(scores: Array, positive: Array) -> tuple[Array, Array]:
    """The part of the rows with the highest scores, and how many times more positives it has than all rows (K,)."""
    hits, misses = cumulative(scores, positive)
    taken = (hits + misses)[1:]
    return taken / scores.size, hits[1:] / taken / positive.mean()


def spread(values: Array, groups: tuple[NDArray[np.bool_], ...]) -> tuple[Array, list[Array]]:
    """The edges (25,) of bars over all values, and for each group (a mask) the part of it in each bar (24,)."""
    low, high = np.quantile(values, [0.001, 0.999])
    edges = np.linspace(low, high if high > low else low + 1.0, _BARS + 1)
    clipped = np.clip(values, edges[0], edges[-1])
    return edges, [np.histogram(clipped[g], edges)[0] / max(1, int(g.sum())) for g in groups]
