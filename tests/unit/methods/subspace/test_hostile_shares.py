"""A party that says what no honest one could: the coordinator ends with one line that names it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import plait
from plait.errors import ProtocolError
from plait.messages import Share
from plait.methods.base import Block, Task
from plait.methods.subspace.coordinator import SubspaceCoordinator
from plait.methods.subspace.messages import NUMBERS
from plait.methods.subspace.party import SubspaceParty
from plait.problem.features import Features
from plait.problem.penalties import Penalty

ROWS, KINKS = 300, NUMBERS.index("kinks")


def without_kinks(share: Share) -> Share:
    scalars = share.scalars.copy()
    scalars[KINKS] = 0.0
    return replace(share, scalars=scalars)


def huge(share: Share) -> Share:
    assert share.vector is not None
    return replace(share, vector=1e200 * share.vector)


def trained(spoil: Callable[[Share], Share], penalty: Penalty) -> None:
    """A run of two parties in which b's answer to the third gradient is spoiled."""
    rng = np.random.default_rng(0)
    tables = {name: rng.standard_normal((ROWS, 4)) for name in "ab"}
    y = np.where(sum(table[:, 0] for table in tables.values()) + rng.logistic(size=ROWS) > 0, 1.0, -1.0)
    w, loss = np.full(ROWS, 1 / ROWS), plait.Logistic()
    coordinator = SubspaceCoordinator(Task(loss, y, w, tuple(tables)), 20, (("a",), ("b",)))
    sides = {name: SubspaceParty(Block(Features(table), penalty, loss, w)) for name, table in tables.items()}
    states, state = {name: side.start() for name, side in sides.items()}, coordinator.start()
    for _ in range(20):
        shares, requests = {}, coordinator.requests(state)
        for name, request in requests.items():
            states[name], shares[name] = sides[name].respond(states[name], request)
        if requests["b"].round == 3 and shares["b"].vector is not None:
            shares["b"] = spoil(shares["b"])
        state, _ = coordinator.absorb(state, shares)


@pytest.mark.parametrize(
    ("spoil", "penalty", "found"),
    [
        (huge, plait.L2(1e-2), r"at most 1e\+50. Found .* from b"),
        (without_kinks, plait.L1(1e-2), "kinks in all rounds or in none. Found both from b"),
    ],
)
def test_a_share_that_no_honest_party_sends_ends_the_run(
    spoil: Callable[[Share], Share], penalty: Penalty, found: str
) -> None:
    with pytest.raises(ProtocolError, match=found):
        trained(spoil, penalty)
