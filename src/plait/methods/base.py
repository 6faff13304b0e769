"""What every method has: one pure step at the party and one at the coordinator.

A method is a frozen bag of options.  It makes two sides; each side is given its state and a message and returns the
next state and the answer, so that a run can be stopped, stored and resumed between any two messages.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from plait._mapped_files import IN_MEMORY, Workspace
from plait._types import Array
from plait.errors import ProtocolError, SettingError
from plait.messages import Broadcast, Share
from plait.problem.features import Features
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.problem.row_blocks import by_parts, vector_by_parts

T = TypeVar("T")
CLOSINGS = 4  # how often a run may be measured for the last time: it goes on where that contradicts its end
_BALANCED = 1e-14  # of the sum of sizes: what rounding leaves of a sum that is zero


class Newest:
    """What was made last of some vectors.  Parties in one process receive the same ones, and make it once."""

    def __init__(self) -> None:
        self._last: tuple[tuple[object, ...], Any] = ((), None)

    def made(self, of: tuple[object, ...], make: Callable[[], T]) -> T:
        """What `make` gives, unless it was made of the very same things last."""
        known, found = self._last
        if len(known) != len(of) or any(a is not b for a, b in zip(known, of, strict=True)):
            found = make()
            self._last = of, found
        return found


@dataclass(frozen=True)
class Block:
    """What one party brings; nothing in it is ever sent."""

    features: Features
    penalty: Penalty
    loss: Loss
    weights: Array
    """Row weights (N,), summing to 1."""
    start: Array | None = None
    """Weights (d,) that may be close to the best, say those of an earlier model; None where nothing is known."""
    workspace: Workspace = IN_MEMORY
    """Where vectors lie that are kept from round to round."""
    newest: Newest = field(default_factory=Newest)
    """Shared by the parties of one process."""

    def stationarity(self, x: Array, gradient: Array) -> float:
        """The paper's ||grad~_x L||^2 at x, from the gradient (d,) of everything but the penalty (eq. Lyapunov).

        The prox form for a convex penalty, smooth or not; the gradient, projected, for a non-convex one.
        """
        if self.penalty.convex:
            gap = x - self.penalty.prox(x - gradient, 1.0)
        else:
            gap = gradient + self.penalty.gradient(x)
            if self.penalty.feasible is not None:
                gap = x - self.penalty.feasible.project(x - gap)
        return float(gap @ gap)


@dataclass(frozen=True)
class Task:
    """What the coordinator brings: labels (N,), row weights (N,) that sum to 1, and who takes part."""

    loss: Loss
    labels: Array
    weights: Array
    parties: tuple[str, ...]
    fit_intercept: bool = False
    workspace: Workspace = IN_MEMORY
    """Where vectors of one number per row lie."""

    @property
    def rows(self) -> int:
        return self.labels.size

    def mean_loss(self, scores: Array) -> float:
        """sum_i w_i loss(z_i; y_i)."""

        def part(rows: slice) -> float:
            return float(self.weights[rows] @ self.loss.of_rows(rows).value(scores[rows], self.labels[rows]))

        return sum(by_parts(part, self.rows))

    def gradient(self, scores: Array) -> Array:
        """The gradient of the mean loss with respect to the scores, (N,)."""

        def part(rows: slice) -> Array:
            slope = self.loss.of_rows(rows).gradient(scores[rows], self.labels[rows])
            return np.asarray(self.weights[rows] * slope)

        return self.vector(part)

    def vector(self, part: Callable[[slice], Array]) -> Array:
        """A vector (N,) that is made part by part, in the workspace."""
        return vector_by_parts(part, self.rows, self.workspace)


@dataclass(frozen=True)
class Measured:
    """The state after a round, as far as the coordinator can tell."""

    round: int
    objective: float
    primal: float
    dual: float
    lyapunov: float = np.nan
    rho: float = np.nan
    gap: float = np.nan
    """By how much the objective may still fall, relative: proved by a lower bound; nan where there is none."""
    estimate: float = np.nan
    """The same as far as can be told where nothing is proved."""
    paused: bool = False
    """Whether rounds gain nothing more in steps of int16: a measurement, and a finer format, may show the way on."""


class PartySide(ABC):
    """The party's half of a method."""

    @abstractmethod
    def start(self) -> Any:
        """The state before round 1: x = 0."""

    def check(self, state: Any, broadcast: Broadcast) -> None:
        """Raise ProtocolError unless an honest coordinator could have sent this; nothing is computed before."""
        return

    @abstractmethod
    def respond(self, state: Any, broadcast: Broadcast) -> tuple[Any, Share]:
        """Take one step: the new state, and the share that the party sends."""

    def arrived(self, state: Any, vector: Array) -> Any:
        """The state after a share has left, when rounding makes it arrive at the coordinator as `vector` (N,)."""
        return state

    @abstractmethod
    def weights(self, state: Any) -> Array:
        """The party's part of the model, (d,)."""

    def shown(self, state: Any) -> int:
        """How many columns the vector of the last share is made of."""
        return int(np.count_nonzero(self.weights(state)))


