"""The charts of a report that show how good scores are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from plait._types import Array
from plait.deployment.report.chart import Axes, Series, bar_chart, line_chart
from plait.deployment.report.evidence import TOGETHER, Evidence
from plait.problem import curves

_UNIT = (0.0, 1.0)  # the range of an axis that shows fractions
_SMALLEST_GROUP = 0.01  # fraction of the rows: with fewer the lift is unsteady


@dataclass(frozen=True)
class Figure:
    """A chart with its caption and the names of its lines."""

    svg: str
    caption: str
    keys: tuple[str, ...] = ()


def number_figures(evidence: Evidence) -> list[Figure]:
    """The spread of the scores."""
    scores = evidence.scores[TOGETHER]
    edges, (heights,) = curves.spread(scores, (np.ones(scores.size, dtype=np.bool_),))
    chart = bar_chart(Axes("Scores", "score", "part of the rows"), edges.tolist(), {"all rows": heights.tolist()})
    return [Figure(chart, "How the scores are spread.")]


def class_figures(evidence: Evidence) -> list[Figure]:
    """ROC, lift, precision and recall, calibration, and the spread of the probabilities."""
    positive = (evidence.labels > 0).astype(np.float64)
    return [
        _roc(evidence, positive),
        _lift(evidence, positive),
        _precision(evidence, positive),
        _calibration(evidence, positive),
        _spread(evidence, positive),
    ]


def _lines(
    evidence: Evidence, positive: Array, curve: Callable[[Array, Array], tuple[Array, Array]]
) -> dict[str, Series]:
    """A curve for every model."""
    found = {name: curve(z, positive) for name, z in evidence.scores.items()}
    return {name: list(zip(x.tolist(), y.tolist(), strict=True)) for name, (x, y) in found.items()}


def _roc(evidence: Evidence, positive: Array) -> Figure:
    axes = Axes("ROC", "false alarms", "found", _UNIT, _UNIT, percent=True)
    return Figure(
        line_chart(axes, _lines(evidence, positive, curves.roc), ((0, 0), (1, 1))),
        "ROC: how many of the positives are found (up), at how many false alarms among the negatives (right). The "
        "dashed line is guessing.",
        tuple(evidence.scores),
    )


def _lift(evidence: Evidence, positive: Array) -> Figure:
    found = _lines(evidence, positive, curves.lift)
    shown = {name: [(x, y) for x, y in points if x >= _SMALLEST_GROUP] for name, points in found.items()}
    highest = max((y for points in shown.values() for _, y in points), default=1.0)
    axes = Axes("Lift", "part of the rows, highest scores first", "lift", _UNIT, (0.0, 1.05 * highest))
    return Figure(
        line_chart(axes, shown, ((0, 1), (1, 1))),
        "Lift: how many times more positives are among the rows with the highest scores than among all rows.",
        tuple(evidence.scores),
    )


def _precision(evidence: Evidence, positive: Array) -> Figure:
    share = float(positive.mean())
    axes = Axes("Precision and recall", "found", "correct", _UNIT, _UNIT, percent=True)
    return Figure(
        line_chart(axes, _lines(evidence, positive, curves.precision_recall), ((0, share), (1, share))),
        "Precision and recall: how many of the picked rows are positive (up), when so many of the positives are found "
        "(right).",
        tuple(evidence.scores),
    )


def _calibration(evidence: Evidence, positive: Array) -> Figure:
    expected, observed = curves.calibration(expit(evidence.scores[TOGETHER]), positive)
    top = min(1.0, 1.05 * float(max(expected.max(), observed.max())))
    axes = Axes("Calibration", "expected", "observed", (0.0, top), (0.0, top), percent=True)
    points = list(zip(expected.tolist(), observed.tolist(), strict=True))
    return Figure(
        line_chart(axes, {TOGETHER: points}, ((0, 0), (top, top))),
        "Calibration: what the model expects (right) and what happened (up), for tenths of the rows. On the dashed "
        "line both are the same.",
    )


def _spread(evidence: Evidence, positive: Array) -> Figure:
    probability = expit(evidence.scores[TOGETHER])
    edges, heights = curves.spread(probability, (positive == 0, positive == 1))
    groups = dict(zip(("label negative", "label positive"), (h.tolist() for h in heights), strict=True))
    axes = Axes("Probabilities", "probability that the model gives", "part of the group")
    return Figure(
        bar_chart(axes, edges.tolist(), groups),
        "How the probabilities are spread, for rows with either label. The less the two overlap, the better.",
        tuple(groups),
    )
