"""Where all scores are: the line over a party's columns that explains D^T mu(z).

The party looks for the combination a of its columns for which  D^T E mu(z) = D^T mu(z),  with z normal about D a and
with the variance that D a leaves.  E mu grows with the score, so this is where a convex function of a has its minimum,
and Newton's method finds it if no step leads far beyond the lowest point along it.
"""

import numpy as np

from plait._types import Array
from plait.methods.base import Block
from plait.methods.protected.outlook import Outlook
from plait.methods.protected.sight import HiddenGradient, spread
from plait.methods.subspace.curvature import SMALL, Curvature

_STEPS, _CHEAP_STEPS = 2, 8  # of Newton's method in a round; where a factorisation costs little
_BEYOND = 0.5  # of the slope at a step's start: how steeply things may rise again at its end
_SHORTEST, _TRIALS = 0.1, 10  # of a step that leads too far: what is tried next at least; and how often
_SETTLED = 1e-3  # of the scores' variance: a step that changes less is the last one


def calibrated(
    block: Block, hidden: HiddenGradient, told: Outlook, wanted: Array, a: Array, inverse: Curvature
) -> Array:
    """The combination (d,) of columns, from the last one and the last curvature."""
    loss, features = block.loss, block.features
    cheap = features.rows * features.columns**2 <= SMALL
    away = hidden.away(features.forward(a))
    for _ in range(_CHEAP_STEPS if cheap else _STEPS):
        left = max(told.variance - spread(away), 0.0)
        if cheap:
            bent = block.weights * hidden.floored(loss.expected_curvature(hidden.centre(told) + away, left))
            inverse = Curvature(features, bent, inverse.h, block.penalty.ridge)
        response = loss.expected_response(hidden.centre(told) + away, left)
        assert response is not None
        slope = wanted - features.adjoint(block.weights * response)
        step = inverse.solve(slope)
        image = features.forward(step)
        change = hidden.away(image)
        pulls = float(wanted @ step), float(slope @ step)
        length = _length(block, pulls, image, (hidden.centre(told) + away, change), left)
        a = a + length * step
        moved = spread(length * change)
        away = hidden.away(features.forward(a))
        if spread(away) > told.variance:  # no line over the columns varies more than the scores do
            shrunk = np.sqrt(told.variance / spread(away))
            a, away = shrunk * a, shrunk * away
        if moved <= _SETTLED * told.variance:
            break
    return a


def _length(block: Block, pulls: tuple[float, float], image: Array, line: tuple[Array, Array], left: float) -> float:
    """How much of a step to take, at most all of it: the slope along it may not turn steeply upwards.

    pulls: what is wanted along the step, and what of it is missing.  line: scores (N,), and their change with the step.
    """
    wanted, missing = pulls
    weighted, length = block.weights * image, 1.0
    for _ in range(_TRIALS):
        response = block.loss.expected_response(line[0] + length * line[1], left)
        assert response is not None
        end = float(wanted - weighted @ response)
        if end >= -_BEYOND * missing:
            return length
        length *= max(missing / (missing - end), _SHORTEST) if np.isfinite(end) else _SHORTEST
    return 0.0
