"""How vectors travel between the coordinator and one party: as they are, in single precision, or in short steps.

    float64   8 bytes a number
    float32   4 bytes
    int16     2 bytes: whole multiples of a step, 1/32767 of the largest number, which travels along; 4 bytes, as
              float32, once the run has been closed and goes on: its rounds gained nothing more in 2

On a line of int16 a vector is sent as the change since the one before, where that is smaller.  The change is to what
the other end holds, not to what was meant: what rounding left out of one vector goes with the next, and as a run
settles, changes and their steps shrink together.  A change alone cannot be read without the vectors before it, so both
ends keep the last one, and a line is part of the state that a party stores.
"""

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from plait._mapped_files import IN_MEMORY, Workspace
from plait._replace import replace
from plait._types import Array
from plait.errors import ProtocolError, SettingError
from plait.messages import Message
from plait.problem.row_blocks import by_parts

PRECISIONS = ("float64", "float32", "int16")
DEFAULT_PRECISION = "float64"
_STEPS = 32767  # steps on either side of 0: the largest number that int16 holds

M = TypeVar("M", bound=Message)


def need_precision(precision: str) -> None:
    """Raise SettingError unless `precision` names a number format."""
    if not isinstance(precision, str) or precision not in PRECISIONS:
        raise SettingError(f"precision must be one of {', '.join(PRECISIONS)}. Found {precision!r}.")


@dataclass(frozen=True)
class Line:
    """One end of a connection: the number format in which vectors leave it.

    Where changes are sent, `heard` and `said` are the last vectors (N,) that came in and went out.
    """

    precision: str = "float64"
    heard: Array | None = None
    said: Array | None = None

    def finer(self) -> "Line":
        """This end once the run has been closed: what rounding in steps left has to be found in float32."""
        return Line("float32", self.heard) if self.precision == "int16" else self

    def say(self, message: M, workspace: Workspace = IN_MEMORY) -> tuple["Line", M]:
        """This end after the message has left, and the message as it is sent."""
        if message.vector is None or self.precision == "float64":
            return self, message
        if self.precision == "float32":
            return self, replace(message, vector=_converted(message.vector, np.float32, workspace))
        sent = _shortened(message, self.said)
        return replace(self, said=_read(sent, self.said)), sent

    def read(self, sent: Message, workspace: Workspace = IN_MEMORY) -> Array:
        """The vector that was sent last, as the other end reads it."""
        return _read(sent, None, workspace) if self.said is None else self.said

    def hear(self, message: M, workspace: Workspace = IN_MEMORY) -> tuple["Line", M]:
        """This end after the message has come in, and the message to compute with; ProtocolError if unreadable."""
        if message.vector is None:
            return self, message
        vector = _read(message, self.heard, workspace)
        read = message if vector is message.vector else replace(message, vector=vector, change=False)
        if message.vector.dtype == np.float32:
            read = replace(
                read, step=_size(vector) * float(np.finfo(np.float32).eps)
            )  # the largest number's last digit
        # An answer in steps may still come after the request that closes a run.
        return replace(self, heard=vector if self.precision == "int16" else None), read


def _shortened(message: M, before: Array | None) -> M:
    """The vector, or its change where that is smaller, as multiples of a step; as it is where it is not finite."""
    assert message.vector is not None
    vector, size, change = message.vector, _size(message.vector), False
    if before is not None and before.size == vector.size:
        with np.errstate(over="ignore"):
            difference = vector - before
        if (smaller := _size(difference)) < size:
            vector, size, change = difference, smaller, True
    if not np.isfinite(size):
        return message
    step = size / _STEPS
    multiples = np.rint(vector / step) if step > 0 else np.zeros(vector.size)
    return replace(message, vector=_typed(multiples, np.int16), step=step, change=change)


def _read(message: Message, before: Array | None, workspace: Workspace = IN_MEMORY) -> Array:
    vector = message.vector
    assert vector is not None
    if message.step is None:
        return vector if vector.dtype == np.float64 else _converted(vector, np.float64, workspace)
    read = vector * message.step
    if not message.change:
        return read
    if before is None or before.size != vector.size:
        raise ProtocolError("a change must follow the vector that it changes. Found one without.")
    return before + read


def _size(vector: Array) -> float:
    return max(float(vector.max()), -float(vector.min())) if vector.size else 0.0


def _converted(vector: Array, dtype: Any, workspace: Workspace) -> Array:
    """The same numbers in another type; long vectors are converted in parts, into the workspace."""
    found = workspace.empty(vector.size, dtype)

    def fill(rows: slice) -> None:
        found[rows] = vector[rows]

    by_parts(fill, vector.size)
    return found


def _typed(vector: Array, dtype: Any) -> Array:
    """In the type in which it travels: of all messages only those under way hold other numbers than float64."""
    return cast(Array, vector.astype(dtype))
