"""The messages of a private pass: the first scalar of every broadcast names its step.

step k >= 0    a message of the unprotected parties' own training, all rows or without fold k; then come its
               round, whether it closes that training, and its own scalars
SCORES         your scores of the rows of fold k, by the model that did not see them     (unprotected)
LABELS         one target per row, and the last receipt of the helper's ledger, 0 for none    (helper)
FIT            one offset per row, or one for all, and whether there is an intercept: fit your weights, once; the answer
               brings what is added to the intercept, and a receipt                       (helper)
SKETCH         a noisy sketch of your scores in so many buckets                            (helper)
FACTOR         by which factor your score is used                                          (helper)
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from plait._types import Array
from plait.messages import Broadcast, Share, Transport

FOLDS = 5  # parts of the rows for out-of-fold scores: each model sees four fifths, and five fits are cheap


class Step(IntEnum):
    """A step that is not part of the unprotected parties' training."""

    SCORES = -1
    LABELS = -2
    FIT = -3
    SKETCH = -4
    FACTOR = -5


def say(step: Step, *numbers: float, vector: Array | None = None) -> Broadcast:
    """A broadcast of one step."""
    return Broadcast(0, vector, np.array([step, *numbers], dtype=np.float64))


@dataclass(frozen=True)
class Tagged:
    """The channel of one of the unprotected parties' trainings: every message says which."""

    transport: Transport
    step: int

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        tagged = {name: self._tag(broadcast) for name, broadcast in requests.items()}
        shares = self.transport.exchange(tagged)
        return {name: replace(share, round=requests[name].round) for name, share in shares.items()}

    def _tag(self, broadcast: Broadcast) -> Broadcast:
        tag = [float(self.step), float(broadcast.round), float(broadcast.closing)]
        return Broadcast(0, broadcast.vector, np.concatenate([tag, broadcast.scalars]), expects=broadcast.expects)


def untagged(broadcast: Broadcast) -> Broadcast:
    """The message that `Tagged` was given."""
    _, number, closing = broadcast.scalars[:3]
    return Broadcast(int(number), broadcast.vector, broadcast.scalars[3:], closing=bool(closing))


def held_out(records: int, step: int) -> NDArray[np.bool_]:
    """The rows (N,) that the training of this step does not see: none in step 0, a fifth in the others."""
    fold = np.random.default_rng(records).permutation(records) % FOLDS
    held: NDArray[np.bool_] = fold == step - 1
    return held


def kept_weights(weights: Array, held: NDArray[np.bool_]) -> Array:
    """Row weights (N,) without the held rows, with the same sum."""
    kept = np.where(held, 0.0, weights)
    return kept * (float(weights.sum()) / float(kept.sum())) if held.any() else weights
