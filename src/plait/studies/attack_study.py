"""What each party can take from the others, measured: the trust table, unprotected and under every protection.

A wiretap keeps the messages of a real run.  The attacks of `plait.privacy.audit.attacks` see nothing else.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plait._types import Array
from plait.data.parts import read_parts
from plait.messages import Broadcast, Share, Transport
from plait.methods.admm.jacobi import Jacobi
from plait.methods.base import Method
from plait.privacy.audit.attacks import (
    column_space_revealed,
    dual_from_broadcasts,
    labels_from_gradient,
    rows_from_shares,
)
from plait.privacy.mechanisms.labels import RandomisedResponse
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoGuaranteeWarning, NoPrivacy, PaperNoise
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.noise import KeyedNoise, Noise
from plait.privacy.policy import Policy
from plait.problem.losses import Logistic
from plait.problem.penalties import L2, Penalty
from plait.training.assembly import RunSpec
from plait.training.convergence import ConvergenceWarning
from plait.training.session import Session
from plait.training.stopping import Stopping
from plait.training.under_policy import choose

TARGET = "helper"
KNOWN_ROWS = 60  # rows that the attacker knows: more than the 57 columns of the widest helper (a9a)
ALPHA = 1e-3  # strength of L2, per row: a usual value for standardised columns


@dataclass(frozen=True)
class Setting:
    """A protection, and the protocol that it protects."""

    name: str
    policy: Policy
    method: Method | str
    rounds: int


@dataclass(frozen=True)
class Exposure:
    """What attacks found under one setting; fractions, NaN where there was nothing to attack."""

    setting: str
    labels: float
    column_space: float
    records: float
    sent: int
    guarantee: str


@dataclass
class Wiretap:
    """A transport that keeps every broadcast to the target and every share that it sends."""

    inner: Transport
    broadcasts: list[Array] = field(default_factory=list)
    shares: list[Array] = field(default_factory=list)

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        answers = self.inner.exchange(requests)
        for name, request in requests.items():
            if name == TARGET and request.vector is not None and not request.closing:
                self.broadcasts.append(request.vector)
        share = answers.get(TARGET)
        if share is not None and share.vector is not None:
            self.shares.append(share.vector)
        return answers


def settings(rounds: int, noise: Noise | None = None) -> tuple[Setting, ...]:
    """The lines of the table; `rounds` is enough of them to span the target's columns."""
    noise = noise or KeyedNoise()

    def helper_only(mechanism: object, **more: object) -> Policy:
        return Policy([NoPrivacy(), mechanism], noise=noise, **more)  # type: ignore[list-item, arg-type]

    few = 8
    return (
        Setting(f"nothing, {rounds} rounds of the paper's algorithm", helper_only(NoPrivacy()), Jacobi(), rounds),
        Setting(f"nothing, at most {few} rounds (subspace)", helper_only(NoPrivacy()), "auto", few),
        Setting("the paper's noise, sigma = 10", helper_only(PaperNoise(10.0)), Jacobi(), rounds),
        Setting("MechanismA, epsilon = 8", helper_only(MechanismA(8.0, rounds=10, clip=1.0)), "auto", 10),
        Setting("Recommended, epsilon = 1", helper_only(Recommended(1.0, clip=1.0)), "auto", 200),
        Setting(
            "Recommended, and label epsilon = 1",
            helper_only(Recommended(1.0, clip=1.0), labels=RandomisedResponse(1.0)),
            "auto",
            200,
        ),
    )


def measure(setting: Setting, own: Array, helper: Array, labels: Array) -> Exposure:
    """Run the setting with a wiretap on the helper's line, then attack what was heard."""
    heard, told, guarantee = overheard(setting, own, helper, labels)
    return Exposure(
        setting.name,
        labels_found(heard, told, labels),
        0.0 if heard is None else column_space_revealed(np.column_stack(heard.shares), helper),
        0.0 if heard is None else _records_found(heard.shares, helper),
        0 if heard is None else len(heard.shares),
        guarantee,
    )


def overheard(setting: Setting, own: Array, helper: Array, labels: Array) -> tuple[Wiretap | None, Array, str]:
    """What crossed the helper's line, None where it sent nothing; the first thing that it was told; the guarantee."""
    parts = read_parts({"label holder": own, TARGET: helper})
    taps: list[Wiretap] = []

    def tap(transport: Transport) -> Transport:
        taps.append(Wiretap(transport))
        return taps[-1]

    loss, names = Logistic(), tuple(part.name for part in parts)
    penalties: dict[str, Penalty] = {name: L2(ALPHA) for name in names}
    protections = setting.policy.protections(names, loss)
    method = choose(setting.method, protections, penalties).method
    stopping = Stopping(max_rounds=setting.rounds, tol=1e-12, guarded=False)
    spec = RunSpec(penalties, method, stopping, False, protections, setting.policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoGuaranteeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        Session(spec, parts, 2 * labels - 1, tap=tap).train()
    heard = next((t for t in taps if t.shares), None)
    return heard, taps[-1].broadcasts[0], protections.guarantee.splitlines()[-1]


def labels_found(heard: Wiretap | None, told: Array, labels: Array) -> float:
    """The part of the labels that the helper guesses right.

    Broadcasts are read as gradients and as ADMM's v, and the better guess counts.  In a private pass it is told.
    """
    if heard is None:
        return float(np.mean((told > 0.5) == labels))
    guesses = (heard.broadcasts[-1], dual_from_broadcasts(heard.broadcasts))
    return max(float(np.mean(labels_from_gradient(guess) == labels)) for guess in guesses)


def _records_found(shares: Sequence[Array], helper: Array) -> float:
    known = np.random.default_rng(0).choice(helper.shape[0], min(KNOWN_ROWS, helper.shape[0] // 2), replace=False)
    return rows_from_shares(np.column_stack(shares), helper, known).fraction
