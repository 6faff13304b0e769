"""Label privacy: noise is drawn once for every label, and training uses unbiased targets made from noisy labels.

k classes, k-ary randomised response: the true class is kept with probability e^eps / (e^eps + k - 1) and
otherwise replaced by one of the k - 1 others. With p = 1 / (e^eps + k - 1) the probability of each other
class, the soft target of class c is ((reported == c) - p) / (1 - k p), whose expectation is (true == c). For
two classes this is pi = 1 / (1 + e^eps) and (t' - pi) / (1 - 2 pi).

Regression: the label is clipped to public bounds and gets discrete Laplace noise of scale (high - low) / eps.

Both are pure epsilon-DP for the label of a row (replace it by any other), in all uses to come, because the noise
is permanent: see `plait.privacy.mechanisms.permanent`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plait._checks import need_types
from plait.errors import InputError, SettingError
from plait.privacy.accounting import Cost, check_epsilon
from plait.privacy.mechanisms.base import Draw, LabelMechanism
from plait.privacy.mechanisms.soft_logistic import SoftLogistic, label_noise_factor
from plait.privacy.mechanisms.wording import labels_protected
from plait.privacy.noise import Keystream, discrete_laplace
from plait.problem.losses import Logistic, Loss

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STEPS = 2**16
"""Steps of the grid to which a numeric label is rounded, over its public range: far finer than the noise."""
COIN = 2**53  # equally likely outcomes of a draw: probabilities are multiples of 2^-53, which a double holds exactly


@dataclass(frozen=True)
class RandomisedResponse(LabelMechanism):
    """Randomised response: a label is sometimes replaced by another class, once and for ever.

    Parameters
    ----------
    epsilon : float
        The pure epsilon of a label.
    classes : int, default=2
        How many classes there are.
    """

    epsilon: float
    classes: int = 2
    batched: ClassVar[bool] = True

    def __post_init__(self) -> None:
        need_types(self)
        check_epsilon(self.epsilon)
        if self.classes < 2:
            raise SettingError(f"`classes` must be at least 2. Found {self.classes}.")

    @property
    def cost(self) -> Cost:
        """The cost of one label, in all uses to come."""
        return Cost(pure=self.epsilon)

    @property
    def lie(self) -> float:
        """p, the probability of each single other class: 1 / (e^eps + k - 1), rounded up to a multiple of 1 / COIN."""
        return math.ceil(COIN / (math.exp(self.epsilon) + self.classes - 1)) / COIN

    @property
    def gradient_bound(self) -> float:
        """Largest |l'| of the unbiased logistic loss: (1 - p) / (1 - 2 p)."""
        return (1 - self.lie) / (1 - 2 * self.lie)

    def release(self, labels: ArrayLike, stream: Keystream) -> Ints:
        """Reported classes (N,), 0..k-1.  One draw decides whether to report another class, a second one which."""
        true = np.asarray(labels, dtype=np.int64)
        if true.size and (true.min() < 0 or true.max() >= self.classes):
            raise InputError(f"Labels must be classes 0..{self.classes - 1}. Found {true.min()} to {true.max()}.")
        lies = stream.below(COIN, true.size) < round(self.lie * COIN) * (self.classes - 1)
        shift = 1 + stream.below(self.classes - 1, true.size)
        return (true + np.where(lies, shift, 0)) % self.classes

    def targets(self, reported: ArrayLike) -> Floats:
        """Unbiased soft targets (N, k); for two classes the targets (N,) of class 1."""
        seen = np.asarray(reported, dtype=np.int64)
        hot = (seen[:, None] == np.arange(self.classes)).astype(np.float64)
        soft: Floats = (hot - self.lie) / (1 - self.classes * self.lie)
        return np.ascontiguousarray(soft[:, 1]) if self.classes == 2 else soft

    @property
    def sentence(self) -> str:
        return labels_protected(self.epsilon)

    def loss_of_targets(self, loss: Loss) -> Loss:
        _need_logistic(loss)
        if self.classes != 2:
            raise SettingError(
                f"one model has 2 classes. Found RandomisedResponse(classes={self.classes}). Train several classes "
                "with plait.VerticalLogisticRegression(privacy=...)."
            )
        return SoftLogistic(float(self.targets([0])[0]), float(self.targets([1])[0]))

    def seen(self, labels: Floats, draw: Draw) -> Floats:
        return self.targets(draw(self, (labels > 0).astype(np.float64)))

    def noise_factor(self, targets: Floats) -> float:
        return label_noise_factor(targets)

    def of_classes(self, classes: NDArray[Any], count: int, draw: Draw) -> Sequence[LabelMechanism]:
        if self.classes != count:
            return super().of_classes(classes, count, draw)
        reported = draw(self, classes.astype(np.float64)).astype(np.int64)
        return [ReportedClass(self, reported, k) for k in range(count)]


