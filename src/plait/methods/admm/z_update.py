"""The coordinator's z-update jointly with the intercept."""

from collections.abc import Callable

import numpy as np

from plait._types import Array
from plait.problem.losses import Loss

_TRIALS = 500  # of a root search: a bracket is halved at least every fourth time, down to rounding
_DOUBLINGS = 60  # of a bracket: its width grows to 2^60 times the first one, beyond any score


def update_scores_and_intercept(
    loss: Loss, target: Array, step: Array, labels: Array, start: float
) -> tuple[Array, float]:
    """Minimise over z (N,) and the number b together:  sum of  loss(z) + (z - target - b)^2 / (2 step).

    The best z for a given b is a prox; what remains is one equation, sum(target + b - z(b)) = 0, whose left side grows
    with b where the loss is convex.
    """

    def pull(b: float) -> float:
        return float(np.sum(target + b - loss.prox(target + b, step, labels)))

    # A width above 0 where all targets are equal.
    b = increasing_root(pull, start, width=float(np.std(target)) + 1e-2)
    return loss.prox(target + b, step, labels), b


def increasing_root(f: Callable[[float], float], start: float, width: float) -> float:
    """A zero of f, which grows, near start; start itself when f has no zero within reach."""
    from scipy.optimize import brentq  # loaded when needed: few runs do, and it loads slowly

    at_start = f(start)
    if at_start == 0:
        return start
    direction = -1.0 if at_start > 0 else 1.0
    near = start
    for _ in range(_DOUBLINGS):
        far = start + direction * width
        if f(far) * at_start <= 0:
            # As exact as doubles are: an intercept of order 1 has 1e-16.  No error where f is flat or jumps.
            exact = 8 * np.finfo(float).eps
            return float(brentq(f, near, far, xtol=1e-14, rtol=exact, maxiter=_TRIALS, disp=False))
        near, width = far, 2 * width
    return start
