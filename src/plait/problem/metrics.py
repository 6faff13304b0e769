"""How good scores are: log loss, AUC, KS, precision, lift and calibration for classes; RMSE, MAE and R2 for numbers."""

import numpy as np
from scipy.special import expit, xlogy

from plait._types import Array
from plait.errors import InputError
from plait.problem.losses import Loss, Pinball, Poisson

_BINS = 10  # of predicted probabilities, for the calibration error: the usual number
_TOP = 0.1  # of the rows, those with the highest scores, for the lift: the usual tenth


def metrics(loss: Loss, scores: Array, labels: Array) -> dict[str, float]:
    """All that makes sense for this loss; labels (N,) in the loss's own form, -1/+1 for classes."""
    found = {"mean loss": float(loss.value(scores, labels).mean())}
    if loss.classifies:
        return found | of_classes(scores, labels, loss.gives_odds)
    predicted = loss.predicted(scores)
    if isinstance(loss, Poisson):
        found["mean deviance"] = float(2 * np.mean(xlogy(labels, labels) - labels * scores - labels + predicted))
    if isinstance(loss, Pinball):
        found["labels below"] = float(np.mean(labels <= predicted))
    return found | of_numbers(predicted, labels)


def of_classes(scores: Array, labels: Array, odds: bool = True) -> dict[str, float]:
    """Labels -1/+1; with `odds` the logistic function of a score is a probability, which is measured, too."""
    positive = (labels > 0).astype(np.float64)
    if positive.all() or not positive.any():
        raise InputError("labels must hold both classes. Found only one. Evaluate on more rows.")
    hits, misses = cumulative(scores, positive)
    true, false = hits / hits[-1], misses / misses[-1]
    top = np.argsort(-scores, kind="stable")[: max(1, round(_TOP * scores.size))]
    ranked = {
        "AUC": float(np.diff(false) @ (true[1:] + true[:-1])) / 2,
        "KS": float(np.max(true - false)),
        "average precision": float(np.diff(true) @ (hits / np.maximum(hits + misses, 1))[1:]),
        "lift in the top tenth": float(positive[top].mean() / positive.mean()),
        "accuracy": float(np.mean((scores > 0) == (labels > 0))),
    }
    if not odds:
        return ranked
    loss = float(np.logaddexp(0.0, -labels * scores).mean())
    return {"log loss": loss, **ranked, "calibration error": calibration_error(expit(scores), positive)}


def cumulative(scores: Array, positive: Array) -> tuple[Array, Array]:
    """How many positives and negatives score at least as high as each distinct score, from the highest; 0 first."""
    order = np.argsort(-scores, kind="stable")
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    hits = np.cumsum(positive[order])[last]
    return np.append(0.0, hits), np.append(0.0, last + 1.0 - hits)


def calibration_error(probability: Array, positive: Array) -> float:
    """Over ten equal bins of probability: mean |share of positives - mean probability|, weighted by size."""
    at = np.minimum((probability * _BINS).astype(int), _BINS - 1)
    size = np.bincount(at, minlength=_BINS)
    gap = np.bincount(at, weights=positive - probability, minlength=_BINS)
    return float(np.abs(gap).sum() / size.sum())


def of_numbers(predicted: Array, labels: Array) -> dict[str, float]:
    """Predictions in the units of the labels."""
    error = predicted - labels
    spread = float(np.sum((labels - labels.mean()) ** 2))
    return {
        "RMSE": float(np.sqrt(np.mean(error**2))),
        "MAE": float(np.abs(error).mean()),
        "R2": 1 - float(error @ error) / spread if spread > 0 else float("nan"),
    }
