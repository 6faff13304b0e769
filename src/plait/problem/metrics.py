"""How good scores are: log loss, AUC, KS, precision, lift and calibration for classes; RMSE, MAE and R2 for numbers."""

import numpy as np
from scipy.special import expit

from plait._types import Array
from plait.errors import InputError
from plait.problem.losses import Loss

_BINS = 10  # of predicted probabilities, for the calibration error: the usual number
_TOP = 0.1  # of the rows, those with the highest scores, for the lift: the usual tenth


def metrics(loss: Loss, scores: Array, labels: Array) -> dict[str, float]:
    """All that makes sense for this loss; labels (N,) in the loss's own form, -1/+1 for classes."""
    found = {"mean loss": float(loss.value(scores, labels).mean())}
    return found | (of_classes(scores, labels) if loss.classifies else of_numbers(scores, labels))


def of_classes(scores: Array, labels: Array) -> dict[str, float]:
    """Labels -1/+1; probabilities are the logistic function of the scores."""
    positive = (labels > 0).astype(np.float64)
    if positive.all() or not positive.any():
        raise InputError("labels must hold both classes. Found only one. Evaluate on more rows.")
    probability = expit(scores)
    hits, misses = cumulative(scores, positive)
    true, false = hits / hits[-1], misses / misses[-1]
    top = np.argsort(-scores, kind="stable")[: max(1, round(_TOP * scores.size))]
    return {
        "log loss": float(np.logaddexp(0.0, -labels * scores).mean()),
        "AUC": float(np.diff(false) @ (true[1:] + true[:-1])) / 2,
        "KS": float(np.max(true - false)),
        "average precision": float(np.diff(true) @ (hits / np.maximum(hits + misses, 1))[1:]),
        "lift in the top tenth": float(positive[top].mean() / positive.mean()),
        "calibration error": calibration_error(probability, positive),
        "accuracy": float(np.mean((scores > 0) == (labels > 0))),
    }


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


def of_numbers(scores: Array, labels: Array) -> dict[str, float]:
    error = scores - labels
    spread = float(np.sum((labels - labels.mean()) ** 2))
    return {
        "RMSE": float(np.sqrt(np.mean(error**2))),
        "MAE": float(np.abs(error).mean()),
        "R2": 1 - float(error @ error) / spread if spread > 0 else float("nan"),
    }
