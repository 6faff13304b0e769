"""A coordinator that states numbers beside a hidden gradient which no honest one would: nothing is answered."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import plait
from plait.errors import ProtocolError
from plait.messages import Broadcast
from plait.methods.base import Block, Task
from plait.methods.protected.method import ProtectedCoordinator
from plait.methods.protected.party import ProtectedParty
from plait.methods.protected.summed import SummedParty
from plait.problem.features import Features
from plait.problem.penalties import Penalty

ROWS, HEAD = 500, 10  # scalars before the outlook
MEAN, VARIANCE, SLOPE, CURVATURE, UNIT = (HEAD + i for i in range(5))


def started(penalty: Penalty) -> tuple[SummedParty, Broadcast, Any]:
    """A party of a sum over three, the first broadcast of an honest run, opened, and its state."""
    rng = np.random.default_rng(0)
    tables = {name: rng.standard_normal((ROWS, 3)) for name in "abc"}
    y, w = sum(table[:, 0] for table in tables.values()), np.full(ROWS, 1 / ROWS)
    loss = plait.Squared()
    coordinator = ProtectedCoordinator(Task(loss, y, w, tuple(tables)), 20, (tuple(tables),))
    sides = {name: SummedParty(ProtectedParty(Block(Features(t), penalty, loss, w))) for name, t in tables.items()}
    states = {name: side.start() for name, side in sides.items()}
    requests = coordinator.requests(coordinator.start())
    told = {name: replace(says, vector=tables[name].T @ says.vector) for name, says in requests.items()}
    for name, side in sides.items():
        side.check(states[name], told[name])
    return sides["a"], told["a"], states["a"]


def stated(place: int, value: float) -> Callable[[Broadcast], Broadcast]:
    def change(says: Broadcast) -> Broadcast:
        scalars = says.scalars.copy()
        scalars[place if place >= 0 else scalars.size + place] = value
        return replace(says, scalars=scalars)

    return change


def steep(says: Broadcast) -> Broadcast:
    assert says.vector is not None
    return replace(says, vector=np.full_like(says.vector, 1e300))


HOSTILE: dict[str, Callable[[Broadcast], Broadcast]] = {
    "a unit that erases a share": stated(UNIT, 2.0**70),
    "a unit below rounding": stated(UNIT, 2.0**-60),
    "a unit that is no power of two": stated(UNIT, 0.3),
    "a negative variance": stated(VARIANCE, -1.0),
    "an endless variance": stated(VARIANCE, 1e300),
    "a negative curvature": stated(CURVATURE, -1e-3),
    "an endless curvature": stated(CURVATURE, 1e300),
    "an endless mean": stated(MEAN, -1e300),
    "an endless slope": stated(SLOPE, 1e300),
    "an endless product": stated(HEAD + 20, 1e300),
    "slopes whose squares are no numbers": steep,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_numbers_that_no_honest_coordinator_states_are_refused(what: str) -> None:
    party, told, state = started(plait.L2(1e-2))
    with pytest.raises(ProtocolError, match="Nothing was answered"):
        party.check(state, HOSTILE[what](told))


def test_a_unit_that_is_too_large_would_have_erased_the_share() -> None:
    """Why it is refused: with the others' shares erased, a sum is one party's share."""
    party, told, state = started(plait.L2(1e-2))
    _, honest = party.respond(state, told)
    _, erased = party.respond(state, HOSTILE["a unit that erases a share"](told))
    assert honest.vector is not None
    assert honest.vector.any()
    assert erased.vector is not None
    assert not erased.vector.any()


def test_a_protected_run_has_no_search_for_the_least_weights() -> None:
    party, told, state = started(plait.NoPenalty())
    state, _ = party.respond(state, told)
    scalars = np.array([2.0, 20.0, 0.0, 0.0, 1.0, 9.0, 0.0, 1.0, 0.0, 0.0])  # a direction, and no outlook
    with pytest.raises(ProtocolError, match="must ask for no direction"):
        party.check(state, Broadcast(2, told.vector, scalars))
