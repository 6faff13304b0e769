"""Who takes part in a run, put together in one way, wherever the participants are.

A simulated and a deployed run, private or not, call the same two functions: `assemble_party` where a party's table is,
and `assemble_coordinator` where the labels are.  `plait.training.run` drives what they return over any transport.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from plait._mapped_files import IN_MEMORY, Workspace
from plait._types import Array
from plait.data.parts import equal_weights
from plait.messages import Broadcast
from plait.methods.base import Block, Method, Newest, Task
from plait.methods.private.briefing import Briefed, briefing
from plait.privacy.policy import Policy, Protections
from plait.problem.features import Features
from plait.problem.penalties import Penalty
from plait.protection.fixed_point import encode_weights
from plait.protection.modes import Protection
from plait.training.blind_shield import BlindPartyShield
from plait.training.party import Party
from plait.training.party_shield import PartyKeys, PartyShield, simulated_keys
from plait.training.stopping import Stopping
from plait.training.under_policy import protected_method, unprotected_method


@dataclass(frozen=True)
class RunSpec:
    """What everyone who takes part knows before a run.

    penalties      one per party, in the order of the parties
    protections    what the policy means for this run
    policy         who protects what; at a party in a deployed run, with its own ledger and noise
    precision      the number format of vectors; see `plait.training.precision`
    weighted       whether rows have weights, which the coordinator knows and tells
    protection     what is encrypted and masked; None where nothing is
    """

    penalties: Mapping[str, Penalty]
    method: Method
    stopping: Stopping
    fit_intercept: bool
    protections: Protections
    policy: Policy
    precision: str = "float64"
    weighted: bool = False
    protection: Protection | None = None

    @property
    def parties(self) -> tuple[str, ...]:
        return tuple(self.penalties)

    @property
    def blind(self) -> bool:
        """Whether the coordinator is a blind machine."""
        return self.protection is not None and self.protection.mode == "blind"

    @property
    def label_party(self) -> str:
        """Who holds the labels beside a blind machine."""
        return (self.protection.label_party if self.protection is not None else "") or self.parties[0]

    @property
    def briefed(self) -> bool:
        """Whether parties are told something about the rows before round 1.

        In a protected run they are not told the row weights, which may depend on the labels.
        """
        return (self.weighted and self.protection is None) or self.protections.labels


def assemble_party(
    spec: RunSpec,
    name: str,
    features: Features,
    weights: Array,
    start: Array | None = None,
    keys: Callable[[], PartyKeys] = simulated_keys,
    labels: Array | None = None,
    workspace: Workspace = IN_MEMORY,
    newest: Newest | None = None,
) -> Party:
    """The party with this table (N, d): its half of the method, behind its mechanism and its ledger.

    weights (N,) are equal, unless a briefing brings others.  `start` (d,) are weights of an earlier model.  A
    protected run needs `keys` of this run only; a simulated one draws them.  With a blind machine the label party is
    the party that has `labels` (N,).  Parties in one process share what they make of the `newest` vectors.
    """
    mechanism = spec.protections.mechanisms[name]
    method = unprotected_method(spec.method, spec.protections)
    if name in spec.protections.protecting:
        gate = spec.policy.gate(name, features.matrix, mechanism)
        method = protected_method(spec.method, spec.protections, gate)
    if spec.briefed:
        method = Briefed(method, mechanism.guaranteed)
    shield: PartyShield | None = None
    if spec.protection is not None:
        if spec.blind:
            shield = BlindPartyShield(
                spec.protection, name, spec.parties, features.matrix, keys, labels, spec.fit_intercept
            )
        else:
            shield = PartyShield(spec.protection, name, spec.parties, features.matrix, keys)
        features = shield.features(features)
    block = Block(features, spec.penalties[name], spec.protections.loss, weights, start, workspace, newest or Newest())
    return Party(name, block, method, spec.precision, shield)


@dataclass(frozen=True)
class BriefedTask:
    """The coordinator's half of the problem, and what the parties must be told first, if anything."""

    task: Task
    briefing: Broadcast | None


def assemble_coordinator(
    spec: RunSpec, labels: Array, weights: Array | None, workspace: Workspace = IN_MEMORY
) -> BriefedTask:
    """What the coordinator with these labels (N,) and row weights (N,) trains on.

    The labels are in the loss's own form.  Where they are protected, they are noised here, once.  The weights sum to 1,
    and are None where all rows count alike.  Vectors of one number per row lie in the workspace.
    """
    softness = 1.0
    if spec.protections.labels:
        spec.policy.check_weights(weights)
        labels, softness = spec.policy.protect_labels(labels)
    each = equal_weights(labels.size) if weights is None else weights
    if spec.protection is not None and weights is not None and spec.protections.loss.smooth:
        each = encode_weights(weights)
    task = Task(spec.protections.loss, labels, each, spec.parties, spec.fit_intercept, workspace)
    return BriefedTask(task, briefing(weights, softness) if spec.briefed else None)
