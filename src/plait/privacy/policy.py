"""Who protects what in a run: the value of `privacy=` in `plait.fit`."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from plait._types import Array
from plait.errors import PrivacyError, SettingError
from plait.privacy.accounting import check_delta, epsilon_of, mu_of
from plait.privacy.clipping import check_bounded, row_norms
from plait.privacy.ledger.release_gate import Book, LedgerFolder, Unrecorded, data_fingerprint
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse, ReportedClass, private_labels
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoPrivacy, PaperMechanism, PaperNoise
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.mechanisms.soft_logistic import SoftLogistic, label_noise_factor, steadied
from plait.privacy.noise import KeyedNoise, Noise, Release
from plait.problem.losses import Logistic, Loss
from plait.problem.penalties import Penalty

Mechanism = NoPrivacy | PaperMechanism | PaperNoise | MechanismA | Recommended
LabelMechanism = RandomisedResponse | NoisyLabel | ReportedClass
LABEL_HOLDER = "label holder"


@dataclass(frozen=True)
class Policy:
    """What each party protects, and how.

    parties    one mechanism for all, or one per party (list or dict like parts)
    labels     RandomisedResponse or NoisyLabel; None where labels are not protected
    offset     whether helpers get the unprotected parties' score, one number per record; if not, they get labels only
    disjoint   no two helpers hold the same signal, which saves the sketch that guards against counting it twice
    ledger     a LedgerFolder; None for a single simulated run that nobody adds up
    noise      where randomness comes from; None for a secret kept in the ledger folder, or a fresh one
    run        the name of the run: the same name with the same inputs is the same release
    """

    parties: Mechanism | Sequence[Mechanism] | Mapping[str, Mechanism] = field(default_factory=NoPrivacy)
    labels: LabelMechanism | None = None
    offset: bool = True
    disjoint: bool = False
    ledger: LedgerFolder | None = None
    noise: Noise | None = None
    run: str = "run"

    @classmethod
    def of(cls, given: Any) -> "Policy":
        """A policy from whatever `privacy=` was given."""
        if given is None:
            return cls()
        return given if isinstance(given, cls) else cls(given)

    def mechanisms(self, names: Sequence[str]) -> dict[str, Mechanism]:
        """The mechanism of every party."""
        given = self.parties
        if isinstance(given, Mechanism):
            chosen: dict[str, Mechanism] = dict.fromkeys(names, given)
        elif isinstance(given, Mapping):
            if set(given) != set(names):
                raise SettingError(f"privacy must name exactly the parties {list(names)}. Found {list(given)}.")
            chosen = {name: given[name] for name in names}
        elif isinstance(given, Sequence) and len(given) == len(names):
            chosen = dict(zip(names, given, strict=True))
        else:
            raise SettingError(
                f"privacy must be one mechanism, or one per party ({len(names)}), such as plait.privacy.Recommended("
                f"epsilon=1.0) or plait.privacy.NoPrivacy(). Found {given!r}."
            )
        for name, mechanism in chosen.items():
            if not isinstance(mechanism, Mechanism):
                raise SettingError(f"the privacy of party {name!r} must be a mechanism. Found {mechanism!r}.")
        kinds = {type(m) for m in chosen.values()} - {NoPrivacy}
        if len(kinds) > 1:
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise SettingError(f"parties that protect their features must use one kind of mechanism. Found {found}.")
        return chosen

    def book(self, party: str, matrix: Any, mechanism: Mechanism) -> Book:
        """The party's door, with its ledger and its noise."""
        guaranteed = isinstance(mechanism, Recommended | MechanismA)
        if self.ledger is None:
            return Book(self.run, party, self.noise or KeyedNoise(), Unrecorded())
        noise = self.noise or self.ledger.noise(party)
        return Book(self.run, party, noise, self.ledger.ledger(party, matrix, guaranteed))

    def clips(self, names: Sequence[str]) -> dict[str, float]:
        """Where the rows of private parties are clipped, in training and in scoring."""
        found = self.mechanisms(names).items()
        return {name: m.clip for name, m in found if isinstance(m, Recommended | MechanismA) and m.clip}

    def protect_labels(self, loss: Loss, labels: Array) -> tuple[Loss, Array, float]:
        """The loss and the labels that everyone else may see, and how much noisier a fit to them is."""
        soft = self.loss_of_targets(loss)
        if self.labels is None:
            return loss, labels, 1.0
        if isinstance(self.labels, NoisyLabel):
            return loss, self._drawn(labels), 1.0
        if isinstance(self.labels, ReportedClass):
            targets = self.labels.targets()
        else:
            targets = self.labels.targets(self._drawn((labels > 0).astype(np.float64)))
        return soft, targets, label_noise_factor(targets)

    def loss_of_targets(self, loss: Loss) -> Loss:
        """The loss that everyone trains with: the unbiased one where randomised response makes the targets."""
        if self.labels is None:
            return loss
        if isinstance(self.labels, NoisyLabel):
            if loss.classifies:
                raise SettingError("classes are protected by RandomisedResponse(epsilon). Found NoisyLabel.")
            return loss
        if not isinstance(loss, Logistic):
            raise SettingError(
                f"RandomisedResponse needs plait.Logistic(), because other losses have no unbiased form here. Found "
                f"{loss!r}. A numeric label is protected by NoisyLabel(epsilon, low, high)."
            )
        if isinstance(self.labels, ReportedClass):
            return SoftLogistic(*self.labels.range())
        if self.labels.classes != 2:
            raise SettingError(
                f"one model has 2 classes. Found RandomisedResponse(classes={self.labels.classes}). Train several "
                "classes with plait.VerticalLogisticRegression(privacy=...)."
            )
        return SoftLogistic(float(self.labels.targets([0])[0]), float(self.labels.targets([1])[0]))

    def of_classes(self, member: NDArray[Any], count: int) -> "list[Policy]":
        """One policy per class against the rest, for labels 0..count-1 (N,); together they cost what this one does.

        Labels are noised once, all classes at a time. A mechanism with a guarantee spends mu / sqrt(count) on a class.
        """
        labels: list[LabelMechanism | None] = [None] * count
        if self.labels is not None:
            if not isinstance(self.labels, RandomisedResponse) or self.labels.classes != count:
                raise SettingError(
                    f"labels of {count} classes are protected by RandomisedResponse(epsilon, classes={count}). Found "
                    f"{self.labels!r}."
                )
            reported = self._drawn(member.astype(np.float64)).astype(np.int64)
            labels = [ReportedClass(self.labels, reported, k) for k in range(count)]
        return [replace(self, parties=self._part(count), labels=labels[k], run=f"{self.run}, class {k}")
                for k in range(count)]  # fmt: skip

    def _part(self, count: int) -> Any:
        given = self.parties
        if isinstance(given, Mapping):
            return {name: _part_of(mechanism, count) for name, mechanism in given.items()}
        return _part_of(given, count) if isinstance(given, Mechanism) else [_part_of(m, count) for m in given]

    def steadied(
        self, penalties: Mapping[str, Penalty], matrices: Mapping[str, Any], softness: float
    ) -> dict[str, Penalty]:
        """Every party's penalty, with what noisy labels need on top; a protected party's rows have norm at most 1."""
        if softness == 1.0:
            return dict(penalties)
        chosen = self.mechanisms(tuple(penalties))
        return {
            name: steadied(
                penalty,
                softness,
                1.0 if isinstance(chosen[name], Recommended | MechanismA) else float(np.mean(row_norms(matrix) ** 2)),
                matrix.shape[0],
            )
            for (name, penalty), matrix in zip(penalties.items(), matrices.values(), strict=True)
        }

    def _drawn(self, labels: Array) -> Array:
        """The noised labels: drawn once per data version and kept where there is a ledger."""
        assert isinstance(self.labels, RandomisedResponse | NoisyLabel)
        if self.ledger is None:
            noise = self.noise or KeyedNoise()
            release = Release(self.run, LABEL_HOLDER, 0, "labels", data_fingerprint(labels))
            return np.asarray(self.labels.release(labels, noise.stream(release)), dtype=np.float64)
        ledger = self.ledger.ledger(LABEL_HOLDER, labels, guaranteed=True)
        store = Path(self.ledger.root) / f"labels-{data_fingerprint(labels)[:24]}.json"
        return private_labels(self.labels, labels, ledger, self.noise or self.ledger.noise(LABEL_HOLDER), store)

    def guarantee(self, names: Sequence[str]) -> str:
        """One line per party, in words."""
        labels = "labels: not protected"
        if self.labels is not None:
            labels = f"labels: protected with epsilon = {self.labels.epsilon:.2f}"
        return "\n".join(
            f"party {name.removeprefix('party ')}: {_features(mechanism)}; {labels}"
            for name, mechanism in self.mechanisms(names).items()
        )

    @property
    def private(self) -> bool:
        """Whether anyone protects anything."""
        given = self.parties.values() if isinstance(self.parties, Mapping) else self.parties
        each = given if isinstance(given, Iterable) else (given,)
        return self.labels is not None or any(not isinstance(m, NoPrivacy) for m in each)


