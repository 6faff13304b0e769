"""The parts of a report, from numbers to what a template shows."""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from scipy.special import expit

from plait.data.preparation import Preparation
from plait.deployment.report.chart import Axes, line_chart
from plait.deployment.report.evidence import TOGETHER, Evidence
from plait.deployment.report.score_charts import Figure, class_figures, number_figures
from plait.problem.intervals import Comparison, Interval, compare
from plait.problem.losses import Loss, Pinball, Poisson, Squared

_SHOWN = {
    "log loss": "log loss (lower is better)",
    "mean deviance": "deviance (lower is better)",
    "mean loss": "loss (lower is better)",
    "AUC": "AUC",
    "KS": "KS",
    "lift in the top tenth": "lift in the top tenth",
    "RMSE": "RMSE (lower is better)",
    "MAE": "MAE (lower is better)",
    "R2": "R²",
    "labels below": "labels below",
}
_SAME = ("log loss", "mean deviance")
"""Measures that say what the mean loss says, in better known units."""
_MEANT = {
    "log loss": "Log loss: how far the probabilities are from what happened; 0 is never wrong.",
    "AUC": "AUC: the chance that a positive row scores above a negative one; 0.5 is guessing.",
    "KS": "KS: the largest difference between the parts of the positives and of the negatives above a score.",
    "lift in the top tenth": "Lift in the top tenth: how many times more positives are there than in all rows.",
}
_MOST_COEFFICIENTS = 40  # that are shown: the largest; all are in weights.json


def quality(evidence: Evidence) -> dict[str, Any]:
    """How good the models are on some rows: a table with intervals, a sentence, and curves."""
    found = compare(evidence.loss, evidence.scores, evidence.labels)
    known = found.metrics[TOGETHER]
    unsaid = ["mean loss"] if isinstance(evidence.loss, Squared) or any(m in known for m in _SAME) else []
    measures = [m for m in _SHOWN if m in known and m not in unsaid]
    table = [
        {
            "name": name,
            "trained": f"{evidence.trained.get(name, 0):,}",
            "cells": [_cell(values[m]) for m in measures],
            "strong": name == TOGETHER,
        }
        for name, values in found.metrics.items()
    ]
    return {
        "where": evidence.where,
        "held": evidence.held,
        "rows": int(evidence.labels.size),
        "measures": [_SHOWN[m] for m in measures],
        "table": table,
        "others": {k: _shown(v.value) for k, v in known.items() if k not in _SHOWN},
        "trained": any(evidence.trained.values()),
        "note": evidence.note,
        "sentence": _gain(found, measures[0]) if found.gains else "",
        "population": f"{_population(evidence)} {evidence.gaps}".rstrip(),
        "meant": [_MEANT[m] for m in measures if m in _MEANT],
        "figures": class_figures(evidence) if evidence.loss.classifies else number_figures(evidence),
    }


def shown_once(metrics: Mapping[str, float]) -> dict[str, float]:
    """Measures without the mean loss where another one says the same."""
    return {k: v for k, v in metrics.items() if k != "mean loss" or not any(m in metrics for m in _SAME)}


def _gain(found: Comparison, measure: str) -> str:
    first, *_ = found.metrics
    alone, together = found.metrics[first][measure].value, found.metrics[TOGETHER][measure].value
    change = found.gains[TOGETHER][measure]
    less = "lower" if change.value < 0 else "higher"
    size = f"{abs(change.value) / abs(alone):.1%} {less}" if alone else less
    sure = (
        "The 95 % interval of the difference does not contain 0, so this is more than chance."
        if change.excludes_zero
        else "The 95 % interval of the difference contains 0, so this may be chance. Take more rows."
    )
    return f"Together the {measure} is {together:.4g}. For {first} it is {alone:.4g}. That is {size}. {sure}"


