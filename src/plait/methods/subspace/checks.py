"""What a broadcast of the subspace method may be, as far as a party can tell, and what an answer may be.

A gradient g = w loss'(z) of a loss with bounded slope lies within |g_i| <= w_i slope.  For a loss of labels -1/+1 its
sign is the label's, so it never changes.  Whoever sends other vectors is not minimising this loss.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from plait._types import Array
from plait.errors import ProtocolError
from plait.messages import Broadcast, Form
from plait.methods.base import CLOSINGS, Block
from plait.methods.subspace.least_norm import STEADY
from plait.methods.subspace.messages import DIRECTION, GRADIENT, QUESTION, Answer, Description
from plait.methods.subspace.questions import QUESTIONS
from plait.problem.row_blocks import vector_slices

_HEAD = 10  # scalars before the outlook and the coefficients
_MOST_MEMORY = 4096  # directions that a coordinator may minimise over
_LARGEST_SCALAR = 1e50  # of start, stiffness and width: their squares and products are numbers
_ROUNDING = 1e-4  # of the largest gradient: single precision and the copy of a kinked loss leave less


def check_proposal(
    broadcast: Broadcast, basis: int, grams: int, asked: bool, outlook: int = 0, free: bool = False
) -> None:
    """Raise ProtocolError unless the scalars are orders for a party with so many directions and Gram rows.

    `asked` says whether a question may come now: a step is being weighed.  `free` says whether a direction may come: a
    party without a penalty is asked for its least weights.  With a gradient, and only then, come `outlook` numbers of
    what a hidden one would show.
    """
    scalars = broadcast.scalars
    if scalars.size < _HEAD:
        raise ProtocolError(f"a broadcast must have {_HEAD} scalars or more. Found {scalars.size}.")
    head = (float(s) for s in scalars[:_HEAD])
    asks, memory, start, intercept, stiffness, width, counted, scale, told, count = head
    rest = scalars.size - _HEAD - told - count
    sound = {
        "a gradient, a question without one, or a direction": asks in (GRADIENT, QUESTION, DIRECTION)
        and (asks == QUESTION) == (broadcast.vector is None),
        "a question only where one can be answered": asks != QUESTION or (asked and not broadcast.closing),
        "directions only where weights have no penalty": asks != DIRECTION or (free and not broadcast.closing),
        f"a memory of 1 to {_MOST_MEMORY}": memory.is_integer() and 1 <= memory <= _MOST_MEMORY,
        "an intercept or none": intercept in (0.0, 1.0) and counted >= 0,
        "finite settings": max(abs(start), stiffness, width) <= _LARGEST_SCALAR and stiffness > 0 and width >= 0,
        "a scale of at most 1": 0 < scale <= 1,
        f"an outlook of {outlook} numbers": told == (0.0 if asks else float(outlook)),
        f"{basis} coefficients or none": count in ((float(basis),) if asks == QUESTION else (0.0, float(basis))),
        f"at most {grams} products": 0 <= rest <= grams,
    }
    wrong = [what for what, holds in sound.items() if not holds]
    if wrong:
        raise ProtocolError(f"a broadcast must ask for {wrong[0]}. Found other scalars. Nothing was answered.")


def check_order(broadcast: Broadcast, asked: int, closings: int, again: bool) -> None:
    """Raise ProtocolError unless every round has one gradient, and a run is closed a few times at most.

    asked: the round of the last gradient.  A run that was closed too early may begin its last round anew.
    """
    if broadcast.closing:
        if closings >= CLOSINGS:
            raise ProtocolError(f"a run is closed at most {CLOSINGS} times. Found one more. Nothing was answered.")
    elif not (broadcast.round > asked or (again and broadcast.round == asked)):
        raise ProtocolError(
            f"every round has one gradient, and that of round {asked} has come. Found one of round {broadcast.round}. "
            "Nothing was answered."
        )


def check_question(broadcast: Broadcast, asked: int, questions: int) -> None:
    """Raise ProtocolError unless a question is about the step of the last gradient, and one of a few.

    asked: the round of the last gradient.  questions: how many have been answered since.  Each answer is a few more
    numbers about the weights along the directions, so there are no more than an honest round needs.
    """
    if broadcast.round != asked or questions >= QUESTIONS:
        raise ProtocolError(
            f"after the gradient of round {asked} come at most {QUESTIONS} questions of that round. Found one of round "
            f"{broadcast.round} after {questions}. Nothing was answered."
        )


def check_gradient(block: Block, g: Array, first: Array | None, step: float | None) -> None:
    """Raise ProtocolError unless g (N,) can be the gradient of the job's loss, after the first one."""
    slope = block.loss.slope()
    room = (step or 0.0) + _ROUNDING * float(block.weights.max()) * (1.0 if slope is None else slope)
    parts = vector_slices(g.size)
    if slope is not None and any((np.abs(g[rows]) > block.weights[rows] * slope + room).any() for rows in parts):
        raise ProtocolError(
            f"a gradient of {type(block.loss).__name__} is at most {slope:g} per row, times its "
            "weight. Found a larger "
            "one. The coordinator does not minimise the job's loss. Nothing was answered."
        )
    if (
        first is not None
        and isinstance(block.loss, STEADY)
        and any((np.minimum(g[rows] * np.sign(first[rows]), 0) < -room).any() for rows in parts)
    ):
        raise ProtocolError(
            f"a gradient of {type(block.loss).__name__} keeps the signs of the labels. Found one that changed. The "
            "coordinator does not minimise the job's loss. Nothing was answered."
        )


def check_said(group: Sequence[str], report: Description, products: int, most: float) -> None:
    """Raise ProtocolError where a group of parties says, after a gradient, what no honest one could.

    products: how many of its last steps the coordinator knows products of.  most: the largest number of its vector.
    """
    if not most <= _LARGEST_SCALAR:
        raise ProtocolError(
            f"vectors must hold numbers of at most {_LARGEST_SCALAR:g}. Found {most:g} from {', '.join(group)}. Scale "
            "the columns."
        )
    if report.kinks <= 0 and report.along.size < products:
        raise ProtocolError(
            f"a penalty must have kinks in all rounds or in none. Found both from {', '.join(group)}. The party does "
            "not follow the protocol. Use the same plait everywhere, and start over."
        )


@lru_cache(maxsize=256)  # forms: those of a few runs
def answer_form(rows: int, basis: int, memory: int, asks: float, closing: bool) -> Form:
    """What a party may answer to a gradient, to a question, to a direction, and in the end."""
    if asks == QUESTION:
        return Form.of(None, Answer.size(basis))
    if asks == DIRECTION:
        return Form.of(rows, 0)
    if closing:
        return Form(frozenset({rows}), frozenset({Description.size(0)}))
    sizes = {Description.size(basis) + along for along in range(memory + 1)}
    return Form(frozenset({rows}), frozenset(sizes), vector=True)
