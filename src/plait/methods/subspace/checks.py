"""What a broadcast of the subspace method may be, as far as a party can tell.

A gradient g = w loss'(z) of a loss with bounded slope lies within |g_i| <= w_i slope.  For a loss of labels -1/+1 its
sign is the label's, so it never changes.  Whoever sends other vectors is not minimising this loss.
"""

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast, Form
from plait.methods.base import Block
from plait.problem.losses import Hinge, Logistic, SquaredHinge
from plait.problem.row_blocks import vector_slices

_HEAD = 7  # scalars before the coefficients
_MOST_MEMORY = 4096  # steps that a coordinator may minimise over
_LARGEST_SCALAR = 1e50  # of start, stiffness and width: their squares and products are numbers
_ROUNDING = 1e-4  # of the largest gradient: single precision and the copy of a kinked loss leave less
_STEADY = (Logistic, Hinge, SquaredHinge)  # the losses whose gradient has the sign of -y, or is zero


def check_orders(block: Block, broadcast: Broadcast, steps: int, grams: int, models: int) -> None:
    """Raise ProtocolError unless the scalars are orders for a party that has so many steps and Gram rows."""
    scalars = broadcast.scalars
    if broadcast.vector is None or scalars.size < _HEAD:
        raise ProtocolError(f"a broadcast must have a gradient and {_HEAD} scalars or more. Found {scalars.size}.")
    memory, wanted, start, intercept, stiffness, width, count = (float(s) for s in scalars[:_HEAD])
    rest = scalars.size - _HEAD - count
    sound = {
        f"a memory of 1 to {_MOST_MEMORY}": memory.is_integer() and 1 <= memory <= _MOST_MEMORY,
        f"at most {models} models": wanted.is_integer() and 0 <= wanted <= models,
        "an intercept or none": intercept in (0.0, 1.0),
        "finite settings": max(abs(start), stiffness, width) <= _LARGEST_SCALAR and stiffness > 0 and width >= 0,
        f"at most {steps} coefficients": count.is_integer() and 0 <= count <= steps,
        f"at most {grams} products": 0 <= rest <= grams,
        "coefficients once there are steps": (count > 0) == (steps > 0),
    }
    wrong = [what for what, holds in sound.items() if not holds]
    if wrong:
        raise ProtocolError(f"a broadcast must ask for {wrong[0]}. Found other scalars. Nothing was answered.")


def check_gradient(block: Block, g: Array, first: Array | None, step: float | None) -> None:
    """Raise ProtocolError unless g (N,) can be the gradient of the job's loss, after the first one."""
    slope = block.loss.slope()
    room = (step or 0.0) + _ROUNDING * float(block.weights.max()) * (1.0 if slope is None else slope)
    parts = vector_slices(g.size)
    if slope is not None and any((np.abs(g[rows]) > block.weights[rows] * slope + room).any() for rows in parts):
        raise ProtocolError(
            f"a gradient of {type(block.loss).__name__} is at most {slope:g} per record, times its "
            "weight. Found a larger "
            "one. The coordinator does not minimise the job's loss. Nothing was answered."
        )
    if (
        first is not None
        and isinstance(block.loss, _STEADY)
        and any((np.minimum(g[rows] * np.sign(first[rows]), 0) < -room).any() for rows in parts)
    ):
        raise ProtocolError(
            f"a gradient of {type(block.loss).__name__} keeps the signs of the labels. Found one that changed. The "
            "coordinator does not minimise the job's loss. Nothing was answered."
        )


def answer_form(rows: int, basis: int, wanted: int, closing: bool, numbers: int, models: int) -> Form:
    """What a party may answer: its image, the numbers of a report, and parabolas over `basis` directions."""
    if closing:
        return Form.of(None, numbers)
    size = 1 + basis + basis * (basis + 1) // 2
    counts = {max(wanted, 1), models if wanted else 0}
    return Form.of(rows, *(numbers + count * size for count in counts))
