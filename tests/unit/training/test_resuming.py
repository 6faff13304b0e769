"""A party that is stored and started again before every message ends with the same bits."""

import numpy as np
import pytest

import plait
from plait.deployment import state
from plait.messages import Broadcast, Share
from plait.methods.base import Block, Task
from plait.problem.features import Features
from plait.training.coordinator import Coordinator
from plait.training.in_process import InProcess
from plait.training.loop import run
from plait.training.party import Party


def weights(method: plait.Method, ridge: float, stored: bool, precision: str) -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    rows, width = 2400, 240  # wide and crowded: factorisations are kept for several rounds while the ridge grows
    matrices = {name: rng.standard_normal((rows, width)) for name in ("bank", "shop")}
    scores = sum(m @ rng.standard_normal(width) for m in matrices.values()) / np.sqrt(width)
    y = np.where(scores + rng.standard_normal(rows) > 0, 1.0, -1.0)
    each = np.full(rows, 1 / rows)
    blocks = {n: Block(Features(m), plait.L2(ridge), plait.Logistic(), each) for n, m in matrices.items()}
    parties = {name: Party(name, block, method, precision) for name, block in blocks.items()}

    def handler(name: str):  # type: ignore[no-untyped-def]
        def handle(broadcast: Broadcast) -> Share:
            if stored:
                again = Party(name, blocks[name], method, precision)
                again.resume(state.decode(state.encode(parties[name].state)))
                parties[name] = again
            return parties[name].handle(broadcast)

        return handle

    coordinator = Coordinator(Task(plait.Logistic(), y, each, tuple(parties)), method, precision)
    run(coordinator, InProcess({n: handler(n) for n in parties}), plait.Stopping(max_rounds=14, tol=0))
    return [party.weights for party in parties.values()]


CASES = [(1e-6, "float64"), (1.5e-6, "float64"), (1e-4, "float64"), (1e-4, "int16")]


@pytest.mark.parametrize(("ridge", "precision"), CASES)
@pytest.mark.parametrize("method", [plait.Subspace(), plait.Proximal()], ids=["subspace", "proximal"])
def test_the_same_bits(method: plait.Method, ridge: float, precision: str) -> None:
    for one, other in zip(
        weights(method, ridge, False, precision), weights(method, ridge, True, precision), strict=True
    ):
        np.testing.assert_array_equal(one, other)
