"""The charts of a report that show how good scores are."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from plait._types import Array
from plait.deployment.report.chart import Axes, Series, bar_chart, line_chart
from plait.deployment.report.evidence import TOGETHER, Evidence
from plait.problem import curves
from plait.problem.losses import Pinball

_UNIT = (0.0, 1.0)  # the range of an axis that shows fractions
_SMALLEST_GROUP = 0.01  # fraction of the rows: with fewer the lift is unsteady


@dataclass(frozen=True)
class Figure:
    """A chart with its caption and the names of its lines."""

    svg: str
    caption: str
    keys: tuple[str, ...] = ()


def number_figures(evidence: Evidence) -> list[Figure]:
    """What the model predicts beside what happened, the labels of the highest predictions, and both spreads."""
    predicted = evidence.loss.predicted(evidence.scores[TOGETHER])
    beside = _below if isinstance(evidence.loss, Pinball) else _observed
    return [beside(evidence, predicted), _reach(evidence), _both_spreads(evidence, predicted)]


def _observed(evidence: Evidence, predicted: Array) -> Figure:
    expected, observed = curves.calibration(predicted, evidence.labels)
    low, high = float(min(expected.min(), observed.min())), float(max(expected.max(), observed.max()))
    axes = Axes("Predicted and observed", "predicted", "observed", (low, high), (low, high))
    points = list(zip(expected.tolist(), observed.tolist(), strict=True))
    return Figure(
        line_chart(axes, {TOGETHER: points}, ((low, low), (high, high))),
        "Predicted and observed: what the model predicts (right) and the mean label (up), for tenths of the rows. On "
        "the dashed line both are the same.",
    )


def _below(evidence: Evidence, predicted: Array) -> Figure:
    wanted = evidence.loss.quantile if isinstance(evidence.loss, Pinball) else math.nan
    below = (evidence.labels <= predicted).astype(np.float64)
    middle, share = curves.calibration(predicted, below)
    axes = Axes("Labels below", "predicted", "below", y_range=_UNIT, percent=False)
    points = list(zip(middle.tolist(), share.tolist(), strict=True))
    return Figure(
        line_chart(axes, {TOGETHER: points}, ((points[0][0], wanted), (points[-1][0], wanted))),
        "Labels below the prediction: their share (up), for tenths of the rows by what is predicted (right). The "
        f"dashed line is the {wanted:.0%} that was asked for.",
    )


def _reach(evidence: Evidence) -> Figure:
    labels, mean = evidence.labels, float(evidence.labels.mean())
    found = {name: curves.reach(z, labels) for name, z in evidence.scores.items()}
    shown = {
        name: [(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True) if a >= _SMALLEST_GROUP]
        for name, (x, y) in found.items()
    }
    axes = Axes("Reach", "part of the rows, highest first", "mean label", _UNIT)
    return Figure(
        line_chart(axes, shown, ((0, mean), (1, mean))),
        "Mean label of the rows for which most is predicted. The dashed line is the mean of all rows: the further a "
        "line is above it, the better the model tells rows apart.",
        tuple(shown),
    )


def _both_spreads(evidence: Evidence, predicted: Array) -> Figure:
    rows = predicted.size
    edges, heights = curves.spread(
        np.concatenate([evidence.labels, predicted]), (np.arange(2 * rows) < rows, np.arange(2 * rows) >= rows)
    )
    groups = dict(zip(("labels", "predictions"), (h.tolist() for h in heights), strict=True))
    return Figure(
        bar_chart(Axes("Spread", "value", "part of the rows"), edges.tolist(), groups),
        "How labels and predictions are spread. Predictions are closer together: a model explains a part only.",
        tuple(groups),
    )


def class_figures(evidence: Evidence) -> list[Figure]:
    """ROC, lift, precision and recall, calibration where scores give odds, and the spread of the scores."""
    positive = (evidence.labels > 0).astype(np.float64)
    odds = evidence.loss.gives_odds
    return [
        _roc(evidence, positive),
        _lift(evidence, positive),
        _precision(evidence, positive),
        *([_calibration(evidence, positive)] if odds else []),
        _spread(evidence, positive, odds),
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


def _spread(evidence: Evidence, positive: Array, odds: bool) -> Figure:
    scores = evidence.scores[TOGETHER]
    edges, heights = curves.spread(expit(scores) if odds else scores, (positive == 0, positive == 1))
    groups = dict(zip(("label negative", "label positive"), (h.tolist() for h in heights), strict=True))
    what = "probability" if odds else "score"
    axes = Axes("Spread", f"{what} that the model gives", "part of the group", percent=odds)
    many = "probabilities" if odds else "scores"
    return Figure(
        bar_chart(axes, edges.tolist(), groups),
        f"How the {many} are spread among the rows with either label. The less the two overlap, the better.",
        tuple(groups),
    )
