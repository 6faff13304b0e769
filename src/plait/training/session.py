"""One training session in this process: which protocol, under which privacy, and how it went."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from plait._threads import blas_threads, workers
from plait._types import Array
from plait.data.parts import Part
from plait.errors import SettingError
from plait.messages import Broadcast, Share, Transport
from plait.methods.auto import Choice
from plait.methods.base import Block, Method, Task
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import PaperMechanism, PaperNoise, warn_no_guarantee
from plait.privacy.policy import Mechanism, Policy, check_party
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.protection.modes import Protection
from plait.training.in_process import InProcess
from plait.training.loop import Observer, Outcome
from plait.training.party import Party
from plait.training.protected import Protected, protect, protected_method
from plait.training.run import conduct
from plait.training.stopping import Stopping
from plait.training.under_policy import choose, party_method

_SIDE_BY_SIDE, _SPARSE = 1 << 22, 10
"""Stored numbers from which on it pays to let parties work side by side; those of sparse tables take longer each."""

Trace = Callable[[int, dict[str, Array]], None]


class ConvergenceWarning(UserWarning):
    """A run ended by its limit on rounds or time, before its tolerance was reached."""


@dataclass(frozen=True)
class Problem:
    """What is to be trained: checked parts, labels and weights (N,), and one penalty per party."""

    parts: tuple[Part, ...]
    labels: Array
    weights: Array
    loss: Loss
    penalties: Mapping[str, Penalty]
    fit_intercept: bool

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def task(self) -> Task:
        """The coordinator's half."""
        return Task(self.loss, self.labels, self.weights, self.names, self.fit_intercept)


@dataclass(frozen=True)
class LinearModel:
    """Weights per party and the intercept."""

    weights: Mapping[str, Array]
    intercept: float


@dataclass(frozen=True)
class Trained:
    """A model, how its run went, and what privacy adds to it."""

    model: LinearModel
    outcome: Outcome
    choice: Choice
    clip: Mapping[str, float] = field(default_factory=dict)
    released: Mapping[str, Array] = field(default_factory=dict)
    protection: str = ""
    """What a protected run has shown, in words and numbers."""


@dataclass(frozen=True)
class Session:
    """A problem, who protects what, and the options of the run."""

    problem: Problem
    policy: Policy
    method: Method | str
    stopping: Stopping
    observers: tuple[Observer, ...] = ()
    trace: Trace | None = None
    wire: Callable[[Transport], Transport] = lambda transport: transport
    """Puts something between the coordinator and its parties: a wiretap, say."""
    precision: str = "float64"
    """In which numbers vectors travel; see `plait.training.precision`."""
    protection: Protection | None = None
    """What parties and coordinator hide from each other; see `plait.protection`."""

    def train(self) -> Trained:
        """Train under the policy; warn where nothing is guaranteed or the tolerance was not reached."""
        mechanisms = self.policy.mechanisms(self.problem.names)
        for part in self.problem.parts:
            check_party(part.name, mechanisms[part.name], part.matrix)
        books = {p.name: self.policy.book(p.name, p.matrix, mechanisms[p.name]) for p in self.problem.parts}
        choice = self._choice()
        protected = self._protected()
        parties = {p.name: self._party(p, books[p.name], choice.method, protected) for p in self.problem.parts}
        with blas_threads(1), workers(len(parties)) as pool:
            features = [part.features for part in self.problem.parts]
            large = sum(f.stored * (_SPARSE if f.sparse else 1) for f in features) >= _SIDE_BY_SIDE
            transport = self.wire(InProcess({n: p.handle for n, p in parties.items()}, pool if large else None))
            if self.trace is not None:
                transport = _Traced(transport, parties, self.trace)
            done = conduct(
                self.problem.task,
                choice.method,
                self.policy,
                self.stopping,
                transport,
                self.observers,
                self.precision,
                protected=protected,
            )
        self._warn(mechanisms, done.outcome)
        model = LinearModel({n: p.weights for n, p in parties.items()}, done.intercept)
        statement = "" if protected is None else protected.statement
        return Trained(model, done.outcome, choice, self.policy.clips(self.problem.names), done.released, statement)

    def _protected(self) -> Protected | None:
        """Both ends of the protection, after every party has checked what its columns would show."""
        if self.protection is None:
            return None
        if self.policy.private or self.precision != "float64":
            raise SettingError(
                "protection goes with no privacy mechanism and wire = 'float64' so far. Found another. Leave one out."
            )
        tables = {part.name: part.matrix for part in self.problem.parts}
        return protect(self.protection, tables, self.problem.labels.size)

    def _party(self, part: Part, book: Book, method: Method, protected: Protected | None) -> Party:
        problem = self.problem
        block = Block(part.features, problem.penalties[part.name], problem.loss, problem.weights)
        own = party_method(method, self.policy, problem.names, book, block)
        if protected is None:
            return Party(part.name, block, own, self.precision)
        masker = protected.maskers.get(part.name)
        return Party(part.name, block, own, opener=protected.openers[part.name], masker=masker)

    def _choice(self) -> Choice:
        chosen = self._unprotected_choice()
        if self.protection is None:
            return chosen
        method = protected_method(chosen.method, self.protection, self.problem.names)
        return Choice(method, f"{chosen.reason}; {self.protection.mode} protected")

    def _unprotected_choice(self) -> Choice:
        problem, method = self.problem, self.method
        if method == "auto":
            return choose(self.policy, problem.names, problem.loss, problem.penalties)
        if not isinstance(method, Method):
            raise SettingError(f'method must be "auto" or a plait method such as plait.Subspace(). Found {method!r}.')
        method.check(problem.loss, problem.penalties)
        return Choice(method, f"{type(method).__name__}: as asked")

    def _warn(self, mechanisms: Mapping[str, Mechanism], outcome: Outcome) -> None:
        for mechanism in mechanisms.values():
            if isinstance(mechanism, PaperMechanism | PaperNoise):
                warn_no_guarantee(mechanism)
                return
        if not outcome.reason.converged and not any(isinstance(m, MechanismA) for m in mechanisms.values()):
            warnings.warn(
                f"the run ended before its tolerance was reached: {outcome.reason.text}. "
                "Allow more rounds, or loosen Stopping(tol).",
                ConvergenceWarning,
                stacklevel=4,
            )


@dataclass(frozen=True)
class _Traced:
    """A transport that shows every party's weights after each exchange."""

    inner: Transport
    parties: Mapping[str, Party]
    trace: Trace

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        shares = self.inner.exchange(requests)
        first = next(iter(requests.values()))
        if not first.closing:
            self.trace(first.round, {name: party.weights for name, party in self.parties.items()})
        return shares
