"""Who protects what in a run: the value of `privacy=` in `plait.fit`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._checks import need_type
from plait._types import Array
from plait.errors import PrivacyError, SettingError
from plait.privacy.ledger.announced import class_run
from plait.privacy.ledger.budget import Budget
from plait.privacy.ledger.known_tables import LABEL_HOLDER
from plait.privacy.ledger.release_gate import DEFAULT_TABLE, Book, LedgerFolder, Unrecorded
from plait.privacy.mechanisms.base import (
    DefaultMethod,
    GuaranteedMechanism,
    LabelMechanism,
    Mechanism,
    Schedule,
)
from plait.privacy.mechanisms.labels import NoisyLabel, RandomisedResponse
from plait.privacy.mechanisms.paper import NoPrivacy
from plait.privacy.mechanisms.permanent import PermanentLabels
from plait.privacy.noise import KeyedNoise, Noise
from plait.privacy.several_fits import SeveralFits
from plait.problem.losses import Loss


@dataclass(frozen=True)
class Policy:
    """What each party protects, and how.

    Parameters
    ----------
    parties : mechanism, or list or dict of mechanisms, default=NoPrivacy()
        One mechanism for all, or one per party (list or dict like `parts`).
    labels : RandomisedResponse or NoisyLabel, default=None
        How labels are protected; None where they are not.
    offset : bool, default=True
        Whether helpers get the unprotected parties' score, one number per row; if not, labels only.
    disjoint : bool, default=False
        No two helpers hold the same signal, which saves the sketch that guards against counting it twice.
    ledger : LedgerFolder, default=None
        Where releases are charged; None for a single simulated run that nobody adds up.
    noise : noise source, default=None
        Where randomness comes from; None for a secret kept in the ledger folder, or a fresh one.
    run : str, default="run"
        The name of the run: the same name with the same inputs is the same release.
    public_weights : bool, default=False
        Say True where sample weights do not depend on the labels.  Every party is told them, so that with protected
        labels they are refused otherwise.
    ids : list of str, default=None
        The names of the rows, to which the noise of their labels belongs; None for their places.
    fits : int, default=None
        How many different fits the run makes: the folds of a cross-validation times the settings of a grid, and one
        more where the best is trained again.  The ledger must cover all of them before the first.  None is one fit.
    """

    parties: Mechanism | Sequence[Mechanism] | Mapping[str, Mechanism] = field(default_factory=NoPrivacy)
    labels: LabelMechanism | None = None
    offset: bool = True
    disjoint: bool = False
    ledger: LedgerFolder | None = None
    noise: Noise | None = None
    run: str = "run"
    public_weights: bool = False
    ids: Sequence[str] | None = None
    fits: int | None = None

    def __post_init__(self) -> None:
        if self.fits is not None:
            need_type("Policy(fits)", self.fits, int)
            if self.fits < 1:
                raise SettingError(f"`fits` must be at least 1. Found {self.fits}.")

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
        kinds = {type(m) for m in chosen.values() if m.protects}
        if len(kinds) > 1:
            found = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise SettingError(f"parties that protect their features must use one kind of mechanism. Found {found}.")
        return chosen

    def protections(self, names: Sequence[str], loss: Loss) -> "Protections":
        """What this policy means for a run of these parties: all that a run has to ask, in one call."""
        mechanisms = self.mechanisms(names)
        helpers = tuple(name for name, m in mechanisms.items() if m.schedule is Schedule.ONE_PASS)
        paid = [m.max_rounds for m in mechanisms.values() if m.max_rounds is not None]
        wanted = {m.default_method for m in mechanisms.values()} - {DefaultMethod.FEWEST_ROUNDS}
        return Protections(
            self.loss_of_targets(loss),
            mechanisms,
            helpers,
            sketch=len(helpers) > 1 and not self.disjoint,
            offset=self.offset,
            noisy=any(m.schedule is Schedule.EVERY_ROUND for m in mechanisms.values()),
            max_rounds=min(paid, default=None),
            default_method=wanted.pop() if wanted else DefaultMethod.FEWEST_ROUNDS,
            clip={name: m.row_bound for name, m in mechanisms.items() if m.row_bound is not None},
            uncovered=tuple(name for name, m in mechanisms.items() if not m.covers_weights),
            protecting=tuple(name for name, m in mechanisms.items() if m.protects),
            labels=self.labels is not None,
            guarantee=self.guarantee(names),
            warning=next((m.warning for m in mechanisms.values() if m.warning), None),
        )

    def gate(self, party: str, matrix: Any, mechanism: Mechanism) -> Book:
        """The release gate of a party that protects its table (N, d), with its ledger and its noise.

        PrivacyError where the guarantee would be false for so many rows.
        """
        mechanism.check(party, matrix.shape[0])
        self.need_adjacency(mechanism)
        if self.ledger is None:
            return Book(self.run, party, self.noise or KeyedNoise(), Unrecorded())
        if mechanism.guaranteed:
            self.ledger.budget.check(matrix.shape[0])
        noise = self.noise or self.ledger.noise(party)
        return Book(self.run, party, noise, self.ledger.ledger(party, mechanism.guaranteed))

    def need_adjacency(self, mechanism: Mechanism) -> None:
        """PrivacyError where the account counts REPLACE and the mechanism ZERO_OUT."""
        if self.ledger is not None and isinstance(mechanism, GuaranteedMechanism):
            self.ledger.budget.need_adjacency(mechanism.adjacency)

    def admit(self, names: Sequence[str], searching: bool = False) -> None:
        """Let the guaranteed parties of a run charge their table, and announce how many fits the run makes.

        PrivacyError for one that is unknown to the folder, and for one with a budget there that this run does not
        protect.  BudgetError where the budget does not cover all fits, and where a search does not say how many.
        """
        if self.ledger is None:
            return
        guaranteed = [name for name, m in self.mechanisms(names).items() if m.guaranteed]
        shown = [name for name in names if name not in guaranteed]
        self.ledger.need_no_account(shown if self.labels is not None else [*shown, LABEL_HOLDER])
        self.ledger.admit(guaranteed)
        several = self._several(names)
        if self.labels is not None and (self.fits or searching):
            self.ledger.admit_labels()
        if self.fits is not None:
            several.announce(self.ledger.ledger, self.run, self.fits)
        elif searching and isinstance(self.ledger.budget, Budget) and several.costs(1):
            raise several.refusal(self.ledger.ledger)

    def quote(self, names: Sequence[str], fits: int | None = None) -> dict[str, float]:
        """Account -> the epsilon of so many fits, at its delta; the labels have the account "label holder"."""
        return self._several(names).quote(fits or self.fits or 1)

    def require(self, names: Sequence[str], fits: int | None = None) -> None:
        """BudgetError, before the first of so many fits, where the budget does not cover all of them."""
        if self.ledger is not None:
            self._several(names).require(self.ledger.ledger, self.run, fits or self.fits or 1)

    def _several(self, names: Sequence[str]) -> SeveralFits:
        return SeveralFits(self.mechanisms(names), self.labels, named=self.ids is not None)

    def uncovered(self, names: Sequence[str]) -> tuple[str, ...]:
        """The parties whose guarantee does not cover their weights: nothing may be scored with these."""
        return tuple(name for name, m in self.mechanisms(names).items() if not m.covers_weights)

    def loss_of_targets(self, loss: Loss) -> Loss:
        """The loss that everyone trains with: the unbiased one where randomised response makes the targets."""
        return loss if self.labels is None else self.labels.loss_of_targets(loss)

    def check_weights(self, weights: Array | None) -> None:
        """PrivacyError for sample weights (N,) that every party is told and that may tell labels."""
        if self.labels is not None and not self.public_weights and weights is not None and np.ptp(weights) > 0:
            raise PrivacyError(
                "sample weights are told to every party, and with protected labels they must not depend on the labels. "
                "Found weights that differ between rows, and nothing that says what they depend on. Leave them out, or "
                "say public_weights: Policy(public_weights=True), or privacy.public_weights = true in the label "
                "party's file."
            )

    def protect_labels(self, labels: Array) -> tuple[Array, float]:
        """The labels (N,) that everyone else may see, and how much noisier a fit to them is."""
        if self.labels is None:
            return labels, 1.0
        targets = self.labels.seen(labels, self._drawn)
        return targets, self.labels.noise_factor(targets)

    def of_classes(self, member: NDArray[Any], count: int) -> "list[Policy]":
        """One policy per class against the rest, for labels 0..count-1 (N,); together they cost what this one does.

        Label noise is drawn once for all classes. A mechanism with a guarantee spends mu / sqrt(count) on each class.
        """
        labels: Sequence[LabelMechanism | None] = [None] * count
        if self.labels is not None:
            labels = self.labels.of_classes(member, count, self._drawn)
        part = replace(self, parties=self._part(count), fits=None)  # all classes were announced together
        return [replace(part, labels=labels[k], run=class_run(self.run, k)) for k in range(count)]

    def _part(self, count: int) -> Any:
        given = self.parties
        if isinstance(given, Mapping):
            return {name: mechanism.part(count) for name, mechanism in given.items()}
        return given.part(count) if isinstance(given, Mechanism) else [mechanism.part(count) for mechanism in given]

    def _drawn(self, mechanism: RandomisedResponse | NoisyLabel, labels: Array) -> Array:
        """The noisy labels (N,); with a ledger their noise is permanent, because its secret is kept."""
        if self.ids is not None and len(self.ids) != labels.size:
            raise SettingError(f"there must be one id per row. Found {len(self.ids)} ids and {labels.size} labels.")
        if self.ledger is None:
            drawer = PermanentLabels(self.noise or KeyedNoise(), LABEL_HOLDER, DEFAULT_TABLE)
        else:
            self.ledger.admit_labels()
            noise = self.noise or self.ledger.noise(LABEL_HOLDER)
            drawer = PermanentLabels(noise, LABEL_HOLDER, self.ledger.table, self.ledger.ledger(LABEL_HOLDER))
        return drawer.draw(mechanism, labels, self.ids)

    def guarantee(self, names: Sequence[str]) -> str:
        """One line per party, in words."""
        labels = "labels: not protected" if self.labels is None else self.labels.sentence
        return "\n".join(
            f"party {name.removeprefix('party ')}: {mechanism.sentence}; {labels}"
            for name, mechanism in self.mechanisms(names).items()
        )

    @property
    def private(self) -> bool:
        """Whether anyone protects anything."""
        given = self.parties.values() if isinstance(self.parties, Mapping) else self.parties
        each = given if isinstance(given, Iterable) else (given,)
        return self.labels is not None or any(m.protects for m in each)


@dataclass(frozen=True)
class Protections:
    """What a policy means for a run, collected from the parties' mechanisms.

    loss             the loss that everyone trains with
    mechanisms       one per party
    helpers          the parties that learn in one private pass
    sketch           whether helpers pay for a sketch, which keeps them from counting the same signal twice
    offset           whether helpers get the unprotected parties' score of each row
    noisy            whether noise is added in every round, so that a run never converges
    max_rounds       the number of rounds that are paid for, None for any
    default_method   what `method="auto"` has to choose
    uncovered        the parties whose guarantee does not cover their weights
    clip             the norm to which a party's rows are clipped, in training and in scoring
    protecting       the parties that protect their features
    labels           whether the labels are protected
    guarantee        one line per party, in words
    warning          what the user must be warned of, if anything
    """

    loss: Loss
    mechanisms: Mapping[str, Mechanism]
    helpers: tuple[str, ...]
    sketch: bool
    offset: bool
    noisy: bool
    max_rounds: int | None
    default_method: DefaultMethod
    clip: Mapping[str, float]
    uncovered: tuple[str, ...]
    protecting: tuple[str, ...]
    labels: bool
    guarantee: str
    warning: str | None


def check_covered(uncovered: Sequence[str]) -> None:
    """PrivacyError where a score would show weights that no guarantee covers."""
    if uncovered:
        raise PrivacyError(
            f"A score shows the weights that it is made with, and these must be covered by their party's guarantee. "
            f"Found {', '.join(map(repr, uncovered))}, under a mechanism that covers shares only. Nothing was scored. "
            "Train with plait.privacy.Recommended, which covers the weights."
        )
