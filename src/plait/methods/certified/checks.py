"""What a broadcast of the certified method may be, as far as a party can tell, and what an answer may be."""

from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast, Form
from plait.methods.certified.messages import Answer, Description

_HEAD = 10  # scalars before the coefficients
_MOST_MEMORY = 4096  # steps that a coordinator may minimise over
_LARGEST_SCALAR = 1e50  # of start, stiffness and width: their squares and products are numbers


def check_proposal(broadcast: Broadcast, basis: int, grams: int, asked: bool) -> None:
    """Raise ProtocolError unless the scalars are orders for a party with so many directions and Gram rows.

    `asked` says whether a question may come now: the party's penalty has kinks, and a step is being weighed.
    """
    scalars = broadcast.scalars
    if scalars.size < _HEAD:
        raise ProtocolError(f"a broadcast must have {_HEAD} scalars or more. Found {scalars.size}.")
    asks, memory, start, intercept, stiffness, width, alone, scale, count, sizes = (float(s) for s in scalars[:_HEAD])
    rest = scalars.size - _HEAD - count - sizes
    sound = {
        "a gradient, or a question without one": asks == float(broadcast.vector is None),
        "a question only where one can be answered": asks == 0.0 or (asked and not broadcast.closing),
        f"a memory of 1 to {_MOST_MEMORY}": memory.is_integer() and 1 <= memory <= _MOST_MEMORY,
        "an intercept or none": intercept in (0.0, 1.0) and alone in (0.0, 1.0),
        "finite settings": max(abs(start), stiffness, width) <= _LARGEST_SCALAR and stiffness > 0 and width >= 0,
        "a scale of at most 1": 0 < scale <= 1,
        f"{basis} coefficients or none": count in ((float(basis),) if asks else (0.0, float(basis))),
        f"at most {basis} sizes": sizes.is_integer() and 0 <= sizes <= basis,
        f"at most {grams} products": 0 <= rest <= grams,
    }
    wrong = [what for what, holds in sound.items() if not holds]
    if wrong:
        raise ProtocolError(f"a broadcast must ask for {wrong[0]}. Found other scalars. Nothing was answered.")


def answer_form(rows: int, basis: int, memory: int, asks: bool, closing: bool) -> Form:
    """What a party may answer to a gradient, to a question, and in the end."""
    if asks:
        return Form.of(None, Answer(1.0, 1.0, 0.0, np.zeros(basis), np.zeros(basis + 1)).pack().size)
    if closing:
        return Form(frozenset({rows}), frozenset({_size(0, False)}))
    sizes = {_size(basis, kinks) + along for kinks in (False, True) for along in range(memory + 1)}
    return Form(frozenset({rows}), frozenset(sizes), vector=True)


@cache
def _size(basis: int, kinks: bool) -> int:
    """The scalars of a report, but for the products with past steps."""
    matrices = {f.name: np.zeros((basis, basis)) for f in fields(Description) if f.type in (Array, "Array")}
    arrays: dict[str, Any] = {**matrices, "slopes": np.zeros((1 + kinks, basis)), "along": np.zeros(0)}
    numbers = {f.name: 0.0 for f in fields(Description) if f.name not in arrays}
    return int(Description(**{**numbers, **arrays, "kinks": float(kinks)}).pack().size)