class CoordinatorSide(ABC):
    """The coordinator's half of a method."""

    @abstractmethod
    def start(self) -> Any:
        """The state before round 1."""

    @abstractmethod
    def requests(self, state: Any) -> dict[str, Broadcast]:
        """What to send next, and to whom."""

    def told(self, state: Any, vector: Array) -> Any:
        """The state after a broadcast has left, when rounding makes it arrive at the parties as `vector` (N,)."""
        return state

    @abstractmethod
    def absorb(self, state: Any, shares: Mapping[str, Share]) -> tuple[Any, Measured | None]:
        """Take the answers; a Measured once everything about an earlier state is known."""

    def settling(self, state: Any) -> Any:
        """The state in which `requests` and `absorb` choose among equally good models; None where that is done."""
        return None

    @abstractmethod
    def closing(self, state: Any) -> dict[str, Broadcast]:
        """The last broadcast: every party measures where it stands."""

    @abstractmethod
    def closed(self, state: Any, shares: Mapping[str, Share]) -> Measured:
        """The final state, fully measured."""

    def reopened(self, state: Any, shares: Mapping[str, Share]) -> Any:
        """The state from which a run goes on that was closed too early."""
        return state

    @abstractmethod
    def current(self, state: Any) -> Measured:
        """The newest state, as far as it is known without asking the parties again."""

    @abstractmethod
    def intercept(self, state: Any) -> float:
        """The intercept b."""

    def known_scores(self, state: Any) -> Array | None:
        """The scores z (N,) of the newest state, None where the coordinator does not have them."""
        return None


class Method(ABC):
    """A training method."""

    remedy: ClassVar[str] = "Use method=plait.Proximal()."
    precisions: ClassVar[tuple[str, ...]] = ("float64", "float32", "int16")
    """The number formats in which its vectors may travel."""

    @abstractmethod
    def party_side(self, block: Block) -> PartySide:
        """What answers at a party that has this block."""

    @abstractmethod
    def coordinator_side(self, task: Task) -> CoordinatorSide:
        """What asks at the coordinator that has this task."""

    def lengths(self, rows: int) -> frozenset[int]:
        """How many numbers a message's vector may have."""
        return frozenset({rows})

    def exchanges(self, rounds: int, rows: int) -> int:
        """How many broadcasts one party gets at most in a run of so many rounds: one a round, and the closing one."""
        return rounds + 1

    def check(self, loss: Loss, penalties: Mapping[str, Penalty]) -> None:
        """Raise SettingError when the method cannot train this loss with these penalties."""
        return


def need_positive(what: str, value: float | None) -> None:
    """Raise SettingError unless value is None or a positive finite number."""
    if value is not None and not (np.isfinite(value) and value > 0):
        raise SettingError(f"{what} must be positive and finite. Found {value}.")


def balanced(g: Array, workspace: Workspace = IN_MEMORY) -> Array:
    """g (N,) with its positive or its negative part made smaller, so that it sums to zero; g itself where it does.

    Nothing bounds an intercept: where there is one, every dual point must sum to zero.
    """
    sums = by_parts(lambda rows: _signed_sums(g[rows]), g.size)
    positive, negative = sum(s[0] for s in sums), sum(s[1] for s in sums)
    if abs(positive - negative) <= _BALANCED * (positive + negative):
        return g
    less = min(positive, negative)
    up, down = less / max(positive, 1e-300), less / max(negative, 1e-300)
    return vector_by_parts(lambda rows: g[rows] * np.where(g[rows] > 0, up, down), g.size, workspace)


def _signed_sums(g: Array) -> tuple[float, float]:
    """The sum of what is positive, and that of what is negative, without its sign."""
    return float(g[g > 0].sum()), -float(g[g < 0].sum())


def vector_of(share: Share) -> Array:
    """The share's vector, which a round's share always has."""
    if share.vector is None:
        raise ProtocolError("the share of a round must have a vector. Found none.")
    return share.vector
