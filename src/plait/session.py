"""One training session in this process: which protocol, under which privacy, and how it went."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from plait.coordinator import Coordinator
from plait.data.parts import Part
from plait.errors import SettingError
from plait.messages import Broadcast, Share
from plait.methods.admm import Jacobi
from plait.methods.auto import Choice, choose_method
from plait.methods.base import Block, Method, Task
from plait.methods.proximal import Proximal
from plait.party import Party
from plait.privacy.admm import MechanismA
from plait.privacy.book import Book
from plait.privacy.paper import NoPrivacy, PaperMechanism, PaperNoise, warn_no_guarantee
from plait.privacy.policy import Mechanism, Policy, check_party
from plait.privacy.recommended import Recommended
from plait.privacy.sides import guard
from plait.private import Model, Problem, fit_in_one_pass
from plait.protocol import Observer, Outcome, run
from plait.stopping import Reason, Stopping
from plait.transports import Transport
from plait.transports.inprocess import InProcess
from plait.types import Array

Trace = Callable[[int, dict[str, Array]], None]


class ConvergenceWarning(UserWarning):
    """A run ended by its limit on rounds or time, before its tolerance was reached."""


@dataclass(frozen=True)
class Trained:
    """A model, how its run went, and what privacy adds to it."""

    model: Model
    outcome: Outcome
    choice: Choice
    clip: Mapping[str, float] = field(default_factory=dict)
    released: Mapping[str, Array] = field(default_factory=dict)


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
    single: bool = False
    """Send vectors in single precision."""

    def train(self) -> Trained:
        """Train under the policy; warn where nothing is guaranteed or the tolerance was not reached."""
        mechanisms = self.policy.mechanisms(self.problem.names)
        for part in self.problem.parts:
            check_party(part.name, mechanisms[part.name], part.matrix)
        books = {p.name: self.policy.book(p.name, p.matrix, mechanisms[p.name]) for p in self.problem.parts}
        clip = {n: m.clip for n, m in mechanisms.items() if isinstance(m, Recommended | MechanismA) and m.clip}
        if any(isinstance(m, Recommended) for m in mechanisms.values()):
            return self._one_pass(mechanisms, books, clip)
        return replace(self._rounds(mechanisms, books), clip=clip)

    def _one_pass(
        self, mechanisms: Mapping[str, Mechanism], books: Mapping[str, Book], clip: Mapping[str, float]
    ) -> Trained:
        def train(problem: Problem) -> Model:
            part = Session(problem, Policy(), self.method, self.stopping)
            return part._rounds(dict.fromkeys(problem.names, NoPrivacy()), {}).model

        found = fit_in_one_pass(self.problem, self.policy, mechanisms, books, train)
        choice = self._choice({name: NoPrivacy() for name in mechanisms})
        choice = Choice(choice.method, "Recommended: unprotected parties first, then one private pass")
        outcome = Outcome(found.history, Reason("one private pass", converged=True))
        for observe in self.observers:
            observe(found.history[0])
        return Trained(found.model, outcome, choice, clip, found.released)

    def _rounds(self, mechanisms: Mapping[str, Mechanism], books: Mapping[str, Book]) -> Trained:
        problem, choice = self.problem, self._choice(mechanisms)
        parties = {p.name: self._party(p, mechanisms[p.name], books.get(p.name), choice.method) for p in problem.parts}
        task = Task(problem.loss, problem.labels, problem.weights, problem.names, problem.fit_intercept)
        transport = self.wire(InProcess({n: p.handle for n, p in parties.items()}))
        if self.trace is not None:
            transport = _Traced(transport, parties, self.trace)
        coordinator = Coordinator(task, choice.method, self.single)
        outcome = run(coordinator, transport, self._limits(mechanisms), self.observers)
        self._warn(mechanisms, outcome)
        return Trained(Model({n: p.weights for n, p in parties.items()}, coordinator.intercept), outcome, choice)

    def _party(self, part: Part, mechanism: Mechanism, book: Book | None, method: Method) -> Party:
        problem = self.problem
        block = Block(part.features, problem.penalties[part.name], problem.loss, problem.weights)
        if isinstance(mechanism, PaperMechanism | PaperNoise | MechanismA):
            assert book is not None
            method = guard(method, mechanism, book, len(problem.parts), block)
        return Party(part.name, block, method, self.single)

    def _choice(self, mechanisms: Mapping[str, Mechanism]) -> Choice:
        problem, method = self.problem, self.method
        if method == "auto":
            if any(isinstance(m, MechanismA) for m in mechanisms.values()):
                return Choice(Proximal(adaptive=False, acceleration=0), "Proximal, rho fixed: MechanismA needs it")
            if any(isinstance(m, PaperMechanism | PaperNoise) for m in mechanisms.values()):
                return Choice(Jacobi(), "Jacobi: the paper's algorithm, for the paper's noise")
            return choose_method(problem.loss, problem.penalties)
        if not isinstance(method, Method):
            raise SettingError(f'method must be "auto" or a plait method such as plait.Subspace(). Found {method!r}.')
        method.check(problem.loss, problem.penalties)
        return Choice(method, f"{type(method).__name__}: as asked")

    def _limits(self, mechanisms: Mapping[str, Mechanism]) -> Stopping:
        """Noise never settles, and a private round is paid for: nobody asks for more of them."""
        noisy = [m for m in mechanisms.values() if not isinstance(m, NoPrivacy)]
        paid = [m.rounds for m in noisy if isinstance(m, MechanismA)]
        limited = replace(self.stopping, max_rounds=min([self.stopping.max_rounds, *paid]))
        return replace(limited, guarded=limited.guarded and not noisy)

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
                stacklevel=5,
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
