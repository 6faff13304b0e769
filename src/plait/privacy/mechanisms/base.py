"""What every mechanism says of itself.  A run asks these questions; it never looks at a mechanism's class."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from plait._types import Array
from plait.errors import PrivacyError, SettingError
from plait.privacy.accounting import Cost, check_delta, epsilon_of, mu_of
from plait.privacy.clipping import Adjacency
from plait.problem.losses import Loss


class Schedule(Enum):
    """When a party's messages pass through its mechanism."""

    NEVER = "never: shares are sent as they are"
    EVERY_ROUND = "every round: noise is added to each share"
    ONE_PASS = "once: the party learns in one pass, after the unprotected parties have trained"


class DefaultMethod(Enum):
    """What `method="auto"` has to choose under a mechanism."""

    FEWEST_ROUNDS = "whatever needs the fewest rounds"
    FIXED_RHO = "ADMM sharing with a rho that stays the same"
    PAPER = "the paper's Algorithm 1"


class Mechanism(ABC):
    """How a party protects its features."""

    schedule: ClassVar[Schedule]
    default_method: ClassVar[DefaultMethod] = DefaultMethod.FEWEST_ROUNDS
    guaranteed: ClassVar[bool] = False
    """Whether what is released is differentially private."""
    covers_weights: ClassVar[bool] = True
    """Whether the guarantee covers the party's weights; if not, nothing may be scored with them."""

    @property
    def protects(self) -> bool:
        """Whether it protects anything."""
        return self.schedule is not Schedule.NEVER

    @property
    @abstractmethod
    def guarantee(self) -> str:
        """The guarantee in words."""

    @property
    def sentence(self) -> str:
        """What happens to the party's features, in words."""
        return f"features: not protected, guarantee: {self.guarantee}"

    @property
    def warning(self) -> str | None:
        """What the user must be warned of, if anything."""
        return None

    @property
    def clip(self) -> float | None:
        """The norm to which rows are clipped, in training and in scoring; None where they stay as they are."""
        return None

    @property
    def max_rounds(self) -> int | None:
        """How many rounds are paid for; None where the number of rounds costs nothing."""
        return None

    @property
    def row_bound(self) -> float | None:
        """The norm to which rows are clipped, whether the user has set one or not."""
        return self.clip

    def check(self, party: str, rows: int) -> None:
        """Raise PrivacyError where the guarantee would be false for so many rows; no row's values are read."""

    def lint(self, party: str, matrix: Any) -> None:
        """Raise PrivacyError where the columns of this table (N, d) seem to be scaled by statistics of the data."""

    def part(self, count: int) -> Self:
        """A mechanism that costs as much in `count` uses as this one in one use."""
        return self


@dataclass(frozen=True)
class GuaranteedMechanism(Mechanism):
    """A mechanism with (epsilon, delta) differential privacy of every row, for rows of bounded norm."""

    epsilon: float
    guaranteed: ClassVar[bool] = True

    @property
    @abstractmethod
    def delta(self) -> float:
        """The total delta."""

    @property
    @abstractmethod
    def adjacency(self) -> Adjacency:
        """What may differ between two tables that are hard to tell apart."""

    @property
    def sentence(self) -> str:
        return self.guarantee

    @property
    def row_bound(self) -> float:
        return self.clip or 1.0

    def check(self, party: str, rows: int) -> None:
        """Refuse a loose delta."""
        check_delta(self.delta, rows)

    def lint(self, party: str, matrix: Any) -> None:
        """Refuse columns that were scaled by statistics of the data; only where all parties are one process."""
        if _looks_standardised(matrix):
            raise PrivacyError(
                f"party {party!r}: a private run needs columns scaled by public constants. Found every column with "
                "mean 0 and standard deviation 1. Such statistics depend on every row, and no budget pays for "
                "them. Use plait.privacy.PublicRanges(low, high) on the raw columns."
            )

    def part(self, count: int) -> Self:
        """The same mechanism with mu / sqrt(count); 1e-4 of mu is kept for what discrete noise adds."""
        mu = mu_of(self.epsilon, self.delta) * (1 - 1e-4) / math.sqrt(count)
        return replace(self, epsilon=epsilon_of(mu, self.delta))


def _looks_standardised(matrix: Any) -> bool:
    if sp.issparse(matrix):
        return False
    with np.errstate(all="ignore"):  # a huge value is no reason to stop or to warn
        mean, spread = matrix.mean(axis=0), matrix.std(axis=0)
    varies = spread > 1e-12  # constant columns have only the spread of rounding errors
    close = (np.abs(mean) < 1e-9) & (np.abs(spread - 1) < 1e-9)  # rounding errors of a sum over rows
    return bool(varies.any() and close[varies].all())


Draw = Callable[[Any, Array], Array]
"""Draws the noisy labels (N,) of a label mechanism from the true labels (N,)."""


class LabelMechanism(ABC):
    """How the label party protects its labels."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The cost of one label, in all uses to come."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What happens to the labels, in words."""

    @abstractmethod
    def loss_of_targets(self, loss: Loss) -> Loss:
        """The loss that everyone trains with; SettingError where these labels cannot have it."""

    @abstractmethod
    def seen(self, labels: Array, draw: Draw) -> Array:
        """The targets (N,) that everyone else may see, for labels (N,) in the loss's own form."""

    def noise_factor(self, targets: Array) -> float:
        """How much noisier a fit to these targets is than one to the labels."""
        return 1.0

    def of_classes(self, classes: NDArray[Any], count: int, draw: Draw) -> "Sequence[LabelMechanism]":
        """One mechanism per class against the rest, for labels 0..count-1 (N,); noise is drawn once for all classes."""
        raise SettingError(
            f"labels of {count} classes are protected by RandomisedResponse(epsilon, classes={count}). Found {self!r}."
        )
