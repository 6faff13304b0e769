"""Vectorised roots of the scalar equations behind the proximal maps."""

import numpy as np
import numpy.typing as npt
from scipy.special import wrightomega

from plait._threads import by_halves
from plait._types import Array

_NEWTON_STEPS = 100  # at most: fewer than ten are needed, and a loop must end
_SHORT, _BLOCK = 1 << 14, 1 << 16
"""Up to how many numbers one thread is enough, and how many are solved for at once: few enough for temporaries to stay
in the cache, enough for two threads to be seldom in each other's way."""
_FAR = 1e30  # beyond this the cubic falls apart into two quadratics, to the last digit
_LARGE = 1e75  # its fourth power is still a number
_ULPS = 4 * np.finfo(np.float64).eps  # relative: a step as small as this is rounding


def logistic_root(t: Array, step: Array) -> Array:
    """Solve  q - t = step / (1 + exp(q))  for q, elementwise; step >= 0.  Long arrays are solved block by block."""
    t, step = np.broadcast_arrays(t, step)
    if t.size <= _SHORT:
        return _logistic_root(t, step)
    q = np.empty(t.size)
    flat, steps = t.reshape(-1), step.reshape(-1)

    def solve(half: slice) -> None:
        for start in range(half.start, half.stop, _BLOCK):
            block = slice(start, min(start + _BLOCK, half.stop))
            q[block] = _logistic_root(flat[block], steps[block])

    by_halves(solve, t.size)
    return q.reshape(t.shape)


def _logistic_root(t: Array, step: Array) -> Array:
    """By symmetry the root can be taken positive.  There the equation is concave, and exp(-q)/2 <= 1/(1+exp(q)) gives a
    start left of the root, from which Newton's method climbs monotonically.
    """
    flip = t + step / 2 < 0
    t = np.where(flip, -t - step, t)
    with np.errstate(divide="ignore"):
        start = t + _below_omega(np.log(step / 2) - t)
    q = np.maximum(np.where(step > 0, start, t), 0.0)
    for _ in range(_NEWTON_STEPS):
        e = np.exp(-q)
        e /= 1 + e
        move = (q - t - step * e) / (1 + step * e * (1 - e))
        q = q - move
        if np.all(np.abs(move) <= _ULPS * np.maximum(1.0, np.abs(q))):
            break
    return np.where(flip, -q, q)


def _below_omega(x: Array) -> Array:
    """A number below Wright's omega, the root of  w + log(w) = x, and not far from it."""
    large = np.maximum(x, 1.0)
    # E^709 is the largest power of e that a double holds.
    return np.where(x > 1, large - np.log(large), 1 / (1 + np.exp(-np.clip(x, -700.0, 1.0))))


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
    """The global minimiser of  (step/2) log(1 + r^2) + (r - a)^2 / 2  over r, elementwise."""
    near, far = cauchy_minima(a, step)
    # The difference of the two values, without the parts that they share: a huge a would drown it.
    rise = step * (half_log(far) - half_log(near))
    with np.errstate(over="ignore", invalid="ignore"):
        fall = (far - near) * (a - (far + near) / 2)
    return np.where(rise < fall, far, near)


def cauchy_minima(a: Array, step: Array) -> tuple[Array, Array]:
    """The local minimisers of  (step/2) log(1 + r^2) + (r - a)^2 / 2:  the one nearer to 0, and the one nearer to a.

    Where there is only one, it is both.  Stationary points solve the cubic p(r) = r^3 - a r^2 + (1 + step) r - a; for
    step > 8 there may be three, and the two outer ones are minima.  p is concave left of a/3 and convex right of it, so
    Newton's method started at 0 and at a is monotone.
    """
    distant, sign = np.abs(a) > _FAR, np.sign(a)
    near, far = _far_minima(np.where(distant, np.abs(a), 1.0), np.where(distant, step, 0.0))
    a, step = np.where(distant, 0.0, np.abs(a)), np.where(distant, 0.0, step)
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
    return (
        sign * np.where(distant, near, np.where(has_left, left, right)),
        sign * np.where(distant, far, np.where(has_right, right, left)),
    )


def _far_minima(a: Array, step: Array) -> tuple[Array, Array]:
    """The same for huge a > 0: one root of order 1 or less, where r^3 is lost, and one of order a, where 1 is lost."""
    slope = 1 + step
    q = a / slope
    k = slope / a / a
    left = 2 * q / (1 + np.sqrt(np.maximum(1 - 4 * np.minimum(q, 1.0) ** 2, 0.0)))
    right = a * (1 + np.sqrt(np.maximum(1 - 4 * k, 0.0))) / 2
    return np.where(q <= 0.5, left, right), np.where(k <= 0.25, right, left)


def half_log(q: Array) -> Array:
    """log(1 + q^2) / 2, whatever the size of q."""
    q = np.abs(q)
    small = np.minimum(q, _LARGE)
    return np.where(q < _LARGE, np.log1p(small * small) / 2, np.log(np.maximum(q, 1.0)))


def cauchy_hessian(q: Array) -> Array:
    """(1 - q^2) / (1 + q^2)^2, the second derivative of half_log, whatever the size of q."""
    square = np.minimum(np.abs(q), _LARGE) ** 2
    return (1 - square) / (1 + square) ** 2


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
