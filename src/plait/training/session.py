"""One run with all parties and the coordinator in this process."""

import sys
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from plait._mapped_files import IN_MEMORY, Workspace
from plait._threads import blas_threads, workers
from plait._types import Array
from plait.data.parts import Part, equal_weights
from plait.messages import Broadcast, Share, Transport
from plait.methods.base import Newest
from plait.privacy.mechanisms.paper import NoGuaranteeWarning
from plait.training.assembly import BriefedTask, RunSpec, assemble_coordinator, assemble_party
from plait.training.convergence import convergence_warning
from plait.training.in_process import InProcess
from plait.training.loop import Observer, Outcome
from plait.training.party import Party
from plait.training.party_shield import simulated_keys
from plait.training.run import conduct
from plait.training.tracking.tracker import RunFacts, tracked

_SIDE_BY_SIDE = 1 << 24  # stored numbers from which on parties work side by side: below, threads cost too much
_SPARSE = 10  # one stored number of a sparse table takes about as long as this many of a dense one

Trace = Callable[[int, dict[str, Array]], None]


@dataclass(frozen=True)
class LinearModel:
    """Weights per party and the intercept."""

    weights: Mapping[str, Array]
    intercept: float


@dataclass(frozen=True)
class Trained:
    """A model, how its run went, and the noisy scores that helpers released, where they were asked to."""

    model: LinearModel
    outcome: Outcome
    released: Mapping[str, Array] = field(default_factory=dict)
    shown: str = ""
    """What a protected run has shown, in words and numbers."""


@dataclass(frozen=True)
class Session:
    """A run with everybody in this process.

    parts       the parties' checked tables
    labels      (N,), in the loss's own form
    weights     row weights (N,) that sum to 1; None where all rows count alike
    starts      party name -> weights (d_m,) of an earlier model, where there was one
    tap         puts something between the coordinator and its parties: a wiretap, say
    workspace   where vectors of one number per row lie
    """

    spec: RunSpec
    parts: tuple[Part, ...]
    labels: Array
    weights: Array | None = None
    observers: tuple[Observer, ...] = ()
    trace: Trace | None = None
    tap: Callable[[Transport], Transport] = lambda transport: transport
    starts: Mapping[str, Array] = field(default_factory=dict)
    workspace: Workspace = IN_MEMORY

    def train(self) -> Trained:
        """Train; warn where nothing is guaranteed or the tolerance was not reached."""
        if self.spec.protections.protecting:
            for part in self.parts:
                self.spec.protections.mechanisms[part.name].lint(part.name, part.matrix)
        if self.spec.policy.ledger is not None:  # also unprotected: a party with a budget there takes no part in that
            self.spec.policy.admit(self.spec.parties)
        with blas_threads(1), workers(len(self.parts)) as pool:
            return self._trained(pool)

    def _trained(self, pool: ThreadPoolExecutor) -> Trained:
        parties, coordinator = self._assembled()
        handlers = {name: party.handle for name, party in parties.items()}
        transport = self.tap(InProcess(handlers, pool if self._large else None))
        with tracked(self.observers, self._facts()) as reasons:
            secret = simulated_keys().secret
            done = conduct(self.spec, coordinator, transport, self.observers, secret=secret, watch=self._watch(parties))
            reasons.append(done.outcome.reason)
        self._warn(done.outcome)
        intercept = done.intercept + sum(p.intercept for p in parties.values())
        model = LinearModel({n: p.weights for n, p in parties.items()}, intercept)
        shown = "\n".join(f"{n}: {line}" for n, p in parties.items() if p.shield is not None for line in p.shield.lines)
        return Trained(model, done.outcome, done.released, shown)

    def _assembled(self) -> tuple[dict[str, Party], BriefedTask]:
        """All parties and the coordinator, before the first message."""
        equal, where, newest = equal_weights(self.labels.size), self.workspace, Newest()
        parties = {
            p.name: assemble_party(
                self.spec,
                p.name,
                p.features,
                equal,
                self.starts.get(p.name),
                labels=self._labels_of(p.name),
                workspace=where,
                newest=newest,
            )
            for p in self.parts
        }
        labels = np.zeros_like(self.labels) if self.spec.blind else self.labels  # the machine gets them disguised
        return parties, assemble_coordinator(self.spec, labels, self.weights, where)

    def _labels_of(self, name: str) -> Array | None:
        return self.labels if self.spec.blind and name == self.spec.label_party else None

    def _watch(self, parties: Mapping[str, Party]) -> Callable[[Transport], Transport]:
        trace = self.trace
        return (lambda inner: inner) if trace is None else (lambda inner: _Traced(inner, parties, trace))

    def _facts(self) -> RunFacts:
        spec = self.spec
        limits = spec.stopping
        return RunFacts(spec.parties, self.labels.size, repr(spec.method), limits.max_rounds, limits.tol)

    @property
    def _large(self) -> bool:
        features = [part.features for part in self.parts]
        return sum(f.stored * (_SPARSE if f.sparse else 1) for f in features) >= _SIDE_BY_SIDE

    def _warn(self, outcome: Outcome) -> None:
        protections = self.spec.protections
        if protections.warning is not None:
            warnings.warn(protections.warning, NoGuaranteeWarning, stacklevel=_caller())
        elif not outcome.reason.converged and protections.max_rounds is None:
            warnings.warn(
                f"the run ended before its tolerance was reached: {outcome.reason.text}. "
                "Allow more rounds, or loosen Stopping(tol).",
                convergence_warning(),
                stacklevel=_caller(),
            )


def _caller() -> int:
    """The stacklevel at which a warning of the function that asks points at the first line outside of plait."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "plait":
        frame, level = frame.f_back, level + 1
    return level


@dataclass
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
