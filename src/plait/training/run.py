"""The driver of every run: simulated or deployed, private or not, over any transport."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from plait.errors import SettingError
from plait.messages import Transport
from plait.training.assembly import BriefedTask, RunSpec
from plait.training.blind_shield import agree_blind
from plait.training.coordinator import Coordinator
from plait.training.coordinator_shield import agree
from plait.training.loop import Clock, Observer, run
from plait.training.private_pass import Conducted, PrivatePass
from plait.training.under_policy import limits


def conduct(
    spec: RunSpec,
    assembled: BriefedTask,
    transport: Transport,
    observers: Sequence[Observer] = (),
    clock: Clock | None = None,
    receipts: Mapping[str, int] | None = None,
    secret: bytes = b"",
    watch: Callable[[Transport], Transport] = lambda transport: transport,
    encrypted: Callable[[Mapping[str, int]], None] = lambda columns: None,
) -> Conducted:
    """Train by the run's method; where some parties are helpers, the others do, and then comes a private pass.

    A protected run needs a `secret` of 32 bytes, of this run only.  `watch` sees the exchanges of the method, not
    those that agree on keys or tell the parties about the rows.  A blind machine gets disguised labels from the label
    party: of the labels in `assembled` only their number counts.  `encrypted` is told before round 1 how many columns
    each party of a protected run has.
    """
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
    shield, task = None, assembled.task
    if spec.protection is not None and spec.blind:
        shield, labels = agree_blind(spec.protection, spec.parties, task.rows, task.loss, transport, secret)
        task = replace(task, labels=labels, fit_intercept=False)
    elif spec.protection is not None:
        shield = agree(spec.protection, spec.parties, task.rows, transport, secret)
    if shield is not None:
        encrypted(shield.columns)
    if assembled.briefing is not None:
        transport.exchange(dict.fromkeys(spec.parties, assembled.briefing))
    transport = watch(transport)
    stopping = limits(protections, spec.stopping)
    if protections.helpers:
        helpers, offset = protections.helpers, protections.offset
        one_pass = PrivatePass(task, helpers, spec.method, stopping, offset, receipts or {})
        return one_pass.run(transport, observers)
    coordinator = Coordinator(task, spec.method, spec.precision, shield)
    outcome = run(coordinator, transport, stopping, observers, clock)
    return Conducted(coordinator.intercept, outcome, scores=None if spec.blind else coordinator.scores)
