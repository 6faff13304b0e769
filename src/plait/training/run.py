"""The label party's side of any run, private or not, over any transport."""

from collections.abc import Sequence

from plait.errors import SettingError
from plait.messages import Transport
from plait.methods.base import Method, Task
from plait.privacy.policy import Policy
from plait.training.coordinator import Coordinator
from plait.training.loop import Clock, Observer, run
from plait.training.private_pass import Conducted, PrivatePass
from plait.training.protected import Protected
from plait.training.stopping import Stopping
from plait.training.under_policy import helpers, limits


def conduct(
    task: Task,
    method: Method,
    policy: Policy,
    stopping: Stopping,
    transport: Transport,
    observers: Sequence[Observer] = (),
    wire: str = "float64",
    clock: Clock | None = None,
    protected: Protected | None = None,
) -> Conducted:
    """Train by `method`; where some parties are helpers, the others do, and then comes a private pass."""
    if wire != "float64" and policy.private:
        raise SettingError(
            f'wire = "{wire}" would round what the ledger has charged for. Found a private run: leave it at "float64".'
        )
    limited = limits(policy, task.parties, stopping)
    if learners := helpers(policy, task.parties):
        return PrivatePass(task, learners, method, limited, policy.offset).run(transport, observers)
    coordinator = Coordinator(task, method, wire, protected)
    outcome = run(coordinator, transport, limited, observers, clock)
    return Conducted(coordinator.intercept, outcome, scores=coordinator.scores)