def check_party(name: str, mechanism: Mechanism, matrix: Any) -> None:
    """Refuse what would make a guarantee false: a loose delta, unbounded rows, scaling by the data's statistics."""
    if not isinstance(mechanism, Recommended | MechanismA):
        return
    check_delta(mechanism.delta, matrix.shape[0])
    if _looks_standardised(matrix):
        raise PrivacyError(
            f"party {name!r}: a private run needs columns scaled by public constants. Found every column with mean 0 "
            "and standard deviation 1, as statistics of the data make it: one record moves them, and nobody paid for "
            "that. Use plait.privacy.PublicRanges(low, high) on the raw columns."
        )
    if mechanism.clip is None:
        check_bounded(matrix, name)


def _looks_standardised(matrix: Any) -> bool:
    if sp.issparse(matrix):
        return False
    mean, spread = matrix.mean(axis=0), matrix.std(axis=0)
    varies = spread > 1e-12
    close = (np.abs(mean) < 1e-9) & (np.abs(spread - 1) < 1e-9)
    return bool(varies.any() and close[varies].all())


def _part_of(mechanism: Mechanism, count: int) -> Mechanism:
    """The mechanism that may be used `count` times at the price of this one; a hair is kept for discrete noise."""
    if not isinstance(mechanism, Recommended | MechanismA):
        return mechanism
    mu = mu_of(mechanism.epsilon, mechanism.delta) * (1 - 1e-4) / math.sqrt(count)
    return replace(mechanism, epsilon=epsilon_of(mu, mechanism.delta))


def _features(mechanism: Mechanism) -> str:
    if isinstance(mechanism, Recommended | MechanismA):
        return mechanism.guarantee
    return f"features: not protected, guarantee: {mechanism.guarantee}"


@dataclass(frozen=True)
class PublicRanges:
    """Map columns to [-1, 1] / sqrt(d) by ranges that were known before the data: every row then has norm at most 1."""

    low: Sequence[float]
    high: Sequence[float]

    def __post_init__(self) -> None:
        low, high = np.asarray(self.low, dtype=float), np.asarray(self.high, dtype=float)
        if low.ndim != 1 or low.shape != high.shape or not np.isfinite(low - high).all() or not (low < high).all():
            raise SettingError("PublicRanges(low, high) needs one finite low < high per column.")

    def apply(self, matrix: Any) -> Array:
        """The scaled columns (N, d); values outside their range are moved to its edge."""
        low, high = np.asarray(self.low, dtype=float), np.asarray(self.high, dtype=float)
        rows = np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != low.size:
            raise SettingError(f"PublicRanges has {low.size} ranges. Found a table of shape {rows.shape}.")
        scaled = 2 * (np.clip(rows, low, high) - low) / (high - low) - 1
        return scaled / np.sqrt(low.size)
