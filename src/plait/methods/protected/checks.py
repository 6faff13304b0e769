"""What a broadcast of a protected run may be, as far as a party can tell, and what an answer may be."""

from plait.errors import ProtocolError
from plait.messages import Broadcast, Form
from plait.methods.base import Block

_HEAD = 7  # scalars before the coefficients
_MOST_MEMORY = 4096  # steps that a coordinator may minimise over
_LARGEST_SCALAR = 1e50  # of start, stiffness and width: their squares and products are numbers


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


def answer_form(rows: int, basis: int, wanted: int, closing: bool, numbers: int, models: int) -> Form:
    """What a party may answer: its image, the numbers of a report, and parabolas over `basis` directions."""
    if closing:
        return Form.of(None, numbers)
    size = 1 + basis + basis * (basis + 1) // 2
    counts = {max(wanted, 1), models if wanted else 0}
    return Form.of(rows, *(numbers + count * size for count in counts))