def _population(evidence: Evidence) -> str:
    loss, rows, scores = evidence.loss, f"{evidence.labels.size:,} rows", evidence.scores[TOGETHER]
    if isinstance(loss, Pinball):
        below = float((evidence.labels <= loss.predicted(scores)).mean())
        return f"{rows}; {below:.1%} of the labels are at or below the prediction, and {loss.quantile:.0%} should be."
    if not loss.classifies:
        mean, predicted = evidence.labels.mean(), loss.predicted(scores).mean()
        return f"{rows}; the mean label is {mean:.4g}, and the mean prediction {predicted:.4g}."
    share = f"{float((evidence.labels > 0).mean()):.1%} of them are positive"
    if not loss.gives_odds:
        return f"{rows}; {share}, and the model picks {float((scores > 0).mean()):.1%}."
    return f"{rows}; {share}, and the model expects {float(expit(scores).mean()):.1%}."


def convergence(rounds: list[dict[str, Any]]) -> list[Figure]:
    """Objective, and the proved gap or else the residuals, by round; only what is known."""

    def series(key: str) -> list[tuple[float, float]]:
        return [(r["round"], r[key]) for r in rounds if r[key] is not None]

    distances = {name: series(name) for name in ("gap", "primal", "dual")}
    distances = {name: points for name, points in distances.items() if any(y > 0 for _, y in points)}
    proved = {name: points for name, points in distances.items() if name == "gap"}
    said = "Gap: how far the objective is from the best possible one at most, as proved, on a logarithmic scale."
    if not proved:
        said = "Residuals: how far the run was from its end, on a logarithmic scale."
    figures = [
        Figure(
            line_chart(Axes("Objective", "round", "objective", whole=True), {"objective": series("objective")}),
            "Objective: mean loss and penalties.",
        ),
        Figure(
            line_chart(
                Axes("Distance", "round", "distance to the end", logarithmic=True, whole=True), proved or distances
            ),
            said,
            tuple(proved or distances),
        ),
    ]
    return [figure for figure in figures if figure.svg]


def coefficients(
    columns: tuple[str, ...], weights: Any, loss: Loss, prepared: Preparation | None = None, years: Collection[str] = ()
) -> dict[str, Any]:
    """The largest weights with their names, and by what one step more multiplies the odds or the expected count.

    `prepared` says how large a step is, in the units of the party's table, of which those of dates are `years`.
    """
    ratio = ("odds", "odds of the label are") if loss.gives_odds else ()
    ratio = ("rate", "expected count is") if isinstance(loss, Poisson) else ratio
    order = sorted(range(len(columns)), key=lambda i: -abs(float(weights[i])))
    largest = max((abs(float(weights[i])) for i in order[:1]), default=0.0) or 1.0
    steps = {} if prepared is None else _steps(prepared, years)
    rows = [
        {
            "name": f"{columns[i]} (empty)" if columns[i].endswith("=") else columns[i],
            "step": steps.get(columns[i], _ONE).words,
            "weight": f"{float(weights[i]):+.4g}",
            "ratio": f"{math.exp(min(steps.get(columns[i], _ONE).size * float(weights[i]), 700.0)):.3g}"
            if ratio
            else "",
            "size": abs(float(weights[i])) / largest,
            "up": float(weights[i]) > 0,
        }
        for i in order[:_MOST_COEFFICIENTS]
    ]
    return {"rows": rows, "hidden": max(0, len(order) - _MOST_COEFFICIENTS), "ratio": ratio, "stepped": bool(steps)}


class _Step(NamedTuple):
    """A step of a column in words, and how far the prepared column goes with it."""

    words: str
    size: float


_ONE = _Step("", 1.0)


def _steps(prepared: Preparation, years: Collection[str]) -> dict[str, _Step]:
    """What a step of each column is; nothing for what a transformer makes."""
    rounded = {name: float(f"{size:.3g}") for name, size in prepared.steps().items()}
    named = {name: f"+{size:,.6g}{' years' if name in years else ''}" for name, size in rounded.items()}
    has_it = _Step("has it", prepared.unit)
    categories = {f"{c}={v}": has_it for c, values in prepared.categories.items() for v in values}
    return {name: _Step(words, 1.0) for name, words in named.items()} | categories


def _cell(interval: Interval) -> dict[str, str]:
    return {"value": _shown(interval.value), "range": f"{_shown(interval.low)} to {_shown(interval.high)}"}


def _shown(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.5g}"
