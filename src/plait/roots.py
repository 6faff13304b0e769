"""Vectorised roots of the scalar equations behind the proximal maps."""

import numpy as np
import numpy.typing as npt
from scipy.special import expit, wrightomega

from plait.types import Array

_NEWTON_STEPS = 100
_FAR = 1e90  # beyond this the cubic overflows, and the pull step / a has long vanished
_ULPS = 4 * np.finfo(np.float64).eps


def logistic_root(t: Array, step: Array) -> Array:
    """Solve  q - t = step / (1 + exp(q))  for q, elementwise; step >= 0.

    By symmetry the root can be taken positive.  There the equation is concave, and exp(-q)/2 <= 1/(1+exp(q))
    gives a start left of the root (a Wright omega), from which Newton's method climbs monotonically.
    """
    flip = t + step / 2 < 0
    t = np.where(flip, -t - step, t)
    with np.errstate(divide="ignore"):
        start = t + wrightomega(np.log(step / 2) - t)
    q = np.maximum(np.where(step > 0, start, t), 0.0)
    for _ in range(_NEWTON_STEPS):
        e = expit(-q)
        move = (q - t - step * e) / (1 + step * e * (1 - e))
        q = q - move
        if np.all(np.abs(move) <= _ULPS * np.maximum(1.0, np.abs(q))):
            break
    return np.where(flip, -q, q)


def poisson_root(v: Array, step: Array, y: Array) -> Array:
    """Solve  z - v + step (exp(z) - y) = 0  for z: the Lambert W function, in log space."""
    with np.errstate(divide="ignore"):
        log_step = np.log(step)
    shifted = v + step * y
    w = wrightomega(log_step + shifted)
    # w = step exp(z): a large w loses digits in shifted - w, a small one in log(w).
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(w > 1, np.log(w) - log_step, shifted - w)


def cauchy_root(a: Array, step: Array) -> Array:
    """The global minimiser of  (step/2) log(1 + r^2) + (r - a)^2 / 2  over r, elementwise.

    Stationary points solve the cubic p(r) = r^3 - a r^2 + (1 + step) r - a; for step > 8 there may be three, and
    the lower of the two outer ones wins.  p is concave left of a/3 and convex right of it, so Newton's method
    started at 0 and at a is monotone.
    """
    far = np.abs(a) > _FAR
    whole, sign, a = a, np.sign(a), np.where(far, 0.0, np.abs(a))
    slope = 1 + step

    def p(r: Array) -> Array:
        return ((r - a) * r + slope) * r - a

    bend = a / 3
    spread = np.sqrt(np.maximum(a * a - 3 * slope, 0.0)) / 3
    turns = a * a > 3 * slope
    middle = p(bend) >= 0
    has_left = middle | (turns & (p(bend - spread) >= 0))
    has_right = ~middle | (turns & (p(bend + spread) <= 0))
    left = _newton_cubic(np.zeros_like(a), a, slope, has_left)
    right = _newton_cubic(a, a, slope, has_right)

    def value(r: Array) -> Array:
        return step / 2 * np.log1p(r * r) + (r - a) ** 2 / 2

    take_left = has_left & (~has_right | (value(left) <= value(right)))
    return np.where(far, whole, sign * np.where(take_left, left, right))


def _newton_cubic(start: Array, a: Array, slope: Array, wanted: npt.NDArray[np.bool_]) -> Array:
    r = start.copy()
    for _ in range(_NEWTON_STEPS):
        p = ((r - a) * r + slope) * r - a
        dp = (3 * r - 2 * a) * r + slope
        move = np.where(wanted & (dp > 0), p / np.where(dp > 0, dp, 1.0), 0.0)
        r = r - move
        if np.all(np.abs(move) <= _ULPS * np.maximum(1.0, np.abs(r))):
            break
    return np.clip(r, 0.0, a)
