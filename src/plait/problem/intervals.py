"""How sure a metric is: intervals by the bootstrap, over the same resampled rows for every model."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait._types import Array
from plait.errors import InputError
from plait.problem.losses import Loss
from plait.problem.metrics import metrics

_MOST_ROWS = 5_000  # rows of a resample: of more rows fewer are drawn, and the spread is corrected by a known factor
_RESAMPLES = 200  # of the rows: the ends of a 95 % interval then move by a few per cent of its width
_LEVEL = 0.95  # of the intervals: the usual one


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is on one side of 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Comparison:
    """For every model its metrics, and for every model but the first by how much it differs from the first."""

    metrics: Mapping[str, Mapping[str, Interval]]
    gains: Mapping[str, Mapping[str, Interval]]


def compare(loss: Loss, scores: Mapping[str, Array], labels: Array, seed: int = 0) -> Comparison:
    """Metrics of several models' scores (N,) on the same rows; labels (N,) in the loss's own form."""
    names = list(scores)
    found = {name: metrics(loss, z, labels) for name, z in scores.items()}
    rng = np.random.default_rng(seed)
    drawn = []
    count = min(labels.size, _MOST_ROWS)
    shrink = np.sqrt(count / labels.size)
    sortings = {name: _Sorting(z) for name, z in scores.items()}
    for _ in range(_RESAMPLES):
        rows = rng.integers(labels.size, size=count)
        sorted_rows = {name: sortings[name].sorted(rows) for name in names}
        try:
            drawn.append({name: metrics(loss, scores[name][at], labels[at]) for name, at in sorted_rows.items()})
        except InputError:
            continue  # a resample of few rows that holds one class only
    each = {n: {m: _interval(found[n][m], [d[n][m] for d in drawn], shrink) for m in found[n]} for n in names}
    first = names[0]

    def gain(n: str, m: str) -> Interval:
        return _interval(found[n][m] - found[first][m], [d[n][m] - d[first][m] for d in drawn], shrink)

    return Comparison(each, {n: {m: gain(n, m) for m in found[n]} for n in names[1:]})


class _Sorting:
    """Brings rows into the order of falling scores by their places in it: metrics then find nothing left to sort."""

    def __init__(self, scores: Array) -> None:
        self._order = np.argsort(-scores, kind="stable")
        self._place = np.empty_like(self._order)
        self._place[self._order] = np.arange(scores.size)

    def sorted(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """The same rows, those with high scores first."""
        return self._order[np.sort(self._place[rows])]


def _interval(value: float, drawn: list[float], shrink: float) -> Interval:
    """The quantiles of what was drawn, their distances to the value multiplied by `shrink`."""
    if not drawn:
        return Interval(value, value, value)
    low, high = value + shrink * (np.quantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]) - value)
    return Interval(value, float(low), float(high))
