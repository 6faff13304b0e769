"""What the coordinator remembers between messages."""

from dataclasses import dataclass, field

import numpy as np

from plait._types import Array
from plait.methods.base import Measured
from plait.methods.subspace.bounds import Bounds
from plait.methods.subspace.images import Images
from plait.methods.subspace.least_norm import LeastNorm
from plait.methods.subspace.questions import Spans

_NO_REMEDY = 3  # poor rounds in a row: that parties count on no moves of the others has not helped

Groups = tuple[tuple[str, ...], ...]
"""Parties that take a common step."""


@dataclass(frozen=True)
class SubspaceState:
    """z (N,), b, and per group (each party, or all together) its part of z and the images received, (k, N)."""

    z: Array
    intercept: float
    shares: tuple[Array, ...]
    images: tuple[Images, ...]
    noise: tuple[Array, ...]
    """The variance (k,) of what rounding on the way left out of each image, at each row."""
    drift: tuple[float, ...]
    """The variance, at a row, of what the coordinator's part of z lacks of the group's own scores."""
    reached: tuple[float, ...]
    """The largest number that this part has had: its digits stay rounded to that, however small it becomes."""
    measured: Measured
    coefficients: tuple[Array, ...]
    scales: tuple[float, ...]
    products: tuple[Array, ...]
    """Products (k+1, s) of x and of the directions with the last steps, in the penalty's metric, per group."""
    start_score: float = 0.0
    width: float = 0.0
    dropped: bool = False
    counted: float = np.inf
    """On how many of the others' last moves parties with kinks count."""
    poor: int = 0
    """Rounds in a row that gained far less than was promised."""
    memory: int = 0
    gram_row: Array = field(default_factory=lambda: np.empty(0))
    bounds: Bounds = field(default_factory=Bounds)
    gained: float = np.inf
    """By how much the last step has lowered the objective, as the coordinator believes."""
    confirmed: float = np.inf
    """The objective one round ago, as the parties confirmed it."""
    coarse: bool = False
    """Whether vectors travel in steps that show in the objective."""
    told: Array | None = None
    """The gradient (N,) as parties received it, where it was rounded on its way."""
    rounded: bool = False
    """Whether vectors are rounded on their way."""
    spans: Spans | None = None
    """A round under way: parties are being asked about a step."""
    moves: Array = field(default_factory=lambda: np.empty((0, 0)))
    """Where gradients are hidden: the last moves of all scores, (k, N)."""
    kinked: bool = False
    """Where gradients are hidden: whether a party's penalty has kinks or walls."""
    free: tuple[bool, ...] = ()
    """Which groups have no penalty."""
    free_width: float = 0.0
    """How many columns these have."""
    least: LeastNorm | None = None
    """A search under way: for the least of equally good weights."""
    searched: bool = False
    """Whether there was one: a run that goes on from the least weights stays close to them."""
    gram_known: Array | None = None
    """Products of the last round's vectors, group by group, and of the constant."""

    def counted_after(self, poor: int, kinked: bool) -> float:
        """On how many of the others' moves parties count next: after a poor round on none.

        Where the loss has kinks and several rounds in a row are poor all the same, once on all of them.
        """
        if poor == 0:
            return 2 * self.counted + 1
        return np.inf if kinked and poor % _NO_REMEDY == 0 else 0.0
