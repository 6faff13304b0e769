"""The exact step of an L1 penalty without walls:  argmin over y of  y^T Q y / 2 - linear^T y + l1 ||y||_1.

Q (d, d) is positive definite.  Guesses of which weights rest, and on which side of zero the others lie, are corrected
until they repeat.  Where they circle, steps to the next kink lower the objective until no weight at rest would leave.
"""

import numpy as np
import scipy.linalg

from plait._types import Array

_GUESSES = 8  # corrections of the guess; it settles in 3 to 8 or circles
_STEPS_A_WEIGHT = 20  # steps to a kink per weight; a few are usual
_NOTHING = 1e-12  # of the largest slope: what a weight at rest may want without being let go


def sparse_minimum(l1: float, q: Array, linear: Array, start: Array) -> Array:
    """The minimiser (d,), near start (d,)."""
    y = _guessed(l1, q, linear, start)
    return _descended(l1, q, linear, start) if y is None else y


def _guessed(l1: float, q: Array, linear: Array, start: Array) -> Array | None:
    """The minimiser by guesses of the signs; None where these do not settle."""
    units, y = q.diagonal(), start
    made: list[tuple[bytes, bytes]] = []
    for _ in range(_GUESSES):
        alone = linear - q @ y + units * y  # what each weight follows if the others stay
        on = (np.abs(alone) > l1).nonzero()[0]
        sign = np.sign(alone[on])
        signs = (on.tobytes(), sign.tobytes())
        if signs in made:
            return y if signs == made[-1] else None  # it circles
        made.append(signs)
        y = np.zeros(y.size)
        if on.size:
            y[on] = solved(q[on[:, None], on], linear[on] - l1 * sign)
    return None


def _descended(l1: float, q: Array, linear: Array, start: Array) -> Array:
    """The minimiser by steps to the next kink: the objective falls with every step, so that it ends."""
    y, on = start.copy(), start.nonzero()[0]
    sign, careful = np.sign(start[on]), False
    nothing = _NOTHING * max(l1, float(np.abs(linear).max(initial=0.0)))
    for _ in range(_STEPS_A_WEIGHT * y.size + 10):
        if on.size:
            there = solved(q[on[:, None], on], linear[on] - l1 * sign)
            beyond = (there * sign < 0).nonzero()[0]
            if beyond.size:
                here = y[on]
                room = here[beyond] / (here[beyond] - there[beyond])
                length = max(float(room.min()), 0.0)
                here += length * (there - here)
                resting = beyond[room <= length]
                here[resting] = 0.0
                y[on] = here
                left = np.ones(on.size, dtype=bool)
                left[resting] = False
                on, sign = on[left], sign[left]
                careful |= length == 0
                continue
            y[on] = there
        slope = q @ y - linear
        wants = np.abs(slope) - l1
        wants[on] = 0.0
        worst = float(wants.max(initial=0.0))
        if worst <= nothing:
            break
        new = (wants >= (worst if careful else worst / 2)).nonzero()[0]
        on, sign = np.concatenate([on, new]), np.concatenate([sign, -np.sign(slope[new])])
        careful = False
    return y


def solved(matrix: Array, rhs: Array) -> Array:
    """matrix^{-1} rhs, for a positive definite matrix; the least solution where rounding left it singular."""
    factor, info = scipy.linalg.lapack.dpotrf(matrix, lower=1, overwrite_a=0, clean=0)
    if info != 0:
        return np.asarray(np.linalg.lstsq(matrix, rhs, rcond=1e-12)[0])
    return np.asarray(scipy.linalg.lapack.dpotrs(factor, rhs, lower=1)[0])
