"""The driver of every run: simulated or deployed, private or not, over any transport."""

from collections.abc import Mapping, Sequence

from plait.errors import SettingError
from plait.messages import Transport
from plait.training.assembly import BriefedTask, RunSpec
from plait.training.coordinator import Coordinator
from plait.training.loop import Clock, Observer, run
from plait.training.private_pass import Conducted, PrivatePass
from plait.training.protected import ProtectedExchange
from plait.training.under_policy import limits


def conduct(
    spec: RunSpec,
    assembled: BriefedTask,
    transport: Transport,
    observers: Sequence[Observer] = (),
    clock: Clock | None = None,
    receipts: Mapping[str, int] | None = None,
    protected: ProtectedExchange | None = None,
) -> Conducted:
    """Train by the run's method; where some parties are helpers, the others do, and then comes a private pass."""
    protections = spec.protections
    if spec.precision != "float64" and (protections.protecting or protections.labels):
        raise SettingError(
            f'precision = "{spec.precision}" would round what the ledger has charged for. Found a private run: '
            'leave it at "float64".'
        )
    if spec.precision not in spec.method.precisions:
        raise SettingError(
            f"precision of {type(spec.method).__name__} must be one of {', '.join(spec.method.precisions)}. Found "
            f"{spec.precision!r}. Use plait.Subspace() with it."
        )
    if assembled.briefing is not None:
        transport.exchange(dict.fromkeys(spec.parties, assembled.briefing))
    stopping = limits(protections, spec.stopping)
    if protections.helpers:
        helpers, offset = protections.helpers, protections.offset
        one_pass = PrivatePass(assembled.task, helpers, spec.method, stopping, offset, receipts or {})
        return one_pass.run(transport, observers)
    coordinator = Coordinator(assembled.task, spec.method, spec.precision, protected)
    outcome = run(coordinator, transport, stopping, observers, clock)
    return Conducted(coordinator.intercept, outcome, scores=coordinator.scores)