@dataclass(frozen=True, eq=False)
class ReportedClass(LabelMechanism):
    """One class against the rest, from labels (N,) that already have their noise: it costs nothing more."""

    response: RandomisedResponse
    reported: Ints
    index: int

    @property
    def cost(self) -> Cost:
        return Cost()

    @property
    def sentence(self) -> str:
        return self.response.sentence

    def loss_of_targets(self, loss: Loss) -> Loss:
        _need_logistic(loss)
        return SoftLogistic(*self.range())

    def seen(self, labels: Floats, draw: Draw) -> Floats:
        return self.targets()

    def noise_factor(self, targets: Floats) -> float:
        return label_noise_factor(targets)

    def targets(self) -> Floats:
        """Unbiased soft targets of this class, (N,)."""
        return self._soft(self.reported)

    def range(self) -> tuple[float, float]:
        """The two values that a target can have."""
        low, high = self._soft(np.array([self.index - 1 if self.index else 1, self.index]))
        return float(low), float(high)

    def _soft(self, reported: Ints) -> Floats:
        return np.ascontiguousarray(self.response.targets(reported)[:, self.index])


@dataclass(frozen=True)
class NoisyLabel(LabelMechanism):
    """A numeric label with noise: clipped to [low, high], plus discrete Laplace noise of scale (high - low) / epsilon.

    Parameters
    ----------
    epsilon : float
        The pure epsilon of a label.
    low : float
        The least label, known without the data.
    high : float
        The largest label, known without the data.
    """

    epsilon: float
    low: float
    high: float
    batched: ClassVar[bool] = False

    def __post_init__(self) -> None:
        need_types(self)
        check_epsilon(self.epsilon)
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise SettingError(
                f"The public range of a label must be finite and low < high. Found {self.low}, {self.high}."
            )

    @property
    def cost(self) -> Cost:
        """The cost of one label, in all uses to come."""
        return Cost(pure=STEPS / self._scale)

    @property
    def _scale(self) -> int:
        return math.ceil(STEPS / self.epsilon)

    def release(self, labels: ArrayLike, stream: Keystream) -> Floats:
        """The noisy labels (N,)."""
        true = np.asarray(labels, dtype=np.float64)
        if not np.all(np.isfinite(true)):
            raise InputError("Labels must be finite. Found NaN or infinity.")
        step = (self.high - self.low) / STEPS
        cells = np.rint((np.clip(true, self.low, self.high) - self.low) / step).astype(np.int64)
        return self.low + step * (cells + discrete_laplace(self._scale, true.size, stream)).astype(np.float64)

    @property
    def sentence(self) -> str:
        return labels_protected(self.epsilon)

    def loss_of_targets(self, loss: Loss) -> Loss:
        if loss.classifies:
            raise SettingError("classes are protected by RandomisedResponse(epsilon). Found NoisyLabel.")
        return loss

    def seen(self, labels: Floats, draw: Draw) -> Floats:
        return draw(self, labels)


def _need_logistic(loss: Loss) -> None:
    if not isinstance(loss, Logistic):
        raise SettingError(
            f"RandomisedResponse needs plait.Logistic(), because other losses have no unbiased form here. Found "
            f"{loss!r}. A numeric label is protected by NoisyLabel(epsilon, low, high)."
        )
